// Verdicts: kept in the browser under the report they belong to, and given out as a file.
const KEPT = `rscc ${report.report}`;
// What the report says already of reviewed changes is shown, and not given out again.
const marks = new Map();
// A mark that was set beside another verdict of the report than this page shows: it was merged since, or somebody
// said more. It is kept for the page that it was set on.
let elsewhere = [];
const saidOf = (change) => change?.review_status ?? null;
const byId = new Map(changes.map((change) => [change.id, change]));
// Words that were typed, also of a verdict that was taken back; and marks whose reviewer is not renamed.
const typed = new Map();
const signed = new Set();
const markOf = (change) => marks.get(change.id) ?? (VERDICTS.includes(change.review_status)
  ? { verdict: change.review_status, note: change.reviewer_note ?? "", caption: change.reviewer_caption ?? "" }
  : undefined);
let reviewer = "";
let lasting = true;

function loadMarks() {
  marks.clear();
  elsewhere = [];
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    reviewer = typeof kept.reviewer === "string" ? kept.reviewer : "";
    for (const mark of kept.marks ?? []) {
      if (!VERDICTS.includes(mark.verdict)) continue;
      if ((mark.seen ?? null) !== saidOf(byId.get(mark.id))) elsewhere.push(mark);
      else {
        marks.set(mark.id, mark);
        if (mark.reviewer) signed.add(mark.id);
      }
    }
  } catch {
    lasting = false;
  }
  $("#reviewer").value = reviewer;
}

function marksContent(listed) {
  listed.sort((a, b) => a.id - b.id);
  return { report: report.report, name: report.name, reviewer, marks: listed };
}

function keepMarks() {
  try {
    localStorage.setItem(KEPT, JSON.stringify(marksContent([...elsewhere, ...marks.values()])));
  } catch {
    lasting = false;
  }
  showMarks();
}

// Set a verdict, or take it back where it is given again; `words` change a mark that is there.
function mark(change, verdict) {
  if (marks.get(change.id)?.verdict === verdict) {
    marks.delete(change.id);
    const said = markOf(change);
    say(`Change ${change.id}: ${said ? `as the report has it, ${said.verdict}` : "verdict taken back"}`);
  } else {
    const { note, caption } = { note: "", caption: "", ...markOf(change), ...typed.get(change.id) };
    const own = { verdict, reviewer, time: new Date().toISOString(), seen: saidOf(change) };
    marks.set(change.id, { id: change.id, note, caption: verdict === "wrong words" ? caption : "", ...own });
    signed.delete(change.id);
    say(`Change ${change.id}: ${verdict}`);
  }
  keepMarks();
  showVerdict(change);
}

function amend(change, words) {
  const is = marks.get(change.id);
  if (!is) return;
  typed.set(change.id, { ...typed.get(change.id), ...words });
  marks.set(change.id, { ...is, ...words, reviewer, time: new Date().toISOString() });
  signed.delete(change.id);
  keepMarks();
}

function showMarks() {
  const button = $("#download");
  button.disabled = marks.size === 0;
  button.textContent = marks.size ? `Download ${counted(marks.size, "mark")}` : "Download marks";
  button.title = lasting
    ? "Your browser keeps them, too, for this report"
    : "Your browser does not keep them: download them before you close the page";
  $("#marks").classList.toggle("fleeting", !lasting && marks.size > 0);
}

function downloadMarks() {
  const given = [...marks.values()].map(({ seen, ...one }) => one);
  const text = `${JSON.stringify(marksContent(given), null, 1)}\n`;
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const name = `${report.name.replace(/\.[^.]*$/, "").replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 80) || "report"}_marks.json`;
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

$("#download").addEventListener("click", downloadMarks);
loadMarks();
$("#reviewer").addEventListener("input", (event) => {
  reviewer = event.target.value.trim();
  for (const [id, one] of marks) if (!signed.has(id)) marks.set(id, { ...one, reviewer });
  keepMarks();
});
// Another tab has marked the same report.
addEventListener("storage", (event) => {
  if (event.key !== KEPT) return;
  loadMarks();
  showMarks();
  changes.forEach(showVerdict);
});
