// The map: where it looks, what is drawn, and how it is moved. Everything is in page pixels until it is drawn.
const map = $("#map");
const canvas = $("#ground");
const context = canvas.getContext("2d", { alpha: true });
const divider = $("#divider");
const view = { x: report.width / 2, y: report.height / 2, zoom: 1 };
const THUMB = 44;
const MOST_LABELS = 12;
const LABEL = 26;
let [width, height] = [1, 1];
let drawing = 0;
let flight = 0;
let layers = null;

const toScreen = (x, y) => [(x - view.x) * view.zoom + width / 2, (y - view.y) * view.zoom + height / 2];
const toPage = (x, y) => [(x - width / 2) / view.zoom + view.x, (y - height / 2) / view.zoom + view.y];

function redraw() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    draw();
  });
}

// Where the divider is on the screen: a range's thumb does not reach the ends of its track, the line does.
function dividerX() {
  if (state.split <= 0) return 0;
  if (state.split >= 1) return width;
  return THUMB / 2 + state.split * (width - THUMB);
}

function draw() {
  const ratio = devicePixelRatio || 1;
  const scale = view.zoom * ratio;
  const x = dividerX();
  const [left, top] = toPage(0, 0);
  const [right, bottom] = toPage(width, height);
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  const place = () => context.setTransform(scale, 0, 0, scale, -left * scale, -top * scale);
  for (const [date, from, to] of [["before", 0, x], ["after", x, width]]) {
    if (to <= from) continue;
    context.save();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.beginPath();
    context.rect(from, 0, to - from, height);
    context.clip();
    place();
    drawDate(context, date, [left, top, right, bottom], scale, redraw);
    context.restore();
  }
  if (state.outlines) {
    place();
    drawOutlines();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawMarkers([left, top, right, bottom]);
    drawLabels([left, top, right, bottom]);
  }
  $("#line").style.transform = `translateX(${x}px)`;
  $("#line").hidden = state.split <= 0 || state.split >= 1;
  $("#date-before").classList.toggle("away", x < 90);
  $("#date-after").classList.toggle("away", x > width - 90);
  drawScale();
}

// The outlines of one colour are one path, made anew when the list changes.
function drawOutlines() {
  layers ||= Object.keys(DIRECTIONS).map((direction) => {
    const path = new Path2D();
    state.listed.filter((one) => one.direction === direction).forEach((one) => path.addPath(pathOf(one)));
    return [DIRECTIONS[direction].colour, path];
  });
  context.lineJoin = "round";
  for (const [colour, path] of layers) {
    context.globalAlpha = 0.14;
    context.fillStyle = colour;
    context.fill(path, "evenodd");
    context.globalAlpha = 1;
    stroke(path, colour, 4, 1.8);
  }
  if (state.hovered && state.hovered !== state.selected) stroke(pathOf(state.hovered), "#fff", 5, 2.6);
  if (state.selected) stroke(pathOf(state.selected), "#fff", 7, 3.4);
}

function stroke(path, colour, casing, line) {
  context.lineWidth = casing / view.zoom;
  context.strokeStyle = "rgba(0,0,0,.6)";
  context.stroke(path);
  context.lineWidth = line / view.zoom;
  context.strokeStyle = colour;
  context.stroke(path);
}

