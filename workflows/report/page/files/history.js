// The date slider, the list of events, the selected one with its strip of pictures; keys, and the start.
const ORDERS = {
  time: (a, b) => a.begun - b.begun,
  latest: (a, b) => b.begun - a.begun,
  area: (a, b) => b.area_m2 - a.area_m2,
};
const STEP_MS = 700;
// Sentences that the summary shows at first, as in events.css.
const SENTENCES = 4;
const chosen = new Set();
const slider = $("#date");

const datesOf = (event) => [event.last_absent ?? "\u2013", event.first_seen].join(" \u2192 ");

function showSign(sign, event) {
  sign.className = `sign ${event.direction} ${event.state}`;
  sign.textContent = DIRECTIONS[event.direction].sign;
  sign.title = `${event.direction}, ${event.state}`;
}

function rowOf(event) {
  event.sign = element("span");
  const facts = [datesOf(event), event.state, areaWords(event.area_m2), `P ${event.probability.toFixed(2)}`];
  const words = element("span", { className: "words" }, spanOf("caption", event.sentence), spanOf("facts", facts.join(" \u00b7 ")));
  event.row = element("li", {}, buttonOf(event, event.sign, words));
}

function listEvents() {
  listThose(events, (one) => one.begun <= state.at && (!chosen.size || chosen.has(one.state)), "event");
}

function setDate(at) {
  state.at = clamp(at, 0, scenes.length - 1);
  slider.value = state.at;
  slider.ariaValueText = $("#day").value = scenes[state.at].words;
  for (const event of events) {
    event.direction = hasEnded(event, state.at) ? "ended" : event.change;
    showSign(event.sign, event);
  }
  for (const [n, button] of $$("#strip button").entries()) {
    if (n === state.at) button.ariaCurrent = "date";
    else button.removeAttribute("aria-current");
  }
  listEvents();
  drawChart();
}

function play() {
  clearInterval(state.playing);
  state.playing = state.playing ? 0 : setInterval(() => {
    if (state.at >= scenes.length - 1) play();
    else setDate(state.at + 1);
  }, STEP_MS);
  if (state.playing && state.at >= scenes.length - 1) setDate(0);
  const button = $("#time button");
  button.ariaPressed = String(Boolean(state.playing));
  button.textContent = state.playing ? "Stop" : "Play";
}

function stripOf(event) {
  const said = { s: "seen", a: "not there", h: "hidden" };
  return scenes.map((scene, at) => {
    const chip = element("canvas", { width: 96, height: 96 });
    const label = element("small", { textContent: scene.date });
    const name = `${scene.words}: ${said[event.sightings[at]]}`;
    const button = element("button", { type: "button", className: event.sightings[at], title: name, ariaLabel: name }, chip, label);
    button.addEventListener("click", () => setDate(at));
    drawChip(chip, at, event);
    return element("li", {}, button);
  });
}

function select(event) {
  choose(event);
  $("#card").hidden = !event;
  if (event) {
    if (state.at < event.begun) setDate(event.begun);
    showSign($("#card .sign"), event);
    $("#card h2").textContent = event.event_id;
    $("#card .caption").textContent = event.sentence;
    $("#strip").replaceChildren(...stripOf(event));
    $("#card dl").replaceChildren(
      ...term("State", event.state), ...term("Last absent", event.last_absent), ...term("First seen", event.first_seen),
      ...term("Confirmed", event.confirmed_on), ...term("Last seen", event.last_seen), ...term("Ended", event.ended_on),
      ...term("Seen", `${event.seen} of ${event.usable} usable dates`), ...term("Grew", event.grew_on.join(", ")),
      ...term("Area", areaWords(event.area_m2)), ...term("Number", event.count ? whole(event.count) : ""),
      ...term("Probability", event.probability.toFixed(2)), ...term("Coordinates", coordinates(event.lon, event.lat)),
      ...event.context.flatMap((one) => term(one.layer, `${one.name ?? one.id} (${Math.round(100 * one.share)} %)`)),
    );
    const [west, north, east, south] = event.box;
    // With its surroundings, by which it is recognised.
    const more = Math.max(east - west, south - north);
    flyToBox([west - more, north - more, east + more, south + more]);
    $$("#strip li")[event.begun].scrollIntoView({ block: "nearest", inline: "center" });
    say(event.sentence);
  }
  setDate(state.at);
}

function showSummary() {
  document.title = `What happened \u00b7 ${report.name}`;
  $("h1 span").textContent = report.name;
  const stories = report.stories.length ? report.stories : ["No event is confirmed."];
  $("#said").append(...stories.map((text) => element("li", { dir: "auto", textContent: text })));
  Object.assign($("#more"), { hidden: stories.length <= SENTENCES, textContent: `All ${whole(stories.length)} sentences` });
  $("#ground").ariaLabel = `The place at the chosen date. ${stories.join(" ")}`;
  $("#made dl").append(
    ...term("Scenes", `${whole(scenes.length)}, ${scenes[0].date} to ${scenes.at(-1).date}`),
    ...term("Dropped", report.dropped ? counted(report.dropped, "event") : ""),
  );
}

slider.max = scenes.length - 1;
slider.addEventListener("input", () => {
  if (state.playing) play();
  setDate(Number(slider.value));
});
$("#more").addEventListener("click", () => {
  $("#said").classList.add("all");
  $("#more").hidden = true;
});
listenToKeys({
  ...MOVES,
  ArrowLeft: () => setDate(state.at - 1),
  ArrowRight: () => setDate(state.at + 1),
  " ": play,
  o: toggleOutlines,
});
new ResizeObserver(resize).observe(map);
showSummary();
events.forEach(rowOf);
choices($("#states"), tally(events.map((one) => one.state)), chosen, (name) => name, listEvents);
$("#search").addEventListener("input", listEvents);
$("#sort").addEventListener("change", listEvents);
setDate(state.at);
resize();
document.documentElement.dataset.ready = "";
