// The card of the selected change: its sentence, its facts, both dates, and the verdict.
const card = $("#card");

function select(change, moving = true) {
  choose(change);
  card.hidden = !change;
  map.classList.toggle("chosen", Boolean(change));
  settled();
  map.style.removeProperty("--knob");
  if (!change) return;
  showCard(change);
  placeKnob();
  flyToBox(change.box, moving);
  const place = state.listed.indexOf(change) + 1;
  const where = place ? `, ${place} of ${state.listed.length}` : "";
  say(`Change ${change.id}${where}: ${change.caption.slice(0, 300)}`);
}

// The knob of the divider goes below the change, above the card.
function placeKnob() {
  map.style.setProperty("--knob", `${freeRows()[1] - 22}px`);
}

function sureText({ count, count_sure: sure }) {
  return sure === null || sure === undefined || sure === count ? "" : ` (${sure} of them sure)`;
}

function showCard(change) {
  $("h2", card).textContent = `Change ${change.id}`;
  $(".sign", card).replaceWith(signOf(change));
  $(".caption", card).textContent = change.caption_confident ? change.caption : `${change.caption} (not sure)`;
  const size = change.count > 1 && change.median_m2
    ? `${areaWords(change.area_m2)} in ${counted(change.count, "object")}${sureText(change)}, median ${areaWords(change.median_m2)}`
    : areaWords(change.area_m2);
  $("dl", card).replaceChildren(
    ...term("Added", change.came.join(", ")),
    ...term("Removed", change.gone.join(", ")),
    ...term("Ground before", change.before_cover.join(", ")),
    ...term("Area", size),
    ...[["Changed area", change.changed_m2], ["Changed back", change.changed_back_m2]].flatMap(([name, area]) =>
      term(name, area === null ? null : (change.changed_at_least ? "at least " : "") + areaWords(area))),
    ...term("Location", change.place),
    ...term("Arrangement", change.arrangement === "alone" ? null : change.arrangement),
    ...(change.by_hand ? term("Found", "drawn by hand")
      : term("Score", `${change.score.toFixed(2)}, probability of change ${change.change_probability.toFixed(2)}`)),
    ...term("Inside", change.context.join(", ")),
    ...term("Ground", change.familiarity !== null && change.familiarity < 0.5 ? "unlike the training data" : null),
    ...term("Right words", change.reviewer_caption),
    ...term("Note", change.reviewer_note),
    ...term("Reviewer", change.reviewer),
    ...term("Coordinates", coordinates(change.lon, change.lat)),
  );
  drawPair(change);
  $("#others").replaceChildren(...change.alternatives.map((value) => element("option", { value })));
  showReview(change);
}

function drawPair(change) {
  if (state.selected !== change) return;
  $$("canvas", card).forEach((one, i) => drawChip(one, DATES[i], change, () => drawPair(change)));
}

// Give the selected change a verdict, or take it back.
function judge(verdict) {
  const change = state.selected;
  if (!change) return;
  mark(change, verdict);
  placeKnob();
  redraw("outlines");
  uncover(change.box);
  // What is typed next are the right words, and not keys.
  if (marks.get(change.id)?.verdict === "wrong words") $("#right-words input").focus();
}

function showReview(change) {
  const is = markOf(change);
  VERDICTS.forEach((verdict, i) => {
    $(`[data-key="${i + 1}"]`, card).ariaPressed = String(is?.verdict === verdict);
  });
  $("#right-words").hidden = is?.verdict !== "wrong words";
  $("#right-words input").value = is?.caption ?? "";
  $("#note").value = is?.note ?? "";
  $("#note").disabled = $("#right-words input").disabled = !marks.has(change.id);
  $("#note").placeholder = $("#note").disabled ? "after a verdict" : "";
}

$("#right-words input").addEventListener("input", (event) => amend(state.selected, { caption: event.target.value.trim() }));
$("#note").addEventListener("input", (event) => amend(state.selected, { note: event.target.value.trim() }));
