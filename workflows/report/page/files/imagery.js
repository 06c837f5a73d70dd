// The pictures of both dates: the whole ground at several sizes, and sharper parts that are decoded when needed.
// They follow this script, so that the list can be used before they are loaded.
const DATES = ["before", "after"];
const MOST_LOADED = 96;
// A picture enlarged at most this many times is sharp enough.
const SHARP = 1.1;
const wholes = { before: [], after: [] };
// From the least to the most detail, with the reduction of each.
let parts = [];
let reductions = [];
let overview = [0, 0, report.width, report.height];
let clock = 0;

function picture(address) {
  const image = new Image();
  image.src = address;
  return image.decode().then(() => image);
}

// Halved repeatedly, so that a much reduced picture is drawn fast and without shimmer.
function halvings(image) {
  const sizes = [image];
  let [width, height] = [image.naturalWidth, image.naturalHeight];
  while (Math.max(width, height) > 768) {
    width = Math.max(1, width >> 1);
    height = Math.max(1, height >> 1);
    const smaller = element("canvas", { width, height });
    smaller.getContext("2d").drawImage(sizes.at(-1), 0, 0, width, height);
    sizes.push(smaller);
  }
  return sizes;
}

// Return the working pixels per picture pixel, a side, where no change is near.
async function loadImagery() {
  const imagery = JSON.parse(document.getElementById("imagery").textContent);
  parts = imagery.parts.map((part) => ({ ...part, bounds: boxOf(part.box), images: null, loading: false, used: 0 }));
  parts.sort((a, b) => b.reduced - a.reduced);
  reductions = [...new Set(parts.map((part) => part.reduced))];
  overview = imagery.whole.box;
  const images = await Promise.all(DATES.map((date) => picture(imagery.whole[date])));
  DATES.forEach((date, i) => (wholes[date] = halvings(images[i])));
  return imagery.reduced;
}

function loadPart(part, done) {
  if (part.images || part.loading) return;
  part.loading = true;
  // A missing picture is not requested again: the one below it is shown.
  Promise.all(DATES.map((date) => picture(part[date]))).then((images) => {
    part.images = images;
    part.loading = false;
    const loaded = parts.filter((one) => one.images);
    // Visible pictures are kept, or they would be loaded again at once.
    const spare = loaded.filter((one) => !meets(one.bounds, seenBox())).sort((a, b) => a.used - b.used);
    for (const one of spare.slice(0, Math.max(0, loaded.length - MOST_LOADED))) one.images = null;
    done();
  }, () => {});
}

const boxOf = ([x, y, width, height]) => [x, y, x + width, y + height];

// Draw one date; the context's transform takes page pixels to `scale` times as many device pixels. `seen` is
// the visible box in page pixels; `later` is called when a sharper picture is loaded.
function drawDate(context, date, seen, scale, later) {
  const [x, y, width, height] = overview;
  const sizes = wholes[date];
  if (!sizes.length) return;
  const full = sizes[0].naturalWidth / width;
  const level = clamp(Math.floor(Math.log2(full / scale)), 0, sizes.length - 1);
  context.imageSmoothingEnabled = scale < 6;
  context.imageSmoothingQuality = "medium";
  context.drawImage(sizes[level], x, y, width, height);
  if (scale <= full * SHARP) return;
  clock += 1;
  // As much detail as is visible; less of it until that is loaded.
  const enough = reductions.find((reduced) => reduced * scale <= SHARP) ?? reductions.at(-1);
  for (const part of parts) {
    if (part.reduced < enough || !meets(part.bounds, seen)) continue;
    part.used = clock;
    if (part.images) context.drawImage(part.images[DATES.indexOf(date)], ...part.box);
    else if (part.reduced === enough) loadPart(part, later);
  }
}

// Draw a change and its surroundings into a small canvas; of a large one the middle of its largest part, because all
// of it would be too small to see.
function drawChip(canvas, date, change, later) {
  const [west, north, east, south] = change.box;
  const whole = Math.max(east - west, south - north, 24) * 1.35;
  const side = Math.min(whole, 2 * canvas.width);
  const [x, y] = side < whole ? change.at : [(west + east) / 2, (north + south) / 2];
  const [left, top] = [x - side / 2, y - side / 2];
  drawSquare(canvas, [left, top], side, change, (context, scale) => {
    drawDate(context, date, [left, top, left + side, top + side], scale, later);
  });
}
