"""STAC 1.1 of an archive: an item per pair that is done, and a catalog that lists them.

Links are relative, so an archive can be moved or put on a server.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import shapely
from shapely.geometry import MultiPolygon, Polygon

from workflows.archive.folder import ITEM, REPORT, STYLE
from workflows.archive.index import PairState
from workflows.archive.reports import found_in
from workflows.bounded import check_depth
from workflows.dates import PartialDate, parse_date
from workflows.errors import DateInvalid
from workflows.report.geojson import (
    box_across,
    collection_bbox,
    geometry_member,
    json_lines,
    outlines_in,
    rounded,
)

STAC_VERSION = "1.1.0"
PROCESSING = "https://stac-extensions.github.io/processing/v1.2.0/schema.json"
# Results of a model, in that extension.
_LEVEL = "L4"
# An item needs a time; these bounds stand for an unknown date.
_EVER, _STILL = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
_JSON, _GEOJSON, _XML = "application/json", "application/geo+json", "application/xml"


def stac_item(row: PairState, report: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Return the STAC item of a pair, which lies beside its report.

    The content depends only on the report and the key, not on the worker or the time that it took. Its
    geometry is :func:`pair_geometry`; its time runs from the start of the date before to the end of the date
    after.

    Args:
        report: its report, a feature collection.
        key: of the pair, from which a lost index is rebuilt.
    """
    run = report["rscc"]
    geometry = pair_geometry(row, report)
    start, end = _interval(run)
    model = run["model"]
    properties = {
        "title": f"Changes: {row.pair}",
        "datetime": None,
        "start_datetime": start,
        "end_datetime": end,
        "gsd": run["tiling"]["gsd"],
        "processing:level": _LEVEL,
        "processing:lineage": (
            f"Changes between two scenes, found and described by {model['name']} {model['version']}"
        ),
        "processing:software": dict(run["versions"]),
        "rscc:key": key,
        "rscc:changes": len(report["features"]),
        "rscc:area_m2": found_in(report).area_m2,
        "rscc:before": run["inputs"]["before"]["path"],
        "rscc:after": run["inputs"]["after"]["path"],
        "rscc:model": f"{model['name']} {model['version']}",
        "rscc:weights_sha256": model["weights_sha256"],
        "rscc:version": run["versions"]["rscc"],
    }
    item: dict[str, Any] = {
        "type": "Feature",
        "stac_version": STAC_VERSION,
        "stac_extensions": [PROCESSING],
        "id": row.pair,
        "geometry": None if geometry is None else geometry_member(geometry),
        "properties": properties,
        "links": [{"rel": rel, "href": "../../catalog.json", "type": _JSON} for rel in ("root", "parent")],
        "assets": {
            "changes": {"href": f"./{REPORT}", "type": _GEOJSON, "title": "Changes", "roles": ["data"]},
            "style": {"href": f"./{STYLE}", "type": _XML, "title": "Style for QGIS", "roles": ["metadata"]},
        },
    }
    if geometry is not None:
        item["bbox"] = collection_bbox([geometry])
    return item


def pair_geometry(row: PairState, report: Mapping[str, Any] | None = None) -> Polygon | MultiPolygon | None:
    """Return the ground of a pair in degrees of WGS84; None where it is not known.

    That is the common ground in the run record or the table of pairs, else the box of its changes.
    """
    ground = report["rscc"].get("ground") if report else None
    bbox = report.get("bbox") if report else None
    geometry: Any = None
    if ground is not None:
        geometry = outlines_in(ground)
        if geometry is None:
            raise ValueError("its ground is no polygon in degrees")
    elif row.footprint is not None:
        check_depth(row.footprint)
        geometry = shapely.from_wkb(row.footprint)
    elif bbox is not None:
        geometry = box_across(*bbox)
    else:
        return None
    try:
        geometry = rounded(geometry)
    except ValueError:  # it crosses itself without end
        return None
    return None if geometry.is_empty else geometry


def catalog_lines(
    pairs: Iterable[str], about: Mapping[str, Any], layers: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """Yield the text of the catalog, one item a line.

    Args:
        pairs: ids of the pairs that are done, in order.
        about: further members of the catalog, with names that start with ``rscc:``.
        layers: (media type, title) of the files that describe all pairs, by name.
    """
    head = {
        "id": "rscc-archive",
        "title": "Changes found by rscc",
        "description": "Changes between pairs of scenes, as polygons and sentences: one item per pair.",
        **about,
    }
    files = (
        {"rel": "enclosure", "href": f"./{name}", "type": kind, "title": title}
        for name, (kind, title) in layers.items()
    )
    return linked_lines(head, chain(files, (item_link(f"./pairs/{pair}/{ITEM}") for pair in pairs)))


def item_link(href: str) -> dict[str, str]:
    """Return the link of a catalog to an item."""
    return {"rel": "item", "href": href, "type": _GEOJSON}


def linked_lines(head: Mapping[str, Any], links: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Yield the text of a catalog with some members and links, one link a line."""
    members = {"type": "Catalog", "stac_version": STAC_VERSION, "stac_extensions": [], **head}
    root = {"rel": "root", "href": "./catalog.json", "type": _JSON}
    return json_lines(members, chain((root,), links), "links")


def _interval(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return start and end; a date that is a year or a month counts as a whole."""
    before, after = (_date(run["inputs"][role]["date"]) for role in ("before", "after"))
    known = [day for day in (before, after) if day is not None]
    start = f"{min(day.first for day in known)}T00:00:00Z" if before is not None else _EVER
    end = f"{max(day.last for day in known)}T23:59:59Z" if after is not None else _STILL
    return start, end


def _date(text: Any) -> PartialDate | None:
    """Return a date; None where it is not known, or is none: anybody may have edited a report."""
    try:
        return PartialDate(parse_date(text))
    except (DateInvalid, AttributeError):
        return None
