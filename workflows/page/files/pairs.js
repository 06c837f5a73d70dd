// What stands beside the map: sums, times, failures, and a button for each pair; keys, and the start.
const { summary } = report;
const DATE = /^\d{4}(-(0[1-9]|1[0-2])(-\d\d)?)?$/;
// Bars of which the number, and the date, is shown.
const NUMBERED = 14;
const DATED = 8;
const ORDERS = {
  table: () => 0,
  changes: (a, b) => b.changes - a.changes,
  area: (a, b) => b.area_m2 - a.area_m2,
  latest: (a, b) => (b.after ?? "").localeCompare(a.after ?? ""),
  name: (a, b) => a.id.localeCompare(b.id),
};
const chosen = new Set();

const signOf = (name) => element("span", { className: `sign ${name.replace(" ", "-")}`, textContent: DIRECTIONS[name].sign, title: name });

function rowOf(pair) {
  const facts = [pair.site, datesOf(pair), foundIn(pair)].filter(Boolean).join(" \u00b7 ");
  const words = element("span", { className: "words" }, spanOf("caption", pair.id), spanOf("facts", facts));
  if (pair.reason) words.append(spanOf("facts reason", pair.reason));
  const links = element("span", { className: "links" });
  for (const [name, href] of [["Page", pair.page], ["Report", pair.report]]) {
    if (href) links.append(element("a", { href, textContent: name, ariaLabel: `${name} of ${pair.id}` }));
  }
  pair.row = element("li", {}, buttonOf(pair, signOf(pair.state), words), links);
}

function listPairs() {
  listThose(pairs, (one) => !chosen.size || chosen.has(one.state), "pair");
  // On the map a site has its name once.
  const named = new Set();
  for (const one of state.listed) {
    const name = one.site ?? one.id;
    one.caption = named.has(name) ? "" : name;
    named.add(name);
  }
}

function select(pair) {
  choose(pair);
  if (!pair) return;
  const [west, north, east, south] = pair.box;
  // With some of what lies around it.
  const more = 2 * Math.max(east - west, south - north);
  if (pair.rings.length) flyToBox([west - more, north - more, east + more, south + more]);
  const where = pair.at ? `, at ${pair.at[1]}, ${pair.at[0]}` : ", at no known place";
  say(`${tipOf(pair)}${where}`);
}

function showSummary() {
  document.title = `What changed \u00b7 ${report.name}`;
  $("h1 span").textContent = report.name;
  showSaid(summary, "Where the pairs lie.");
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
    ...term("Made", [report.finished, report.rscc ? `rscc ${report.rscc}` : null].filter(Boolean).join(", ")),
    ...term("Map", `longitude and latitude; the scale holds in the middle${unplaced ? `; ${counted(unplaced, "pair")} of unknown place` : ""}`),
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

listenToKeys(MOVES);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(resize).observe(map);
showSummary();
pairs.forEach(rowOf);
const states = tally(pairs.map((one) => one.state));
choices($("#states"), states, chosen, (name) => name, listPairs);
for (const [name] of states) $("#legend").append(signOf(name), ` ${name} `);
$("#search").addEventListener("input", listPairs);
$("#sort").addEventListener("change", listPairs);
listPairs();
resize();
document.documentElement.dataset.ready = "";
