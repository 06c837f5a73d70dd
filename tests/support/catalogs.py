"""Small scenes and STAC documents to be paired, and what a catalog says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rasters import write_scene
from shapely.geometry import box, mapping

from workflows.pairs.catalog import Catalog
from workflows.pairs.options import CatalogOptions
from workflows.pairs.sources import read_catalog

PIXELS = np.full((3, 16, 16), 90, np.uint8)
SIGNED = (
    "addresses in the table are signed or hold a password: whoever has the table can read the scenes, "
    "for as long as these are valid"
)


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
