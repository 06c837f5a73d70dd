"""Pairs from STAC: files, trees of catalogs on this machine and on a server, and an API."""

import json
import socket

import pytest
from datasets import write_json
from servers import DATA, SIGNED, TIFF, item, lines, pairs_of, read, serving, stac_catalog, stac_serving
from shapely.geometry import box

from workflows.errors import CatalogInvalid, CatalogUnreachable
from workflows.pairs import stac_documents

GOOD = item("a", "2015-01-01"), item("b", "2016-01-01")


def stored(path, *documents):
    """Write one document, or an ItemCollection of several."""
    write_json(
        path, documents[0] if len(documents) == 1 else {"type": "FeatureCollection", "features": documents}
    )
    return path


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    """Let nothing else be asked for a name or a connection."""
    connect = socket.socket.connect

    def guarded(self, address):
        assert address[0] == "127.0.0.1", address
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def test_an_item_collection_is_paired_by_ground_and_date(tmp_path):
    east = 20, 50, 21, 51
    items = (
        item("a", "2016-05-01", **{"eo:cloud_cover": 3}),
        item("b", "2015-05-01", **{"eo:cloud_cover": 30.5}),
        item("e", "2015-06-01", east),
        item("f", "2017-06-01", east, **{"eo:cloud_cover": 101}),
    )
    source = stored(tmp_path / "items.json", *items)
    found = read(source)
    assert pairs_of(found) == [("b", "a"), ("e", "f")]
    row = found.rows[0]
    assert (row.pair, row.site) == ("c_10.500E50.500N_2015-05-01_2016-05-01", "c_10.500E50.500N")
    assert (row.before, row.cloud_before, row.cloud_after) == (f"{DATA}/b.tif", 30.5, 3)
    assert row.footprint.equals(box(10, 50, 11, 51))
    assert found.rows[1].cloud_after is None
    assert (found.scenes, found.skipped, found.warnings) == (4, [], [])
    assert pairs_of(read(source, max_cloud=30)) == [("e", "f")]
    assert pairs_of(read(source, bounds=(20.5, 50, 30, 51))) == [("e", "f")]
    assert pairs_of(read(source, bounds=(170, 50, 19.9, 51))) == [("b", "a")]
    assert pairs_of(read(source, first_date="2016", collections=("c",))) == []


@pytest.mark.parametrize(
    ("properties", "date"),
    [
        ({"datetime": None, "start_datetime": "2015-03-01T00:00:00Z", "end_datetime": "2015-04-01T00:00:00Z"},
         "2015-03-01"),
        ({"datetime": "2019-12-31T23:30:00-05:00"}, "2019-12-31"),
    ],
    ids=["a time span counts from its start", "the date is that of the offset that is stated"],
)  # fmt: skip
def test_the_date_of_an_item(tmp_path, properties, date):
    first = {**item("a", None), "properties": properties}
    assert read(stored(tmp_path / "x.json", first, item("b", "2020-06-01"))).rows[0].date_before == date


ASSETS = {
    "thumb": {"href": "t.png", "type": "image/png", "roles": ["thumbnail"]},
    "meta": {"href": "m.xml", "type": "application/xml", "roles": ["metadata"]},
    "plain": {"href": f"{DATA}/plain.tif"},
    "red": {"href": f"{DATA}/red.tif", "type": TIFF, "roles": ["data"]},
    "picture": {"href": f"{DATA}/picture.tif", "roles": ["visual"]},
    "visual": {"href": f"{DATA}/visual.tif", "roles": ["data"]},
}


@pytest.mark.parametrize(
    ("offered", "requested", "taken"),
    [
        (["thumb", "red", "visual", "picture"], (), "visual"),
        (["red", "picture", "meta"], (), "picture"),
        (["thumb", "meta", "red"], (), "red"),
        (["thumb", "meta", "plain"], (), "plain"),
        (["red", "visual"], ("absent", "red"), "red"),
        (["red", "picture"], ("visual",), "picture"),
        (["red", "plain"], (), "red, plain"),
        (["red", "thumb"], ("nir",), "nir"),
        (["thumb"], (), ": thumb"),
    ],
)
def test_the_asset_that_is_taken(tmp_path, offered, requested, taken):
    first = item("a", "2015-01-01", assets={name: ASSETS[name] for name in offered})
    source = stored(tmp_path / "x.json", first, item("b", "2016-01-01"))
    found = read(source, assets=(*requested, "visual") if taken in ASSETS and requested else requested)
    if taken in ASSETS:
        assert pairs_of(found) == [(taken, "b")]
    else:
        assert any(line.startswith("a: ") and taken in line for line in lines(found))


