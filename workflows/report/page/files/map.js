// Both dates on the map, the divider between them, and the outlines on top.
const divider = $("#divider");
const THUMB = 44;

// Both dates and the outlines are painted when the view changes; moving the divider only combines them.
const painted = Object.fromEntries([...DATES, "outlines"].map((name) => [name, element("canvas")]));
const fresh = new Set();

function redraw(...stale) {
  for (const name of stale.length ? stale : Object.keys(painted)) fresh.delete(name);
  compose();
}

// Screen position of the divider: the thumb of a range does not reach the ends of its track, the line does.
function dividerX() {
  if (state.split <= 0) return 0;
  if (state.split >= 1) return width;
  return THUMB / 2 + state.split * (width - THUMB);
}

// What the divider covers: its knob. Its line lies below outlines and labels.
function dividerBox() {
  const x = dividerX();
  const { top } = map.getBoundingClientRect();
  const knob = $("#line i").getBoundingClientRect();
  return [x - knob.width / 2, knob.top - top, x + knob.width / 2, knob.bottom - top];
}

function layer(name) {
  const layer_ = painted[name];
  if (fresh.has(name)) return layer_;
  fresh.add(name);
  // Setting the size also clears it.
  layer_.width = canvas.width;
  layer_.height = canvas.height;
  const target = layer_.getContext("2d");
  const scale = place(target);
  if (name === "outlines") {
    drawNotJudged(target);
    drawOutlines(target);
  } else drawDate(target, name, seenBox(), scale, () => redraw(...DATES));
  return layer_;
}

// Ground that was not judged is hatched, with lines of the same width at every zoom.
function drawNotJudged(target) {
  if (!notJudged.rings.length) return;
  const tile = element("canvas");
  tile.width = tile.height = 12;
  const pen = tile.getContext("2d");
  pen.lineWidth = 1.5;
  for (const [colour, shift] of [["rgba(0,0,0,.55)", 1.5], ["rgba(255,255,255,.85)", 0]]) {
    pen.strokeStyle = colour;
    pen.beginPath();
    for (const start of [-12, 0, 12]) {
      pen.moveTo(start + shift - 1, 13);
      pen.lineTo(start + shift + 13, -1);
    }
    pen.stroke();
  }
  const pattern = target.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / view.zoom));
  target.fillStyle = pattern;
  target.fill(pathOf(notJudged), "evenodd");
}

function draw() {
  const split = Math.round(dividerX() * (canvas.width / width));
  const x = dividerX();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  for (const [date, from, to] of [["before", 0, split], ["after", split, canvas.width]]) {
    if (to > from) context.drawImage(layer(date), from, 0, to - from, canvas.height, from, 0, to - from, canvas.height);
  }
  if (split > 0 && split < canvas.width) drawDivider(x);
  if (state.outlines) {
    context.drawImage(layer("outlines"), 0, 0);
    drawChosen();
  }
  $("#line").style.left = `${(100 * x) / width}%`;
  $("#line").hidden = state.split <= 0 || state.split >= 1;
  $("#date-before").classList.toggle("away", x < 90);
  $("#date-after").classList.toggle("away", x > width - 90);
  drawScale();
}

function drawDivider(x) {
  const ratio = devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  for (const [colour, wide] of [["rgba(0,0,0,.35)", 6], ["#fff", 3]]) {
    context.fillStyle = colour;
    context.fillRect(x - wide / 2, 0, wide, height);
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
}

function setSplit(split) {
  state.split = clamp(split, 0, 1);
  divider.value = Math.round(state.split * 1000);
  const shown = state.split >= 1 ? "a" : state.split <= 0 ? "d" : "s";
  for (const key of ["a", "s", "d"]) $(`#tools [data-key="${key}"]`).ariaPressed = String(key === shown);
  divider.ariaValueText = `${Math.round(state.split * 100)} percent before`;
  compose();
  settled();
}

let blinker = 0;

// With reduced motion nothing blinks: each press shows the other date.
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

divider.addEventListener("input", () => {
  stopBlinking();
  setSplit(divider.value / 1000);
});
