// Verdicts: kept in the browser under the report they belong to, and given out as a file.
const KEPT = `rscc ${report.report}`;
// What the report says already of reviewed changes is shown, and not given out again.
const marks = new Map();
const markOf = (change) => marks.get(change.id) ?? (VERDICTS.includes(change.review_status)
  ? { verdict: change.review_status, note: change.reviewer_note ?? "", caption: change.reviewer_caption ?? "" }
  : undefined);
let reviewer = "";
let lasting = true;

function loadMarks() {
  marks.clear();
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    reviewer = typeof kept.reviewer === "string" ? kept.reviewer : "";
    for (const mark of kept.marks ?? []) if (VERDICTS.includes(mark.verdict)) marks.set(mark.id, mark);
  } catch {
    lasting = false;
  }
  $("#reviewer").value = reviewer;
}

function marksContent() {
  const listed = [...marks.values()].sort((a, b) => a.id - b.id);
  return { report: report.report, name: report.name, reviewer, marks: listed };
}

function keepMarks() {
  try {
    localStorage.setItem(KEPT, JSON.stringify(marksContent()));
  } catch {
    lasting = false;
  }
  showMarks();
}

// Set a verdict, or take it back where it is given again; `words` change a mark that is there.
function mark(change, verdict) {
  if (marks.get(change.id)?.verdict === verdict) {
    marks.delete(change.id);
    say(`Change ${change.id}: verdict taken back`);
  } else {
    const fresh = { id: change.id, note: "", caption: "", ...markOf(change), verdict, reviewer, time: new Date().toISOString() };
    if (verdict !== "wrong words") fresh.caption = "";
    marks.set(change.id, fresh);
    say(`Change ${change.id}: ${verdict}`);
  }
  keepMarks();
  showVerdict(change);
}

function amend(change, words) {
  const is = marks.get(change.id);
  if (!is) return;
  marks.set(change.id, { ...is, ...words, reviewer, time: new Date().toISOString() });
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
  const text = `${JSON.stringify(marksContent(), null, 1)}\n`;
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const name = `${report.name.replace(/\.[^.]*$/, "").replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 80) || "report"}_marks.json`;
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

$("#download").addEventListener("click", downloadMarks);
loadMarks();
$("#reviewer").addEventListener("input", (event) => {
  reviewer = event.target.value.trim();
  for (const [id, one] of marks) marks.set(id, { ...one, reviewer });
  keepMarks();
});
// Another tab has marked the same report.
addEventListener("storage", (event) => {
  if (event.key !== KEPT) return;
  loadMarks();
  showMarks();
  changes.forEach(showVerdict);
});
