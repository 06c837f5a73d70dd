// Summary, keys, permalink, print, and the start.
const { scenes, summary } = report;
let settling = 0;
let followed = location.hash;

// The address tells what is seen, a moment after it has come to rest, unless a new one waits to be followed.
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
      // Some browsers let no page that is a file have a history; the page works without.
    }
  }, 250);
}

// Go where the address says.
function followAddress() {
  followed = location.hash;
  const said = new Map(location.hash.slice(1).split("&").map((word) => word.split("=")));
  const numbers = (said.get("at") ?? "").split(",").map(Number);
  const change = changes.find((one) => String(one.id) === said.get("change"));
  const split = Number.parseFloat(said.get("split"));
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
  showSaid(summary, "Both dates and the outlines of the changes.");
  addNotes(report.warnings, warned);
  $("#made dl").append(
    ...term("Before", [scenes.before.name, scenes.before.date].filter(Boolean).join(", ")),
    ...term("After", [scenes.after.name, scenes.after.date].filter(Boolean).join(", ")),
    ...term("Report", report.name),
    ...term("Model", [report.model.name, report.model.version].filter(Boolean).join(" ")),
    ...term("Made", [report.started, report.rscc ? `rscc ${report.rscc}` : null].filter(Boolean).join(", ")),
  );
}

function showScale(reduced) {
  const words = reduced > 1.02
    ? `the pictures show ${(report.gsd * reduced).toPrecision(2)} m per pixel, sharper around changes; the search saw ${report.gsd} m`
    : `${report.gsd} m per pixel, as searched`;
  $("#made dl").append(...term("Scale", words));
}

const ACTIONS = {
  ...MOVES,
  a: () => { stopBlinking(); setSplit(1); },
  s: () => { stopBlinking(); setSplit(0.5); },
  d: () => { stopBlinking(); setSplit(0); },
  b: blink,
  o: () => {
    state.outlines = !state.outlines;
    $('#tools [data-key="o"]').ariaPressed = String(state.outlines);
    compose();
  },
  "?": () => $("#keys").showModal(),
  ...Object.fromEntries(VERDICTS.map((verdict, i) => [i + 1, () => state.selected && mark(state.selected, verdict)])),
};

listenToKeys(ACTIONS);
addEventListener("hashchange", followAddress);
addEventListener("beforeprint", () => state.listed.slice(0, 300).forEach(drawChips));
new ResizeObserver(resize).observe(map);

// Of a page in a folder, pictures are files beside it.
function tellMissing() {
  addNotes(["The pictures of this page are not where they were: keep it together with the folder that it came with."], warned);
  $("#notes").open = true;
}

showSummary();
startList();
showMarks();
resize();
followAddress();

addEventListener("DOMContentLoaded", async () => {
  await loadImagery().then(showScale, tellMissing);
  watchRows();
  if (state.selected) drawPair(state.selected);
  redraw();
  document.documentElement.dataset.ready = "";
});
