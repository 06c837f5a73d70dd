"""A STAC server without end: bytes that drip, documents that unpack, pages and catalogs that never stop."""

import gzip
import json
import time
from contextlib import contextmanager, suppress
from itertools import count

import pytest
from servers import SilentHandler, answering, item, read, stac_catalog

from workflows.errors import CatalogInvalid, CatalogUnreachable
from workflows.pairs import stac, stac_documents, stac_items


@contextmanager
def server(answer):
    """A server whose answer to each GET is ``answer(handler)``."""

    class Handler(SilentHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                answer(self)

    with answering(Handler) as port:
        yield f"http://127.0.0.1:{port}"


def send(handler, content, **headers):
    handler.send_response(200)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def drip(handler, text):
    while True:
        handler.wfile.write(text)
        time.sleep(0.02)


def dripped_headers(handler):
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n")
    drip(handler, b"x: y\r\n")


def dripped_name_of_a_header(handler):
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n")
    drip(handler, b"x")


def dripped_content(handler):
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
    drip(handler, b"{")


def redirects_that_wait(handler):
    time.sleep(0.1)
    handler.send_response(302)
    handler.send_header("Location", f"/{time.monotonic()}")
    handler.end_headers()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "answer", [dripped_headers, dripped_name_of_a_header, dripped_content, redirects_that_wait]
)
def test_a_server_that_is_too_slow_is_given_up(answer, monkeypatch):
    monkeypatch.setattr(stac_documents, "TIMEOUT", 0.3)
    monkeypatch.setattr(stac_documents, "ANSWER_SECONDS", 0.5)
    with server(answer) as address, pytest.raises(CatalogUnreachable) as caught:
        read(f"{address}/catalog.json")
    assert caught.value.exit_code == 1


def endless_content(handler):
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
    while True:
        handler.wfile.write(b" " * 2**16)


def packed_content(handler):
    send(handler, gzip.compress(b"{" + b" " * 2**22), Content_Encoding="gzip")


def many_objects(handler):
    send(handler, b'{"links": [' + b"{}," * 3_000_000 + b"{}]}")


@pytest.mark.parametrize("answer", [endless_content, packed_content, many_objects])
def test_a_document_that_is_too_large_or_unpacks_is_refused(answer, monkeypatch):
    monkeypatch.setattr(stac_documents, "MAX_BYTES", 10**7)
    with server(answer) as address, pytest.raises(CatalogInvalid):
        read(f"{address}/catalog.json")


def page(handler, number):
    link = {"rel": "next", "href": f"/items.json?page={number}"}
    return {"type": "FeatureCollection", "features": [item(f"i{number}", "2015-01-01")], "links": [link]}


def child(handler, number):
    return stac_catalog(f"c{number}", ("child", f"/c{number}.json"))


def children(handler, number):
    links = [("child", f"/c{number}-{other}.json") for other in range(100)]
    return stac_catalog(f"c{number}", *links)


@pytest.mark.parametrize("document", [page, child, pytest.param(children, marks=pytest.mark.slow)])
def test_pages_and_catalogs_without_end_are_given_up(document, monkeypatch):
    monkeypatch.setattr(stac_items, "MAX_PAGES", 10)
    monkeypatch.setattr(stac_documents, "MAX_DOCUMENTS", 60)
    numbers = count()

    def answer(handler):
        send(handler, json.dumps(document(handler, next(numbers))).encode())

    with server(answer) as address, pytest.raises((CatalogInvalid, CatalogUnreachable)):
        read(f"{address}/catalog.json")
    assert next(numbers) < 80


def test_all_documents_together_have_a_clock(monkeypatch):
    monkeypatch.setattr(stac_documents, "MAX_SECONDS", 0)
    with server(lambda handler: send(handler, b"{}")) as address, pytest.raises(CatalogUnreachable):
        read(f"{address}/catalog.json")


@pytest.mark.parametrize(
    ("name", "most"), [("MAX_TOTAL", 10_000), ("MAX_CORNERS", 50), ("MAX_DOCUMENTS", 30)]
)
@pytest.mark.parametrize("where", ["item", "child"])
def test_documents_that_take_all_memory_together_are_refused(tmp_path, monkeypatch, name, most, where):
    """Each is within the limits, and there may be as many as links."""
    for module in (stac, stac_documents, stac_items):
        monkeypatch.setattr(module, name, most, raising=False)
    for number in range(20):
        (tmp_path / f"{number}.json").write_text(json.dumps(item(f"{number}", "2020-01-01")))
        links = [("item", f"./{number}.json"), ("item", "./none.json")] * (1 if where == "child" else 0)
        (tmp_path / f"c{number}.json").write_text(json.dumps(stac_catalog("c", *links)))
    links = [(where, f"./{'' if where == 'item' else 'c'}{number}.json") for number in range(20)]
    links += [("item", f"./{number}.json") for number in range(20 if where == "item" else 0, 40)]
    (tmp_path / "catalog.json").write_text(json.dumps(stac_catalog("c", *links)))
    with pytest.raises((CatalogInvalid, CatalogUnreachable), match="choose a part"):
        read(str(tmp_path / "catalog.json"))
