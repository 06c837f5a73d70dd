"""Marks of reviewers: read with suspicion, merged into the report, and nothing else of it changed."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from archive_rows import change, report

from workflows.errors import MarksInvalid
from workflows.report import locking
from workflows.report import review as review_module
from workflows.report.reading import open_report
from workflows.report.record import run_id
from workflows.report.review import Conflict, merge_marks, read_marks, review_report
from workflows.report.summary import summary_of

TIME = "2026-01-02T03:04:05.678Z"


@pytest.fixture
def made():
    return report(change(1), change(2), change(3))


@pytest.fixture
def write(tmp_path, made):
    def write_marks(*marks, **content):
        path = tmp_path / "marks.json"
        path.write_text(json.dumps({"report": run_id(made.run), "marks": marks, **content}))
        return path

    return write_marks


def mark(number=1, verdict="confirmed", **values):
    return {"id": number, "verdict": verdict, "time": TIME, **values}


def test_marks_become_attributes_and_the_rest_stays(made, write):
    marks = read_marks(
        write(mark(2, "wrong words", caption="a pond", note="see 1", reviewer="Zoë"), mark(3)), made
    )
    first, second, third = merge_marks(made, marks).report.changes
    assert first == made.changes[0]
    told = second.properties()
    assert (told["review_status"], told["reviewer"]) == ("wrong words", "Zoë")
    assert (told["reviewer_caption"], told["reviewer_note"]) == ("a pond", "see 1")
    assert (second.caption, second.score) == (made.changes[1].caption, made.changes[1].score)
    assert (third.review_status, third.reviewer, third.reviewer_note) == ("confirmed", None, None)
    assert second.reviewed_at == third.reviewed_at == TIME


EARLY, LATE = "2026-01-02T04:00:00+02:00", "2026-01-02T03:30:00.000Z"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_newest_verdict_is_valid_in_whatever_order_marks_are_merged(made, write, order, at_once):
    given = [
        mark(1, "wrong words", time=EARLY, caption="a pond", reviewer="Ada"),
        mark(1, "confirmed", time=LATE, note="seen there", reviewer="Zoë"),
    ]
    marks = [one for place in order for one in read_marks(write(given[place]), made)]
    merged, conflicts = made, ()
    for some in [marks] if at_once else [[one] for one in marks]:
        review = merge_marks(merged, some)
        merged, conflicts = review.report, conflicts + review.conflicts
    change = merged.changes[0]
    assert (change.review_status, change.reviewer_note, change.reviewed_at) == (
        "confirmed",
        "seen there",
        LATE,
    )
    assert change.reviewer_caption is None
    assert conflicts == (Conflict(1, "confirmed", "Zoë", "wrong words", "Ada"),)


@pytest.mark.parametrize(
    ("names", "disagree"), [(("Ada", "Ada"), False), (("", ""), True), (("Ada", ""), True)]
)
def test_only_a_person_who_is_named_may_change_their_mind(made, write, names, disagree):
    given = [
        mark(1, verdict, time=time, reviewer=name)
        for verdict, time, name in zip(("wrong words", "confirmed"), (EARLY, LATE), names, strict=True)
    ]
    assert bool(merge_marks(made, read_marks(write(*given), made)).conflicts) == disagree


def test_of_two_verdicts_of_one_time_that_in_the_report_stays(made, write):
    first = merge_marks(made, read_marks(write(mark(1, "confirmed", reviewer="Ada")), made))
    other = read_marks(write(mark(1, "wrong place", reviewer="Zoë")), made)
    again = merge_marks(first.report, other)
    assert again.report.changes == first.report.changes
    assert again.conflicts == (Conflict(1, "confirmed", "Ada", "wrong place", "Zoë"),)


@pytest.mark.parametrize("system", ["this", "Windows"])
@pytest.mark.slow
def test_reviews_at_the_same_time_lose_no_mark(tmp_path, monkeypatch, system):
    if system == "Windows":
        monkeypatch.setattr(review_module, "locked", locking._locked_beside)
    many = report(*(change(number) for number in range(1, 25)))
    path = many.write(tmp_path / "changes.geojson")
    files = []
    for number in range(1, 25):
        files.append(tmp_path / f"marks_{number}.json")
        files[-1].write_text(json.dumps({"report": run_id(many.run), "marks": [mark(number)]}))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda file: review_report(path, [file]), files))
    assert all(one.review_status == "confirmed" for one in open_report(path).changes)
    assert {one.name for one in tmp_path.iterdir()} - {f".{path.name}.lock"} == {
        path.name,
        "changes.qml",
        *(one.name for one in files),
    }


@pytest.mark.skipif(sys.platform == "win32", reason="the lock is a file of its own there")
def test_a_report_that_was_replaced_while_its_lock_was_taken_is_locked_as_it_is_now(tmp_path, monkeypatch):
    import fcntl

    path, newer, lock, replaced = tmp_path / "r.geojson", tmp_path / "newer", fcntl.flock, []
    path.write_text("old")
    newer.write_text("new")

    def slow(file, how):
        if not replaced:
            replaced.append(newer.replace(path))
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    with locking.locked(path), path.open() as file, pytest.raises(BlockingIOError):
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 9}, {"id": "1"}, {"id": True}, {"verdict": "yes"}, {"verdict": None},
        {"verdict": ["confirmed"]},
        {"time": "noon"}, {"time": 5}, {"time": "2026-01-02"}, {"note": 1}, {"note": "x" * 20_001},
    ],
)  # fmt: skip
def test_a_damaged_mark_is_refused_with_its_number(made, write, wrong):
    with pytest.raises(MarksInvalid, match="mark 2"):
        read_marks(write(mark(1), mark(2) | wrong), made)


def test_files_that_are_no_marks_of_the_report_are_refused(made, write, tmp_path):
    other = tmp_path / "other.json"
    for text in ("[]", "{", "[" * 100_000, "\xff", "{}", json.dumps({"report": "0" * 64, "marks": []})):
        other.write_text(text, encoding="latin-1")
        with pytest.raises(MarksInvalid, match="other"):
            read_marks(other, made)
    with pytest.raises(MarksInvalid, match="missing"):
        read_marks(tmp_path / "missing.json", made)


def test_the_command_marks_the_report_in_its_place(rscc_command, made, write, tmp_path):
    path = tmp_path / "report.geojson"
    full = report(
        change(1), change(2), change(3), inputs={"before": {"path": "b.tif"}, "after": {"path": "a.tif"}}
    )
    full.write(path)
    (tmp_path / "report.qml").write_text("my style")
    marks = write(mark(2, "wrong place", note="a cloud"), report=run_id(full.run))
    code, out, err = rscc_command("review", path, marks)
    assert (code, err) == (0, "")
    assert out == f"{path}: 0 confirmed, 1 wrong place, 0 wrong words, 2 without a verdict\n"
    assert [one.review_status for one in open_report(path).changes] == [None, "wrong place", None]
    assert (tmp_path / "report.qml").read_text() == "my style"
    marked = path.read_bytes()
    assert rscc_command("review", path, marks)[0] == 0 and path.read_bytes() == marked, (
        "again changes nothing"
    )
    assert rscc_command("review", path, marks, "-o", tmp_path / "out.gpkg")[0] == 0
    layer = (tmp_path / "out.gpkg").read_bytes()
    code, _, err = rscc_command("review", tmp_path / "out.gpkg", marks)
    assert code == 2 and "out.gpkg" in err
    assert rscc_command("review", tmp_path / "out.gpkg", marks, "-o", tmp_path / "again.geojson")[0] == 0
    assert (tmp_path / "again.geojson").read_bytes() == path.read_bytes()
    assert (tmp_path / "out.gpkg").read_bytes() == layer
    for name in ("out.fgb", "out.parquet"):  # one style lies beside both
        assert rscc_command("review", path, marks, "-o", tmp_path / name)[0] == 0
    marks.write_text("{}")
    code, _, err = rscc_command("review", path, marks)
    assert code == 2 and err.startswith("rscc: error: ")
    assert path.read_bytes() == marked


def test_marks_of_changes_that_were_deleted_are_told(made, write, tmp_path, rscc_command):
    run = {**made.run, "summary": summary_of(made.changes).as_dict()}
    source = replace(made, changes=made.changes[1:], run=run).write(tmp_path / "changes.geojson")
    marks = write(mark(1, "wrong place"), mark(2, "confirmed"), report=run_id(run))
    code, out, err = rscc_command("review", source, marks, "-o", tmp_path / "out.geojson")
    assert (code, err) == (0, "")
    assert "1 confirmed" in out and out.endswith("; 1 marked change is no longer in it\n")
    summary = json.loads((tmp_path / "out.geojson").read_text())["rscc"]["summary"]
    assert summary == summary_of(made.changes[1:]).as_dict() and summary["changes"] == 2


def test_what_others_wrote_into_a_report_stays_in_it(made, write, tmp_path):
    source = made.write(tmp_path / "changes.geojson")
    content = json.loads(source.read_text())
    content["name"] = "spring"
    content["features"][1]["properties"]["priority"] = 5
    source.write_text(json.dumps(content))
    review_report(source, [write(mark(2, "wrong place"))])
    assert [one.review_status for one in open_report(source).changes] == [None, "wrong place", None]
    content["features"][1]["properties"] |= {"review_status": "wrong place", "reviewed_at": TIME}
    assert json.loads(source.read_text()) == content
    assert len(source.read_text().splitlines()) == 5, "a feature a line"