// What is too small to be seen gets a dot.
function drawMarkers(seen) {
  for (const change of state.listed) {
    const [west, north, east, south] = change.box;
    if (!meets(change.box, seen) || Math.max(east - west, south - north) * view.zoom > 11) continue;
    const [x, y] = toScreen((west + east) / 2, (north + south) / 2);
    context.beginPath();
    context.arc(x, y, change === state.selected ? 8 : 5, 0, 2 * Math.PI);
    context.fillStyle = change === state.selected ? "#fff" : DIRECTIONS[change.direction].colour;
    context.fill();
    context.lineWidth = 1.5;
    context.strokeStyle = "rgba(0,0,0,.75)";
    context.stroke();
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
function drawLabels(seen) {
  const taken = [];
  context.font = "500 12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  const near = state.listed.filter((one) => meets(one.box, seen) && one !== state.selected);
  if (near.length > 400) return;
  near.sort((a, b) => b.area_m2 - a.area_m2);
  for (const change of near) {
    if (taken.length >= MOST_LABELS) return;
    const [west, north, east, south] = change.box;
    const text = lines(change.caption);
    const wide = Math.max(...text.map((line) => context.measureText(line).width)) + 14;
    const tall = text.length * 15 + 8;
    const [x] = toScreen((west + east) / 2, 0);
    const middle = clamp(x, wide / 2 + 6, width - wide / 2 - 6);
    const below = toScreen(0, south)[1] + 8;
    const above = toScreen(0, north)[1] - 8 - tall;
    for (const top of [below, above]) {
      const box = [middle - wide / 2, top, middle + wide / 2, top + tall];
      if (top < 44 || top + tall > height - 40 || taken.some((other) => meets(box, other))) continue;
      taken.push(box);
      context.fillStyle = "rgba(16,20,24,.78)";
      context.beginPath();
      context.roundRect(box[0], top, wide, tall, 6);
      context.fill();
      context.fillStyle = "#fff";
      text.forEach((line, i) => context.fillText(line, middle, top + 4 + 15 * (i + 0.5)));
      break;
    }
  }
}

function drawScale() {
  const metres = report.gsd / view.zoom;
  const power = 10 ** Math.floor(Math.log10(metres * 120));
  const length = [5, 2, 1].map((step) => step * power).find((one) => one <= metres * 120);
  const bar = $("#scale");
  bar.style.width = `${length / metres}px`;
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
const largest = () => Math.max(16, 8 * Math.min(width / report.width, height / report.height));

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
  const covered = card.hidden ? 0 : Math.max(0, canvas.getBoundingClientRect().bottom - card.getBoundingClientRect().top);
  const room = [width - 60, Math.max(80, height - covered - 110)];
  const zoom = Math.min(room[0] / (east - west), room[1] / (south - north), 4);
  flyTo((west + east) / 2, (north + south) / 2 + covered / 2 / zoom, zoom, moving);
}

function fit(moving = true) {
  const zoom = Math.min(width / report.width, height / report.height);
  flyTo(report.width / 2, report.height / 2, zoom, moving);
}

function setSplit(split) {
  state.split = clamp(split, 0, 1);
  divider.value = Math.round(state.split * 1000);
  const shown = state.split >= 1 ? "a" : state.split <= 0 ? "d" : "s";
  for (const key of ["a", "s", "d"]) $(`#tools [data-key="${key}"]`).ariaPressed = String(key === shown);
  divider.ariaValueText = `${Math.round(state.split * 100)} percent before`;
  redraw();
  settled();
}

let blinker = 0;

// With reduced motion nothing moves by itself: each press turns to the other date.
function blink() {
  const turn = () => setSplit(state.split >= 1 ? 0 : 1);
  clearInterval(blinker);
  state.blinking = !state.blinking && !calm.matches;
  $('#tools [data-key="b"]').ariaPressed = String(state.blinking);
  if (state.blinking) blinker = setInterval(turn, 700);
  if (state.blinking || calm.matches) turn();
}

function stopBlinking() {
  if (state.blinking) blink();
}

// The change under a point of the screen: the smallest that holds it, else the nearest within some pixels.
function changeAt(x, y) {
  const [pageX, pageY] = toPage(x, y);
  const reach = 9 / view.zoom;
  let [best, least] = [null, Infinity];
  for (const change of state.listed) {
    const [west, north, east, south] = change.box;
    const away = Math.max(west - pageX, pageX - east, north - pageY, pageY - south, 0);
    if (away > reach) continue;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.lineWidth = 2 * reach;
    const path = pathOf(change);
    const inside = context.isPointInPath(path, pageX, pageY, "evenodd");
    if (!inside && !context.isPointInStroke(path, pageX, pageY)) continue;
    const rank = change.area_m2 + (inside ? 0 : 1e12);
    if (rank < least) [best, least] = [change, rank];
  }
  return best;
}

const pointers = new Map();
let moved = 0;

function onMap(event) {
  const frame = canvas.getBoundingClientRect();
  return [event.clientX - frame.left, event.clientY - frame.top];
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  cancelAnimationFrame(flight);
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, onMap(event));
  moved = pointers.size > 1 ? Infinity : 0;
});

canvas.addEventListener("pointermove", (event) => {
  const now = onMap(event);
  const before = pointers.get(event.pointerId);
  if (!before) return hover(changeAt(...now), now);
  const others = [...pointers].filter(([id]) => id !== event.pointerId);
  pointers.set(event.pointerId, now);
  moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
  if (!others.length) {
    if (moved > 4) look(view.x - (now[0] - before[0]) / view.zoom, view.y - (now[1] - before[1]) / view.zoom, view.zoom);
    return;
  }
  const [, still] = others[0];
  const apart = (one) => Math.hypot(one[0] - still[0], one[1] - still[1]);
  const [x, y] = [(now[0] + still[0]) / 2, (now[1] + still[1]) / 2];
  zoomAt(x, y, apart(now) / Math.max(apart(before), 1));
  look(view.x - (now[0] - before[0]) / 2 / view.zoom, view.y - (now[1] - before[1]) / 2 / view.zoom, view.zoom);
});

for (const end of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(end, (event) => {
    const at = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    if (end === "pointerup" && at && moved <= 4) {
      const change = changeAt(...at);
      if (change) select(change);
    }
  });
}

function hover(change, at) {
  const tip = $("#tip");
  canvas.classList.toggle("over", Boolean(change));
  tip.hidden = !change;
  if (change) {
    tip.textContent = `#${change.id} ${change.caption.slice(0, 160)}`;
    tip.style.transform = `translate(${clamp(at[0] + 14, 4, width - 250)}px, ${at[1] + 18}px)`;
  }
  if (change !== state.hovered) {
    state.hovered = change;
    redraw();
  }
}

canvas.addEventListener("pointerleave", () => hover(null));
canvas.addEventListener("dblclick", (event) => zoomAt(...onMap(event), 2));
map.addEventListener("wheel", (event) => {
  if (event.target !== canvas && event.target !== divider) return;
  event.preventDefault();
  const pixels = event.deltaY * (event.deltaMode === 1 ? 30 : 1);
  zoomAt(...onMap(event), Math.exp(-pixels / 400));
}, { passive: false });
divider.addEventListener("input", () => {
  stopBlinking();
  setSplit(divider.value / 1000);
});
