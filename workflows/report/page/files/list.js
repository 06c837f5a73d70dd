// The list: a button for each change, sorted and filtered. All buttons are in the page, so that search, print and
// screen readers find them; the browser renders only the visible ones.
const CHIP = 64;
const AREAS = 100;
const largestArea = Math.max(1, ...changes.map((one) => one.area_m2));
const ORDERS = {
  id: (a, b) => a.id - b.id,
  area: (a, b) => b.area_m2 - a.area_m2,
  score: (a, b) => b.score - a.score,
  doubt: (a, b) => a.score - b.score,
  kind: (a, b) => a.kinds[0].localeCompare(b.kinds[0]) || a.direction.localeCompare(b.direction),
};
const chosen = { kinds: new Set(), directions: new Set(), areas: new Set() };

function factWords(change) {
  return [
    `#${change.id}`,
    areaWords(change.area_m2),
    change.count > 1 ? counted(change.count, "object") : null,
    change.by_hand ? "drawn by hand" : `score ${change.score.toFixed(2)}`,
    change.place,
  ].filter(Boolean).join(" \u00b7 ");
}

function signOf(change) {
  const sign = element("span", { className: `sign ${change.direction}`, textContent: DIRECTIONS[change.direction].sign });
  sign.title = change.direction === "unnamed" ? "what was added or removed is not stated" : change.direction;
  return sign;
}

function rowOf(change) {
  const parts = [spanOf("caption", change.caption), spanOf("facts", factWords(change))];
  if (change.reviewer_caption) parts.splice(1, 0, spanOf("said", `Right words: ${change.reviewer_caption}`));
  const [chips, verdict] = ["pair", "mark"].map((className) => element("span", { className }));
  const words = element("span", { className: "words" }, ...parts, verdict);
  change.row = element("li", {}, buttonOf(change, chips, words, signOf(change)));
  change.row.change = change;
}

// Chips are drawn when their row comes into view, and removed when it leaves.
const rowObserver = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) drawChips(target.change);
    else $(".pair", target).replaceChildren();
  }
}, { root: $("aside"), rootMargin: "300px" });

function drawChips(change) {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  const holder = $(".pair", change.row);
  if (!holder.firstChild) {
    for (const date of DATES) holder.append(element("canvas", { width: CHIP * ratio, height: CHIP * ratio, ariaHidden: "true" }));
  }
  const again = () => holder.isConnected && holder.firstChild && drawChips(change);
  DATES.forEach((date, i) => drawChip(holder.children[i], date, change, again));
}

function leastArea() {
  const step = Number($("#area").value);
  return step ? Math.min(10 ** ((step / AREAS) * Math.log10(largestArea)), largestArea) : 0;
}

function passes(change, score, area, verdict) {
  return (
    (!chosen.kinds.size || change.kinds.some((kind) => chosen.kinds.has(kind))) &&
    (!chosen.areas.size || change.areas.some((name) => chosen.areas.has(name))) &&
    (!chosen.directions.size || chosen.directions.has(change.direction)) &&
    Number(change.score.toFixed(2)) >= score && // as displayed
    change.area_m2 >= area &&
    (!verdict || (markOf(change)?.verdict ?? "none") === verdict)
  );
}

function listChanges() {
  const [score, area, verdict] = [$("#score").value / 100, leastArea(), $("#verdict").value];
  $("#score + output").textContent = score.toFixed(2);
  $("#area + output").textContent = area ? areaWords(area) : "any";
  listThose(changes, (one) => passes(one, score, area, verdict), "change");
  const set = chosen.kinds.size + chosen.directions.size + chosen.areas.size + (score > 0) + (area > 0) + Boolean(verdict);
  $("#filters summary").textContent = set ? `Filters (${set})` : "Filters";
}

function showVerdict(change) {
  const verdict = markOf(change)?.verdict;
  const holder = $(".mark", change.row);
  holder.textContent = verdict ?? "";
  holder.className = `mark ${verdict ? verdict.replace(" ", "-") : ""}`;
  if (state.selected === change) showReview(change);
}

function startList() {
  changes.forEach(rowOf);
  choices($("#areas"), tally(changes.flatMap((one) => one.areas)), chosen.areas, (name) => name, listChanges);
  choices($("#kinds"), tally(changes.flatMap((one) => one.kinds)), chosen.kinds, (name) => name, listChanges);
  const directions = tally(changes.map((one) => one.direction));
  choices($("#directions"), directions, chosen.directions, (name) => `${DIRECTIONS[name].sign} ${name}`, listChanges);
  for (const [name] of directions) {
    $("#legend").append(element("span", { className: `sign ${name}`, textContent: DIRECTIONS[name].sign }), ` ${name} `);
  }
  for (const name of ["#search", "#score", "#area"]) $(name).addEventListener("input", listChanges);
  for (const name of ["#sort", "#verdict"]) $(name).addEventListener("change", listChanges);
  $("#reset").addEventListener("click", () => {
    for (const set of Object.values(chosen)) set.clear();
    for (const button of $$(".chips button")) button.ariaPressed = "false";
    $("#search").value = $("#verdict").value = "";
    $("#score").value = $("#area").value = 0;
    listChanges();
  });
  for (const change of changes) if (markOf(change)) showVerdict(change);
  listChanges();
}

// Called once the pictures are loaded.
function watchRows() {
  for (const change of changes) rowObserver.observe(change.row);
}
