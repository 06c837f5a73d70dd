// The events of a place and its dates: what stands at each date, and the pictures of the scenes.
const DIRECTIONS = {
  appeared: { sign: "+", colour: "#ffd23f" },
  disappeared: { sign: "\u2212", colour: "#ff7ab8" },
  changed: { sign: "\u21c4", colour: "#6ccbff" },
  ended: { sign: "\u00d7", colour: "#b9c4d0", square: true },
};
const { scenes } = report;
const state = { at: scenes.length - 1, outlines: true, playing: 0, selected: null, hovered: null, listed: [] };

const events = report.events.map((event, listing) => {
  const rings = event.rings.map((steps) => cornersOf(steps));
  const names = event.context.map((one) => `${one.id} ${one.name ?? ""}`);
  const words = [event.event_id, event.caption, event.kind, event.state, ...names].join(" ").toLowerCase();
  // The map has room for a few words only.
  const shown = { sentence: event.caption, caption: `${event.label}, ${scenes[event.begun].words}` };
  return { ...event, ...shown, rings, box: boxAround(rings), direction: event.change, words, listing };
});

const hasEnded = (event, at) => event.ended !== null && event.ended <= at;
const stands = (event, at) => event.begun <= at && !hasEnded(event, at);
const tipOf = (event) => `${event.event_id}: ${event.sentence.slice(0, 160)}`;

// Pictures are decoded when they are first needed; one without a picture is null.
const addresses = JSON.parse(document.getElementById("imagery").textContent);
const images = addresses.map(() => null);

function imageAt(at, later) {
  if (!images[at] && addresses[at]) {
    const image = new Image();
    image.src = addresses[at];
    images[at] = image;
    image.decode().then(() => { image.ready = true; later(); }, () => {});
  } else if (images[at] && !images[at].ready && later) {
    images[at].decode().then(later, () => {});
  }
  return images[at]?.ready ? images[at] : null;
}

function redraw() {
  compose();
}

function settled() {}

function draw() {
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  place(context);
  context.imageSmoothingEnabled = view.zoom < 6;
  const image = imageAt(state.at, redraw);
  if (image) context.drawImage(image, 0, 0, report.width, report.height);
  if (state.outlines) {
    drawOutlines(context);
    drawChosen();
  }
  drawScale();
}

// Draw an event and its surroundings as one scene shows them.
function drawChip(chip, at, event) {
  const image = imageAt(at, () => drawChip(chip, at, event));
  if (!image) return;
  const [west, north, east, south] = event.box;
  const side = Math.max(east - west, south - north, 12) * 1.6;
  const corner = [(west + east - side) / 2, (north + south - side) / 2];
  drawSquare(chip, corner, side, { ...event, direction: event.change }, (context, scale) => {
    context.imageSmoothingEnabled = scale < 6;
    context.drawImage(image, 0, 0, report.width, report.height);
  });
}
