"""Layers of changes that users give: any format, any CRS, hostile columns; outlines stay as they are."""

from __future__ import annotations

import json
import zipfile

import geopandas
import numpy as np
import pandas as pd
import pytest
import rasterio
import shapely
from rasterio.transform import from_origin
from shapely.affinity import translate
from shapely.geometry import LineString, MultiPolygon, Point, Polygon, box

from tiling import TilingError, geodesic_area_m2
from workflows import polygon_files
from workflows.errors import GivenInvalid
from workflows.report.change import PROPERTIES
from workflows.scene.given.read import read_changes

SHAPES = [
    Polygon([(15.0, 50.5), (15.001, 50.5000001), (15.0010000003, 50.501), (15.0, 50.501)], []),
    box(15.01, 50.5, 15.02, 50.51).difference(box(15.013, 50.503, 15.016, 50.506)),
    MultiPolygon([box(15.03, 50.5, 15.031, 50.501), box(15.033, 50.5, 15.034, 50.501)]),
]


def table(shapes=SHAPES, crs="EPSG:4326", **columns):
    return geopandas.GeoDataFrame(columns, geometry=list(shapes), crs=crs)


@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "geojsonl", "fgb", "shp", "parquet", "csv", "zip"])
def test_outlines_in_wgs84_stay_as_they_are_to_the_last_bit(tmp_path, suffix):
    path = tmp_path / f"given.{suffix}"
    frame = table(owner=["a", "b", "c"])
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "geojson":
        path.write_text(frame.to_json(), encoding="utf-8")
    elif suffix == "geojsonl":
        lines = (json.dumps(feature) for feature in json.loads(frame.to_json())["features"])
        path.write_text("\n".join(lines), encoding="utf-8")
    elif suffix == "csv":
        outlines = shapely.to_wkt(SHAPES, rounding_precision=-1)
        pd.DataFrame({"owner": frame["owner"], "WKT": outlines}).to_csv(path, index=False)
    elif suffix == "zip":
        frame.to_file(tmp_path / "roofs.shp")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "roofs")
            for part in tmp_path.glob("roofs.*"):
                archive.write(part, f"inner/{part.name}")
    else:
        frame.to_file(path)
    layer = read_changes(path)
    found = {outline.attributes["owner"]: outline.geometry for outline in layer.outlines}
    assert layer.columns == ("owner",) and layer.mended == ()
    for owner, shape in zip(frame["owner"], SHAPES, strict=True):
        # A shapefile turns rings around, FlatGeobuf sorts features, some formats have only multipolygons.
        given, kept = (
            shapely.normalize(MultiPolygon(shapely.get_parts(one).tolist())) for one in (shape, found[owner])
        )
        assert shapely.to_wkb(kept) == shapely.to_wkb(given)


@pytest.mark.parametrize("crs", ["EPSG:32633", "EPSG:3857", "EPSG:3035"])
def test_outlines_of_other_systems_lie_where_they_lay(crs):
    layer = read_changes(table().to_crs(crs))
    for outline, shape in zip(layer.outlines, SHAPES, strict=True):
        assert outline.geometry.symmetric_difference(shape).area < 1e-5 * shape.area
        assert len(shapely.get_coordinates(outline.geometry)) == len(shapely.get_coordinates(shape))


def test_foreign_columns_keep_their_names_unless_ours_have_them():
    columns = {"ID": [7, 8, 9], "Score": [1, 2, 3], "owner": "x", "caption": "theirs", "geom": 1}
    layer = read_changes(table(**columns))
    assert [outline.source_id for outline in layer.outlines] == ["7", "8", "9"]
    assert layer.columns == ("source_Score", "owner", "source_caption", "source_geom")
    assert not {name.lower() for name in layer.columns} & {name.lower() for name in PROPERTIES}


def test_hostile_columns_become_plain_values():
    columns = {
        "": [1.5, np.nan, np.inf],
        "big\nname\0" * 40: ["a\0b", "x" * 10**6, None],
        "lists": [[1, {"a": 2}], (3,), np.array([1, 2])],
        "bytes": [b"\0\1", b"", b"x"],
        "huge": [10**30, -(10**30), 1],
        "source_score": ["=1+1", 0, True],
        "score": [1, 2, 3],
        "when": np.array(["2020-01-31", "NaT", "2021-01-01T12:00"], dtype="datetime64[s]"),
    }
    layer = read_changes(table(**columns))
    assert len(layer.columns) == len(columns) and len({name.lower() for name in layer.columns}) == len(
        columns
    )
    for outline in layer.outlines:
        assert all(name.isprintable() and 0 < len(name) <= 80 for name in outline.attributes)
        text = json.dumps(outline.attributes, allow_nan=False)
        text.encode()
        assert len(text) < 20_000


def test_invalid_polygons_are_mended_and_counted():
    bow = Polygon([(15, 50), (15.001, 50.001), (15.001, 50), (15, 50.001)])
    layer = read_changes(table([SHAPES[0], None, bow]))
    assert (layer.mended, layer.left_out, len(layer.outlines)) == ((3,), 1, 2)
    assert all(outline.geometry.is_valid for outline in layer.outlines)
    assert len(list(layer.warnings())) == 2


