"""A report in a real PostGIS server of the system, read back by psql and GDAL."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import shapely
from archive_rows import change, report
from hostile_texts import hostile_texts
from postgis_server import PASSWORD, PROGRAMS, WHY_NOT, running
from qgis_check import qgis_is_there, run_script
from shapely.geometry import MultiPolygon, box, mapping, shape

from tiling import transformer
from workflows.errors import OptionInvalid, OutputExists, OutputNotWritable

pytest.importorskip("asyncpg", reason="the extra postgis is not installed")

from workflows.report.postgis import Database

READ = Path(__file__).resolve().parents[2] / "support" / "qgis_read.py"
pytestmark = pytest.mark.slow

HOSTILE = (
    "'); DROP TABLE changes; --",
    "it's \"quoted\" \\' \\n \\x00 $$ $1 %s {} ; /* -- E'\\''",
    "\b\t\n\r\x01\x1f\x7f\u0085\u2028\u202e\ufeff right to left",
    "NULL", "\\N", "", " ", "{a,b}", '{"a": null}', "\U0001f3d8 Häuser 家 \u0301",
    "10 kB \N{GREEK SMALL LETTER MU} '\"\\" * 700,
)  # fmt: skip


@pytest.fixture(scope="module")
def server():
    if PROGRAMS is None:
        pytest.skip(WHY_NOT)
    with running() as started:
        yield started


@pytest.fixture
def table(server):
    """Write a report into a table of its own name, and return what psql reads of it, by id."""

    def write(made, name="changes", **options):
        Database.of(server.address(table=name)).write(made.changes, made.run, **options)
        return read(server, name)

    for name in server.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").splitlines():
        if name != "spatial_ref_sys":
            server.ask(f'DROP TABLE "{name}"')
    return write


def read(server, name="changes"):
    """The rows of a table as psql prints them: JSON, the geometry as GeoJSON in degrees."""
    sql = (
        "SELECT to_jsonb(t) - 'geometry' || jsonb_build_object("
        "'geometry', ST_AsGeoJSON(ST_Transform(geometry, 4326), 12)::jsonb, 'srid', ST_SRID(geometry)) "
        f'FROM "{name}" t ORDER BY id'
    )
    # The separators of lines that Unicode has stand in the texts.
    return {row["id"]: row for row in map(json.loads, filter(None, server.ask(sql).split("\n")))}


def made(*changes, crs="EPSG:32633"):
    return report(*(changes or (change(1),)), tiling={"gsd": 0.5, "crs": crs})


def test_the_table_says_what_the_geojson_says_in_the_crs_of_the_grid(server, table):
    two = MultiPolygon([box(12.6, 41.8, 12.601, 41.801), box(12.61, 41.8, 12.611, 41.801)])
    known = {"count": 2, "came": ("building", "road"), "largest_m2": 250.13, "place": "north"}
    told = made(change(1), change(2, geometry=two, review_status="confirmed", score=1, **known))
    rows = table(told)
    for feature in told.to_geojson()["features"]:
        row = rows[feature["id"]]
        geometry = shape(row.pop("geometry"))
        assert row.pop("srid") == 32633
        assert row == feature["properties"]
        assert shapely.hausdorff_distance(geometry, shape(feature["geometry"])) < 1e-9
    assert json.loads(server.ask("SELECT obj_description('changes'::regclass)")) == told.run
    columns = server.ask(
        "SELECT column_name || ' ' || udt_name FROM information_schema.columns "
        "WHERE table_name = 'changes' ORDER BY ordinal_position"
    ).splitlines()
    assert columns[:4] == ["id int8", "caption text", "alternatives _text", "score float8"]
    assert {"came _text", "caption_confident bool", "geometry geometry"} <= set(columns)
    assert server.ask("SELECT count(*) FROM changes WHERE 'road' = ANY(came)") == "1"
    indices = server.ask("SELECT indexdef FROM pg_indexes WHERE tablename = 'changes' ORDER BY 1")
    assert "USING btree (id)" in indices and "USING gist (geometry)" in indices


def test_hostile_texts_come_back_as_they_are(table):
    told = made(
        *(
            change(n, caption=text, alternatives=(text, ""), came=(text,), before=text, reviewer_note=text)
            for n, text in enumerate(HOSTILE, start=1)
        )
    )
    rows = table(told)
    for feature in told.to_geojson()["features"]:
        wanted = feature["properties"]
        assert {name: rows[wanted["id"]][name] for name in wanted} == wanted
    assert len(rows) == len(HOSTILE)


def test_ten_thousand_hostile_texts_come_back_as_they_are(table):
    texts = hostile_texts(10_000)
    changes = [
        change(n, caption=text, came=(text,), reviewer_note=text) for n, text in enumerate(texts, start=1)
    ]
    rows = table(made(*changes))
    # The one sign that PostgreSQL has no place for is marked.
    stored = [text.replace("\0", "\ufffd") for text in texts]
    assert stored != texts
    assert [rows[n]["caption"] for n in sorted(rows)] == stored
    assert [rows[n]["came"] for n in sorted(rows)] == [[text] for text in stored]
    assert [rows[n]["reviewer_note"] for n in sorted(rows)] == stored


def test_a_record_of_hostile_names_is_the_comment(server, table):
    told = made()
    told.run["inputs"]["before"]["path"] = HOSTILE[0] + HOSTILE[1]
    table(told)
    assert json.loads(server.ask("SELECT obj_description('changes'::regclass)")) == told.run


def test_a_table_is_replaced_only_where_that_is_asked_for(server, table):
    table(made(change(1), change(2)))
    with pytest.raises(OutputExists, match=r"postgresql:///maps, table changes: exists already; add --over"):
        table(made())
    assert len(read(server)) == 2
    assert len(table(made(), overwrite=True)) == 1
    assert table(report(), overwrite=True) == {}
    server.ask("CREATE VIEW looks AS SELECT 1 AS id")
    with pytest.raises(OutputNotWritable, match='"looks" is not a table'):
        table(made(), "looks", overwrite=True)
    assert server.ask("SELECT id FROM looks") == "1"
    server.ask("DROP VIEW looks")


def test_an_error_leaves_the_table_as_it_was(server, table):
    table(made(change(1), change(2)))
    twice = made(change(1, caption="other"), change(1, west=13.0))
    with pytest.raises(OutputNotWritable, match="duplicate key"):
        table(twice, overwrite=True)
    assert [row["caption"] for row in read(server).values()] == ["house 1 appears", "house 2 appears"]
    with pytest.raises(OutputNotWritable, match="duplicate key"):
        table(twice, "others")
    assert server.ask("SELECT to_regclass('others') IS NULL") == "t"


@pytest.mark.parametrize("name", ['O\'Brien "the" table', "Tabelle ä", "SELECT", "; DROP TABLE changes"])
def test_a_table_may_have_any_name(server, table, name):
    Database.of(server.address(table=name)).write(made().changes, made().run)
    quoted = name.replace('"', '""')
    assert server.ask(f'SELECT count(*) FROM "{quoted}"') == "1"
    server.ask(f'DROP TABLE "{quoted}"')


def test_a_table_may_lie_in_another_schema(server, table):
    server.ask('CREATE SCHEMA IF NOT EXISTS "My maps"')
    Database.of(server.address(table="My maps.found")).write(made().changes, made().run)
    assert server.ask('SELECT count(*) FROM "My maps".found') == "1"
    with pytest.raises(OutputNotWritable, match='schema "no" does not exist'):
        table(made(), "no.found")
    server.ask('DROP SCHEMA "My maps" CASCADE')


@pytest.mark.parametrize("crs", ["+proj=tmerc +lat_0=41 +lon_0=12 +k=0.9998", "EPSG:0", None])
def test_where_the_grid_has_no_number_the_table_is_in_degrees(table, crs):
    (row,) = table(made(crs=crs)).values()
    assert row["srid"] == 4326
    outline = shapely.set_precision(change().geometry, 1e-7)
    assert shapely.normalize(shape(row["geometry"])).equals_exact(
        shapely.normalize(MultiPolygon([outline])), 1e-9
    )


def test_gdal_reads_the_same(server, table):
    told = made(change(1, came=("building", "road")), change(2, caption=HOSTILE[1]))
    table(told)
    place = f"PG:host='{server.folder}' user='{server.user}' dbname='maps'"
    words = ["ogr2ogr", "-f", "GeoJSON", "-preserve_fid", "-t_srs", "EPSG:4326"]
    words += ["/vsistdout/", place, "changes"]
    done = subprocess.run(words, capture_output=True, env={"PGPASSWORD": PASSWORD, "PATH": "/usr/bin:/bin"})
    if b"Unable to find driver" in done.stderr:
        pytest.skip("the system's GDAL has no driver for PostgreSQL")
    assert done.returncode == 0, done.stderr
    read_back = json.loads(done.stdout)["features"]
    for feature, back in zip(told.to_geojson()["features"], read_back, strict=True):
        # GDAL takes the key for the id of the feature, and an empty list for nothing at all.
        empty = {name: [] for name, value in feature["properties"].items() if value == []}
        assert {"id": back["id"], **empty, **back["properties"]} == feature["properties"]
        assert shapely.hausdorff_distance(shape(back["geometry"]), shape(feature["geometry"])) < 1e-6


@pytest.mark.qgis
@pytest.mark.skipif(not qgis_is_there(), reason="the system has no QGIS for Python (python3-qgis)")
def test_qgis_reads_the_same(server, table, monkeypatch):
    told = made(change(1, came=("building", "road"), reviewer_note=""), change(2, caption=HOSTILE[1]))
    table(told)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    source = f"host='{server.folder}' user='{server.user}' dbname='maps' key='id' table=changes (geometry)"
    said = run_script(READ, source, "postgres")
    assert said["valid"] and said["crs"] == "EPSG:32633"
    wanted = told.to_geojson()["features"]
    assert [row["properties"] for row in said["rows"]] == [one["properties"] for one in wanted]
    for row, feature in zip(said["rows"], wanted, strict=True):
        inside = shapely.transform(
            shape(feature["geometry"]), transformer("EPSG:4326", "EPSG:32633").transform, interleaved=False
        )
        assert shapely.hausdorff_distance(shapely.from_wkb(bytes.fromhex(row["geometry"])), inside) < 1e-6


def test_the_command(server, table, rscc_command, tmp_path):
    path = report(change(1), change(2), ground=mapping(box(12, 41, 13, 42))).write(tmp_path / "r.geojson")
    address = server.address(table="found")
    code, out, err = rscc_command("convert", path, address)
    assert (code, out, err) == (0, "postgresql:///maps, table found: 2 changes\n", "")
    assert len(read(server, "found")) == 2
    code, out, err = rscc_command("convert", path, address)
    assert code == 2 and "exists already; add --overwrite" in err
    assert rscc_command("convert", path, address, "--overwrite", "--quiet") == (0, "", "")


def test_no_password_is_in_any_message(server, rscc_command, tmp_path):
    path = made().write(tmp_path / "r.geojson")
    wrong = "wr0ng&w@rd"
    cases = (
        server.address(password=wrong),
        server.address(database="missing"),
        server.address(database="plain"),
        server.address(sslmode=PASSWORD),
        server.address(password=None) + "&password=wr0ng%26w%40rd",
        f"postgresql://me:wr0ng%26w%40rd@/maps?host={tmp_path}",
        "postgresql://me:wr0ng%26w%40rd@127.0.0.1:9/maps",
        "postgresql://me:wr0ng%26w%40rd@no.invalid/maps",
        *(f"postgresql://me:{word}@h/maps" for word in (wrong, "wr0ng/w", "7/wr0ng", "wr0ng?w", "wr0ng#w")),
        *(f"postgresql:{rest}" for rest in ("me:wr0ng@h/maps", "/me:wr0ng@h/maps")),
        "postgresql://me:wr0ng%26w%40rd@h:x/maps",
        "postgresql://me:wr0ng%26w%40rd@h/maps?table=a&table=b",
        f"postgresql://me:wr0ng%26w%40rd@h/maps?table={'a' * 64}",
    )
    for address in cases:
        code, out, err = rscc_command("convert", path, address, "--debug")
        assert code in (1, 2) and out == "", address
        assert "wr0ng" not in err and "w@rd" not in err and "s3cret" not in err, address
        last = err.splitlines()[-1]
        assert last.startswith("rscc: error: ") and "unexpected" not in err, last
        code, _, err = rscc_command("convert", address, "out.gpkg")
        assert code == 2 and "give REPORT first" in err and "wr0ng" not in err
    line = "has no PostGIS; run CREATE EXTENSION postgis in it"
    assert line in rscc_command("convert", path, cases[2])[2]
    code, _, err = rscc_command("convert", path, server.address(), "--offline")
    assert code == 2 and err.endswith("table changes: --offline opens no address; leave it out\n")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:x@Host:54/maps?table=a.b&sslmode=require", "postgresql://Host:54/maps, table a.b"),
        ("postgres://host/maps", "postgresql://host/maps, table changes"),
        ("postgresql:///maps?host=/run&table=x", "postgresql:///maps, table x"),
        ("postgresql://[::1]/maps", "postgresql://[::1]/maps, table changes"),
    ],
)
def test_addresses(address, shown):
    database = Database.of(address)
    assert database.shown == shown and "table" not in database.address
    assert "x@" not in repr(database)


@pytest.mark.parametrize("name", ["", ".", "a.", ".b", "%00", "a%0Ab", "x" * 64])
def test_names_that_no_table_can_have(name):
    with pytest.raises(OptionInvalid, match="no table can have the name"):
        Database.of(f"postgresql://host/maps?table={name}")


def test_without_the_extra_the_command_says_what_to_install(rscc_command, tmp_path, monkeypatch):
    path = made().write(tmp_path / "r.geojson")
    monkeypatch.delitem(__import__("sys").modules, "workflows.report.postgis")
    monkeypatch.setitem(__import__("sys").modules, "asyncpg", None)
    code, _, err = rscc_command("convert", path, "postgresql://me:x@h/maps")
    assert (code, err) == (2, "rscc: error: this command needs asyncpg: pip install 'rscc[postgis]'\n")


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_host_that_has_no_name_is_refused_in_one_line(host):
    with pytest.raises(OutputNotWritable, match=r"cannot be written .*; check the address"):
        Database.of(f"postgresql://me@{host}/db").write([], {})
