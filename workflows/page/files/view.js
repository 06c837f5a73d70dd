// The map: where it looks, what is drawn of outlines, and how it is moved. Everything is in page pixels until it
// is drawn; each page says what by its own draw() and redraw().
const map = $("#map");
const canvas = $("#ground");
const context = canvas.getContext("2d", { alpha: true });
const view = { x: report.width / 2, y: report.height / 2, zoom: 1 };
const MOST_LABELS = 12;
const LABEL = 26;
let [width, height] = [1, 1];
let drawing = 0;
let flight = 0;
let paths = null;

const toScreen = (x, y) => [(x - view.x) * view.zoom + width / 2, (y - view.y) * view.zoom + height / 2];
const toPage = (x, y) => [(x - width / 2) / view.zoom + view.x, (y - height / 2) / view.zoom + view.y];
const meets = (a, b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];

// What is seen, in page pixels.
const seenBox = () => [...toPage(0, 0), ...toPage(width, height)];

function place(target) {
  const scale = view.zoom * (devicePixelRatio || 1);
  const [left, top] = toPage(0, 0);
  target.setTransform(scale, 0, 0, scale, -left * scale, -top * scale);
  return scale;
}

function compose() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    draw();
  });
}

// The outlines of one colour are one path, made anew when the list changes.
function drawOutlines(target) {
  paths ||= Object.keys(DIRECTIONS).map((direction) => {
    const path = new Path2D();
    const members = state.listed.filter((one) => one.direction === direction);
    members.forEach((one) => path.addPath(pathOf(one)));
    return [DIRECTIONS[direction].colour, path, members];
  });
  target.lineJoin = "round";
  for (const [colour, path] of paths) {
    target.globalAlpha = 0.14;
    target.fillStyle = colour;
    target.fill(path, "evenodd");
    target.globalAlpha = 1;
    stroke(target, path, colour, 4, 1.8);
  }
  const ratio = devicePixelRatio || 1;
  target.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawMarkers(target, seenBox());
  drawLabels(target, seenBox());
}

function stroke(target, path, colour, casing, line) {
  target.lineJoin = "round";
  target.lineWidth = casing / view.zoom;
  target.strokeStyle = "rgba(0,0,0,.6)";
  target.stroke(path);
  target.lineWidth = line / view.zoom;
  target.strokeStyle = colour;
  target.stroke(path);
}

// What is too small to be seen gets a dot, the first direction on top.
function drawMarkers(target, seen) {
  for (const change of paths.flatMap(([, , members]) => members).reverse()) {
    const [west, north, east, south] = change.box;
    if (!meets(change.box, seen) || Math.max(east - west, south - north) * view.zoom > 11) continue;
    const [x, y] = toScreen((west + east) / 2, (north + south) / 2);
    target.beginPath();
    const radius = change === state.selected ? 8 : 4;
    if (DIRECTIONS[change.direction].square) target.rect(x - radius, y - radius, 2 * radius, 2 * radius);
    else target.arc(x, y, radius, 0, 2 * Math.PI);
    target.fillStyle = change === state.selected ? "#fff" : DIRECTIONS[change.direction].colour;
    target.fill();
    target.lineWidth = 1.5;
    target.strokeStyle = "rgba(0,0,0,.75)";
    target.stroke();
  }
}

function lines(text) {
  const made = [""];
  for (const word of (text.length > 90 ? `${text.slice(0, 88)}\u2026` : text).split(" ")) {
    if (made.at(-1) && made.at(-1).length + word.length >= LABEL) made.push("");
    made.push(`${made.pop()} ${word}`.trim().slice(0, LABEL + 4));
  }
  return made.slice(0, 4);
}

// Captions under their changes, the largest first, where there is room.
function drawLabels(target, seen) {
  const taken = [];
  target.font = "500 12px system-ui, sans-serif";
  target.textAlign = "center";
  target.textBaseline = "middle";
  const near = state.listed.filter((one) => one.caption && meets(one.box, seen) && one !== state.selected);
  if (near.length > 400) return;
  near.sort((a, b) => b.area_m2 - a.area_m2);
  for (const change of near) {
    if (taken.length >= MOST_LABELS) return;
    const [west, north, east, south] = change.box;
    const text = lines(change.caption);
    const wide = Math.max(...text.map((line) => target.measureText(line).width)) + 14;
    const tall = text.length * 15 + 8;
    const [x] = toScreen((west + east) / 2, 0);
    const middle = clamp(x, wide / 2 + 6, width - wide / 2 - 6);
    const below = toScreen(0, south)[1] + 8;
    const above = toScreen(0, north)[1] - 8 - tall;
    for (const top of [below, above]) {
      const box = [middle - wide / 2, top, middle + wide / 2, top + tall];
      if (top < 44 || top + tall > height - 40 || taken.some((other) => meets(box, other))) continue;
      taken.push(box);
      target.fillStyle = "rgba(16,20,24,.78)";
      target.beginPath();
      target.roundRect(box[0], top, wide, tall, 6);
      target.fill();
      target.fillStyle = "#fff";
      text.forEach((line, i) => target.fillText(line, middle, top + 4 + 15 * (i + 0.5)));
      break;
    }
  }
}

