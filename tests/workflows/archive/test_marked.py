"""Reports of an archive that people have marked or edited, when their pairs are to be done anew or not."""

import csv
import json
import threading
from contextlib import suppress
from pathlib import Path

import geopandas
import pyarrow.parquet as pq
import pytest
from archive_fakes import fake_card
from archive_pairs import InlineEngine, begun, contents, mark, row_of, run, states
from shapely.geometry import box, mapping

from tiling import geodesic_area_m2
from workflows import SceneOptions
from workflows.archive.archive import ArchiveOptions
from workflows.archive.estimate import estimate_archive
from workflows.archive.overview import archive_overview
from workflows.archive.reports import is_marked
from workflows.archive.verify import Verifier
from workflows.errors import OutputExists, OutputNotWritable
from workflows.pairs.table import read_pairs
from workflows.report.geojson import json_lines
from workflows.report.locking import locked

OTHER = SceneOptions(min_area=25.0)


def marked_pair(made, out) -> tuple[str, Path, bytes]:
    """Mark a change of the archive; returns the pair, its report and the new bytes of that."""
    reports = {pair: out / "pairs" / pair / "changes.geojson" for pair in made.sound}
    pair = next(pair for pair, one in reports.items() if json.loads(one.read_text())["features"])
    return pair, reports[pair], mark(reports[pair])


def shared_record(out) -> dict:
    return json.loads(pq.read_metadata(out / "changes.parquet").metadata[b"rscc"])


@pytest.mark.slow
def test_marks_are_not_lost_to_other_options_unless_asked_for(made, out, old):
    pair, report, marked = marked_pair(made, out)
    engine, lines = InlineEngine(), []
    found = run(made, out, engine, scene=OTHER, notice=lines.append)
    assert set(begun(engine)) == set(made.pairs) - {pair}
    assert (found.kept, found.done, found.failed, found.skipped_as_done) == ((pair,), 7, 2, 1)
    assert "--overwrite" in lines[0]
    assert report.read_bytes() == marked and b"Zoe" in (out / "changes.parquet").read_bytes()
    # The layers say of all only what is true of all.
    assert shared_record(out).keys() == {"model", "versions"}
    (verified,) = Verifier().verify(out / "changes.gpkg")
    assert {one.subject for one in verified.findings if one.state == "unchecked"} >= {"settings"}
    # So it stays until somebody decides; with the options of before the pair is as it should be.
    assert run(made, out, scene=OTHER).kept == (pair,)
    again = run(made, out, InlineEngine())
    assert again.kept == () and report.read_bytes() == marked
    assert shared_record(out).keys() >= {"settings", "settings_sha256"}
    assert run(made, out, InlineEngine(), scene=OTHER, overwrite=True).kept == ()
    assert "Zoe" not in report.read_text()


@pytest.mark.slow
def test_a_report_into_which_a_person_drew_a_change_stays_and_is_counted_anew(made, out, old):
    pair = next(pair for pair in made.sound if states(out)[pair] == "done")
    report = out / "pairs" / pair / "changes.geojson"
    content = json.loads(report.read_text())
    outline = box(15, 50.54, 15.001, 50.541)
    drawn = {"type": "Feature", "properties": {"id": None}, "geometry": mapping(outline)}
    report.unlink()  # a new file, as GIS make it
    report.write_text(json.dumps({**content, "features": [*content["features"], drawn]}))
    assert run(made, out, InlineEngine(), scene=OTHER).kept == (pair,)
    row = row_of(out, pair)
    assert row.changes == len(content["features"]) + 1
    assert row.area_m2 >= geodesic_area_m2(outline) - 0.01
    assert b"drawn by hand" in (out / "changes.parquet").read_bytes()


@pytest.mark.slow
def test_what_a_gis_saved_stays_without_any_mark(made, out, old):
    _, report, _ = marked_pair(made, out)
    # A new file, as GIS make it, with a corrected sentence.
    content = json.loads(report.read_text())
    for feature in content["features"]:
        feature["properties"] |= {"caption": "a school is built", "review_status": None, "reviewer": None}
    report.unlink()
    report.write_text(json.dumps(content, indent=1))
    assert run(made, out, InlineEngine(), scene=OTHER).kept == (report.parent.name,)
    assert b"a school is built" in (out / "changes.parquet").read_bytes()
    report.write_text("".join(json_lines(content, content.pop("features"))))
    assert run(made, out, InlineEngine(), scene=OTHER).kept == ()
    assert "a school" not in report.read_text()


def test_a_new_scene_leaves_the_pair_with_marks_and_tells_of_the_scene_it_was_made_of(made, out, old):
    pair, report, marked = marked_pair(made, out)
    scene = str(made.after(pair))
    other = made.after(pair).rename(made.after(pair).with_suffix(".other.tif"))
    made.table.write_text(made.table.read_text().replace(Path(scene).name, other.name))
    assert run(made, out).kept == (pair,)
    assert report.read_bytes() == marked
    assert row_of(out, pair).after == scene


