// The map: where it looks, what is drawn of outlines, and how it is moved. Everything is in page pixels until it
// is drawn; each page says what by its own draw() and redraw().
const map = $("#map");
const canvas = $("#ground");
const context = canvas.getContext("2d", { alpha: true });
const view = { x: report.width / 2, y: report.height / 2, zoom: 1 };
const MOST_LABELS = 12;
const MOST_NUMBERS = 1000;
// What lies over the map.
const OVERLAYS = ".tools, .date, #scale span, #legend, #card, #time";
const [LABEL, MOST_LINES] = [26, 4];
let [width, height] = [1, 1];
let drawing = 0;
let flight = 0;
let paths = null;
// On paper outlines have the numbers of the list instead of captions.
let [printed, numbered, wasOpen] = [false, false, false];
// The boxes of the labels that were drawn last, in screen pixels.
let labelled = [];
// And those of the markers.
let marked = [];

const toScreen = (x, y) => [(x - view.x) * view.zoom + width / 2, (y - view.y) * view.zoom + height / 2];
const toPage = (x, y) => [(x - width / 2) / view.zoom + view.x, (y - height / 2) / view.zoom + view.y];
const meets = (a, b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];

// The visible box, in page pixels.
const seenBox = () => [...toPage(0, 0), ...toPage(width, height)];

const onScreen = ([west, north, east, south]) => [...toScreen(west, north), ...toScreen(east, south)];

// The rows of the map that nothing covers, from the top in screen pixels: the first and the last.
function freeRows() {
  const free = [0, height];
  if (printed) return free;
  const { top } = map.getBoundingClientRect();
  for (const over of $$(OVERLAYS, map)) {
    const box = over.getBoundingClientRect();
    if (!box.height) continue;
    if (box.top + box.bottom < 2 * top + height) free[0] = Math.max(free[0], box.bottom - top + 4);
    else free[1] = Math.min(free[1], box.top - top - 4);
  }
  return [free[0], Math.max(free[1], free[0] + 80)];
}

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

// The outlines of one colour form one path, rebuilt when the list changes.
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

// The change under the pointer and the selected one, in white.
function drawChosen() {
  place(context);
  if (state.hovered && state.hovered !== state.selected) stroke(context, pathOf(state.hovered), "#fff", 4.5, 2.2);
  if (state.selected) stroke(context, pathOf(state.selected), "#fff", 5.5, 2.6);
}

function toggleOutlines() {
  state.outlines = !state.outlines;
  $('#tools [data-key="o"]').ariaPressed = String(state.outlines);
  redraw("outlines");
}

