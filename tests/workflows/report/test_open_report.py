"""Reports are read with suspicion: what is damaged is refused, and no name in them leads anywhere else."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import pytest
from archive_rows import change, report
from datasets import edit_json

from tiling import LocationUnsupported, SceneNotFound
from workflows.errors import OptionInvalid, ReportInvalid
from workflows.report import reading
from workflows.report.reading import open_report
from workflows.report.scenes import find_scenes, recorded_options


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A report of three changes in the current folder, beside its scenes."""
    monkeypatch.chdir(tmp_path)
    for name in ("a_2016.tif", "b_2019.tif"):
        Path(name).touch()
    inputs = {"before": {"path": "a_2016.tif"}, "after": {"path": "b_2019.tif"}}
    return report(*(change(n) for n in (1, 2, 3)), inputs=inputs).write(tmp_path / "changes.geojson")


def set_attributes(path, number, /, **values):
    edit_json(path, lambda content: content["features"][number - 1]["properties"].update(values))


def set_record(path, /, *members, **values):
    """Write values into the part of the run record that ``members`` lead to."""
    edit_json(path, lambda content: reduce(dict.get, members, content["rscc"]).update(values))


def test_a_report_is_read_as_it_was_written(path):
    content, read = json.loads(path.read_text()), open_report(path)
    assert [one.properties() for one in read.changes] == [one["properties"] for one in content["features"]]
    assert read.run == content["rscc"] and read.path == path
    assert read.change(2) == read.changes[1]
    for number in (0, 4, -1):
        with pytest.raises(OptionInvalid):
            read.change(number)


def test_a_report_of_an_earlier_version_is_read(path):
    new = ("count", "count_sure", "direction", "came", "median_m2", "changed_at_least", "reviewed_at")
    edit_json(path, lambda content: [content["features"][0]["properties"].pop(name) for name in new])
    first = open_report(path).changes[0]
    assert first.direction is first.median_m2 is None and first.came == ()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"BEFORE", b"\x89PNG\r\n\x1a\n\xff\xfe", b"[" * 100_000, b'{"type": NaN}',
        b'{"type": ' + b"9" * 10_000 + b"}", b"[1, 2]", b'{"type": "FeatureCollection", "features": []}',
        b'{"type": "FeatureCollection", "rscc": {"inputs": 1}, "features": []}',
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(tmp_path, content):
    path = tmp_path / "x.geojson"
    path.write_bytes(content)
    with pytest.raises(ReportInvalid, match=r"x\.geojson"):
        open_report(path)


def test_a_report_that_is_cut_off_anywhere_is_refused(path):
    text = path.read_text().rstrip()
    for length in range(1, len(text), 7):
        path.write_text(text[:length])
        with pytest.raises(ReportInvalid):
            open_report(path)


def test_a_folder_a_missing_file_and_a_huge_one_are_refused(path, monkeypatch):
    Path("archive/pairs").mkdir(parents=True)
    for name in ("archive", "archive/pairs", "none.geojson"):
        with pytest.raises(ReportInvalid, match=name):
            open_report(name)
    monkeypatch.setattr(reading, "LARGEST_BYTES", 100)
    with pytest.raises(ReportInvalid):
        open_report(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("caption", 5), ("alternatives", '["a road'), ("came", [1]), ("count", 1.5), ("count", True),
        ("score", "high"), ("area_m2", None), ("area_m2", 10**400), ("caption_confident", 1),
        ("place", ["north"]), ("review_status", "Yes\x1b"), ("reviewed_at", 5),
    ],
)  # fmt: skip
def test_a_damaged_attribute_is_named(path, name, value):
    set_attributes(path, 2, **{name: value})
    with pytest.raises(ReportInvalid, match=f"{name}.*change 2") as caught:
        open_report(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("typed", "read"), [(" Wrong  Place ", "wrong place"), ("CONFIRMED", "confirmed"), (" ", None)]
)
def test_a_verdict_is_read_as_people_type_it(path, typed, read):
    set_attributes(path, 2, review_status=typed)
    assert open_report(path).changes[1].review_status == read


def test_a_change_without_its_sentence_is_refused(path):
    edit_json(path, lambda content: content["features"][0]["properties"].pop("caption"))
    with pytest.raises(ReportInvalid, match="change 1"):
        open_report(path)


@pytest.mark.parametrize(
    "geometry",
    [
        None,
        {"type": "Polygon"},
        {"type": "Point", "coordinates": [1, 2]},
        {"type": "Polygon", "coordinates": [[["a", 1], [2, 3], [4, 5]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1e300, 0], [0, 1], [0, 0]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [2, 2], [0, 0]]]},
    ],
)
def test_a_change_without_outlines_is_refused(path, geometry):
    edit_json(path, lambda content: content["features"][0].update(geometry=geometry))
    with pytest.raises(ReportInvalid, match="change 1"):
        open_report(path)


def test_a_record_with_an_infinite_number_is_refused(path):
    path.write_text(path.read_text().replace('"gsd": 0.5', '"gsd": 1e400'))
    with pytest.raises(ReportInvalid):
        open_report(path)


def test_scenes_are_found_as_they_are_named_or_beside_the_report(path, tmp_path, monkeypatch):
    assert find_scenes(open_report("changes.geojson")) == ("a_2016.tif", "b_2019.tif")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    beside = ("../a_2016.tif", "../b_2019.tif")
    assert find_scenes(open_report("../changes.geojson")) == beside
    set_record(path, "inputs", "after", path=str(tmp_path / "that_was" / "b_2019.tif"))
    assert find_scenes(open_report("../changes.geojson")) == beside, "all of them moved"
    (tmp_path / "b_2019.tif").unlink()
    with pytest.raises(SceneNotFound, match=r"b_2019\.tif"):
        find_scenes(open_report(path))


@pytest.mark.parametrize("name", [None, "", 7, "a\x1b[2J.tif", "a\n.tif", "\u202efit.a", "a\0.tif"])
def test_a_name_of_a_scene_that_cannot_be_shown_is_not_followed(path, name):
    set_record(path, "inputs", "after", path=name)
    with pytest.raises(ReportInvalid):
        find_scenes(open_report(path))


def test_no_file_system_of_gdal_is_reached_by_a_report(path):
    set_record(path, "inputs", "after", path="/vsistdin/x")
    with pytest.raises(LocationUnsupported):
        find_scenes(open_report(path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bands", "RGB"), ("bands", [1, 2]), ("bands", [1, 2, "\x1b"]), ("bands", [1, 2, True]),
        ("band_names", ["a\x1b", "b"]), ("bounds", [1, 2, 3]), ("bounds", [1, 2, 3, 10**400]), ("gsd", -1),
        ("gsd", "fine"), ("gsd", True), ("scale", [3, 1]), ("scale", {}), ("align", 1), ("force", "yes"),
        ("frame", "after"), ("frame", ["before"]),
    ],
)  # fmt: skip
def test_settings_that_no_run_has_are_refused(path, name, value):
    set_record(path, "settings", **{name: value})
    with pytest.raises(ReportInvalid, match=name.replace("_", ".").replace("bounds", "b")):
        recorded_options(open_report(path))
