// What the lists of all pages have in common: a row for each of what is listed, and the one that is chosen.
const list = $("#list");

// What stays at the edges of the list while it is scrolled covers no row that is gone to.
const bars = ["#controls", "#marks"].map((name) => $(name));
function clearBars() {
  const heights = bars.map((bar) => (bar && getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0));
  $("aside").style.scrollPadding = `${heights[0]}px 0 ${heights[1]}px`;
}
for (const bar of bars) if (bar) new ResizeObserver(clearBars).observe(bar);
clearBars();

// Skipping moves the focus and nothing else: the address says what is seen.
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

// List what has the words that are searched for and passes, in the order that is chosen, and say how many.
function listThose(all, passes, noun) {
  const words = $("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  state.listed = all.filter((one) => passes(one) && words.every((word) => one.words.includes(word)));
  state.listed.sort((a, b) => ORDERS[$("#sort").value](a, b) || a.listing - b.listing);
  list.replaceChildren(...state.listed.map((one) => one.row));
  const count = counted(all.length, noun);
  $("#count").textContent = state.listed.length === all.length ? count : `${whole(state.listed.length)} of ${count}`;
  $("#empty").hidden = state.listed.length > 0 || all.length === 0;
  paths = null;
  redraw("outlines");
}

function choose(one) {
  if (state.selected) $("button", state.selected.row).removeAttribute("aria-current");
  state.selected = one;
  redraw("outlines");
  if (!one) return;
  const button = $("button", one.row);
  button.ariaCurrent = "true";
  // Who goes through the list by keys stays in it.
  if (list.contains(document.activeElement)) button.focus({ preventScroll: true });
  if (one.row.isConnected) one.row.scrollIntoView({ block: "nearest" });
}

// The next or previous of the list; from nothing the first or last.
function step(by) {
  const { listed, selected } = state;
  if (!listed.length) return;
  const at = listed.indexOf(selected);
  select(listed[at < 0 ? (by > 0 ? 0 : listed.length - 1) : (at + by + listed.length) % listed.length]);
}
