"""A STAC API on this machine: enough of one for a search with pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from local_server import SilentHandler, answering

PAGE = 2
GEOJSON = "application/geo+json"
CONFORMS = ("core", "collections", "ogcapi-features", "item-search")


@dataclass
class StacServer:
    """What is offered at ``address``, the landing page, and the body of each search.

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
        following = {**asked, "token": start + PAGE}
        link: dict[str, Any] = {"rel": "next", "href": f"{address}?token={start + PAGE}", "type": GEOJSON}
        if address.endswith("search"):
            link |= {"href": address, "method": "POST", "body": following}
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
            elif url.path == "/collections":
                self.answer({"collections": served.collections(), "links": []})
            elif len(parts) == 1:
                self.answer(served.collection(parts[0]))
            else:
                items = [item for item in served.items if item["collection"] == parts[0]]
                self.answer(served.page(items, asked, f"{served.address}{url.path}"))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.searches.append(asked)
            items = [item for item in served.items if item["collection"] in asked["collections"]]
            self.answer(served.page(items, asked, f"{served.address}/search"), served.status)

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
