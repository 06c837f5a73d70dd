"""Where the documents of a STAC source may lead: each was written by somebody else."""

import json
import socket
from functools import partial

import pytest
from servers import DATA, item, lines, pairs_of, read, serving, stac_catalog, stac_serving

from tiling import AddressForbidden
from workflows.errors import CatalogInvalid
from workflows.pairs.options import CatalogOptions
from workflows.pairs.stac_items import _access

FIRST, SECOND = item("a", "2015-01-01"), item("b", "2016-01-01")
catalog = partial(stac_catalog, "top")


def encoded(document):
    return json.dumps(document).encode()


@pytest.fixture
def server():
    """The server that the user names."""
    with serving() as served:
        served.files["/a.json"] = encoded(FIRST)
        yield served


@pytest.fixture
def inner():
    """Another one of our own network, that nobody named."""
    with serving() as served:
        served.files["/b.json"] = encoded(SECOND)
        yield served


def offered(server, document):
    server.files["/catalog.json"] = encoded(document)
    return f"{server.address}/catalog.json"


def test_a_catalog_leads_to_its_own_server_and_to_no_other_of_our_network(server, inner):
    source = offered(server, catalog(("item", "a.json"), ("item", f"{inner.address}/b.json")))
    found = read(source)
    assert found.left_out() == {"unreadable": 1, "without another date": 1}
    (line,) = [line for line in lines(found) if "b.json" in line]
    assert f"{inner.address}/b.json" in line
    assert inner.asked == []
    assert pairs_of(read(source, allow_hosts=(f"127.0.0.1:{inner.port}",))) == [("a", "b")]


def test_a_file_leads_to_no_server_of_our_network(tmp_path, inner):
    top = catalog(("item", f"{inner.address}/b.json"), ("child", f"http://2130706433:{inner.port}/b.json"))
    (tmp_path / "catalog.json").write_text(json.dumps(top))
    found = read(tmp_path)
    assert found.left_out() == {"unreadable": 2} and inner.asked == []


def test_a_redirect_is_checked_like_a_link(server, inner):
    source = offered(server, catalog(("item", "a.json"), ("item", "moved.json"), ("item", "file.json")))
    server.redirects["/moved.json"] = f"{inner.address}/b.json"
    server.redirects["/file.json"] = "file:///etc/passwd"
    found = read(source)
    assert inner.asked == [] and found.left_out()["unreadable"] == 2
    assert pairs_of(read(source, allow_hosts=("127.0.0.1",))) == [("a", "b")]
    # Also that of the address which the user gave.
    with pytest.raises(CatalogInvalid):
        read(f"{server.address}/moved.json")
    assert [path for _, path in inner.asked] == ["/b.json"]


def test_redirects_are_counted(server):
    source = offered(server, catalog(("item", "1.json"), ("item", "a.json")))
    server.redirects |= {f"/{n}.json": f"/{n + 1}.json" for n in range(1, 50)}
    found = read(source)
    assert "HTTP 302" in "\n".join(lines(found))
    assert sum(path[1].isdigit() for _, path in server.asked) <= 11


def test_pages_are_checked(server, inner):
    page = {"type": "FeatureCollection", "features": [FIRST]}
    for number, host in enumerate((server, inner)):
        link = {"rel": "next", "href": f"{host.address}/next.json"}
        host.files["/next.json"] = encoded({"type": "FeatureCollection", "features": [SECOND]})
        server.files["/page.json"] = encoded({**page, "links": [link]})
        if number == 0:
            assert pairs_of(read(f"{server.address}/page.json")) == [("a", "b")]
        else:
            with pytest.raises(CatalogInvalid):
                read(f"{server.address}/page.json")
    assert inner.asked == []


