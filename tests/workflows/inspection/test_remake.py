"""Changes made anew from the change probability that a run kept: those that another run would have found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from captioned import captioned, kept
from report_schema import faults
from scene_pairs import make_pair

from tiling import NothingValid, SceneDamaged
from workflows.errors import OptionInvalid, ReportInvalid
from workflows.inspection.event import read_report
from workflows.inspection.remake import remade

# Row, column, height, width, brightness after; probabilities of about 1, 0.6, 1 and 0.9.
SPOTS = [(30, 30, 20, 20, 250), (30, 60, 20, 20, 160), (100, 30, 20, 20, 240), (110, 150, 8, 30, 190)]
WORDS = {
    "caption", "alternatives", "score", "direction", "came", "gone", "before_cover", "changed_m2",
    "changed_back_m2", "changed_at_least", "caption_confident",
}  # fmt: skip


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, SPOTS)


@pytest.fixture(scope="module")
def ungrouped(tmp_path_factory):
    """The report on four changes, and its file."""
    folder = tmp_path_factory.mktemp("ungrouped")
    return kept(make_pair(folder, SPOTS), folder, group_distance=0)


def found(report):
    """What the outlines of changes tell, rounded as in a report."""
    return [
        (one["geometry"], {name: value for name, value in one["properties"].items() if name not in WORDS})
        for one in report.to_geojson()["features"]
    ]


@pytest.mark.parametrize(
    ("first", "then", "same"),
    [
        ({"group_distance": 0}, {"threshold": 0.72}, 3),
        ({"group_distance": 0, "threshold": 0.72}, {"threshold": 0.3}, 3),
        ({"group_distance": 0}, {"min_area": 70.0}, 3),
        ({}, {"group_distance": 5.1}, 1),
        ({"group_distance": 5.1}, {"group_distance": 0}, 2),
        ({"group_distance": 0, "regularize": True}, {"threshold": 0.72, "min_area": 50.0}, 3),
        (
            {"group_distance": 0, "min_area": 70.0},
            {"min_area": 0, "threshold": 0.9, "group_distance": 100},
            0,
        ),
    ],
)
def test_the_changes_are_those_of_a_run_with_these_settings(pair, tmp_path, first, then, same):
    report, source = kept(pair, tmp_path, **first)
    pair.before.unlink()
    made = remade(report, source, then)
    make_pair(tmp_path, SPOTS)
    wanted = captioned(pair, **first | then)
    assert len(found(wanted)) > 0
    assert found(made) == found(wanted)
    assert made.run["settings"] == wanted.run["settings"]
    assert made.run["settings_sha256"] == wanted.run["settings_sha256"]
    assert made.run["summary"]["changes"] == len(made.changes)
    assert made.run["remade"]["kept_words"] == same
    assert faults(made.to_geojson()) == []


def test_words_stay_with_their_outlines_and_nowhere_else(ungrouped):
    report, source = ungrouped
    told = [
        replace(change, direction="appeared", came=("road",), review_status="confirmed", reviewer=f"me {n}")
        for n, change in enumerate(report.changes)
    ]
    report = replace(report, changes=told)
    made = remade(report, source, {"threshold": 0.72, "min_area": None})
    was = {change.geometry.wkb: change for change in report.changes}
    kept_words = [change for change in made.changes if change.reviewer]
    assert len(kept_words) == len(made.changes) == 3 < len(report.changes)
    for change in kept_words:
        assert change == replace(was[change.geometry.wkb], id=change.id)
    assert made.run["warnings"] == [
        "1 reviewed change is not there as before; what reviewers said of such is left out"
    ]
    lower = remade(report, source, {"threshold": 0.05})
    other = [change for change in lower.changes if change.geometry.wkb not in was]
    assert all(change.caption == "something changed" and not change.caption_confident for change in other)
    assert all((change.score, change.came, change.reviewer) == (0.0, (), None) for change in other)
    grouped = remade(report, source, {"group_distance": 100.0})
    (change,) = grouped.changes
    assert (change.caption, change.count, change.model) == ("something changed", 4, "brightness")
    assert (change.before, change.date_before) == ("before.tif", report.changes[0].date_before)
    line = "1 of 1 changes have other outlines than before and say only that something changed"
    assert grouped.run["warnings"][0].startswith(line)


def test_what_a_person_drew_stays_as_it_is(ungrouped):
    report, source = ungrouped
    said = {"model": "drawn by hand", "caption": "a shed", "review_status": "confirmed"}
    drawn = replace(report.changes[0], id=9, **said)
    with_drawn = replace(report, changes=[*report.changes, drawn])
    anew = {"threshold": 0.72, "min_area": 150.0}
    made = remade(with_drawn, source, anew)
    assert drawn.area_m2 < 150 and made.changes
    assert len(made.changes) == len(remade(report, source, anew).changes) + 1
    (same,) = (change for change in made.changes if change.model == "drawn by hand")
    assert replace(same, id=9) == drawn and made.run["warnings"] == []


def test_changes_made_anew_can_be_made_anew(ungrouped, tmp_path):
    report, source = ungrouped
    once = remade(report, source, {"threshold": 0.72, "group_distance": 100})
    path = once.write(tmp_path / "once.geojson")
    again = remade(read_report(path), path, {"threshold": report.run["settings"]["threshold"]})
    assert len(again.changes) == 1 and len(again.run["warnings"]) == 1
    back = remade(again, path, {"group_distance": 0})
    assert found(back) == found(report)


def test_a_box_and_what_leaves_it(tmp_path):
    """The search goes on beyond the box; what was kept ends where the search began."""
    pair = make_pair(tmp_path, [(40, 20, 10, 700, 240), (100, 30, 20, 20, 240)], size=(150, 900))
    west = (14.9995, 50.5405, 15.0005, 50.5520)
    report, source = kept(pair, tmp_path, group_distance=0, bounds=west)
    made = remade(report, source, {"min_area": 30.0})
    assert any("is cut off; give a larger --bbox" in line for line in made.run["warnings"])
    assert len(made.changes) == len(report.changes)


def test_the_raster_must_be_of_the_run(pair, tmp_path):
    report, source = kept(pair, tmp_path)
    (tmp_path / "other").mkdir()
    kept(make_pair(tmp_path / "other", SPOTS), tmp_path / "other")
    with pytest.raises(ReportInvalid, match=r"other.change\.tif is the change probability of another run"):
        remade(report, source, {"threshold": 0.3}, tmp_path / "other" / "change.tif")
    with pytest.raises(SceneDamaged, match="no change probability"):
        remade(report, source, {"threshold": 0.3}, pair.after)
    (tmp_path / "change.tif").rename(tmp_path / "moved.tif")
    with pytest.raises(OptionInvalid, match="neither there nor beside the report"):
        remade(report, source, {"threshold": 0.3})
    assert remade(report, source, {"threshold": 0.3}, tmp_path / "moved.tif").changes
    (tmp_path / "other" / "change.tif").unlink()
    (tmp_path / "moved.tif").rename(tmp_path / "other" / "change.tif")
    assert remade(report, tmp_path / "other" / "copy.geojson", {"threshold": 0.3}).changes


@pytest.mark.parametrize(
    ("changed", "error", "line"),
    [
        ({"probability": None}, OptionInvalid, "the run kept no change probability"),
        ({"refinement": {"regions": 1}}, OptionInvalid, "redrawn by --refine"),
        ({"settings": {}}, ReportInvalid, "a setting is damaged"),
        ({"settings": {"threshold": True}}, ReportInvalid, "a setting is damaged"),
        ({"settings": {"threshold": 2}}, ReportInvalid, "threshold is 2"),
        ({"settings": {"simplify": None}}, ReportInvalid, "a setting is damaged"),
        ({"settings": {"min_area": "large"}}, ReportInvalid, "a setting is damaged"),
        ({"settings": {"regularize": 1}}, ReportInvalid, "a setting is damaged"),
        ({"started": "yesterday"}, ReportInvalid, "of another run"),
        ({"inputs": {}}, ReportInvalid, "of another run"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(ungrouped, changed, error, line):
    report, source = ungrouped
    run = {**report.run, **changed}
    if changed.get("settings"):
        run["settings"] = report.run["settings"] | changed["settings"]
    with pytest.raises(error, match=line):
        remade(replace(report, run=run), source, {"threshold": 0.3})


def test_a_run_that_fails_leaves_no_raster(tmp_path):
    pair = make_pair(tmp_path, SPOTS, nodata_rows=150)
    with pytest.raises(NothingValid):
        kept(pair, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after.tif", "before.tif"]


def test_a_tile_cache_lacks_what_a_raster_holds(pair, tmp_path):
    with pytest.raises(OptionInvalid, match="keep one of them"):
        kept(pair, tmp_path, tile_cache=tmp_path / "cache")


def test_the_commands(rscc_command, pair, tmp_path):
    report, raster = tmp_path / "r.geojson", tmp_path / "change.tif"
    words = ("caption", pair.before, pair.after, "-o", report, "--probability", raster, "--json")
    code, out, err = rscc_command(*words, "--group-distance", "0")
    assert code == 0, err
    told = json.loads(out)
    assert told["probability"] == told["run"]["probability"] == str(raster)
    code, _, err = rscc_command(*words)
    assert code == 2 and "add --overwrite" in err
    code, out, err = rscc_command("convert", report, tmp_path / "few.gpkg", "--threshold", "0.72")
    assert (code, out, err) == (0, f"{tmp_path / 'few.gpkg'}: 3 changes\n", "")
    code, out, err = rscc_command("convert", report, "-", "--group-distance", "100")
    assert code == 0 and json.loads(out)["properties"]["caption"] == "something changed"
    assert err.startswith("rscc: warning: 1 of 1 changes have other outlines than before")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("caption", "before.tif", "after.tif", "--probability", "p.png"), "name it .tif"),
        (("caption", "before.tif", "after.tif", "--probability", "after.tif"), "is an input of this run"),
        (("caption", "before.tif", "after.tif", "--probability", "no/p.tif"), "create it first"),
        (("caption", "before.tif", "after.tif", "--probability", "p.tif", "--isolate"), "--isolate"),
        (("caption", "before.tif", "after.tif", "--probability", "p.tif", "--tile-cache", "c"), "--tile-c"),
        (("convert", "r.geojson", "o.gpkg", "--probability", "p.tif"), "only with --threshold"),
        (("convert", "r.geojson", "o.html", "--threshold", "0.5"), "first, then its page"),
        (("convert", "r.geojson", "o.gpkg", "--threshold", "1.5"), "threshold is 1.5"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(rscc_command, pair, tmp_path, monkeypatch, arguments, line):
    monkeypatch.chdir(tmp_path)
    code, _, err = rscc_command(*arguments)
    assert code == 2 and line in err and err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after.tif", "before.tif"]
