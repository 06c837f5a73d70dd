from __future__ import annotations

from archive_rows import change
from report_checks import load_valid
from shapely.geometry import box

from workflows import Report


def changed(geometry, number=1, **values):
    return change(number, geometry=geometry, **values)


def test_a_report_is_written_with_its_style(tmp_path):
    figures = {"score": 0.51234567, "area_m2": 123.456, "date_after": None}
    report = Report([changed(box(10, 50, 10.001, 50.001), **figures)], {"seconds": 1.5})
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


def test_what_is_known_of_an_event_is_written_flat(tmp_path):
    known = {
        "count": 12, "count_sure": 9, "direction": "appeared", "came": ("building", "road"),
        "gone": ("tree",), "before_cover": ("bare ground",), "largest_m2": 250.126, "median_m2": 99.994,
        "changed_m2": 70.006,
        "place": "north-east", "arrangement": "in rows", "caption_confident": False,
    }  # fmt: skip
    changes = [changed(box(10, 50, 10.001, 50.001), **known), changed(box(11, 50, 11.001, 50.001), 2)]
    first, second = load_valid(Report(changes).write(tmp_path / "r.geojson"))["features"]
    lists = {name: list(value) for name, value in known.items() if isinstance(value, tuple)}
    areas = {"largest_m2": 250.13, "median_m2": 99.99, "changed_m2": 70.01}
    assert {name: first["properties"][name] for name in known} == {**known, **lists, **areas}
    nothing = {**dict.fromkeys(known), **{name: [] for name in lists}, "count": 1, "caption_confident": True}
    assert {name: second["properties"][name] for name in known} == nothing


def test_a_report_is_a_table_of_geopandas_with_the_attributes_of_the_file(tmp_path):
    changes = [
        changed(box(10, 50, 10.001, 50.001), came=("building",)),
        changed(box(11, 50, 11.001, 50.001), 2),
    ]
    frame = Report(changes).to_geodataframe()
    features = load_valid(Report(changes).write(tmp_path / "r.geojson"))["features"]
    assert frame.crs.to_epsg() == 4326
    table = frame.drop(columns="geometry").astype(object)
    assert table.where(table.notna(), None).to_dict("records") == [one["properties"] for one in features]
    assert list(frame.geometry) == [change.geometry for change in changes]
    empty = Report([]).to_geodataframe()
    both = frame.dtypes.to_dict(), empty.dtypes.to_dict()
    numbers = ("id", "score", "area_m2", "count", "count_sure", "changed_m2", "caption_confident")
    assert [[str(types[name]) for name in numbers] for types in both] == 2 * [
        ["int64", "float64", "float64", "int64", "float64", "float64", "bool"]
    ], "tables of several reports keep their numbers when they are put together"
    assert (len(empty), list(empty.columns)) == (0, list(frame.columns))


def test_a_notebook_shows_summary_and_largest_changes_with_nothing_of_a_caption_taken_for_markup():
    hostile = "<img src=x onerror=alert(1)> & more"
    many = [changed(box(10, 50, 10.001, 50.001), n, area_m2=100.0 * n, caption=hostile) for n in range(1, 24)]
    report = Report(many, {"settings": {"threshold": 0.5}})
    assert repr(report).startswith("<Report: 23 changes were found") and "threshold" not in repr(report)
    shown = report._repr_html_()
    assert "<img" not in shown and "&lt;img src=x onerror=alert(1)&gt; &amp; more" in shown
    assert shown.startswith("<p>23 changes were found")
    assert shown.count("<tr>") == 21 and "and 3 smaller" in shown
    assert shown.index("<td>23</td>") < shown.index("<td>22</td>")
