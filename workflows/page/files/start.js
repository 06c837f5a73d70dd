// What all parts of the page share: the data, the state, and small helpers. Texts of a report become
// text nodes and nothing else.
const report = JSON.parse(document.getElementById("data").textContent);
const DIRECTIONS = {
  appeared: { sign: "+", colour: "#ffd23f" },
  disappeared: { sign: "\u2212", colour: "#ff7ab8" },
  replaced: { sign: "\u21c4", colour: "#6ccbff" },
  unnamed: { sign: "?", colour: "#f2f2f2" },
};
const VERDICTS = ["confirmed", "wrong place", "wrong words"];
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const state = { split: 0.5, outlines: true, blinking: false, selected: null, hovered: null, listed: [] };

const $ = (selector, inside = document) => inside.querySelector(selector);
const $$ = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function say(text) {
  $("#live").textContent = text;
}

function whole(number) {
  return Math.round(number).toLocaleString("en-US");
}

function areaWords(squareMetres) {
  if (squareMetres >= 1e6) return `${(squareMetres / 1e6).toFixed(1)} km\u00b2`;
  if (squareMetres >= 1e4) return `${(squareMetres / 1e4).toFixed(1)} ha`;
  return `${whole(squareMetres)} m\u00b2`;
}

function counted(number, noun) {
  return `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// Each change with its corners as absolute page pixels, its box, and what it is filtered by.
const changes = report.changes.map((change, place) => {
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  const rings = change.rings.map((steps) => {
    let [x, y] = [0, 0];
    const corners = [];
    for (let i = 0; i < steps.length; i += 2) {
      x += steps[i] / report.steps;
      y += steps[i + 1] / report.steps;
      corners.push(x, y);
      box[0] = Math.min(box[0], x);
      box[1] = Math.min(box[1], y);
      box[2] = Math.max(box[2], x);
      box[3] = Math.max(box[3], y);
    }
    return corners;
  });
  const kinds = [...new Set([...change.came, ...change.gone])];
  const direction = Object.hasOwn(DIRECTIONS, change.direction ?? "") ? change.direction : "unnamed";
  const words = `#${change.id} ${change.caption} ${change.place ?? ""} ${kinds.join(" ")}`.toLowerCase();
  return { ...change, rings, box, kinds: kinds.length ? kinds : ["not told"], direction, words, listing: place };
});

function pathOf(change) {
  if (!change.path) {
    change.path = new Path2D();
    for (const corners of change.rings) {
      change.path.moveTo(corners[0], corners[1]);
      for (let i = 2; i < corners.length; i += 2) change.path.lineTo(corners[i], corners[i + 1]);
      change.path.closePath();
    }
  }
  return change.path;
}