@pytest.mark.parametrize("asset", ["file://{}", "FILE://localhost{}"])
def test_what_a_server_says_leads_to_no_file_also_if_a_file_leads_to_the_server(tmp_path, server, asset):
    secret = tmp_path / "secret.tif"
    secret.touch()
    (tmp_path / "grandchild.json").write_text(json.dumps(item("g", "2017-01-01")))
    server.files["/b.json"] = encoded(item("b", "2016-01-01", href=asset.format(secret)))
    below = [("item", "a.json"), ("item", "b.json"), ("item", asset.format(tmp_path / "grandchild.json"))]
    child = offered(server, catalog(*below))
    (tmp_path / "catalog.json").write_text(json.dumps(catalog(("child", child))))
    found = read(tmp_path, allow_hosts=("127.0.0.1",))
    text = "\n".join(lines(found))
    assert found.rows == [] and found.left_out() == {"unreadable": 2, "without another date": 1}
    assert "grandchild.json" in text and "b: " in text


@pytest.mark.parametrize(
    "href", ["/vsicurl/http://127.0.0.1/x.tif", "/vsizip//etc/x.zip/x.tif", "/vsis3/b/x.tif", "/vsistdin/"]
)
def test_a_name_for_gdal_is_no_address(tmp_path, href):
    items = [FIRST, item("b", "2016-01-01", href=href)]
    path = tmp_path / "items.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": items}))
    found = read(path)
    assert found.rows == [] and "b: /vsi" in "\n".join(lines(found))


@pytest.fixture
def api():
    with stac_serving() as served:
        served.items = [item(f"i{year}", f"{year}-01-01") for year in range(2015, 2018)]
        yield served


def test_an_api_leads_to_its_own_server_and_to_no_other_of_our_network(api, inner, monkeypatch):
    assert len(read(api.address, collections=("c",)).rows) == 2
    landing = api.landing()
    for link in landing["links"]:
        if link["rel"] == "search":
            link["href"] = f"{inner.address}/search"
    monkeypatch.setattr(type(api), "landing", lambda self: landing)
    with pytest.raises(CatalogInvalid):
        read(api.address, collections=("c",))
    assert inner.asked == []


def test_a_redirect_of_an_api_is_checked(server, inner, api):
    server.redirects["/collections"] = f"{inner.address}/collections"
    landing = api.landing()
    for link in landing["links"]:
        link["href"] = link["href"].replace(api.address, server.address)
    source = offered(server, landing)
    server.files["/"] = server.files["/catalog.json"]
    with pytest.raises(CatalogInvalid):
        read(source)
    assert inner.asked == []


@pytest.mark.parametrize("rel", ["search", "data"])
def test_an_api_leads_to_no_file(tmp_path, api, monkeypatch, rel):
    answer = {"type": "FeatureCollection", "features": [FIRST, SECOND], "collections": []}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    landing = api.landing()
    for link in landing["links"]:
        if link["rel"] == rel:
            link["href"] = f"file://{tmp_path}/answer.json"
    monkeypatch.setattr(type(api), "landing", lambda self: landing)
    with pytest.raises(CatalogInvalid):
        read(api.address, collections=("c",) if rel == "search" else ())


def test_offline_asks_nobody(tmp_path, server, monkeypatch):
    def asked(*_):
        raise AssertionError("a connection was made")

    source = offered(server, catalog(("item", "a.json")))
    monkeypatch.setattr(socket.socket, "connect", asked)
    monkeypatch.setattr(socket, "getaddrinfo", asked)
    with pytest.raises(CatalogInvalid):
        read(source, offline=True)
    (tmp_path / "catalog.json").write_text(json.dumps(catalog(("item", source), ("item", f"{DATA}/x.json"))))
    found = read(tmp_path, offline=True, allow_hosts=("127.0.0.1",))
    assert found.left_out() == {"unreadable": 2}
    (tmp_path / "api.json").write_text(json.dumps({**catalog(), "conformsTo": []}))
    with pytest.raises((CatalogInvalid, AddressForbidden)):
        read(tmp_path / "api.json", offline=True, collections=("c",))


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ("http://10.0.0.5/stac", "10.0.0.5:80"),
        ("https://me:key@stac.local/api", "stac.local:443"),
        ("http://[::1]:8080/c.json", "[::1]:8080"),
    ],
)
def test_a_server_that_the_user_named_may_lead_to_itself(source, own):
    access = _access(source, CatalogOptions(allow_hosts=("maps.example",)))
    assert access.hosts == ("maps.example", own)
