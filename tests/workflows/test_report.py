from __future__ import annotations

import pytest
from rfc7946 import load_valid
from shapely.geometry import MultiPolygon, box

from workflows import Change, ChangeReport
from workflows.errors import OutputExists


def change(geometry, number=1, **values):
    fields = {
        "caption": "a house appears",
        "alternatives": ("a villa appears",),
        "score": 0.51234567,
        "change_probability": 0.9,
        "area_m2": 123.456,
        "date_before": "2009-08-18",
        "date_after": None,
        "before": "a.tif",
        "after": "b.tif",
        "model": "fake",
        "model_version": "1",
    }
    return Change(geometry=geometry, id=number, **{**fields, **values})


def test_a_report_is_written_with_its_style(tmp_path):
    report = ChangeReport([change(box(10, 50, 10.001, 50.001))], {"seconds": 1.5})
    path = report.write(tmp_path / "r.geojson")
    collection = load_valid(path)
    assert collection["bbox"] == [10, 50, 10.001, 50.001]
    assert collection["rscc"] == {"seconds": 1.5}
    properties = collection["features"][0]["properties"]
    assert properties["score"] == 0.5123
    assert properties["area_m2"] == 123.46
    assert properties["date_after"] is None
    assert (tmp_path / "r.qml").read_text().startswith("<!DOCTYPE qgis")
    assert len(list(tmp_path.iterdir())) == 2


def test_an_empty_report_is_a_valid_file(tmp_path):
    collection = load_valid(ChangeReport([], {}).write(tmp_path / "r.geojson"))
    assert collection["features"] == []
    assert "bbox" not in collection


def test_clockwise_outlines_are_turned(tmp_path):
    clockwise = box(10, 50, 10.001, 50.001).reverse()
    hole = box(10.0002, 50.0002, 10.0008, 50.0008)
    load_valid(
        ChangeReport([change(clockwise), change(clockwise.difference(hole), 2)]).write(tmp_path / "r.geojson")
    )


def test_a_change_across_the_antimeridian(tmp_path):
    cut = MultiPolygon([box(179.999, -17, 180, -16.999), box(-180, -17, -179.998, -16.999)])
    collection = load_valid(ChangeReport([change(cut)]).write(tmp_path / "r.geojson"))
    assert collection["features"][0]["geometry"]["type"] == "MultiPolygon"
    assert collection["bbox"] == [179.999, -17, -179.998, -16.999]


def test_captions_of_any_letters_survive(tmp_path):
    caption = 'ein "Häuschen" <b>&amp;</b>\n\u2028 房子 \\ end'
    path = ChangeReport([change(box(0, 0, 1, 1), caption=caption)]).write(tmp_path / "r.geojson")
    assert load_valid(path)["features"][0]["properties"]["caption"] == caption
    assert len(path.read_text(encoding="utf-8").split("\n")) == 4, "one feature a line"


def test_a_number_that_json_does_not_know_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        ChangeReport([change(box(0, 0, 1, 1), score=float("nan"))]).write(tmp_path / "r.geojson")
    assert list(tmp_path.iterdir()) == []


def test_overwriting_is_asked_for(tmp_path):
    first, second = ChangeReport([change(box(0, 0, 1, 1))]), ChangeReport([])
    first.write(tmp_path / "r.geojson")
    with pytest.raises(OutputExists):
        second.write(tmp_path / "r.geojson")
    assert load_valid(tmp_path / "r.geojson")["features"]
    second.write(tmp_path / "r.geojson", overwrite=True)
    assert load_valid(tmp_path / "r.geojson")["features"] == []


def test_the_area_is_the_sum():
    report = ChangeReport([change(box(0, 0, 1, 1), area_m2=2.5), change(box(2, 0, 3, 1), 2, area_m2=4.0)])
    assert report.area_m2 == 6.5
    assert ChangeReport([]).area_m2 == 0