// A change too small to be visible gets a dot, the first direction on top.
function drawMarkers(target, seen) {
  marked = [];
  for (const change of paths.flatMap(([, , members]) => members).reverse()) {
    const [west, north, east, south] = change.box;
    if (!meets(change.box, seen) || Math.max(east - west, south - north) * view.zoom > 11) continue;
    const [x, y] = toScreen((west + east) / 2, (north + south) / 2);
    target.beginPath();
    const radius = change === state.selected ? 8 : 4;
    marked.push([x - radius, y - radius, x + radius, y + radius]);
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
  for (const word of text.slice(0, 9 * LABEL).split(" ")) {
    if (made.at(-1) && made.at(-1).length + word.length >= LABEL) made.push("");
    made.push(`${made.pop()} ${word}`.trim());
  }
  if (made.length > MOST_LINES) made[MOST_LINES - 1] += "\u2026";
  return made.slice(0, MOST_LINES).map((line) => (line.length > LABEL + 4 ? `${line.slice(0, LABEL + 3)}\u2026` : line));
}

// Captions beside their changes, the largest first, as far as there is room; the selected change is in the card.
function drawLabels(target, seen) {
  labelled = [];
  const near = state.listed.filter((one) => meets(one.box, seen));
  if (near.length > (numbered ? MOST_NUMBERS : 400)) return;
  // A map of the screen is printed smaller.
  const letters = numbered ? Math.max(13, Math.round(width / 50)) : 12;
  const row = letters + 3;
  target.font = `500 ${letters}px system-ui, sans-serif`;
  target.textAlign = "center";
  target.textBaseline = "middle";
  near.sort((a, b) => b.area_m2 - a.area_m2);
  const [high, low] = freeRows();
  const frame = [6, high, width - 6, low];
  // A label would hide a small change; in a large one there is room for it.
  const kept = numbered ? [] : near.map((one) => onScreen(one.box)).filter(([west, , east]) => east - west < width / 3);
  if (state.selected && !numbered) kept.push(onScreen(state.selected.box));
  if ($("#line:not([hidden])")) kept.push(dividerBox());
  // "Something changed" would say nothing.
  const isNamed = (one) => one.caption && one !== state.selected && one.kinds?.[0] !== "not stated";
  for (const change of near.filter((one) => numbered || isNamed(one))) {
    if (!numbered && labelled.length >= MOST_LABELS) return;
    const text = numbered ? [String(change.id)] : lines(change.caption);
    const size = [Math.max(...text.map((line) => target.measureText(line).width)) + (numbered ? 8 : 14), text.length * row + (numbered ? 3 : 8)];
    // On paper a number stands beside an outline: the box of a group may be wide and mostly empty.
    const rings = numbered ? change.rings.filter((corners) => meets(boxAround([corners]), seen)) : [];
    const places = besides(onScreen(rings.length ? largestBox(rings) : change.box), size);
    const free = (box) => inside(box, frame) && ![...kept, ...labelled].some((other) => meets(box, other));
    const box = places.find(free) ?? (numbered ? places[0] : null);
    if (!box) continue;
    labelled.push(box);
    target.fillStyle = "rgba(16,20,24,.86)";
    target.beginPath();
    target.roundRect(box[0], box[1], ...size, 6);
    target.fill();
    target.fillStyle = "#fff";
    text.forEach((line, i) => target.fillText(line, (box[0] + box[2]) / 2, (box[1] + box[3]) / 2 + row * (i + (1 - text.length) / 2)));
  }
}

function largestBox(rings) {
  const area = ([west, north, east, south]) => (east - west) * (south - north);
  return rings.map((corners) => boxAround([corners])).reduce((one, other) => (area(other) > area(one) ? other : one));
}

const inside = (box, frame) => box[0] >= frame[0] && box[1] >= frame[1] && box[2] <= frame[2] && box[3] <= frame[3];

// Boxes for a label below, above, right and left of a box, all in screen pixels.
function besides([west, north, east, south], [wide, tall]) {
  const x = clamp((west + east) / 2, wide / 2 + 6, Math.max(wide / 2 + 6, width - wide / 2 - 6));
  const y = (north + south) / 2;
  const corners = [[x - wide / 2, south + 8], [x - wide / 2, north - 8 - tall], [east + 8, y - tall / 2], [west - 8 - wide, y - tall / 2]];
  return corners.map(([left, top]) => [left, top, left + wide, top + tall]);
}

// The largest round number up to a size: 1, 2 or 5 times a power of ten.
function stepOf(size) {
  const power = 10 ** Math.floor(Math.log10(size));
  return [5, 2, 1].map((one) => one * power).find((one) => one <= size);
}

// Lengths are shares of the map, because a printed map has another size.
function drawScale() {
  const metres = report.gsd / view.zoom;
  const length = stepOf(metres * 120);
  const bar = $("#scale");
  bar.style.width = `${(100 * length) / metres / width}%`;
  $("span", bar).textContent = length >= 1000 ? `${length / 1000} km` : `${length} m`;
}

function resize() {
  // The map is printed as it was on the screen.
  if (paper.matches) return;
  const ratio = devicePixelRatio || 1;
  const was = [width, height];
  [width, height] = [map.clientWidth, map.clientHeight];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  if (was[0] === 1) fit(false);
  redraw();
}

// A page may have a map that goes on around what it shows.
const bounds = () => state.bounds ?? [0, 0, report.width, report.height];
// Far enough for a change beside a tall card.
const smallest = () => {
  const [west, north, east, south] = bounds();
  return Math.min(1, width / (east - west), height / (south - north)) * 0.3;
};
// To half a metre on the screen, if that is closer.
const largest = () => Math.max(16, 8 * Math.min(width / report.width, height / report.height), 2 * report.gsd);

function look(x, y, zoom) {
  view.zoom = clamp(zoom, smallest(), largest());
  // Beyond the edge, too, so that a change there can be moved out from under the card.
  const [more, deeper] = [0.45 * width, 0.45 * height].map((one) => one / view.zoom);
  const [west, north, east, south] = bounds();
  view.x = clamp(x, west - more, east + more);
  view.y = clamp(y, north - deeper, south + deeper);
  redraw();
  settled();
}

// Zoom around a point of the screen.
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
    // Straight on the screen: the position follows the zoom.
    const way = Math.abs(zoom - from.zoom) < 1e-9 ? eased : (1 / from.zoom - 1 / at) / (1 / from.zoom - 1 / zoom);
    look(from.x + (x - from.x) * way, from.y + (y - from.y) * way, at);
    if (part < 1) flight = requestAnimationFrame(step);
  };
  flight = requestAnimationFrame(step);
}

// Show a box in the part of the map that nothing covers, with a margin, at most so many times enlarged.
function show([west, north, east, south], margin, most, moving) {
  const [high, low] = freeRows();
  const room = [width - 2 * margin, Math.max(40, low - high - 2 * margin)];
  const fitting = Math.min(room[0] / (east - west), room[1] / (south - north), most);
  const zoom = clamp(fitting, smallest(), largest());
  flyTo((west + east) / 2, (north + south) / 2 + (height - high - low) / 2 / zoom, zoom, moving);
}

const flyToBox = (box, moving = true) => show(box, 44, Math.max(4, report.gsd), moving);

// Bring a box back into sight that the card has grown over.
function uncover(box) {
  const [, north, , south] = onScreen(box);
  if (south > freeRows()[1] && north < height) flyToBox(box);
}

const fit = (moving = true) => show([0, 0, report.width, report.height], 0, Infinity, moving);

// A browser prints at once what its canvas holds.
const paper = matchMedia("print");
function onPaper(isPrinted) {
  const notes = $("#notes");
  if (notes && isPrinted && !printed) wasOpen = notes.open;
  if (notes) notes.open = isPrinted || wasOpen;
  if (isPrinted) for (const picture of $$("#list img")) picture.loading = "eager";
  printed = isPrinted;
  numbered = isPrinted && state.numbers;
  redraw("outlines");
  draw();
}
addEventListener("beforeprint", () => onPaper(true));
addEventListener("afterprint", () => onPaper(false));
paper.addEventListener("change", () => onPaper(paper.matches));

// Actions of keys on every map.
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