def test_items_that_are_no_scenes_are_named_and_left_out(tmp_path):
    items = [
        *GOOD,
        {**item("nowhere", "2016-01-01"), "geometry": None},
        {**item("point", "2016-01-01"), "geometry": {"type": "Point", "coordinates": [1, 2]}},
        {**item("odd", "2016-01-01"), "geometry": {"type": "Polygon", "coordinates": "x"}},
        {**item("broken", "2015-01-01"), "properties": {"datetime": "yesterday"}},
        {"type": "Feature", "id": "other"},
        item("ftp", "2016-01-01", href="ftp://x/y.tif"),
        item("gone", "2016-01-01", href="./gone.tif"),
        "text",
    ]
    found = read(stored(tmp_path / "x.json", *items))
    assert pairs_of(found) == [("a", "b")]
    assert found.left_out() == {"without a geometry": 3, "no STAC item": 2, "unreadable": 2}
    assert found.scenes == 9
    text = "\n".join(lines(found))
    for name in ("nowhere", "point", "odd", "broken", "other", "ftp", "gone"):
        assert f"{name}: " in text


ODD_ITEMS = {
    "month": item("odd", None, start_datetime="2019-13-45"),
    "number for a date": item("odd", None, start_datetime=5),
    "server": item("odd", "2016-01-01", href="https://[h.example/3.tif"),
    "type": item("odd", "2016-01-01", assets={"x": {"href": f"{DATA}/x.tif", "type": 5}}),
    "roles": item("odd", "2016-01-01", assets={"x": {"href": f"{DATA}/x.tif", "roles": 5}}),
    "link": item("odd", "2016-01-01", href=7),
    "half a character": item("odd", "2016-01-01", href=f"{DATA}/\ud800.tif"),
    "no character": item("odd", "2016-01-01", href=f"{DATA}/x\0.tif"),
    "name": item("odd\ud800", None),
    "own address": {**item("odd", "2016-01-01"), "links": [{"rel": "self", "href": "https://[h/x.json"}]},
    "far away": item("odd", "2016-01-01", (10, 50, float("inf"), 51)),
}


@pytest.mark.parametrize("kind", ODD_ITEMS)
def test_an_odd_item_is_named_and_left_out_alone(tmp_path, kind):
    found = read(stored(tmp_path / "x.json", ODD_ITEMS[kind], *GOOD))
    assert pairs_of(found) == [("a", "b")]
    (line,) = lines(found)
    assert line.startswith("odd") and "left out" in line and line.isprintable()


def test_odd_names_and_links_do_no_harm(tmp_path):
    first = item("\ud800", "2015-01-01", href=f" {DATA}/a.tif ")
    second = {**item("b", "2016-01-01"), "id": 5}
    found = read(
        stored(tmp_path / "x.json", {"type": "FeatureCollection", "features": [first, second], "links": 5})
    )
    assert [(row.before, row.after) for row in found.rows] == [(f"{DATA}/a.tif", f"{DATA}/b.tif")]
    for name, document in zip("ab", GOOD, strict=True):
        stored(tmp_path / f"{name}.json", document)
    links = [("item", href) for href in ("https://[h/x.json", "a.json", "b.json")]
    top = stac_catalog("top", *links, ("child", "http://h:x/c.json"))
    found = read(stored(tmp_path / "catalog.json", top))
    assert pairs_of(found) == [("a", "b")] and found.left_out() == {"unreadable": 2}


def test_files_of_a_local_catalog_lie_beside_its_items(tmp_path):
    for name in "ab":
        (tmp_path / "s" / name).mkdir(parents=True)
        (tmp_path / "s" / name / "v.tif").touch()
        # Where the catalog was made is of no interest once it was moved.
        moved = [{"rel": "self", "href": "/made/elsewhere/item.json"}]
        document = item(name, f"201{'ab'.index(name)}-01-01", href="./v.tif")
        stored(tmp_path / "s" / name / "item.json", {**document, "links": moved})
    stored(tmp_path / "catalog.json", stac_catalog("top", ("child", "./s/collection.json"), ("self", "x")))
    up = ("parent", "../catalog.json"), ("child", "../t.json"), ("root", "../catalog.json")
    # Round and round.
    stored(tmp_path / "t.json", stac_catalog("t", ("child", "u.json"), ("item", "s/a/item.json")))
    stored(tmp_path / "u.json", stac_catalog("u", ("child", "./t.json")))
    items = ("item", "./a/item.json"), ("item", "b/item.json"), ("item", "absent.json")
    stored(tmp_path / "s/collection.json", stac_catalog("c", *up, *items, kind="Collection"))
    for source in (tmp_path, tmp_path / "catalog.json", tmp_path / "s", tmp_path / "s/collection.json"):
        found = read(source)
        (row,) = found.rows
        assert (row.before, row.after) == (str(tmp_path / "s/a/v.tif"), str(tmp_path / "s/b/v.tif"))
        assert (found.scenes, found.left_out()) == (3, {"unreadable": 1})
        assert "absent.json" in lines(found)[0]


