// Reading a curve: the value under the pointer stands where the last value stands otherwise.

const written = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toString());

function reading(drawing, place) {
  const line = drawing.querySelector("polyline");
  const box = drawing.viewBox.baseVal;
  const pad = 3;
  let best = null;
  for (const pair of line.getAttribute("points").split(" ")) {
    const [x, y] = pair.split(",").map(Number);
    if (best === null || Math.abs(x - place * box.width) < Math.abs(best[0] - place * box.width)) best = [x, y];
  }
  const { first, last, low, high } = drawing.dataset;
  const along = (best[0] - pad) / (box.width - 2 * pad);
  const up = 1 - (best[1] - pad) / (box.height - 2 * pad);
  const step = Number(first) + along * (Number(last) - Number(first));
  const value = Number(low) + up * (Number(high) - Number(low));
  return `${Math.round(step)}: ${written(value)}`;
}

document.addEventListener("pointermove", (event) => {
  const drawing = event.target.closest?.("svg.panel");
  for (const shown of document.querySelectorAll("[data-last-value]")) {
    const mine = drawing && shown.closest(".panel-card").contains(drawing);
    if (!mine && shown.textContent !== shown.dataset.lastValue) shown.textContent = shown.dataset.lastValue;
  }
  if (!drawing) return;
  const box = drawing.getBoundingClientRect();
  drawing.closest(".panel-card").querySelector("[data-last-value]").textContent = reading(drawing, (event.clientX - box.left) / box.width);
});