@pytest.mark.slow
@pytest.mark.parametrize("end", ["done", "failed"])
def test_marks_made_while_a_run_is_at_work_stay(made, out, old, end):
    reports = {pair: out / "pairs" / pair / "changes.geojson" for pair in made.sound}
    pair = next(pair for pair, one in reports.items() if json.loads(one.read_text())["features"])

    class Reviewed(InlineEngine):
        def submit(self, task):
            if task.pair == pair:
                mark(reports[pair])
            super().submit(task)

    if end == "failed":
        made.after(pair).write_text("nothing")
    found = run(made, out, Reviewed(), scene=OTHER)
    assert (found.kept, found.done, found.failed) == ((pair,), 7, 2)
    assert "Zoe" in reports[pair].read_text() and b"Zoe" in (out / "changes.parquet").read_bytes()
    assert run(made, out, scene=OTHER).kept == (pair,)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["done", "failed"])
def test_nobody_reviews_a_report_between_the_check_for_marks_and_its_replacement(
    made, out, old, end, monkeypatch
):
    pair = made.sound[0]
    report, reviews, seen = out / "pairs" / pair / "changes.geojson", [], []

    def review():
        with suppress(OutputNotWritable), locked(report):
            seen.append(report.read_bytes())

    def checked(path):
        found = is_marked(path)
        if path == report and not reviews:
            reviews.append(threading.Thread(target=review))
            reviews[0].start()
            reviews[0].join(0.3)
        return found

    class AfterPlan(InlineEngine):
        def submit(self, task):
            monkeypatch.setattr("workflows.archive.archive.is_marked", checked)
            super().submit(task)

    if end == "failed":
        made.after(pair).write_text("nothing")
    run(made, out, AfterPlan(), scene=OTHER)
    reviews[0].join()
    assert seen == ([report.read_bytes()] if end == "done" else [])


@pytest.mark.parametrize(("overwrite", "pending"), [(False, 8), (True, 9)])
def test_a_dry_run_tells_which_reports_will_be_left(made, out, old, overwrite, pending):
    pair, _, _ = marked_pair(made, out)
    before = contents(out) | {"ledger": states(out)}
    rows = read_pairs(made.table)
    options = ArchiveOptions(overwrite=overwrite)
    expected = estimate_archive(rows, out, fake_card("fake"), OTHER, options, workers=1)
    assert expected.planned.kept == (() if overwrite else (pair,))
    assert expected.planned.pending == pending
    assert contents(out) | {"ledger": states(out)} == before


def test_marks_are_not_lost_though_a_report_was_damaged_beside_them(made, out, old):
    pair, report, marked = marked_pair(made, out)
    content = json.loads(marked)
    content["features"][0]["properties"]["score"] = "high"
    report.write_text(json.dumps(content)[:-2] + "\n]\n}\n")
    for _ in range(2):
        with pytest.raises(OutputExists, match=pair):
            run(made, out)
        assert "Zoe" in report.read_text()
    for slip in (marked.replace(b"{", b"{,", 1), marked[:-4]):
        report.write_bytes(slip)
        with pytest.raises(OutputExists, match=pair):
            run(made, out)
        assert report.read_bytes() == slip
    report.write_bytes(marked)
    assert run(made, out).kept == ()
    report.write_text(json.dumps(content)[:-2] + "\n]\n}\n")
    run(made, out, InlineEngine(), overwrite=True)
    report.with_name("changes.damaged.geojson").unlink()
    assert contents(out) == old


def test_a_change_that_somebody_took_out_of_a_report_is_counted_no_more(made, out, old):
    pair, report, _ = marked_pair(made, out)
    before = run(made, out)
    content = json.loads(report.read_text())
    taken = content["features"].pop(0)
    report.write_text(json.dumps(content))
    archive_overview(out, out.parent / "archive.html")
    found = run(made, out)
    assert found.changes == before.changes - 1
    assert found.area_m2 == pytest.approx(before.area_m2 - taken["properties"]["area_m2"], abs=0.1)
    assert len(geopandas.read_parquet(out / "changes.parquet")) == found.changes
    with (out / "summary.csv").open() as file:
        assert sum(int(row["changes"] or 0) for row in csv.DictReader(file)) == found.changes
    item = json.loads((out / "pairs" / pair / "item.json").read_text())
    assert item["properties"]["rscc:changes"] == len(content["features"])
    archive_overview(out, out.parent / "archive.html")
    times = {path: path.stat().st_mtime_ns for path in out.glob("c*")}
    run(made, out)
    assert {path: path.stat().st_mtime_ns for path in out.glob("c*")} == times
