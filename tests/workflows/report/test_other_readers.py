"""Every format read back by programs that share no library with what wrote it: GDAL's command line,
pyarrow alone.
"""

from __future__ import annotations

import json
import shutil
import subprocess

import pyarrow.parquet as pq
import pytest
import shapely
from archive_rows import change, report
from report_checks import load_valid
from shapely.geometry import MultiPolygon, Polygon, box, mapping, shape

FORMATS = [".geojson", ".geojsonl", ".gpkg", ".fgb"]
LISTS = ("alternatives", "came", "gone", "before_cover", "context")
TEXTS = (
    "it's \"quoted\" \\' \\n %s {} ; -- $$",
    "\b\t\n\r\x01\x1f\x7f\u0085\u2028\u202e\ufeff right to left",
    "NULL", "[]", "{}", "\\N", '["a"]', "2019-08-31", "12", "true",
    "\U0001f3d8 Häuser 家 \u0301", "<b>&amp;`${1}`", "10 kB '\"\\ µ " * 800,
)  # fmt: skip
# Degrees: what seven decimals keep, and what the way to another reference system and back may take from them.
SAME, MOVED = 1e-12, 2e-9
gdal = pytest.mark.skipif(shutil.which("ogr2ogr") is None, reason="the system has no GDAL (gdal-bin)")


@pytest.fixture(scope="module")
def made():
    hole = Polygon(
        box(12.4, 41.8, 12.401, 41.801).exterior, [box(12.4003, 41.8003, 12.4006, 41.8006).exterior]
    )
    two = MultiPolygon([box(12.6, 41.8, 12.601, 41.801), hole])
    known = {"count": 2, "came": ("building", "road"), "gone": (), "before_cover": ("trees",)}
    sizes = {"largest_m2": 250.13, "median_m2": 0.01, "changed_m2": 1234567.89, "score": 1.0}
    told = {"review_status": "wrong words", "reviewer": "O'Brien", "direction": "replaced", "place": "centre"}
    changes = [
        change(1),
        change(2, geometry=two, date_before=None, caption_confident=False, **known, **sizes, **told),
        *(
            change(
                n,
                12.5 + n / 100,
                caption=text,
                alternatives=(f"{text}!", ""),
                before=text,
                reviewer_note=text,
            )
            for n, text in enumerate(TEXTS, start=3)
        ),
    ]
    return report(
        *changes, tiling={"gsd": 0.5, "crs": "EPSG:32633"}, ground=mapping(box(12.4, 41.7, 12.8, 42.0))
    )


@pytest.fixture(scope="module")
def wanted(made, tmp_path_factory):
    """The features of the GeoJSON report, by id."""
    path = made.write(tmp_path_factory.mktemp("wanted") / "r.geojson")
    return {one["id"]: one for one in load_valid(path)["features"]}


def compare(features, wanted, tolerance):
    """Compare attributes and geometries; a format without lists has them as JSON."""
    found = {}
    for one in features:
        values = {"id": one.get("id"), **one["properties"]}
        lists = {name: json.loads(values[name]) for name in LISTS if isinstance(values.get(name), str)}
        found[values["id"]] = {**values, **lists}
        geometry, true = one["geometry"], shape(wanted[values["id"]]["geometry"])
        assert geometry.is_valid and shapely.get_num_geometries(geometry) == shapely.get_num_geometries(true)
        assert shapely.hausdorff_distance(geometry, true) <= tolerance
        assert geometry.area == pytest.approx(true.area, rel=1e-4)
    for number, feature in wanted.items():
        # The GeoJSON that GDAL 3.6 makes lacks what a FlatGeobuf does not say, and empty lists.
        nothing = {name: [] if value == [] else None for name, value in feature["properties"].items()}
        assert {**nothing, **found[number]} == feature["properties"], number
    assert len(found) == len(wanted)


def as_texts(properties):
    """Return attributes as they were before GDAL 3.6 made JSON of texts that are JSON, in its GeoJSON."""
    return {
        name: json.dumps(value) if name not in LISTS and isinstance(value, list | dict) else value
        for name, value in properties.items()
    }


@gdal
@pytest.mark.parametrize("suffix", FORMATS)
def test_gdal_reads_what_was_written(made, wanted, tmp_path, suffix):
    path = made.write(tmp_path / f"r{suffix}")
    words = ["ogr2ogr", "-f", "GeoJSON", "-preserve_fid", "-t_srs", "EPSG:4326"]
    words += ["-lco", "COORDINATE_PRECISION=15", "/vsistdout/", path]
    words += ["changes"] if suffix == ".gpkg" else []
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    features = [
        {**one, "properties": as_texts(one["properties"]), "geometry": shape(one["geometry"])}
        for one in json.loads(done.stdout, strict=False)["features"]
    ]
    compare(features, wanted, MOVED if suffix == ".gpkg" else SAME)


@gdal
def test_gdal_finds_the_layers_and_their_reference_systems(made, tmp_path):
    path = made.write(tmp_path / "r.gpkg")
    for layer, count in (
        ("changes", len(made.changes)),
        ("outlines", len(made.changes) + 1),
        ("footprint", 1),
    ):
        said = subprocess.run(
            ["ogrinfo", "-so", "-ro", path, layer], capture_output=True, text=True, check=True
        ).stdout
        assert f"Feature Count: {count}\n" in said and "Geometry: Multi Polygon\n" in said
        assert 'ID["EPSG",32633]' in said


def test_pyarrow_alone_reads_what_was_written(made, wanted, tmp_path):
    table = pq.read_table(made.write(tmp_path / "r.parquet"))
    features = []
    for row in table.to_pylist():
        geometry, corners = shapely.from_wkb(row.pop("geometry")), row.pop("bbox")
        assert tuple(corners.values()) == geometry.bounds
        features.append({"id": row["id"], "properties": row, "geometry": geometry})
    compare(features, wanted, 0)
