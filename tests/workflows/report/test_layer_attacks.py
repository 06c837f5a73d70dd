"""Layers that are small on the disk and huge in memory, and journals beside a GeoPackage."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from contextlib import closing

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from archive_rows import change, pair_state, report

from tiling import UnsafeReference
from workflows import polygon_files
from workflows.archive.layers.stac import pair_geometry
from workflows.bounded import bounded_memory, check_depth
from workflows.errors import ContextInvalid, GivenInvalid, OptionInvalid, PairTableInvalid, ReportInvalid
from workflows.monitor.stack import kept
from workflows.option_fields import area_of, read_area
from workflows.pairs.table import read_pairs
from workflows.polygon_files import PolygonFiles
from workflows.report import reading
from workflows.report.context import ContextLayers
from workflows.report.formats import layers
from workflows.report.geojson import outlines_in
from workflows.report.reading import open_report
from workflows.scene.given.read import read_changes

LONG = "x" * 100_000


def shared_prefix(count):
    return pa.array([LONG + str(number % 2) for number in range(count)]), {
        "use_dictionary": False,
        "column_encoding": {"caption": "DELTA_BYTE_ARRAY"},
    }


def one_dictionary(count):
    codes = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([LONG])), {}


def one_page(count):
    return pa.array([LONG] * count), {"use_dictionary": False, "data_page_size": 2**30}


@pytest.mark.parametrize("column", [shared_prefix, one_dictionary, one_page])
@pytest.mark.parametrize("is_memory", [False, True])
def test_columns_that_unpack_to_a_thousand_times_are_refused(tmp_path, monkeypatch, column, is_memory):
    """By the bytes that come out, or by the memory that they take."""
    path, count = tmp_path / "r.parquet", 400
    report(change()).write(path)
    rows = pa.concat_tables([pq.read_table(path)] * count)
    values, options = column(count)
    rows = rows.set_column(rows.schema.get_field_index("caption"), "caption", values)
    pq.write_table(rows, path, compression="zstd", **options)
    assert path.stat().st_size < 40_000
    if is_memory:
        resource = pytest.importorskip("resource")
        monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
        monkeypatch.setattr(reading, "parquet_features", lambda *_: bytearray(2**62))
    else:
        monkeypatch.setattr(reading, "LARGEST_BYTES", 10**6)
    with pytest.raises(ReportInvalid):
        open_report(path)


def test_the_limit_of_memory_ends_with_its_block_and_is_that_of_the_system_before():
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), bounded_memory(2**28), bounded_memory(2**30):
        bytearray(2**30)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.fixture
def layer(tmp_path):
    return report(change()).write(tmp_path / "r.gpkg")


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_has_the_name_of_a_journal_and_is_no_file_is_never_opened(layer, ending, kind):
    journal = layer.with_name(layer.name + ending)
    if kind == "pipe":
        os.mkfifo(journal)
    elif kind == "link":
        journal.symlink_to("/dev/zero")
    else:
        journal.mkdir()
    with pytest.raises(ReportInvalid, match=r"r\.gpkg"):
        open_report(layer)


def test_a_journal_is_neither_applied_nor_removed(layer, tmp_path):
    victim, journal = tmp_path / "victim", layer.with_name("r.gpkg-journal")
    victim.write_text("mine")
    name = str(victim).encode()
    # As SQLite ends a journal of several files: the name of the file that it deletes with it.
    magic = bytes.fromhex("d9d505f920a163d7")
    tail = name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + magic
    journal.write_bytes(magic + bytes(504) + tail)
    before = layer.read_bytes()
    with pytest.raises(ReportInvalid):
        open_report(layer)
    assert victim.read_text() == "mine" and journal.exists() and layer.read_bytes() == before


def test_what_another_program_writes_is_read_while_it_has_the_layer_open(layer):
    with closing(sqlite3.connect(layer)) as editor:
        editor.execute("PRAGMA journal_mode = WAL")
        for (trigger,) in editor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            editor.execute(f"DROP TRIGGER {trigger}")
        editor.execute("UPDATE changes SET review_status = 'confirmed'")
        editor.commit()
        assert [one.review_status for one in open_report(layer).changes] == ["confirmed"]
    assert [one.review_status for one in open_report(layer).changes] == ["confirmed"]


# Layers of polygons: --area, --context and --changes -------------------------------------------------------

BOUND = (
    'BOUNDCRS[SOURCECRS[GEOGCRS["x",DATUM["d",ELLIPSOID["e",6378137,298.25]],CS[ellipsoidal,2],'
    'AXIS["lat",north],AXIS["lon",east],ANGLEUNIT["degree",0.0174532925199433]]],TARGETCRS[GEOGCRS["w",'
    'DATUM["World Geodetic System 1984",ELLIPSOID["w",6378137,298.257223563]],CS[ellipsoidal,2],'
    'AXIS["lat",north],AXIS["lon",east],ANGLEUNIT["degree",0.0174532925199433],ID["EPSG",4326]]],'
    'ABRIDGEDTRANSFORMATION["t",METHOD["NTv2",ID["EPSG",9615]],PARAMETERFILE['
    '"Latitude and longitude difference file","PIPE",ID["EPSG",8656]]]]'
)
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
GML = (
    '<?xml version="1.0"?><ogr:FeatureCollection xmlns:ogr="http://ogr.maptools.org/" '
    'xmlns:gml="http://www.opengis.net/gml"><gml:featureMember><ogr:a><ogr:g><gml:Polygon srsName="SRS">'
    "<gml:outerBoundaryIs><gml:LinearRing><gml:coordinates>0,0 1,0 1,1 0,0</gml:coordinates>"
    "</gml:LinearRing></gml:outerBoundaryIs></gml:Polygon></ogr:g></ogr:a></gml:featureMember>"
    "</ogr:FeatureCollection>"
)


@pytest.fixture
def areas(tmp_path):
    """Write a layer with one square, by the suffix of its name."""
    frame = geopandas.GeoDataFrame({"name": ["a"]}, geometry=[shapely.box(0, 0, 1, 1)], crs=4326)

    def write(suffix):
        path = tmp_path / f"areas{suffix}"
        if suffix == ".gml":
            path.write_text(GML.replace("SRS", "EPSG:4326"))
        elif suffix == ".mif":
            path.write_text("Version 300\nColumns 1\n  id Integer\nData\n\nRegion 1\n4\n0 0\n1 0\n1 1\n0 0\n")
        elif suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_file(path, layer="areas")
        return path

    return write


def read(path):
    return PolygonFiles(OptionInvalid, 1_000_000).read(str(path))[0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "name", ["areas.gpkg-journal", "areas.gpkg-wal", "areas.SHX", "areas.gfs", "areas.mid"]
)
def test_a_pipe_beside_a_layer_is_never_waited_for(areas, tmp_path, name):
    suffix = {"gpkg-journal": ".gpkg", "gpkg-wal": ".gpkg", "gfs": ".gml", "mid": ".mif"}
    path = areas(suffix.get(name.split(".")[-1], ".shp"))
    os.mkfifo(tmp_path / name)
    with pytest.raises(OptionInvalid, match=name.lower().split(".")[-1].replace("shx", "SHX")):
        read(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "statements",
    [
        [f"CREATE VIEW v AS {ENDLESS} SELECT n AS fid, geom FROM r, areas",
         "UPDATE gpkg_contents SET table_name = 'v'", "UPDATE gpkg_geometry_columns SET table_name = 'v'"],
        ["DROP TABLE gpkg_extensions", f"CREATE VIEW gpkg_extensions AS {ENDLESS} SELECT n FROM r"],
        ["ALTER TABLE areas ADD big GENERATED ALWAYS AS (hex(zeroblob(400000000)))"],
        ["PRAGMA writable_schema = ON", "INSERT INTO sqlite_master VALUES ('table', 'v', 'v', 0, "
         "'CREATE VIRTUAL TABLE v /* using rtree */ USING VirtualOGR(''/tmp/pipe'')')"],
        [f"UPDATE gpkg_spatial_ref_sys SET definition = '{BOUND}'"],
    ],
)  # fmt: skip
def test_a_layer_that_is_small_on_the_disk_or_leads_elsewhere_is_refused(areas, statements):
    path = areas(".gpkg")
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        for (trigger,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            base.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            base.execute(statement)
    with pytest.raises((OptionInvalid, UnsafeReference), match="areas"):
        read(path)


def test_pages_that_two_rows_share_are_refused(areas):
    path = areas(".gpkg")
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE a (x)")
        base.execute("CREATE TABLE b (x)")
        base.execute("INSERT INTO a VALUES (zeroblob(100000))")
        base.execute("PRAGMA writable_schema = ON")
        (page,) = base.execute("SELECT rootpage FROM sqlite_master WHERE name = 'a'").fetchone()
        base.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'b'", (page,))
        base.commit()
    with pytest.raises(OptionInvalid, match="damaged"):
        read(path)


@pytest.mark.parametrize("escape", [lambda text: text.replace("F", "\\u0046"), str])
def test_a_reference_system_that_names_a_file_is_refused_in_other_layers(areas, tmp_path, escape):
    path = areas(".gml")
    path.write_text(GML.replace("SRS", BOUND.replace('"', "&quot;").replace("FILE", "&#70;ILE")))
    with pytest.raises(UnsafeReference):
        read(path)
    path = areas(".parquet")
    table = pq.read_table(path)
    geo = json.loads(table.schema.metadata[b"geo"])
    geo["columns"]["geometry"]["crs"] = "CRS"
    text = json.dumps(geo).replace('"CRS"', escape(json.dumps(BOUND)))
    pq.write_table(table.replace_schema_metadata({"geo": text}), path)
    with pytest.raises(UnsafeReference):
        read(path)
    path = areas(".shp")
    path.with_suffix(".prj").write_text(BOUND)
    with pytest.raises(UnsafeReference):
        read(path)


def test_columns_that_unpack_without_end_are_refused(areas, tmp_path, monkeypatch):
    monkeypatch.setattr(polygon_files, "LARGEST_BYTES", 10**6)
    path = areas(".parquet")
    table = pa.concat_tables([pq.read_table(path)] * 40)
    for name, value in (("name", LONG), ("geometry", shapely.Point(0, 0).buffer(1, 4000).wkb)):
        column = pa.DictionaryArray.from_arrays(pa.array([0] * 40), pa.array([value]))
        pq.write_table(table.set_column(table.schema.get_field_index(name), name, column), path)
        with pytest.raises(OptionInvalid, match="unpacks"):
            read(path)
    features = [{"type": "Feature", "geometry": None, "properties": {f"p{n}": 1}} for n in range(8000)]
    path = tmp_path / "wide.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    with pytest.raises(OptionInvalid, match="columns"):
        read(path)


def test_shapes_of_collections_without_end_never_reach_geos(areas, tmp_path):
    """It would end the process."""
    path, deep = areas(".parquet"), struct.pack("<BII", 1, 7, 1) * 10**5 + shapely.Point(0, 0).wkb
    table = pq.read_table(path)
    place = table.schema.get_field_index("geometry")
    pq.write_table(table.set_column(place, "geometry", pa.array([deep])), path)
    with pytest.raises(OptionInvalid, match="nested"):
        read(path)
    text = "GEOMETRYCOLLECTION(" * 10**5 + "POINT(0 0)" + ")" * 10**5
    (tmp_path / "areas.csv").write_text(f"WKT,name\n{text},a\n")
    with pytest.raises(OptionInvalid, match="nested"):
        read(tmp_path / "areas.csv")
    assert area_of(text) is None and layers._outline(deep) is None
    (tmp_path / "pairs.csv").write_text(f"before,after,footprint\na.tif,b.tif,{text}\n")
    with pytest.raises(PairTableInvalid, match="nested"):
        read_pairs(tmp_path / "pairs.csv")
    with pytest.raises(ValueError, match="nested"):
        pair_geometry(pair_state("a", footprint=deep))
    with pytest.raises(ValueError, match="nested"):
        kept._change({"pixels": shapely.to_wkb(shapely.MultiPolygon(), hex=True), "geometry": deep.hex()})


@pytest.mark.parametrize("options", [{}, {"byte_order": 0}, {"include_srid": True}, {"flavor": "iso"}])
def test_shapes_of_every_kind_may_reach_geos(options):
    for height in ("", " Z"):
        flat = shapely.from_wkt("MULTIPOLYGON(((0 0,1 0,1 1,0 0),(0 0,.1 0,.1 .1,0 0)),((5 5,6 5,6 6,5 5)))")
        shape = shapely.force_3d(flat, 1.0) if height else flat
        line, point = shapely.LineString([(0, 0), (1, 1)]), shapely.MultiPoint([(0, 0), (1, 1)])
        whole = shapely.set_srid(shapely.GeometryCollection([shape, line, point, flat]), 4326)
        for one in (whole, shape, line, point, shapely.Point()):
            check_depth(shapely.to_wkb(one, **options))


VRT = "<OGRVRTDataSource><OGRVRTLayer><SrcDataSource>{}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>"


@pytest.mark.parametrize(
    ("name", "start"),
    [("v.tab", "!table\n" + "\n" * 9000), ("v.mif", "Version 300\n"), ("v.fgb", "fgb\3fgb\1"),
     ("v.kml", "<a>"), ("v.dxf", " ")],
)  # fmt: skip
@pytest.mark.parametrize("lead", [VRT, "gdal_streamed_alg {}", "PDS_VERSION_ID ^TABLE {}", 'Open Table "{}"'])
def test_a_layer_that_leads_gdal_to_another_file_is_refused(areas, tmp_path, name, start, lead):
    """GDAL looks for such texts at the beginning of a file of any format."""
    path = tmp_path / name
    path.write_text(start + lead.format(areas(".gpkg")))
    with pytest.raises(OptionInvalid, match=name):
        read(path)


def test_corners_of_one_shape_without_end_are_refused_before_they_are_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr("rscc.files.json.loads", lambda *_, **__: pytest.fail("it was parsed"))
    path = tmp_path / "v.geojson"
    path.write_text(f'{{"coordinates":[],"a":{{"coordinates":[{"[0,0]," * 3_000_001}]}}}}')
    with pytest.raises(OptionInvalid, match="millions"):
        read(path)


@pytest.mark.timeout(60)
def test_outlines_that_cross_themselves_without_end_are_never_mended(tmp_path):
    """GEOS would take hours."""
    ring = np.random.default_rng(0).random((400, 2)).tolist()
    shape = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
    path = tmp_path / "v.geojson"
    feature = {"type": "Feature", "properties": {"id": 1}, "geometry": shape}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    for use in (read_changes, read_area, lambda text: ContextLayers([f"{text}:id"])):
        with pytest.raises((OptionInvalid, ContextInvalid, GivenInvalid), match="crosses itself"):
            use(str(path))
    assert outlines_in(shape) is None
