"""What people drew, reshaped or split in a report is a change like others, with what is true of it now."""

from __future__ import annotations

import json

import pytest
from archive_rows import change, report
from qgis_runs import NEEDS_QGIS, run_qgis
from report_checks import faults
from shapely.geometry import box, mapping

from tiling import geodesic_area_m2
from workflows.errors import ReportInvalid
from workflows.report.change import PROPERTIES
from workflows.report.reading import open_report

SHED = box(12.45, 41.8, 12.4501, 41.8001)
TIFS = {role: {"path": f"scenes/{role}.tif", "date": f"202{n}"} for n, role in enumerate(("before", "after"))}


@pytest.fixture
def path(tmp_path):
    """A report of two changes, with the ids 1 and 2."""
    sizes = {"largest_m2": 60.0, "median_m2": 40.0}
    return report(change(1, **sizes), change(2, 12.6, **sizes), inputs=TIFS).write(tmp_path / "r.geojson")


def draw(path, geometry=SHED, **said):
    """Put a change in front as QGIS writes one: all attributes are there, and empty where none was given."""
    content = json.loads(path.read_text())
    member = None if geometry is None else mapping(geometry)
    drawn = {"type": "Feature", "properties": {**dict.fromkeys(PROPERTIES), **said}, "geometry": member}
    content["features"].insert(0, drawn)
    path.write_text(json.dumps(content))


def test_an_outline_alone_is_a_change_of_which_nothing_else_is_known(path, tmp_path):
    old = open_report(path).changes
    draw(path)
    drawn, *others = open_report(path).changes
    assert others == old
    assert (drawn.id, drawn.geometry, drawn.count) == (3, SHED, 1)
    assert drawn.area_m2 == pytest.approx(geodesic_area_m2(SHED), abs=0.01)
    assert (drawn.before, drawn.after) == ("before.tif", "after.tif")
    assert (drawn.date_before, drawn.date_after) == ("2020", "2021")
    assert (drawn.model, drawn.model_version) == ("drawn by hand", "")
    assert (drawn.caption, drawn.score, drawn.caption_confident) == ("Something changed", 0.0, False)
    assert drawn.review_status == "wrong words" and drawn.reviewer_caption is None
    written = open_report(path).write(tmp_path / "again.geojson")
    assert open_report(written).changes == [drawn, *old]
    assert not faults(json.loads(written.read_text())["features"][0], "feature")


def test_what_the_person_said_stays(path):
    draw(path, caption="a shed is built", reviewer="Ada", count=4)
    draw(path, caption="a pond?", review_status="wrong words", reviewer_caption="a pond is dug")
    pond, shed, *_ = open_report(path).changes
    assert {pond.id, shed.id} == {3, 4}
    assert (shed.caption, shed.score, shed.caption_confident) == ("a shed is built", 1.0, True)
    assert (shed.review_status, shed.reviewer, shed.count) == ("confirmed", "Ada", 4)
    assert (pond.review_status, pond.reviewer_caption) == ("wrong words", "a pond is dug")


def test_a_change_that_was_split_is_two_of_their_own_areas(path):
    content = json.loads(path.read_text())
    whole, other = content["features"]
    west, south, east, north = open_report(path).changes[0].geometry.bounds
    middle = west + (east - west) / 4
    pieces = [box(west, south, middle, north), box(middle, south, east, north)]
    content["features"] = [other, *({**whole, "geometry": mapping(piece)} for piece in pieces)]
    path.write_text(json.dumps(content))
    untouched, small, large = open_report(path).changes
    assert (untouched.id, small.id, large.id) == (2, 1, 3)
    assert untouched.area_m2 == other["properties"]["area_m2"] and untouched.largest_m2 is not None
    assert [one.area_m2 for one in (small, large)] == pytest.approx([25.06, 75.19], abs=0.2)
    assert (small.count, small.count_sure, small.largest_m2, small.median_m2) == (1, None, None, None)
    assert small.caption == large.caption == whole["properties"]["caption"]


def test_an_outline_moved_by_rounding_keeps_what_was_measured(path):
    content = json.loads(path.read_text())
    ring = content["features"][0]["geometry"]["coordinates"][0]
    ring[:] = [[x + 4e-7 * (x == max(x for x, _ in ring)), y] for x, y in ring]
    path.write_text(json.dumps(content))
    assert open_report(path).changes[0].largest_m2 is not None
    ring[:] = [[x + 4e-6 * (x == max(x for x, _ in ring)), y] for x, y in ring]
    path.write_text(json.dumps(content))
    assert open_report(path).changes[0].largest_m2 is None


def test_the_id_of_a_deleted_change_is_not_given_again(path):
    content = json.loads(path.read_text())
    content["rscc"]["summary"] = {"changes": 2}
    del content["features"][1]
    path.write_text(json.dumps(content))
    draw(path)
    assert [one.id for one in open_report(path).changes] == [3, 1]


def test_ids_of_strangers_are_refused_in_a_line(path):
    draw(path)
    text = path.read_text()
    path.write_text(text.replace('"id": 2', f'"id": {"9" * 4000}'))
    with pytest.raises(ReportInvalid):
        open_report(path)


@pytest.mark.parametrize("geometry", [None, box(200, 95, 201, 96), SHED.exterior, SHED.centroid])
def test_what_is_no_outline_on_the_earth_is_refused(path, geometry):
    draw(path, geometry)
    with pytest.raises(ReportInvalid):
        open_report(path)


@pytest.mark.parametrize(("cell", "read"), [("building", ("building",)), (" ", ()), (None, ())])
def test_a_list_may_be_typed_as_one_text_or_emptied(path, cell, read):
    draw(path, came=cell, alternatives=cell)
    content = json.loads(path.read_text())
    content["features"][1]["properties"] |= {"alternatives": cell, "gone": cell}
    path.write_text(json.dumps(content))
    drawn, first, _ = open_report(path).changes
    assert first.alternatives == first.gone == drawn.came == drawn.alternatives == read


@pytest.mark.qgis
@NEEDS_QGIS
@pytest.mark.parametrize("suffix", [".geojson", ".gpkg"])
def test_what_is_drawn_in_qgis_is_read(path, tmp_path, suffix):
    metres = suffix == ".gpkg"
    tiling = {"crs": "EPSG:32633", "gsd": 0.5}
    made = report(change(1), change(2, 12.6), inputs=TIFS, tiling=tiling).write(tmp_path / f"q{suffix}")
    corner = (300_000, 4_630_000, 10) if metres else (12.45, 41.8, 0.0001)
    assert run_qgis("draw", made, *corner, "a shed is built") == {"changes": 4}
    drawn = [one for one in open_report(made).changes if one.model == "drawn by hand"]
    assert {one.id: one.caption for one in drawn} == {3: "a shed is built", 4: "Something changed"}
    if metres:
        assert [one.area_m2 for one in drawn] == pytest.approx([100, 100], rel=0.002)
