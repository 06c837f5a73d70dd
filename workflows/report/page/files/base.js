// Shared by all pages: the data, and small helpers. Texts of other people become text nodes and nothing else.
const report = JSON.parse(document.getElementById("data").textContent);
const CHANGED = {
  appeared: { sign: "+", colour: "#ffd23f" },
  disappeared: { sign: "\u2212", colour: "#ff7ab8" },
  replaced: { sign: "\u21c4", colour: "#6ccbff" },
  unnamed: { sign: "?", colour: "#f2f2f2" },
};
const calm = matchMedia("(prefers-reduced-motion: reduce)");

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

function coordinates(longitude, latitude) {
  return `longitude ${longitude.toFixed(5)}, latitude ${latitude.toFixed(5)}`;
}

// When and by which rscc something was made; its times are in UTC.
function madeWords(time) {
  const day = time ? `${time.slice(0, 16).replace("T", " ")} UTC` : null;
  return [day, report.rscc ? `rscc ${report.rscc}` : null].filter(Boolean).join(", ");
}

function term(name, value) {
  return value ? [element("dt", { textContent: name }), element("dd", { dir: "auto", textContent: value })] : [];
}

// Show the summary; `shown` describes the map for screen readers.
function showTotals(summary, shown) {
  // Python writes m2.
  const text = summary.text.replace(/\b(k?m)2\b/g, "$1\u00b2");
  $("#said").textContent = text;
  $("#ground").ariaLabel = `${shown} ${text}`;
  for (const [name, total] of Object.entries(summary.directions)) {
    const sign = element("span", { className: `sign ${name}`, textContent: CHANGED[name].sign });
    const words = `${whole(total.changes)} ${name}, ${areaWords(total.area_m2)}`;
    $("#totals").append(element("p", {}, sign, ` ${words}`));
  }
  for (const [title_, totals] of [["Added", summary.came], ["Removed", summary.gone]]) {
    const words = Object.entries(totals).map(([name, total]) => `${name} in ${whole(total.changes)}`);
    if (words.length) $("#totals").append(element("p", {}, element("b", { textContent: `${title_} ` }), words.join(", ")));
  }
}

function addNotes(texts, title) {
  const list = $("#notes ul");
  list.append(...texts.map((one) => element("li", { dir: "auto", textContent: String(one) })));
  $("#notes").hidden = list.children.length === 0;
  $("#notes summary").textContent = title(list.children.length);
}

function tally(values) {
  const numbers = new Map();
  for (const value of values) numbers.set(value, (numbers.get(value) ?? 0) + 1);
  return [...numbers].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

// Buttons that add names to a set, or remove them; then `changed` is called.
function choices(holder, names, set, label, changed) {
  for (const [name, number] of names) {
    const button = element("button", { type: "button", ariaPressed: "false" }, label(name));
    button.append(element("small", { textContent: ` ${whole(number)}` }));
    button.addEventListener("click", () => {
      if (!set.delete(name)) set.add(name);
      button.ariaPressed = String(set.has(name));
      changed();
    });
    holder.append(button);
  }
}

// Run the action of a key, or of a button that names one.
function listenToKeys(actions) {
  document.addEventListener("keydown", (event) => {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const field = event.target.closest("input:not([type=range]), select, textarea");
    const sliding = event.target.matches("input[type=range]") && /^(Arrow|Home|End|Page)/.test(key);
    // While letters are composed, Escape belongs to that.
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || $("dialog")?.open || sliding) return;
    if (field) {
      if (key !== "Escape") return;
      // Otherwise a search field would be cleared without an event.
      event.preventDefault();
      const holder = field.closest("#card");
      // The next Tab goes on from the card.
      if (holder) $("h2", holder).focus();
      else field.blur();
      return;
    }
    // Space presses what has the focus.
    if (!Object.hasOwn(actions, key) || (key === " " && event.target.closest("button, summary, a"))) return;
    event.preventDefault();
    actions[key]();
  });
  for (const button of $$("[data-key]")) button.addEventListener("click", () => actions[button.dataset.key]());
}

// Corners in absolute page pixels, of steps from corner to corner in parts of a pixel.
function cornersOf(steps, parts = report.steps) {
  let [x, y] = [0, 0];
  const corners = [];
  for (let i = 0; i < steps.length; i += 2) {
    x += steps[i] / parts;
    y += steps[i + 1] / parts;
    corners.push(x, y);
  }
  return corners;
}

// West, north, east, south of rings, each a flat list of x and y.
function boxAround(rings) {
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (const corners of rings) {
    corners.forEach((value, i) => {
      box[i % 2] = Math.min(box[i % 2], value);
      box[2 + (i % 2)] = Math.max(box[2 + (i % 2)], value);
    });
  }
  return box;
}

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

// Draw a square of the ground with the outline of a change into a small canvas; `paint` draws what lies below.
function drawSquare(canvas, [left, top], side, change, paint) {
  const context = canvas.getContext("2d");
  const scale = canvas.width / side;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(scale, 0, 0, scale, -left * scale, -top * scale);
  paint(context, scale);
  context.lineJoin = "round";
  // In a small canvas thick lines would hide the change.
  const line = clamp(canvas.width / 110, 0.8, 2);
  for (const [width, colour] of [[2.2 * line, "rgba(0,0,0,.55)"], [line, DIRECTIONS[change.direction].colour]]) {
    context.lineWidth = width / scale;
    context.strokeStyle = colour;
    context.stroke(pathOf(change));
  }
}
