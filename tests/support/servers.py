"""Servers on this machine: files by ranges, a STAC API with pages; and STAC catalogs of small scenes."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
from rasters import write_scene
from shapely.geometry import box, mapping

from workflows.pairs.catalog import Catalog
from workflows.pairs.options import CatalogOptions
from workflows.pairs.sources import read_catalog


class SilentHandler(BaseHTTPRequestHandler):
    """Prints nothing."""

    def log_message(self, *_: object) -> None:
        """Be silent."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A reader may hang up at any time; whatever else goes wrong shows in the answer."""


@contextmanager
def answering(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[int]:
    """Answer on 127.0.0.1 until the block ends; yields the port.

    Nothing is answered before the block begins to ask, so the handler may know the port.
    """
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class FileServer:
    """Served files and requests by path, such as "/a.tif".

    No parts are given of ``whole``, and no header alone of ``get_only``, as of addresses that are signed for
    one method; ``redirects`` lead to other addresses; ``delays`` are seconds; ``forbids`` is asked of path
    with query and headers; ``errors`` are answers by status; ``asked`` has (method, path with query) of every
    request.
    """

    port: int
    files: dict[str, bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    get_only: set[str] = field(default_factory=set)
    errors: dict[int, bytes] = field(default_factory=dict)
    forbids: Callable[[str, Message], bool] = lambda address, headers: False
    asked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving() -> Iterator[FileServer]:
    """Serve until the block ends."""

    class Handler(SilentHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            served.asked.append((self.command, self.path))
            time.sleep(served.delays.get(path, 0))
            content = served.files.get(path, b"")
            status = served.statuses.get(path, 200 if path in served.files else 404)
            if self.command == "HEAD" and path in served.get_only:
                status = 403
            if served.forbids(self.path, self.headers):
                status = 403
            content = served.errors.get(status, content)
            part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            headers = {}
            if path in served.redirects:
                status, content = 302, b""
                headers["Location"] = served.redirects[path]
            if status == 200 and part and path not in served.whole:
                first, last = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
                headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
                status = 206 if first <= last else 416
                content = content[first : last + 1]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # Who has seen enough hangs up.
            with suppress(ConnectionError):
                if self.command == "GET":
                    self.wfile.write(content)

        do_HEAD = do_GET

    with answering(Handler) as port:
        served = FileServer(port)
        yield served


PAGE = 2
GEOJSON = "application/geo+json"
CONFORMS = ("core", "collections", "ogcapi-features", "item-search")


@dataclass
class StacServer:
    """What is offered at ``address``, the landing page, and the query of each search.

    A search gives those of the plain ``items`` whose collections it names, or the ``status`` of an error.
    """

    address: str
    items: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    searches: list[dict[str, Any]] = field(default_factory=list)

    def collections(self) -> list[dict[str, Any]]:
        """The collections of the items."""
        return [self.collection(name) for name in sorted({item["collection"] for item in self.items})]

    def collection(self, name: str) -> dict[str, Any]:
        """One collection as an API describes it."""
        return {
            "type": "Collection",
            "stac_version": "1.0.0",
            "id": name,
            "description": "x",
            "license": "other",
            "extent": {"spatial": {"bbox": [[-180, -90, 180, 90]]}, "temporal": {"interval": [[None, None]]}},
            "links": [
                {"rel": "root", "href": self.address},
                {"rel": "self", "href": f"{self.address}/collections/{name}"},
                {"rel": "items", "href": f"{self.address}/collections/{name}/items"},
            ],
        }

    def landing(self) -> dict[str, Any]:
        """The page that says what the API can do."""
        return {
            "type": "Catalog",
            "stac_version": "1.0.0",
            "id": "api",
            "description": "x",
            "conformsTo": [f"https://api.stacspec.org/v1.0.0/{name}" for name in CONFORMS],
            "links": [
                {"rel": "root", "href": self.address},
                {"rel": "self", "href": self.address},
                {"rel": "data", "href": f"{self.address}/collections"},
                {"rel": "search", "href": f"{self.address}/search", "type": GEOJSON, "method": "POST"},
                {"rel": "search", "href": f"{self.address}/search", "type": GEOJSON, "method": "GET"},
            ],
        }

    def page(self, items: list[dict[str, Any]], asked: dict[str, Any], address: str) -> dict[str, Any]:
        """Items from where the last page ended, and where the next begins."""
        start = int(asked.get("token", 0))
        following = urlencode({**asked, "token": start + PAGE})
        link: dict[str, Any] = {"rel": "next", "href": f"{address}?{following}", "type": GEOJSON}
        return {
            "type": "FeatureCollection",
            "features": items[start : start + PAGE],
            "links": [link] if start + PAGE < len(items) else [],
        }


@contextmanager
def stac_serving() -> Iterator[StacServer]:
    """Serve until the block ends."""

    class Handler(SilentHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            _, *parts = url.path.strip("/").split("/")
            asked = {name: values[0] for name, values in parse_qs(url.query).items()}
            if not url.path.strip("/"):
                self.answer(served.landing())
            elif url.path == "/search":
                served.searches.append(asked)
                names = asked["collections"].split(",")
                items = [item for item in served.items if item["collection"] in names]
                self.answer(served.page(items, asked, f"{served.address}/search"), served.status)
            elif url.path == "/collections":
                self.answer({"collections": served.collections(), "links": []})
            elif len(parts) == 1:
                self.answer(served.collection(parts[0]))
            else:
                items = [item for item in served.items if item["collection"] == parts[0]]
                self.answer(served.page(items, asked, f"{served.address}{url.path}"))

        def answer(self, document: dict[str, Any], status: int = 200) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with answering(Handler) as port:
        served = StacServer(f"http://127.0.0.1:{port}")
        yield served


PIXELS = np.full((3, 16, 16), 90, np.uint8)
SIGNED = "the table contains signed addresses or passwords; keep it as secret as these"


def write_scenes(root: Path, *names: str, **options) -> Path:
    """Write small scenes of one place under ``root``; the options are those of :func:`write_scene`."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write_scene(root / name, PIXELS, **options)
    return root


DATA = "https://data.example.org"
TIFF = "image/tiff; application=geotiff; profile=cloud-optimized"


def item(
    name: str,
    date: str | None,
    ground: tuple[float, ...] = (10, 50, 11, 51),
    *,
    href: Any = None,
    collection: str = "c",
    assets: dict[str, Any] | None = None,
    **properties: Any,
) -> dict[str, Any]:
    """A plain STAC item whose picture is on a server that nobody asks, or at ``href``."""
    picture = {"href": f"{DATA}/{name}.tif" if href is None else href, "type": TIFF, "roles": ["visual"]}
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "stac_extensions": [],
        "id": name,
        "collection": collection,
        "geometry": mapping(box(*ground)),
        "bbox": list(ground),
        "properties": {"datetime": date and f"{date}T10:00:00Z", **properties},
        "links": [],
        "assets": assets or {"visual": picture},
    }


def stac_catalog(name: str, *links: tuple[str, str], kind: str = "Catalog") -> dict[str, Any]:
    """A STAC catalog, or a collection, with links as (relation, address)."""
    document = {"type": kind, "stac_version": "1.0.0", "id": name, "description": "x"}
    if kind == "Collection":
        extent = {"spatial": {"bbox": [[-180, -90, 180, 90]]}, "temporal": {"interval": [[None, None]]}}
        document |= {"license": "other", "extent": extent}
    return {**document, "links": [{"rel": rel, "href": href} for rel, href in links]}


def read(source, **options) -> Catalog:
    """The pairs of one source; the options are those of a catalog."""
    return read_catalog([str(source)], CatalogOptions(**options))


def ids(catalog) -> list[str]:
    return [row.pair for row in catalog.rows]


def pairs_of(catalog) -> list[tuple[str, str]]:
    """The names of the files of each pair, without their endings."""
    return [(Path(row.before).name[:-4], Path(row.after).name[:-4]) for row in catalog.rows]


def lines(catalog) -> list[str]:
    return [skipped.line for skipped in catalog.skipped]
