// The ground of the map of an archive: land and borders of Natural Earth, and lines of longitude and latitude.
const world = JSON.parse(document.getElementById("world").textContent);

// A path on the map of lines in parts of a degree: the first corner, then the steps from corner to corner.
function pathOfLines(lines_, isClosed) {
  const path = new Path2D();
  for (const steps of lines_) {
    const corners = cornersOf(steps, world.steps);
    for (let i = 0; i < corners.length; i += 2) {
      path[i ? "lineTo" : "moveTo"]((corners[i] - report.west) * report.across, (report.north - corners[i + 1]) * report.along);
    }
    if (isClosed) path.closePath();
  }
  return path;
}

const land = pathOfLines(world.land, true);
const borders = pathOfLines(world.borders, false);

function drawWorld() {
  const style = getComputedStyle(document.body);
  const [fill, line] = ["--land", "--border"].map((name) => style.getPropertyValue(name));
  // The map may go on beyond 180 degrees.
  for (const turn of [-360, 0, 360]) {
    place(context);
    context.translate(turn * report.across, 0);
    Object.assign(context, { fillStyle: fill, strokeStyle: line, lineJoin: "round", lineWidth: 1 / view.zoom });
    context.fill(land, "evenodd");
    context.stroke(land);
    context.stroke(borders);
  }
}

// Draw lines of longitude and latitude; return their names, each with its lower left corner.
function drawDegrees() {
  const ratio = devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  Object.assign(context, { strokeStyle: getComputedStyle(document.body).getPropertyValue("--faint"), lineWidth: 0.5 });
  const [left, top, right, bottom] = seenBox();
  const across = { from: report.west + left / report.across, to: report.west + right / report.across };
  const along = { from: report.north - bottom / report.along, to: report.north - top / report.along };
  const step = stepOf((across.to - across.from) / 4);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  context.beginPath();
  const names = [];
  const [, low] = freeRows();
  for (let n = Math.ceil(across.from / step); n * step <= across.to; n += 1) {
    const [x] = toScreen((n * step - report.west) * report.across, 0);
    context.moveTo(x, 0);
    context.lineTo(x, height);
    const turned = ((((n * step + 180) % 360) + 360) % 360) - 180;
    const label = `${Math.abs(turned).toFixed(digits)}\u00b0 ${turned < 0 ? "W" : "E"}`;
    names.push([label, x + 4, low]);
  }
  for (let n = Math.ceil(along.from / step); n * step <= along.to; n += 1) {
    const [, y] = toScreen(0, (report.north - n * step) * report.along);
    context.moveTo(0, y);
    context.lineTo(width, y);
    if (y > low - 16 || Math.abs(n * step) > 90) continue;
    names.push([`${Math.abs(n * step).toFixed(digits)}\u00b0 ${n < 0 ? "S" : "N"}`, 6, y - 3]);
  }
  context.stroke();
  return names;
}

// Name the lines where there is room: not over labels, tools or each other, nor cut by an edge.
function drawNames(names) {
  const ratio = devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const fillStyle = getComputedStyle(document.body).getPropertyValue("--faint");
  Object.assign(context, { font: "12px system-ui, sans-serif", fillStyle, textAlign: "left", textBaseline: "bottom" });
  const taken = [...labelled, ...marked];
  for (const [name, x, y] of names) {
    const box = [x, y - 14, x + context.measureText(name).width, y];
    if (!inside(box, [0, 0, width, height]) || taken.some((other) => meets(other, box))) continue;
    context.fillText(name, x, y);
    taken.push(box);
  }
}
