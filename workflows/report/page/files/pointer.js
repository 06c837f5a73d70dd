// The map by mouse, finger and wheel.
// The change under a point of the screen: the smallest that contains it, else the nearest within some pixels.
function changeAt(x, y) {
  const [pageX, pageY] = toPage(x, y);
  const reach = 9 / view.zoom;
  let [best, least] = [null, Infinity];
  for (const change of state.listed) {
    const [west, north, east, south] = change.box;
    const away = Math.max(west - pageX, pageX - east, north - pageY, pageY - south, 0);
    if (away > reach) continue;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.lineWidth = 2 * reach;
    const path = pathOf(change);
    const inside = context.isPointInPath(path, pageX, pageY, "evenodd");
    if (!inside && !context.isPointInStroke(path, pageX, pageY)) continue;
    const rank = change.area_m2 + (inside ? 0 : 1e12);
    if (rank < least) [best, least] = [change, rank];
  }
  return best;
}

const pointers = new Map();
let moved = 0;

function onMap(event) {
  const frame = canvas.getBoundingClientRect();
  return [event.clientX - frame.left, event.clientY - frame.top];
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  cancelAnimationFrame(flight);
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, onMap(event));
  moved = pointers.size > 1 ? Infinity : 0;
});

canvas.addEventListener("pointermove", (event) => {
  const now = onMap(event);
  const before = pointers.get(event.pointerId);
  if (!before) return hover(changeAt(...now), now);
  const others = [...pointers].filter(([id]) => id !== event.pointerId);
  pointers.set(event.pointerId, now);
  moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
  if (!others.length) {
    if (moved > 4) look(view.x - (now[0] - before[0]) / view.zoom, view.y - (now[1] - before[1]) / view.zoom, view.zoom);
    return;
  }
  const [, still] = others[0];
  const apart = (one) => Math.hypot(one[0] - still[0], one[1] - still[1]);
  const [x, y] = [(now[0] + still[0]) / 2, (now[1] + still[1]) / 2];
  zoomAt(x, y, apart(now) / Math.max(apart(before), 1));
  look(view.x - (now[0] - before[0]) / 2 / view.zoom, view.y - (now[1] - before[1]) / 2 / view.zoom, view.zoom);
});

for (const end of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(end, (event) => {
    const at = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    if (end === "pointerup" && at && moved <= 4) {
      const change = changeAt(...at);
      if (change) select(change);
    }
  });
}

function hover(change, at) {
  const tip = $("#tip");
  canvas.classList.toggle("over", Boolean(change));
  tip.hidden = !change;
  if (change) {
    tip.textContent = tipOf(change);
    tip.style.transform = `translate(${clamp(at[0] + 14, 4, width - 250)}px, ${clamp(at[1] + 18, 4, height - tip.offsetHeight - 4)}px)`;
  }
  if (change !== state.hovered) {
    state.hovered = change;
    compose();
  }
}

canvas.addEventListener("pointerleave", () => hover(null));
canvas.addEventListener("dblclick", (event) => zoomAt(...onMap(event), 2));
map.addEventListener("wheel", (event) => {
  if (!event.target.matches("#ground, #divider")) return;
  event.preventDefault();
  const pixels = event.deltaY * (event.deltaMode === 1 ? 30 : 1);
  zoomAt(...onMap(event), Math.exp(-pixels / 400));
}, { passive: false });
