// The chart of area and number of events over time, of all events or of the selected one.
const SVG = "http://www.w3.org/2000/svg";
const BOX = { left: 4, right: 356, top: 12, bottom: 102 };

function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

// Area and number at each date: of what stands, or of what the scenes show of one event.
function valuesOf(event) {
  if (event) {
    return scenes.map((_, at) => ({
      area: event.areas[at] ?? (event.sightings[at] === "s" ? event.area_m2 : 0),
      number: event.counts[at] ?? (event.sightings[at] === "s" ? event.count ?? 1 : 0),
    }));
  }
  return scenes.map((_, at) => {
    const standing = events.filter((one) => stands(one, at));
    return { area: standing.reduce((sum, one) => sum + one.area_m2, 0), number: standing.length };
  });
}

function drawChart() {
  const values = valuesOf(state.selected);
  const [most, many] = ["area", "number"].map((name) => Math.max(...values.map((one) => one[name]), 1e-9));
  const wide = (BOX.right - BOX.left) / values.length;
  const y = (share) => BOX.bottom - share * (BOX.bottom - BOX.top);
  const bars = values.map(({ area }, at) => {
    const bar = drawn("rect", {
      x: BOX.left + at * wide + wide * 0.1, y: y(area / most), width: wide * 0.8, height: BOX.bottom - y(area / most),
      class: at === state.at ? "now" : "area",
    });
    bar.append(drawn("title", {}, `${scenes[at].words}: ${areaWords(area)}`));
    return bar;
  });
  const points = values.map(({ number }, at) => `${BOX.left + (at + 0.5) * wide},${y(number / many)}`);
  const line = drawn("polyline", { points: points.join(" "), class: "number" });
  const base = drawn("line", { x1: BOX.left, x2: BOX.right, y1: BOX.bottom, y2: BOX.bottom, class: "base" });
  const ends = [[BOX.left, "start", scenes[0]], [BOX.right, "end", scenes.at(-1)]];
  const dates = ends.map(([x, anchor, scene]) => drawn("text", { x, y: 116, "text-anchor": anchor }, scene.words));
  const svg = $("#chart svg");
  svg.replaceChildren(...bars, line, base, ...dates);
  const now = values[state.at];
  const what = state.selected ? `Event ${state.selected.event_id}` : "All events";
  const noun = state.selected?.count ? "object" : "event";
  svg.setAttribute("aria-label", `${what}: area and number at each date, up to ${areaWords(most)}`);
  $("#chart figcaption").replaceChildren(
    `${what}, ${scenes[state.at].words}: `, element("i", { textContent: areaWords(now.area) }), ", ",
    element("b", { textContent: counted(now.number, noun) }),
  );
}
