// Reading curves: the values under the pointer stand where the last value stands otherwise.

const written = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toString());
const number = ([low, high, start, end], place) => low + ((place - start) / (end - start)) * (high - low);

function reading(drawing, share) {
  const [x, y] = [drawing.dataset.x, drawing.dataset.y].map((text) => text.split(" ").map(Number));
  const place = share * drawing.viewBox.baseVal.width;
  const nearest = [...drawing.querySelectorAll("polyline.line")].map((line) =>
    line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number))
      .reduce((best, point) => (Math.abs(point[0] - place) < Math.abs(best[0] - place) ? point : best)));
  return `${Math.round(number(x, nearest[0][0]))}: ${nearest.map((point) => written(number(y, point[1]))).join(" · ")}`;
}

document.addEventListener("pointermove", (event) => {
  const drawing = event.target.closest?.("svg[data-x]");
  for (const shown of document.querySelectorAll("[data-last-value]")) {
    const box = drawing && shown.closest("figure").contains(drawing) ? drawing.getBoundingClientRect() : null;
    const text = box ? reading(drawing, (event.clientX - box.left) / box.width) : shown.dataset.lastValue;
    if (shown.textContent !== text) shown.textContent = text;
  }
});
