// Summary, keys, permalink, print, and the start.
const { scenes, summary } = report;
let settling = 0;
let followed = location.hash;

// Write the view into the address a moment after the last move, unless a new address is still to be followed.
function settled() {
  clearTimeout(settling);
  settling = setTimeout(() => {
    if (location.hash !== followed) return;
    const words = [
      state.selected ? `change=${state.selected.id}` : null,
      `at=${view.x.toFixed(1)},${view.y.toFixed(1)},${view.zoom.toFixed(4)}`,
      state.blinking ? null : `split=${state.split.toFixed(3)}`,
    ].filter(Boolean);
    try {
      history.replaceState(null, "", `#${words.join("&")}`);
      followed = location.hash;
    } catch {
      // Some browsers give a page opened as a file no history; the page works without.
    }
  }, 250);
}

// Show what the address says.
function followAddress() {
  followed = location.hash;
  const parts = new Map(location.hash.slice(1).split("&").map((word) => word.split("=")));
  const numbers = (parts.get("at") ?? "").split(",").map(Number);
  const change = changes.find((one) => String(one.id) === parts.get("change"));
  const split = Number.parseFloat(parts.get("split"));
  if (Number.isFinite(split)) setSplit(split);
  select(change ?? null, false);
  if (numbers.length === 3 && numbers.every(Number.isFinite) && numbers[2] > 0) flyTo(...numbers, false);
  else if (!change) fit(false);
}

function nameOf(path) {
  return (path ?? "").split(/[\\/]/).at(-1);
}

const warned = (count) => counted(count, "warning");

function showSummary() {
  const [before, after] = DATES.map((date) => scenes[date].date);
  const dates = before && after ? `${before} to ${after}` : "";
  document.title = ["What changed", dates, report.name].filter(Boolean).join(" \u00b7 ");
  $("h1 span").textContent = dates;
  for (const date of DATES) $(`#date-${date} span`).textContent = scenes[date].date ?? nameOf(scenes[date].name);
  showTotals(summary, "Both dates and the outlines of the changes.");
  addNotes(report.warnings, warned);
  const shown = DATES.map((date) => [scenes[date].name, scenes[date].date].filter(Boolean).join(", "));
  const model = [report.model.name, report.model.version].filter(Boolean).join(" ");
  const made = madeWords(report.started);
  $("#made dl").append(
    ...term("Before", shown[0]), ...term("After", shown[1]), ...term("Report", report.name), ...term("Model", model),
    ...report.made.flatMap(([name, value]) => term(name, value)), ...term("Made", made),
  );
  $("#origin").textContent = [`Before: ${shown[0]}`, `After: ${shown[1]}`, `Model: ${model}`, made].join(" \u00b7 ");
}

function showScale(reduced) {
  const words = reduced > 1.02
    ? `the pictures show ${(report.gsd * reduced).toPrecision(2)} m per pixel, sharper around changes; the model saw ${report.gsd} m`
    : `${report.gsd} m per pixel, as the model saw it`;
  $("#made dl").append(...term("Scale", words));
}

const ACTIONS = {
  ...MOVES,
  a: () => { stopBlinking(); setSplit(1); },
  s: () => { stopBlinking(); setSplit(0.5); },
  d: () => { stopBlinking(); setSplit(0); },
  b: blink,
  o: toggleOutlines,
  "?": () => $("#keys").showModal(),
  ...Object.fromEntries(VERDICTS.map((verdict, i) => [i + 1, () => judge(verdict)])),
};

listenToKeys(ACTIONS);
addEventListener("hashchange", followAddress);
addEventListener("beforeprint", () => state.listed.slice(0, 300).forEach(drawChips));
new ResizeObserver(resize).observe(map);

// In a folder, the pictures of a page are files beside it.
function reportMissing() {
  addNotes(["The pictures of this page are missing: keep it together with its folder of tiles."], warned);
  $("#notes").open = true;
}

showSummary();
startList();
showMarks();
resize();
followAddress();

addEventListener("DOMContentLoaded", async () => {
  await loadImagery().then(showScale, reportMissing);
  watchRows();
  if (state.selected) drawPair(state.selected);
  redraw();
  document.documentElement.dataset.ready = "";
});
