// What all parts of the page of a report share: its state and its changes.
const DIRECTIONS = CHANGED;
const VERDICTS = ["confirmed", "wrong place", "wrong words"];
const state = { split: 0.5, outlines: true, blinking: false, selected: null, hovered: null, listed: [] };

// Each change with its corners as absolute page pixels, the box around them, and what it is filtered by.
const changes = report.changes.map((change, place) => {
  const rings = change.rings.map((steps) => {
    let [x, y] = [0, 0];
    const corners = [];
    for (let i = 0; i < steps.length; i += 2) {
      x += steps[i] / report.steps;
      y += steps[i + 1] / report.steps;
      corners.push(x, y);
    }
    return corners;
  });
  const kinds = [...new Set([...change.came, ...change.gone])];
  const direction = Object.hasOwn(DIRECTIONS, change.direction ?? "") ? change.direction : "unnamed";
  const said = [change.caption, change.place, ...kinds, change.reviewer_caption, change.reviewer_note, change.reviewer];
  const words = `#${change.id} ${said.filter(Boolean).join(" ")}`.toLowerCase();
  return { ...change, rings, box: boxAround(rings), kinds: kinds.length ? kinds : ["not told"], direction, words, listing: place };
});

const tipOf = (change) => `#${change.id} ${change.caption.slice(0, 160)}`;
