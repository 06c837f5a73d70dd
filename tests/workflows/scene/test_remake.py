"""Changes made again from kept maps: those of a run with these settings, sentences and all."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from captioners import FactCaptioner, captioned, kept
from report_checks import faults
from scene_pairs import make_pair

from tiling import NothingValid
from workflows import SceneOptions
from workflows.errors import MapsUnusable, OptionInvalid, ReportInvalid
from workflows.report.reading import open_report
from workflows.scene.remake import remake

# Row, column, height, width, brightness after; probabilities of about 1, 0.6, 1 and 0.9.
SPOTS = [(30, 30, 20, 20, 250), (30, 60, 20, 20, 160), (100, 30, 20, 20, 240), (110, 150, 8, 30, 190)]


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, SPOTS)


@pytest.fixture(scope="module")
def ungrouped(tmp_path_factory):
    """A report on four changes."""
    folder = tmp_path_factory.mktemp("ungrouped")
    return kept(make_pair(folder, SPOTS), folder, FactCaptioner(), group_distance=0)[0]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"group_distance": 0}, {"threshold": 0.72}),
        ({"group_distance": 0, "threshold": 0.72}, {"threshold": 0.3}),
        ({}, {"group_distance": 5.1}),
        ({"group_distance": 0, "regularize": True}, {"threshold": 0.72, "min_area": 50.0}),
        ({"min_area": 70.0}, {"min_area": 0, "threshold": 0.9, "group_distance": 100}),
    ],
)
@pytest.mark.slow
def test_the_changes_are_those_of_a_run_with_these_settings(pair, tmp_path, first, then):
    report, _ = kept(pair, tmp_path, FactCaptioner(), **first)
    wanted = captioned(pair, FactCaptioner(), **first | then)
    pair.before.unlink()
    made = remake(report, SceneOptions(**then))
    assert len(wanted.changes) > 0
    assert made.to_geojson()["features"] == wanted.to_geojson()["features"]
    assert made.run["settings"] == wanted.run["settings"]
    assert made.run["settings_sha256"] == wanted.run["settings_sha256"]
    assert made.run["summary"] == wanted.run["summary"]
    assert faults(made.to_geojson()) == []


def test_a_verdict_stays_with_its_outlines_and_nowhere_else(ungrouped):
    reviewed = [
        replace(change, review_status="confirmed", reviewer=f"me {change.id}") for change in ungrouped.changes
    ]
    report = replace(ungrouped, changes=reviewed)
    made = remake(report, SceneOptions(threshold=0.72))
    assert len(made.changes) == 3 and all(change.reviewer for change in made.changes)
    assert len(made.run["remade"]["warnings"]) == 1
    (change,) = remake(report, SceneOptions(group_distance=100.0)).changes
    assert change.review_status is change.reviewer is None


def test_what_a_person_drew_stays_as_it_is(ungrouped):
    drawn = replace(ungrouped.changes[0], id=9, model="drawn by hand", caption="a shed", area_m2=200.0)
    with_drawn = replace(ungrouped, changes=[*ungrouped.changes, drawn])
    made = remake(with_drawn, SceneOptions(threshold=0.72, min_area=150.0))
    (same,) = (change for change in made.changes if change.model == "drawn by hand")
    assert replace(same, id=9) == drawn and made.run["remade"]["warnings"] == []


def test_a_remade_report_can_be_remade(ungrouped, tmp_path):
    once = remake(ungrouped, SceneOptions(threshold=0.72, group_distance=100))
    read = open_report(once.write(tmp_path / "once.geojson"))
    back = remake(read, SceneOptions(threshold=0.5, group_distance=0))
    assert back.to_geojson()["features"] == ungrouped.to_geojson()["features"]


@pytest.mark.slow
def test_the_maps_must_be_of_the_run(pair, tmp_path):
    report, source = kept(pair, tmp_path, FactCaptioner())
    (tmp_path / "other").mkdir()
    kept(make_pair(tmp_path / "other", SPOTS), tmp_path / "other")
    lower = SceneOptions(threshold=0.3)
    with pytest.raises(ReportInvalid):
        remake(report, lower, tmp_path / "other" / "maps")
    with pytest.raises(MapsUnusable):
        remake(report, lower, tmp_path)
    (tmp_path / "maps").rename(tmp_path / "moved")
    with pytest.raises(OptionInvalid):
        remake(report, lower)
    assert remake(report, lower, tmp_path / "moved").changes
    (tmp_path / "new").mkdir()
    (tmp_path / "moved").rename(tmp_path / "new" / "maps")
    beside = open_report(source.rename(tmp_path / "new" / "r.geojson"))
    assert remake(beside, lower).changes


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"maps": None}, OptionInvalid),
        ({"settings": {"threshold": None}}, ReportInvalid),
        ({"settings": {"threshold": True}}, ReportInvalid),
        ({"settings": {"min_area": "large"}}, ReportInvalid),
        ({"settings": {"regularize": 1}}, ReportInvalid),
        ({"model": {}}, ReportInvalid),
        ({"inputs": {}}, ReportInvalid),
    ],
)
def test_what_cannot_be_is_refused(ungrouped, changed, error):
    run = {**ungrouped.run, **changed}
    if changed.get("settings"):
        run["settings"] = ungrouped.run["settings"] | changed["settings"]
    with pytest.raises(error):
        remake(replace(ungrouped, run=run), SceneOptions(threshold=0.3))


def without(content, name):
    content.pop(name)


@pytest.mark.parametrize(
    "damage",
    [
        # No end of rows, if the checksum of nothing fits.
        lambda maps: maps["rows"][0].update(stop=maps["rows"][0]["start"], checksums=[0] * 4),
        lambda maps: maps["rows"][-1].update(stop=10**6),
        lambda maps: maps["rows"][0].update(lone=[]),
        lambda maps: maps["rows"][0].update(checksums=[]),
        lambda maps: without(maps, "answers"),
        lambda maps: maps.update(answers=[]),
        lambda maps: without(maps["inputs"]["after"], "date"),
        lambda maps: maps["position_edges"].update(columns=list(range(maps["grid"]["width"] + 1))),
        lambda maps: maps["grid"].update(gsd=1e-300),
        lambda maps: maps.update(settings=[]),
    ],
)
def test_maps_that_cannot_be_are_refused(ungrouped, tmp_path, damage):
    maps = shutil.copytree(ungrouped.run["maps"], tmp_path / "maps")
    content = json.loads((maps / "maps.json").read_text())
    damage(content)
    (maps / "maps.json").write_text(json.dumps(content))
    with pytest.raises(MapsUnusable):
        remake(ungrouped, SceneOptions(threshold=0.3), maps)


@pytest.mark.slow
def test_maps_of_another_box_of_the_same_scenes_are_not_of_the_run(pair, tmp_path):
    box = (15.0, 50.54, 15.0006, 50.56)
    report, _ = kept(pair, tmp_path, FactCaptioner(), bounds=box)
    (tmp_path / "whole").mkdir()
    kept(pair, tmp_path / "whole", FactCaptioner())
    with pytest.raises(ReportInvalid):
        remake(report, SceneOptions(threshold=0.3), tmp_path / "whole" / "maps")
    assert remake(report, SceneOptions(threshold=0.3)).changes


@pytest.mark.slow
def test_what_the_scout_ruled_out_is_not_made_up(pair, tmp_path):
    report, _ = kept(pair, tmp_path, FactCaptioner(), threshold=0.3)
    about = tmp_path / "maps" / "maps.json"
    content = json.loads(about.read_text())
    content["settings"]["fast"] = True
    about.write_text(json.dumps(content))
    fast = replace(report, run={**report.run, "settings": {**report.run["settings"], "fast": True}})
    assert remake(fast, SceneOptions(threshold=0.1)).changes
    with pytest.raises(OptionInvalid):
        remake(fast, SceneOptions(threshold=0.05))


def test_sentences_of_the_decoder_need_the_scenes(pair, tmp_path):
    report, _ = kept(pair, tmp_path)
    with pytest.raises(OptionInvalid):
        remake(report, SceneOptions(threshold=0.3))


def test_a_run_that_fails_leaves_no_temporary_maps(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    pair = make_pair(tmp_path, SPOTS, nodata_rows=150)
    with pytest.raises(NothingValid):
        captioned(pair)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after.tif", "before.tif"]
