"""Reports are read back from GeoPackage and GeoParquet as from GeoJSON, whoever wrote them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archive_rows import change, report
from pages import GSD, square, squares
from report_checks import hostile_texts
from shapely.geometry import MultiPolygon, Polygon, box

from workflows.archive.verify import read_record
from workflows.errors import ReportInvalid
from workflows.report.reading import open_report

LAYERS = ("r.gpkg", "r.parquet")
# A square of 1e300 metres, behind the header of a GeoPackage.
NOWHERE = "4750000300000000" + box(0, 0, 1e300, 1e300).wkb_hex
WITH_TYPE = '<!DOCTYPE a [<!ENTITY b "c">]><a><MDI key="rscc">1</MDI></a>'
# A reference system that makes PROJ open a file.
WITH_FILE = (
    'BOUNDCRS[SOURCECRS[GEOGCRS["a",DATUM["b",ELLIPSOID["c",6378137,298.3]],CS[ellipsoidal,2]]],'
    'TARGETCRS[GEOGCRS["WGS 84",DATUM["d",ELLIPSOID["e",6378137,298.3]],CS[ellipsoidal,2]]],'
    'ABRIDGEDTRANSFORMATION["f",METHOD["NTv2"],PARAMETERFILE["g","/tmp/pipe"]]]'
)
ENDLESS = (
    "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
    "SELECT id, 'changes' AS table_name, '' AS metadata, '' AS column_name, 0 AS srs_id FROM n"
)
ACROSS = MultiPolygon([box(179.99, -17.01, 180, -17), box(-180, -17.01, -179.99, -17)])
RING = Polygon(box(-97.001, 30, -97, 30.001).exterior, [box(-97.0007, 30.0003, -97.0002, 30.0006).exterior])


def made(folder, name, changes, **run):
    """Write a report and return its file."""
    told = report(*changes, **{"tiling": {"gsd": GSD, "crs": "EPSG:32614"}, **run})
    return told.write(folder / name, overwrite=True)


def numbered(changes):
    return [replace(one, id=number) for number, one in enumerate(changes, start=1)]


@pytest.fixture(scope="module")
def changed():
    """Changes with every attribute, and with as few as there can be."""
    told = {"count": 3, "count_sure": 2, "direction": "replaced", "came": ("building", "road")}
    told |= {"gone": ("trees",), "place": "north", "caption_confident": False, "changed_m2": 12.5}
    said = {"review_status": "wrong words", "reviewer_caption": 'a "pond"', "reviewer_note": ""}
    full = square(1, 40, 40, 20, **told, **said, reviewer="Zoé")
    return numbered([full, change(2, geometry=RING), *squares(40, (300, 420))])


@pytest.fixture(scope="module")
def geopackage(changed, tmp_path_factory):
    return made(tmp_path_factory.mktemp("geopackage"), "r.gpkg", changed)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("crs", ["EPSG:32614", "EPSG:4326", "EPSG:3857", None])
def test_it_is_the_report_to_the_last_byte(tmp_path, changed, name, crs):
    tiling = {"gsd": GSD, "crs": crs}
    plain = made(tmp_path, "r.geojson", changed, tiling=tiling)
    layer = made(tmp_path, name, changed, tiling=tiling)
    assert open_report(layer).encoded() == plain.read_bytes()
    assert read_record(layer) == read_record(plain)


@pytest.mark.parametrize("name", LAYERS)
def test_a_change_across_180_degrees_stays_in_its_parts(tmp_path, name):
    changes = [change(1, geometry=ACROSS), change(2, geometry=box(179.5, -17.01, 179.51, -17))]
    tiling = {"gsd": 1, "crs": "EPSG:32701"}
    plain = made(tmp_path, "r.geojson", changes, tiling=tiling)
    assert open_report(made(tmp_path, name, changes, tiling=tiling)).encoded() == plain.read_bytes()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.slow
def test_texts_of_strangers_come_back_as_they_are(tmp_path, name):
    texts = [text.replace("\0", "\ufffd") for text in hostile_texts(300)]
    changes = numbered([change(1, caption=text, alternatives=(text, text)) for text in texts])
    read = open_report(made(tmp_path, name, changes, warnings=texts))
    assert [one.caption for one in read.changes] == texts
    assert [one.alternatives for one in read.changes] == [(text, text) for text in texts]
    assert read.run["warnings"] == texts


def edit(path, *statements):
    with closing(sqlite3.connect(path)) as base:
        # What GDAL's triggers call is not there; a person edits by QGIS, which has it.
        for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            base.execute(f'DROP TRIGGER "{name}"')
        for statement in statements:
            base.execute(statement)
        base.commit()


def test_what_a_person_edits_in_the_table_is_read(tmp_path, changed):
    path = made(tmp_path, "r.gpkg", changed)
    edit(
        path,
        "UPDATE changes SET review_status = 'confirmed', reviewer = 'Ada' WHERE id = 2",
        "ALTER TABLE changes ADD COLUMN photo TEXT",
        "ALTER TABLE changes DROP COLUMN median_m2",
        "DELETE FROM changes WHERE id = 4",
    )
    read = open_report(path).changes
    assert [one.id for one in read] == [1, 2, 3, *range(5, len(changed) + 1)]
    assert (read[1].review_status, read[1].reviewer, read[1].median_m2) == ("confirmed", "Ada", None)


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE changes RENAME TO others"],
        ["ALTER TABLE changes RENAME TO o", "CREATE VIEW changes AS SELECT * FROM o"],
        ["DELETE FROM gpkg_geometry_columns"],
        ["DELETE FROM gpkg_metadata"],
        ["DROP TABLE gpkg_metadata_reference", "DROP TABLE gpkg_metadata"],
        ["UPDATE gpkg_metadata SET metadata = '<a>&b;</a>'"],
        ["UPDATE gpkg_metadata SET metadata = x'00'"],
        [f"UPDATE gpkg_metadata SET metadata = '{WITH_TYPE}'"],
        ["UPDATE gpkg_metadata SET metadata = '<a><MDI key=\"rscc\">{</MDI></a>'"],
        ["UPDATE changes SET geometry = x'4750' WHERE id = 1"],
        ["UPDATE changes SET geometry = 'GP' WHERE id = 1"],
        ["UPDATE changes SET geometry = NULL WHERE id = 1"],
        ["UPDATE gpkg_spatial_ref_sys SET definition = 'EPSG:32700000'"],
        [f"UPDATE changes SET geometry = x'{NOWHERE}' WHERE id = 1"],
        ["UPDATE changes SET came = '[1' WHERE id = 1"],
        ["UPDATE changes SET count = 'x' WHERE id = 1"],
        ["UPDATE changes SET caption_confident = 7 WHERE id = 1"],
        ["UPDATE changes SET score = 9e999 WHERE id = 1"],
        [f"UPDATE gpkg_spatial_ref_sys SET definition = '{WITH_FILE}'"],
        # From few bytes come endless ones.
        ["ALTER TABLE gpkg_metadata RENAME TO m", f"CREATE VIEW gpkg_metadata AS {ENDLESS}"],
        ["ALTER TABLE gpkg_geometry_columns RENAME TO g", f"CREATE VIEW gpkg_geometry_columns AS {ENDLESS}"],
        [
            "ALTER TABLE changes DROP COLUMN came",
            "ALTER TABLE changes ADD came AS (hex(zeroblob(300000000)))",
        ],
        pytest.param(
            ["UPDATE changes SET caption = zeroblob(260000000) WHERE id = 1"], marks=pytest.mark.slow
        ),
    ],
)
def test_a_damaged_geopackage_is_refused(tmp_path, geopackage, statements):
    path = shutil.copy(geopackage, tmp_path)
    edit(path, *statements)
    with pytest.raises(ReportInvalid, match=r"r\.gpkg") as caught:
        open_report(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_cut_off_or_something_else_is_refused(tmp_path, changed, name):
    path = made(tmp_path, name, changed)
    whole = path.read_bytes()
    vrt = b"<OGRVRTDataSource><OGRVRTLayer name='changes'><SrcDataSource>x.csv</SrcDataSource></OGRVRTLayer>"
    cut = [whole[: len(whole) * part // 9] for part in range(9)]
    for content in (*cut, vrt + b"</OGRVRTDataSource>", b"{}", b"SQLite format 3\0", b"PAR1PAR1"):
        path.write_bytes(content)
        for read in (open_report, read_record):
            with pytest.raises(ReportInvalid, match=rf"{name}: ") as caught:
                read(path)
            assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["x" * 300_000, ["x" * 300_000]])
def test_a_text_that_a_few_bytes_repeat_in_every_row_is_not_unpacked(tmp_path, changed, value):
    path = made(tmp_path, "r.parquet", changed)
    rows = pa.concat_tables([pq.read_table(path)] * 25)
    name = "alternatives" if isinstance(value, list) else "caption"
    column = pa.array([value] * len(rows), rows.schema.field(name).type)
    pq.write_table(rows.set_column(rows.schema.get_field_index(name), name, column), path, compression="zstd")
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ReportInvalid):
        open_report(path)


@pytest.mark.parametrize(("small", "number"), [("{}", 3_500_001), ("[]", 8_000_000)])
def test_a_file_of_endless_small_values_is_not_parsed(tmp_path, monkeypatch, small, number):
    monkeypatch.setattr("rscc.files.json.loads", lambda *_, **__: pytest.fail("it was parsed"))
    path = tmp_path / "r.geojson"
    path.write_text(f"[{','.join([small] * number)}]")
    with pytest.raises(ReportInvalid, match=r"r\.geojson"):
        open_report(path)


def test_what_unpacks_to_more_than_a_report_is_not_read(tmp_path, changed, monkeypatch):
    path = made(tmp_path, "r.parquet", [replace(one, caption=f"{one.id:09} " * 999) for one in changed])
    size = path.stat().st_size
    monkeypatch.setattr("workflows.report.reading.LARGEST_BYTES", size)
    with pytest.raises(ReportInvalid):
        open_report(path)
    monkeypatch.setattr("workflows.report.reading.LARGEST_BYTES", size - 1)
    with pytest.raises(ReportInvalid):
        open_report(path)


@pytest.mark.parametrize("name", ["r.fgb", "r.geojsonl"])
def test_a_format_without_the_run_record_is_named(tmp_path, changed, name):
    path = made(tmp_path, name, changed)
    with pytest.raises(ReportInvalid):
        open_report(path)


def test_a_geopackage_is_read_in_any_folder_and_nothing_is_left_beside_it(tmp_path, changed):
    for name in ("a?b", "50%", "#1", "a b"):
        (tmp_path / name).mkdir()
        path = made(tmp_path / name, "r.gpkg", changed)
        assert len(open_report(path).changes) == len(changed)
        assert [one.name for one in path.parent.iterdir()] == ["r.gpkg"]
