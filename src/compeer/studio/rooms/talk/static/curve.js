// The feeling over the conversation: how strong it was, below the line where it weighs, above where it lifts.

const SPACE = "http://www.w3.org/2000/svg";
const HIGH = 64;
const STEP = 44;

function drawn(name, attributes, ...children) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function curve({ make, say, name }) {
  return (figure, turns) => {
    const points = turns
      .map((turn, index) => ({ labels: turn.answer.labels, number: index + 1 }))
      .filter(({ labels }) => labels.sentiment && labels.intensity && labels.emotion);
    figure.hidden = points.length < 2;
    if (figure.hidden) return figure.replaceChildren();
    const wide = STEP * (points.length - 1) + 24;
    const sign = { negative: 1, positive: -1, neutral: 0 };
    const places = points.map(({ labels, number }, index) => ({
      x: 12 + index * STEP,
      y: HIGH / 2 + (sign[labels.sentiment] * labels.intensity * (HIGH / 2 - 8)) / 5,
      sentiment: labels.sentiment,
      words: say("talk.curve.point", { number, emotion: name("emotion", labels.emotion).name, n: labels.intensity }),
    }));
    const picture = drawn(
      "svg",
      { viewBox: `0 0 ${wide} ${HIGH}`, width: wide, height: HIGH, role: "img", "aria-label": places.map((one) => one.words).join("; ") },
      drawn("line", { class: "level", x1: 0, x2: wide, y1: HIGH / 2, y2: HIGH / 2 }),
      drawn("polyline", { points: places.map((one) => `${one.x},${one.y.toFixed(1)}`).join(" ") }),
      ...places.map((one) =>
        drawn("circle", { cx: one.x, cy: one.y.toFixed(1), r: 4.5, class: one.sentiment }, drawn("title", {}, one.words)),
      ),
    );
    figure.replaceChildren(
      make("figcaption", {}, say("talk.curve")),
      make(
        "div",
        { class: "curve-plot" },
        make("div", { class: "curve-ends", "aria-hidden": "true" }, make("span", {}, say("talk.curve.up")), make("span", {}, say("talk.curve.down"))),
        make("div", { class: "curve-scroll" }, picture),
      ),
    );
    const scroll = figure.querySelector(".curve-scroll");
    scroll.scrollLeft = scroll.scrollWidth;
  };
}
