// Shared by all parts of the page of a report: its state and its changes.
const DIRECTIONS = CHANGED;
const VERDICTS = ["confirmed", "wrong place", "wrong words"];
const state = { split: 0.5, outlines: true, numbers: true, blinking: false, selected: null, hovered: null, listed: [] };

// Corners in absolute page pixels, of steps from corner to corner.
function cornersOf(steps) {
  let [x, y] = [0, 0];
  const corners = [];
  for (let i = 0; i < steps.length; i += 2) {
    x += steps[i] / report.steps;
    y += steps[i + 1] / report.steps;
    corners.push(x, y);
  }
  return corners;
}

const notJudged = { rings: report.not_judged.map(cornersOf) };

// Each change with corners in absolute page pixels, their box, and the values for filters and search.
const changes = report.changes.map((change, place) => {
  const rings = change.rings.map(cornersOf);
  const kinds = [...new Set([...change.came, ...change.gone])];
  const direction = Object.hasOwn(DIRECTIONS, change.direction ?? "") ? change.direction : "unnamed";
  // Without the share, by which no two changes would be alike.
  const areas = change.context.map((text) => text.replace(/ \(\d+ %\)$/, ""));
  const texts = [change.caption, change.place, ...kinds, ...areas, change.reviewer_caption, change.reviewer_note, change.reviewer];
  const words = `#${change.id} ${texts.filter(Boolean).join(" ")}`.toLowerCase();
  return { ...change, rings, areas, box: boxAround(rings), kinds: kinds.length ? kinds : ["not stated"], direction, words, listing: place };
});

const tipOf = (change) => `#${change.id} ${change.caption.slice(0, 160)}`;
