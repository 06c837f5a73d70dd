// The pairs of an archive, as what the map draws: each with its box, and drawn by its state.
const DIRECTIONS = {
  "with changes": { sign: "\u2713", colour: "#ffd23f" },
  failed: { sign: "!", colour: "#ff8f6b", square: true },
  "without changes": { sign: "0", colour: "#f2f2f2" },
  "not done": { sign: "\u2026", colour: "#9fb2c6", square: true },
};
const state = { selected: null, hovered: null, listed: [] };

const pairs = report.pairs.map((pair, place) => {
  const words = [pair.id, pair.site, pair.before, pair.after, pair.reason].filter(Boolean).join(" ").toLowerCase();
  return { ...pair, box: boxAround(pair.rings), direction: pair.state, words, listing: place };
});

const datesOf = (pair) => [pair.before, pair.after].map((date) => date ?? "?").join(" \u2192 ");
const foundIn = (pair) => (pair.changes ? `${counted(pair.changes, "change")}, ${areaWords(pair.area_m2)}` : pair.state);
const tipOf = (pair) => [pair.id, pair.site, datesOf(pair), foundIn(pair)].filter(Boolean).join(" \u00b7 ").slice(0, 200);

function redraw() {
  compose();
}

function settled() {}

function draw() {
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  drawDegrees();
  place(context);
  drawOutlines(context);
  place(context);
  for (const [pair, casing, line] of [[state.hovered, 4.5, 2.2], [state.selected, 5.5, 2.6]]) {
    if (pair) stroke(context, pathOf(pair), "#fff", casing, line);
  }
  drawScale();
}

// Some lines of longitude and latitude: there is nothing else to know the place by.
function drawDegrees() {
  const ratio = devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const faint = getComputedStyle(document.body).getPropertyValue("--faint");
  Object.assign(context, { font: "12px system-ui, sans-serif", fillStyle: faint, strokeStyle: faint, lineWidth: 0.5 });
  const [left, top, right, bottom] = seenBox();
  const across = { from: report.west + left / report.across, to: report.west + right / report.across };
  const along = { from: report.north - bottom / report.along, to: report.north - top / report.along };
  const step = stepOf((across.to - across.from) / 4);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  context.beginPath();
  Object.assign(context, { textAlign: "left", textBaseline: "bottom" });
  let free = -Infinity;
  for (let n = Math.ceil(across.from / step); n * step <= across.to; n += 1) {
    const [x] = toScreen((n * step - report.west) * report.across, 0);
    context.moveTo(x, 0);
    context.lineTo(x, height);
    const turned = ((((n * step + 180) % 360) + 360) % 360) - 180;
    const label = `${Math.abs(turned).toFixed(digits)}\u00b0 ${turned < 0 ? "W" : "E"}`;
    // On a phone it would lie over the one before.
    if (x < free) continue;
    context.fillText(label, x + 4, height - 34);
    free = x + 4 + context.measureText(label).width;
  }
  for (let n = Math.ceil(along.from / step); n * step <= along.to; n += 1) {
    const [, y] = toScreen(0, (report.north - n * step) * report.along);
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.fillText(`${Math.abs(n * step).toFixed(digits)}\u00b0 ${n < 0 ? "S" : "N"}`, 6, y - 3);
  }
  context.stroke();
}
