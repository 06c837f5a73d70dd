"""Every format of a report tells the same, and is read by others than what wrote it."""

from __future__ import annotations

import json
from dataclasses import replace

import geopandas
import numpy as np
import pyogrio
import pytest
import shapely
from archive_rows import change, report
from pyogrio.errors import DataSourceError
from report_checks import load_valid
from shapely.geometry import MultiPolygon, box, mapping, shape

from workflows import Report
from workflows.errors import OutputNotWritable
from workflows.report.reading import chips_in, open_report
from workflows.report.summary import summary_of

LISTS = ("alternatives", "came", "gone", "before_cover", "context")
COUNTS = {"count": 2, "count_sure": 1}
KNOWN = {**COUNTS, "came": ("building", "road"), "largest_m2": 250.13, "place": "north", "area_m2": 99.5}
TEXTS = (
    "it's \"quoted\" \\' \\n %s {} ; -- $$",
    "\b\t\n\r\x01\x1f\x7f\u0085\u2028\u202e\ufeff right to left",
    "NULL", "[]", "{}", "\\N", '["a"]', "2019-08-31", "12", "true",
    "\U0001f3d8 Häuser 家 \u0301", "<b>&amp;`${1}`", "10 kB '\"\\ µ " * 800,
)  # fmt: skip
# Two metres of longitude are an error that the eye sees; a centimetre is what seven decimals keep.
CLOSE_M = 0.02


@pytest.fixture
def made() -> Report:
    two = MultiPolygon([box(12.6, 41.8, 12.601, 41.801), box(12.61, 41.8, 12.611, 41.801)])
    ground = json.loads(json.dumps(mapping(box(12.4, 41.7, 12.7, 42.0))))
    changes = (change(1), change(2, geometry=two, caption="<b>zwei</b> Häuser ‮", **KNOWN))
    texts = (
        change(n, 12.45, caption=text, alternatives=(f"{text}!", ""), before=text, reviewer_note=text)
        for n, text in enumerate(TEXTS, start=3)
    )
    return report(*changes, *texts, tiling={"gsd": 0.5, "crs": "EPSG:32633"}, ground=ground)


def layer(path):
    """The changes of a report, as geopandas reads them."""
    if path.suffix == ".parquet":
        return geopandas.read_parquet(path)
    return geopandas.read_file(path, **({"layer": "changes"} if path.suffix == ".gpkg" else {}))


def plain(value):
    """A value of a table as GeoJSON has it."""
    if isinstance(value, np.ndarray | list):
        return list(value)
    return None if value is None or value != value else value


def rows(table):
    """What a table of changes says, by id, lists as lists."""
    told = {}
    for row in table.drop(columns="geometry").to_dict("records"):
        values = {name: plain(value) for name, value in row.items() if name != "bbox"}
        told[values["id"]] = {
            name: json.loads(value) if name in LISTS and isinstance(value, str) else value
            for name, value in values.items()
        }
    return told


@pytest.mark.parametrize("suffix", [".geojsonl", ".gpkg", ".fgb", ".parquet"])
def test_every_format_says_what_the_geojson_says(made, tmp_path, suffix):
    wanted = {f["id"]: f for f in load_valid(made.write(tmp_path / "r.geojson"))["features"]}
    path = made.write(tmp_path / f"other{suffix}")
    table = layer(path)
    assert rows(table) == {number: feature["properties"] for number, feature in wanted.items()}
    assert table.crs.to_epsg() == (32633 if suffix == ".gpkg" else 4326)
    for number, geometry in zip(table["id"], table.to_crs(32633).geometry, strict=True):
        true = geopandas.GeoSeries([shape(wanted[number]["geometry"])], crs=4326).to_crs(32633).iloc[0]
        assert shapely.hausdorff_distance(geometry, true) < CLOSE_M


def test_a_geopackage_has_outlines_and_ground_of_their_own(made, tmp_path):
    path = made.write(tmp_path / "r.gpkg")
    assert [name for name, kind in pyogrio.list_layers(path) if kind] == ["changes", "outlines", "footprint"]
    outlines = geopandas.read_file(path, layer="outlines")
    texts = [[n, 1] for n in range(3, len(made.changes) + 1)]
    assert outlines[["change", "outline"]].to_numpy().tolist() == [[1, 1], [2, 1], [2, 2], *texts]
    # Geodesic and planar areas of a small outline differ by the scale of UTM.
    assert np.allclose(outlines.area, outlines["area_m2"], rtol=0.002)
    (ground,) = geopandas.read_file(path, layer="footprint").to_dict("records")
    seen = [ground[name] for name in ("before", "date_after", "model")]
    assert seen == ["/scenes/before.tif", "2020", "brightness"]
    record = pyogrio.read_info(path, layer="changes")["layer_metadata"]["rscc"]
    assert json.loads(record) == made.run


@pytest.mark.parametrize("suffix", [".geojsonl", ".gpkg", ".fgb", ".parquet"])
def test_a_report_without_changes_is_an_empty_layer(tmp_path, suffix):
    path = Report([], {}).write(tmp_path / f"r{suffix}")
    if suffix == ".geojsonl":
        assert path.read_bytes() == b""
        return
    table = layer(path)
    assert len(table) == 0 and {"caption", "count", "came"} <= set(table.columns)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tiling": {"crs": "EPSG:0"}}, {"tiling": {"crs": 5}}, {"tiling": None},
        {"ground": {"type": "Polygon"}}, {"ground": {"type": "Polygon", "coordinates": [[[10**400, 0]]]}},
        {"ground": 7}, {"ground": mapping(shapely.Point(1, 2))}, {"inputs": []}, {"model": {"name": ["a"]}},
        {"tiling": {"crs": "+proj=gnom +lat_0=-41.9 +lon_0=-167.5"}},
        {"tiling": {"crs": "+proj=longlat +nadgrids=/dev/zero"}},
    ],
)  # fmt: skip
def test_a_record_that_says_nothing_of_use_makes_no_harm(made, tmp_path, wrong):
    path = Report(made.changes, {**made.run, **wrong}).write(tmp_path / "r.gpkg")
    table = geopandas.read_file(path, layer="changes").to_crs(4326)
    expected = shapely.total_bounds([one.geometry for one in made.changes])
    assert np.allclose(table.total_bounds, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("suffix", "broken"),
    [
        (".gpkg", "pyogrio.write_arrow"),
        (".fgb", "pyogrio.write_arrow"),
        (".parquet", "pyarrow.parquet.ParquetWriter.write_table"),
    ],
)
def test_an_error_leaves_nothing(made, tmp_path, monkeypatch, suffix, broken):
    def full(*_, **__):
        raise (DataSourceError if suffix != ".parquet" else OSError)("no space left on device")

    monkeypatch.setattr(broken, full)
    with pytest.raises(OutputNotWritable):
        made.write(tmp_path / f"r{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".geojson", ".gpkg", ".parquet"])
def test_the_record_and_the_pictures_are_those_of_the_changes_that_are_left(made, tmp_path, suffix):
    run = made.run | {"summary": summary_of(made.changes, made.run).as_dict()}
    left = replace(made, changes=made.changes[1:], run=run)
    chips = {2: (b"before", b"after")}
    path = left.write(tmp_path / f"left{suffix}", chips=chips)
    read = open_report(path)
    assert [one.id for one in read.changes] == [one.id for one in left.changes]
    assert read.run["summary"] == summary_of(left.changes, made.run).as_dict() != run["summary"]
    assert chips_in(path) == (chips if suffix == ".gpkg" else {})