// The largest round number up to a size: 1, 2 or 5 with as many zeros.
function stepOf(size) {
  const power = 10 ** Math.floor(Math.log10(size));
  return [5, 2, 1].map((one) => one * power).find((one) => one <= size);
}

// Lengths are shares of the map, which a printer has at another size.
function drawScale() {
  const metres = report.gsd / view.zoom;
  const length = stepOf(metres * 120);
  const bar = $("#scale");
  bar.style.width = `${(100 * length) / metres / width}%`;
  $("span", bar).textContent = length >= 1000 ? `${length / 1000} km` : `${length} m`;
}

function resize() {
  const ratio = devicePixelRatio || 1;
  const was = [width, height];
  [width, height] = [map.clientWidth, map.clientHeight];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  if (was[0] === 1) fit(false);
  redraw();
}

const smallest = () => Math.min(1, width / report.width, height / report.height) * 0.6;
// To half a metre on the screen, if that is closer.
const largest = () => Math.max(16, 8 * Math.min(width / report.width, height / report.height), 2 * report.gsd);

function look(x, y, zoom) {
  view.zoom = clamp(zoom, smallest(), largest());
  view.x = clamp(x, 0, report.width);
  view.y = clamp(y, 0, report.height);
  redraw();
  settled();
}

// Keep what is under a point of the screen there while the zoom changes.
function zoomAt(x, y, factor) {
  cancelAnimationFrame(flight);
  const [pageX, pageY] = toPage(x, y);
  const zoom = clamp(view.zoom * factor, smallest(), largest());
  look(pageX - (x - width / 2) / zoom, pageY - (y - height / 2) / zoom, zoom);
}

function flyTo(x, y, zoom, moving = true) {
  cancelAnimationFrame(flight);
  if (!moving || calm.matches) return look(x, y, zoom);
  const from = { ...view };
  const start = performance.now();
  const step = (now) => {
    const part = clamp((now - start) / 450, 0, 1);
    const eased = part < 0.5 ? 4 * part ** 3 : 1 - (2 - 2 * part) ** 3 / 2;
    const at = from.zoom * (zoom / from.zoom) ** eased;
    // Straight on the screen: the way is covered as the zoom changes.
    const way = Math.abs(zoom - from.zoom) < 1e-9 ? eased : (1 / from.zoom - 1 / at) / (1 / from.zoom - 1 / zoom);
    look(from.x + (x - from.x) * way, from.y + (y - from.y) * way, at);
    if (part < 1) flight = requestAnimationFrame(step);
  };
  flight = requestAnimationFrame(step);
}

// Show a box in what the card leaves of the map.
function flyToBox([west, north, east, south], moving) {
  const card = $("#card");
  const covered = !card || card.hidden ? 0 : Math.max(0, canvas.getBoundingClientRect().bottom - card.getBoundingClientRect().top);
  const room = [width - 60, Math.max(80, height - covered - 110)];
  const zoom = Math.min(room[0] / (east - west), room[1] / (south - north), Math.max(4, report.gsd));
  flyTo((west + east) / 2, (north + south) / 2 + covered / 2 / zoom, zoom, moving);
}

function fit(moving = true) {
  const zoom = Math.min(width / report.width, height / report.height);
  flyTo(report.width / 2, report.height / 2, zoom, moving);
}

// What keys do on every map.
const MOVES = {
  "+": () => zoomAt(width / 2, height / 2, 1.6),
  "-": () => zoomAt(width / 2, height / 2, 1 / 1.6),
  f: () => fit(),
  "/": () => $("#search").focus(),
  ArrowLeft: () => step(-1),
  ArrowUp: () => step(-1),
  ArrowRight: () => step(1),
  ArrowDown: () => step(1),
  Escape: () => select(null),
};
MOVES["="] = MOVES["+"];
