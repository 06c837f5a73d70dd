"""Context layers: which areas an event overlaps, and what is refused."""

import json
import shutil

import geopandas
import pytest
from painted_series import find_squares, write_series
from shapely.geometry import LineString, box

from workflows.errors import ContextInvalid
from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions
from workflows.report.context import ContextLayers

# Columns 0 to 24 and 24 to 48 of the painted scenes.
LEFT, RIGHT = box(500_000, 5_599_520, 500_240, 5_600_000), box(500_240, 5_599_520, 500_480, 5_600_000)


def layer(path, **columns):
    frame = geopandas.GeoDataFrame(
        {"permit_id": [7, 8], "name": ["Reserve X", None], **columns}, geometry=[LEFT, RIGHT], crs=32633
    )
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_file(path)
    return path


@pytest.mark.parametrize("name", ["p.gpkg", "p.geojson", "p.fgb", "p.shp", "p.parquet"])
def test_every_format_gives_the_same_areas(tmp_path, name):
    found = ContextLayers([f"{layer(tmp_path / name)}:permit_id"])
    outline = geopandas.GeoSeries([box(500_200, 5_599_900, 500_280, 5_599_950)], crs=32633).to_crs(4326)[0]
    overlaps = found.overlaps(outline)
    assert [(one.id, one.name) for one in overlaps] == [("7", "Reserve X"), ("8", None)]
    assert [one.share for one in overlaps] == pytest.approx([0.5, 0.5], abs=0.01)


def test_events_name_the_areas_that_they_overlap(tmp_path):
    write_series(tmp_path / "town")
    options = MonitorOptions(context=(f"{layer(tmp_path / 'parcels.gpkg')}:permit_id",))
    done = run_monitor([str(tmp_path / "town")], tmp_path / "out", options, None, finder=find_squares)
    house = done.all_events[0]
    assert "inside Reserve X" in house.caption
    assert [(one.layer, one.id, one.share) for one in house.context] == [("parcels", "7", 1.0)]
    features = json.loads((tmp_path / "out" / "events.geojson").read_text())["features"]
    assert [one["properties"]["context"][0]["id"] for one in features] == ["7", "8", "8"]
    # A run without the option keeps what is known.
    again = run_monitor([], tmp_path / "out", MonitorOptions(), None, finder=find_squares)
    assert again.all_events[0].context == house.context


def test_wrong_layers_are_refused_by_name(tmp_path):
    good = layer(tmp_path / "parcels.gpkg")
    with pytest.raises(ContextInvalid, match=r"permit_id"):
        ContextLayers([f"{good}:number"])
    shutil.copy(good, tmp_path / "wrong.fgb")
    (tmp_path / "hidden.gpkg").write_text("<OGRVRTDataSource/>")
    lines = geopandas.GeoDataFrame({"a": [1]}, geometry=[LineString([(0, 0), (1, 1)])], crs=4326)
    lines.to_file(tmp_path / "lines.gpkg")
    for name in (
        "wrong.fgb:a",
        "hidden.gpkg:a",
        "lines.gpkg:a",
        "none.gpkg:a",
        "table.csv:a",
        "parcels.gpkg",
    ):
        with pytest.raises(ContextInvalid, match=name.partition(":")[0]):
            ContextLayers([str(tmp_path / name)])
