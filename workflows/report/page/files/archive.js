// The pairs of an archive on the map, each with its box, drawn by its state; or the changes of all pairs.
const DIRECTIONS = {
  ...CHANGED,
  "with changes": { sign: "\u2713", colour: "#ffd23f" },
  failed: { sign: "!", colour: "#ff8f6b", square: true },
  "without changes": { sign: "0", colour: "#f2f2f2" },
  "not done": { sign: "\u2026", colour: "#9fb2c6", square: true },
};
// The whole world is within reach.
const wholeWorld = [
  (-180 - report.west) * report.across, (report.north - 90) * report.along,
  (180 - report.west) * report.across, (report.north + 90) * report.along,
];
const state = { bounds: wholeWorld, ofChanges: false, selected: null, hovered: null, listed: [] };

const pairs = report.pairs.map((pair, place) => {
  const words = [pair.id, pair.site, pair.before, pair.after, pair.reason].filter(Boolean).join(" ").toLowerCase();
  return { ...pair, box: boxAround(pair.rings), direction: pair.state, words, listing: place };
});

const datesOf = (pair) => (pair.before || pair.after ? [pair.before, pair.after].map((date) => date ?? "\u2013").join(" \u2192 ") : "\u2013");
const foundIn = (pair) => (pair.changes ? `${counted(pair.changes, "change")}, ${areaWords(pair.area_m2)}` : pair.state);
const changes = report.changes.map((change, listing) => {
  const pair = pairs[change.pair];
  const [west, north, east, south] = change.box;
  const rings = [[west, north, east, north, east, south, west, south]];
  const words = `${change.caption} ${change.kinds.join(" ")} ${pair.words}`.toLowerCase();
  return { ...change, pair, rings, after: pair.after, words, listing };
});

const tipOf = (one) => (one.pair ? `${one.caption.slice(0, 160)} \u00b7 ${one.pair.id}` : tipOfPair(one));
const tipOfPair = (pair) => [pair.id, pair.site, datesOf(pair), foundIn(pair)].filter(Boolean).join(" \u00b7 ").slice(0, 200);

function redraw() {
  compose();
}

function settled() {}

// Below the changes the pairs are thin lines.
function drawFootprints() {
  for (const pair of pairs) stroke(context, pathOf(pair), DIRECTIONS[pair.state].colour, 2.5, 1);
}

function draw() {
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  drawWorld();
  const names = drawDegrees();
  place(context);
  if (state.ofChanges) drawFootprints();
  drawOutlines(context);
  drawChosen();
  drawNames(names);
  drawScale();
}
