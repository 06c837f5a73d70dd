// Shared by all parts of the page of a report: its state and its changes.
const DIRECTIONS = CHANGED;
const VERDICTS = ["confirmed", "wrong place", "wrong words"];
const state = { split: 0.5, outlines: true, numbers: true, blinking: false, selected: null, hovered: null, listed: [] };

const notJudged = { rings: report.not_judged.map((steps) => cornersOf(steps)) };

// Each change with corners in absolute page pixels, their box, and the values for filters and search.
const changes = report.changes.map((change, place) => {
  const rings = change.rings.map((steps) => cornersOf(steps));
  const kinds = [...new Set([...change.came, ...change.gone])];
  const direction = Object.hasOwn(DIRECTIONS, change.direction ?? "") ? change.direction : "unnamed";
  // Without the share, by which no two changes would be alike.
  const areas = change.context.map((text) => text.replace(/ \(\d+ %\)$/, ""));
  const texts = [change.caption, change.place, ...kinds, ...areas, change.reviewer_caption, change.reviewer_note, change.reviewer];
  const words = `#${change.id} ${texts.filter(Boolean).join(" ")}`.toLowerCase();
  return { ...change, rings, areas, box: boxAround(rings), kinds: kinds.length ? kinds : ["not stated"], direction, words, listing: place };
});

const tipOf = (change) => `#${change.id} ${change.caption.slice(0, 160)}`;
