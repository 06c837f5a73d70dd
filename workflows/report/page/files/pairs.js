// The panel beside the map: sums, times, failures, and a button for each pair; keys, and the start.
const { summary } = report;
const DATE = /^\d{4}(-(0[1-9]|1[0-2])(-\d\d)?)?$/;
// Number of bars up to which each has its number, and number of dates that are shown.
const NUMBERED = 14;
const DATED = 8;
const ORDERS = {
  table: () => 0,
  changes: (a, b) => b.changes - a.changes,
  area: (a, b) => b.area_m2 - a.area_m2,
  latest: (a, b) => (b.after ?? "").localeCompare(a.after ?? ""),
  name: (a, b) => (a.pair ?? a).id.localeCompare((b.pair ?? b).id),
};
const chosen = { states: new Set(), directions: new Set(), kinds: new Set() };

const signOf = (name) => element("span", { className: `sign ${name.replace(" ", "-")}`, textContent: DIRECTIONS[name].sign, title: name });

const spaced = (...facts) => facts.filter(Boolean).join(" \u00b7 ");

function linksOf(links, name) {
  const shown = links.filter(([, href]) => href);
  const anchors = shown.map(([textContent, href]) => element("a", { href, textContent, ariaLabel: `${textContent} of ${name}` }));
  return element("span", { className: "links" }, ...anchors);
}

function rowOf(pair) {
  const facts = spaced(pair.site, datesOf(pair), foundIn(pair));
  const words = element("span", { className: "words" }, spanOf("caption", pair.id), spanOf("facts", facts));
  if (pair.reason) words.append(spanOf("facts reason", pair.reason));
  const links = linksOf([["Page", pair.page], ["Report", pair.report]], pair.id);
  pair.row = element("li", {}, buttonOf(pair, signOf(pair.state), words), links);
}

function rowOfChange(change) {
  const { pair } = change;
  const name = `change ${change.id} of ${pair.id}`;
  const facts = spaced(areaWords(change.area_m2), `score ${change.score.toFixed(2)}`, pair.site ?? pair.id, datesOf(pair));
  const words = element("span", { className: "words" }, spanOf("caption", change.caption), spanOf("facts", facts));
  const pictures = change.dates.map((date) => element("img", { src: `data:image/jpeg;base64,${date}`, alt: "", loading: "lazy" }));
  const shown = pictures.length ? [element("span", { className: "pair" }, ...pictures)] : [];
  const links = linksOf([["Page", pair.page && `${pair.page}#change=${change.id}`]], name);
  change.row = element("li", {}, buttonOf(change, ...shown, words, signOf(change.direction)), links);
}

function passes(one) {
  const has = (set, names) => !set.size || names.some((name) => set.has(name));
  return state.ofChanges ? has(chosen.directions, [one.direction]) && has(chosen.kinds, one.kinds) : has(chosen.states, [one.state]);
}

function relist() {
  listThose(state.ofChanges ? changes : pairs, passes, state.ofChanges ? "change" : "pair");
  const rest = report.changes_in_all - changes.length;
  if (state.ofChanges && rest) $("#count").append(`, the largest; ${whole(rest)} smaller ones are in the reports`);
  if (state.ofChanges) return;
  // On the map each site is named once.
  const named = new Set();
  for (const one of state.listed) {
    const name = one.site ?? one.id;
    one.caption = named.has(name) ? "" : name;
    named.add(name);
  }
}

// List the pairs, or the changes of all pairs, with the filters of these.
function listThe(ofChanges) {
  select(null);
  state.ofChanges = ofChanges;
  state.last = null;
  $("#list-pairs").ariaPressed = String(!ofChanges);
  $("#list-changes").ariaPressed = String(ofChanges);
  for (const one of $$(".of-pairs")) one.hidden = ofChanges;
  for (const one of $$(".of-changes")) one.hidden = !ofChanges;
  if (ofChanges && $("#sort").value === "changes") $("#sort").value = "area";
  const names = new Set(state.ofChanges ? changes.map((one) => one.direction) : pairs.map((one) => one.state));
  $("#legend").replaceChildren(...[...names].flatMap((name) => [signOf(name), ` ${name} `]));
  relist();
}

