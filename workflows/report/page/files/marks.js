// Verdicts: stored in the browser under the run of the report, and downloaded as a file.
const KEPT = `rscc ${report.report}`;
// Verdicts that the report already has are shown, but not downloaded again.
const marks = new Map();
// Marks that were set when the report had another verdict than now: they were merged since, or somebody else gave
// one. They stay stored for the page that they were set on.
let elsewhere = [];
const verdictOf = (change) => change?.review_status ?? null;
const byId = new Map(changes.map((change) => [change.id, change]));
// Typed texts, also of verdicts that were taken back; and marks whose reviewer is not renamed.
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
      if ((mark.seen ?? null) !== verdictOf(byId.get(mark.id))) elsewhere.push(mark);
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

// Set a verdict, or take it back where it is given again.
function mark(change, verdict) {
  if (marks.get(change.id)?.verdict === verdict) {
    marks.delete(change.id);
    const old = markOf(change);
    say(`Change ${change.id}: ${old ? `as in the report, ${old.verdict}` : "verdict taken back"}`);
  } else {
    const { note, caption } = { note: "", caption: "", ...markOf(change), ...typed.get(change.id) };
    const own = { verdict, reviewer, time: new Date().toISOString(), seen: verdictOf(change) };
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
// Another tab marked the same report.
addEventListener("storage", (event) => {
  if (event.key !== KEPT) return;
  loadMarks();
  showMarks();
  changes.forEach(showVerdict);
});
