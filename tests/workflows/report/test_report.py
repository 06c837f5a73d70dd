from __future__ import annotations

from archive_rows import change
from report_checks import load_valid
from shapely.geometry import box

from workflows import Report, SceneOptions
from workflows.report.change import selected


def changed(geometry, number=1, **values):
    return change(number, geometry=geometry, **values)


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


def test_a_direction_selects_by_classes_or_where_none_is_known_by_itself():
    came, gone = ({"came": ("building",)}, {"gone": ("trees",)})
    changes = [
        change(1, direction="appeared", **came),
        change(2, direction="disappeared", **gone),
        change(3, direction="replaced", **came, **gone),
        change(4, direction="appeared"),
    ]
    for direction, ids in (("appeared", [1, 3, 4]), ("disappeared", [2, 3]), (None, [1, 2, 3, 4])):
        assert [one.id for one in selected(changes, SceneOptions(direction=direction))] == ids
    assert [one.id for one in selected(changes, SceneOptions(only=("trees",), direction="appeared"))] == []
    assert [one.id for one in selected(changes, SceneOptions(only=("trees",)))] == [2, 3]