function select(one) {
  choose(one);
  if (!one) return;
  const [west, north, east, south] = (one.pair?.rings.length ? one.pair : one).box;
  // With some of its surroundings; a change with all of its pair.
  const more = (one.pair ? 0.2 : 2) * Math.max(east - west, south - north);
  if (one.rings.length) flyToBox([west - more, north - more, east + more, south + more]);
  const { at } = one.pair ?? one;
  say(`${tipOf(one)}${at ? `, at ${coordinates(...at)}` : ", at no known place"}`);
}

function showSummary() {
  document.title = `What changed \u00b7 ${report.name}`;
  $("h1 span").textContent = report.name;
  showTotals(summary, "Where the pairs lie.");
  showTimes();
  const failed = report.reasons.reduce((sum, reason) => sum + reason.count, 0);
  const notes = report.reasons.map(({ kind, line, error, count, pairs }) => {
    const named = `${pairs.join(", ")}${count > pairs.length ? ` and ${whole(count - pairs.length)} more` : ""}`;
    return `${whole(count)} ${kind}: ${line} [${error}] (${named})`;
  });
  addNotes(notes, () => `${counted(failed, "pair")} failed`);
  const unplaced = pairs.filter((one) => !one.rings.length).length;
  $("#made dl").append(
    ...term("Archive", report.name),
    ...term("Model", report.model),
    ...term("Made", madeWords(report.finished)),
    ...term("Map", `longitude and latitude; the scale holds in the middle; land and borders of Natural Earth, 1:110 million${unplaced ? `; ${counted(unplaced, "pair")} of unknown place` : ""}`),
  );
}

// Bars of changes by year of the later scene, or by month where all lie in two years.
function showTimes() {
  const dated = pairs.filter((one) => one.changes && DATE.test(one.after ?? ""));
  if (!dated.length) return;
  const years = dated.map((one) => Number(one.after.slice(0, 4)));
  const [first, last] = [years.reduce((a, b) => Math.min(a, b)), years.reduce((a, b) => Math.max(a, b))];
  const monthly = last - first < 2 && dated.every((one) => one.after.length >= 7);
  const sums = new Map();
  for (let year = first; year <= last; year += 1) {
    const name = String(year).padStart(4, "0");
    for (let month = 1; month <= (monthly ? 12 : 1); month += 1) {
      sums.set(monthly ? `${name}-${String(month).padStart(2, "0")}` : name, { total: 0 });
    }
  }
  for (const pair of dated) {
    const sum = sums.get(pair.after.slice(0, monthly ? 7 : 4));
    sum.total += pair.changes;
    for (const [name, number] of Object.entries(pair.directions)) sum[name] = (sum[name] ?? 0) + number;
  }
  const highest = Math.max(...[...sums.values()].map((one) => one.total));
  const every = Math.ceil(sums.size / DATED);
  for (const [date, sum] of sums) {
    const bar = element("li", { title: `${date}: ${counted(sum.total, "change")}` });
    bar.append(element("span", { className: sums.size > NUMBERED ? "unseen" : "", textContent: sum.total ? whole(sum.total) : "" }));
    for (const name of Object.keys(CHANGED)) {
      if (!sum[name]) continue;
      const part = element("i", { className: name });
      part.style.height = `${(sum[name] / highest) * 70}%`;
      bar.append(part);
    }
    bar.append(element("time", { className: $("#times ol").children.length % every ? "unseen" : "", textContent: date }));
    $("#times ol").append(bar);
  }
  const undated = summary.changes - dated.reduce((sum, one) => sum + one.changes, 0);
  if (undated) $("#times figcaption").append(`; ${whole(undated)} without a date`);
  $("#times").hidden = false;
}

listenToKeys({ ...MOVES, w: () => show(wholeWorld, 0, Infinity) });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(resize).observe(map);
showSummary();
pairs.forEach(rowOf);
changes.forEach(rowOfChange);
choices($("#states"), tally(pairs.map((one) => one.state)), chosen.states, (name) => name, relist);
choices($("#directions"), tally(changes.map((one) => one.direction)), chosen.directions, (name) => `${DIRECTIONS[name].sign} ${name}`, relist);
choices($("#kinds"), tally(changes.flatMap((one) => one.kinds)), chosen.kinds, (name) => name, relist);
$("#search").addEventListener("input", relist);
$("#sort").addEventListener("change", relist);
$("#list-pairs").addEventListener("click", () => listThe(false));
$("#list-changes").addEventListener("click", () => listThe(true));
$("#list-changes").disabled = !changes.length;
listThe(false);
resize();
document.documentElement.dataset.ready = "";
