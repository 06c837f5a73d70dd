// Shared by the lists of all pages: their rows, and the selected one.
const list = $("#list");

// Sticky bars must not cover the row that is scrolled to.
const bars = ["#controls", "#marks"].map((name) => $(name));
function clearBars() {
  const heights = bars.map((bar) => (bar && getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0));
  $("aside").style.scrollPadding = `${heights[0]}px 0 ${heights[1]}px`;
}
for (const bar of bars) if (bar) new ResizeObserver(clearBars).observe(bar);
clearBars();

// Skipping moves only the focus: the address describes the view.
$(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  ($("[aria-current]", list) ?? $("button", list) ?? $("#search")).focus();
});

function spanOf(className, textContent) {
  return element("span", { className, dir: "auto", textContent });
}

function buttonOf(one, ...children) {
  const button = element("button", { type: "button" }, ...children);
  button.append(element("span", { className: "unseen", textContent: one.direction }));
  button.addEventListener("click", () => select(one));
  button.addEventListener("pointerenter", () => { state.hovered = one; compose(); });
  button.addEventListener("pointerleave", () => { state.hovered = null; compose(); });
  return button;
}

// List what matches the search and the filters, in the selected order, and show the number.
function listThose(all, passes, noun) {
  const words = $("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  state.listed = all.filter((one) => passes(one) && words.every((word) => one.words.includes(word)));
  state.listed.sort((a, b) => ORDERS[$("#sort").value](a, b) || a.listing - b.listing);
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  list.replaceChildren(...state.listed.map((one) => one.row));
  // A row that is listed again has lost the focus.
  if (focused) (focused.isConnected ? focused : list).focus({ preventScroll: true });
  const count = counted(all.length, noun);
  $("#count").textContent = state.listed.length === all.length ? count : `${whole(state.listed.length)} of ${count}`;
  $("#empty").hidden = state.listed.length > 0 || all.length === 0;
  paths = null;
  redraw("outlines");
}

function choose(one) {
  // Focus in the card goes to the row of its change, or it would be lost with the card.
  const left = !one && $("#card")?.contains(document.activeElement) ? state.selected?.row : null;
  if (state.selected) {
    $("button", state.selected.row).removeAttribute("aria-current");
    state.last = state.selected;
  }
  state.selected = one;
  redraw("outlines");
  if (left?.isConnected) $("button", left).focus({ preventScroll: true });
  if (!one) return;
  const button = $("button", one.row);
  button.ariaCurrent = "true";
  // Keyboard focus stays in the list.
  if (list.contains(document.activeElement)) button.focus({ preventScroll: true });
  if (one.row.isConnected) one.row.scrollIntoView({ block: "nearest" });
}

// Select the next or previous row, after Escape from where it was; without a selection the first or last.
function step(by) {
  const { listed, selected } = state;
  if (!listed.length) return;
  const at = listed.indexOf(selected ?? state.last);
  select(listed[at < 0 ? (by > 0 ? 0 : listed.length - 1) : (at + by + listed.length) % listed.length]);
}