@pytest.mark.parametrize(
    ("shapes", "crs", "named"),
    [
        ([SHAPES[0], Point(15, 50)], "EPSG:4326", "feature 2"),
        ([LineString([(15, 50), (16, 50)])], "EPSG:4326", "feature 1"),
        ([SHAPES[0]], None, "coordinate reference system"),
        ([translate(SHAPES[0], 500, 0)], "EPSG:4326", "feature 1"),
        ([box(15, 50, 15, 50)], "EPSG:4326", "feature 1"),
        ([box(1e9, 1e9, 2e9, 2e9)], "EPSG:32633", "feature 1"),
    ],
)
def test_what_is_no_polygon_on_the_ground_is_refused_by_its_number(shapes, crs, named):
    with pytest.raises(GivenInvalid, match=named):
        read_changes(table(shapes, crs))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gpkg", b"<OGRVRTDataSource/>"),
        ("a.kml", b"<OGRVRTDataSource><OGRVRTLayer name='x'/></OGRVRTDataSource>"),
        ("a.geojson", b'{"type": "FeatureCollection"'),
        ("a.geojson", b'{"type": "FeatureCollection", "features": [], "crs": {"type": "link"}}'),
        (
            "a.geojson",
            b'{"features": [], "crs": {"properties": {"name": "+proj=utm +zone=33 +nadgrids=/etc/passwd"}}}',
        ),
        ("a.json", b"[" * 100_000),
        ("a.parquet", b"PAR1"),
        ("a.fgb", b""),
        ("a.shp", b"\x00\x00\x27\x0a"),
        ("a.csv", b"owner\nme\n"),
        ("a.csv", b"wkt\nPOLYGON ((0 0, 1 1\n"),
        ("a.zip", b"PK\x03\x04"),
    ],
)
def test_a_damaged_or_leading_file_is_refused_by_its_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((GivenInvalid, TilingError), match=name):
        read_changes(tmp_path / name)


def test_a_zip_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(polygon_files, "LARGEST_BYTES", 2**16)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.geojson", b" " * 2**17)
    with pytest.raises(GivenInvalid, match=r"a\.zip"):
        read_changes(tmp_path / "a.zip")


def test_another_layer_than_the_first_is_named_as_in_qgis(tmp_path):
    path = tmp_path / "two.gpkg"
    table(SHAPES[:1]).to_file(path, layer="old")
    table(SHAPES[1:]).to_file(path, layer="new")
    first, second = read_changes(path), read_changes(f"{path}|layername=new")
    assert (first.layer, len(first.outlines)) == ("old", 1)
    assert (second.layer, len(second.outlines)) == ("new", 2)
    with pytest.raises(GivenInvalid, match="old, new"):
        read_changes(f"{path}|layername=none")


def raster(path, values, crs="EPSG:32633", nodata=None):
    transform = from_origin(500_000, 5_600_000, 2, 2)
    profile = {"crs": crs, "transform": transform, "nodata": nodata, "count": 1, "dtype": values.dtype}
    with rasterio.open(
        path, "w", driver="GTiff", height=values.shape[0], width=values.shape[1], **profile
    ) as file:
        file.write(values, 1)
    return path


SPOTS = np.zeros((60, 80), np.uint8)
SPOTS[5:10, 5:10], SPOTS[20:30, 40:50], SPOTS[30:32, 50:52] = 1, 1, 1


@pytest.mark.parametrize(
    ("values", "nodata", "kind", "areas"),
    [
        (SPOTS, None, "mask", [100, 416]),
        (SPOTS * 255, None, "mask", [100, 416]),
        (np.where(SPOTS == 0, 255, SPOTS).astype(np.uint8), 255, "mask", [100, 416]),
        (SPOTS.astype(np.float32) * 0.7, None, "probability", [100, 416]),
        (SPOTS.astype(np.float64), None, "probability", [100, 416]),
        ((SPOTS * 180 + np.arange(80)).astype(np.uint8), None, "probability", [100, 416]),
        (SPOTS.astype(np.int32) * (1 + (np.arange(80) > 20)), None, "classes", [100, 416]),
    ],
)
def test_a_raster_is_a_mask_a_probability_or_classes(tmp_path, values, nodata, kind, areas):
    layer = read_changes(raster(tmp_path / "mask.tif", values, nodata=nodata))
    assert layer.kind == kind
    found = sorted(geodesic_area_m2(outline.geometry) for outline in layer.outlines)
    assert found == pytest.approx(areas, rel=2e-3)
    if kind == "classes":
        assert [outline.attributes["class"] for outline in layer.outlines] == [1, 2]


@pytest.mark.parametrize(
    "values",
    [np.arange(4800, dtype=np.float32).reshape(60, 80) / 7, np.arange(4800, dtype=np.int16).reshape(60, 80)],
)
def test_a_raster_of_something_else_is_refused(tmp_path, values):
    with pytest.raises(GivenInvalid, match=r"mask\.tif"):
        read_changes(raster(tmp_path / "mask.tif", values))
