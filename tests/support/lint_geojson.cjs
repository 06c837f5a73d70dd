// Hand GeoJSON files to two linters of npm and print what they find, as JSON: { file: [finding, ...] }.
const fs = require("fs");
const { createRequire } = require("module");

const [folder, ...files] = process.argv.slice(2);
const installed = createRequire(`${folder}/`);
const { check } = installed("@placemarkio/check-geojson");
const { hint } = installed("geojsonhint");

function findings(text) {
  const found = hint(text).map((one) => one.message);
  try {
    check(text);
  } catch (error) {
    found.push(error.message);
  }
  return found;
}

const entries = files.map((file) => [file, findings(fs.readFileSync(file, "utf8"))]);
console.log(JSON.stringify(Object.fromEntries(entries)));