def test_a_catalog_on_a_server_is_walked(tmp_path):
    with serving() as server:
        items = {
            f"/i/{name}.json": item(name, f"201{n}-01-01", href=f"../t/{name}.tif")
            for n, name in enumerate("abc")
        }
        items["/i/c.json"]["assets"]["visual"]["href"] = "file:///etc/passwd"
        items["/i/d.json"] = item("d", "2016-01-01", href="/vsizip//etc/x.zip/y.tif")
        links = [("item", f"i{path[2:]}") for path in items]
        top = stac_catalog("top", *links, ("child", "file:///etc/passwd"), ("item", "i/gone.json"))
        for path, document in {"/catalog.json": top, **items}.items():
            server.files[path] = json.dumps(document).encode()
        found = read(f"{server.address}/catalog.json?key=hush")
        assert [row.before for row in found.rows] == [f"{server.address}/t/a.tif"]
        assert not any(path.endswith(".tif") for _, path in server.asked)
    assert found.source == f"STAC {server.address}/catalog.json"
    assert found.left_out() == {"unreadable": 4}
    assert "hush" not in "\n".join(lines(found))


def test_signed_addresses_are_kept_and_told_of(tmp_path):
    items = [item(n, f"201{n}-01-01", href=f"{DATA}/{n}.tif?sig=hush") for n in "56"]
    found = read(stored(tmp_path / "x.json", *items))
    assert found.rows[0].before == f"{DATA}/5.tif?sig=hush"
    assert found.warnings == [SIGNED]


def test_an_api_is_searched_page_by_page():
    with stac_serving() as server:
        server.items = [item(f"i{n}", f"201{n}-01-01", collection="s2") for n in range(5)]
        server.items.append(item("other", "2016-01-01", collection="s1"))
        span = {"first_date": "2010", "last_date": "2019-06"}
        found = read(server.address, collections=("s2",), bounds=(10, 50, 11, 51), **span)
        assert pairs_of(found) == [(f"i{n}", f"i{n + 1}") for n in range(4)]
        assert len(server.searches) == 3
        search = server.searches[0]
        assert (search["collections"], search["bbox"]) == ("s2", "10,50,11,51")
        assert search["datetime"] == "2010-01-01T00:00:00Z/2019-06-30T23:59:59Z"
        assert pairs_of(read(f"{server.address}/collections/s2")) == pairs_of(found)
        assert pairs_of(read(f"{server.address}/collections/s2/items")) == pairs_of(found)
        assert "datetime" not in server.searches[-1]


@pytest.mark.parametrize(
    ("status", "collections", "error", "named"),
    [
        (200, (), CatalogInvalid, "c, l8"),
        (400, ("c",), CatalogInvalid, "HTTP 400"),
        (503, ("c",), CatalogUnreachable, "HTTP 503"),
    ],
)
def test_an_api_that_fails_or_needs_a_collection(status, collections, error, named):
    with stac_serving() as server:
        server.items = [item("a", "2015-01-01", collection=name) for name in ("l8", "c")]
        server.status = status
        with pytest.raises(error, match=named):
            read(server.address, collections=collections)


def test_a_server_that_is_down(monkeypatch):
    monkeypatch.setattr(stac_documents, "RETRY_PAUSES", (0.0,))
    with stac_serving() as server:
        address = server.address
    with pytest.raises(CatalogUnreachable) as caught:
        read(f"{address}/x?key=hush")
    assert caught.value.exit_code == 1 and "hush" not in str(caught.value)
    with serving() as files:
        files.statuses["/x"] = 502
        with pytest.raises(CatalogUnreachable, match="HTTP 502"):
            read(f"{files.address}/x")
        with pytest.raises(CatalogInvalid, match="HTTP 404"):
            read(f"{files.address}/y")


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"type": "Polygon"}', "[" * 10_000])
def test_what_is_no_stac_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(CatalogInvalid, match=r"x\.json"):
        read(path)
