"""STAC 1.1 of what an archive holds: an item per pair that is done, and a catalog that lists them.

Everything is named relative to the file that names it, so an archive can be moved or put on a server.
"""

from __future__ import annotations

import calendar
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import shapely
from shapely.geometry import MultiPolygon, Polygon, box

from workflows.archive_folder import ITEM, REPORT, STYLE
from workflows.geojson import collection_bbox, geometry_member, rounded

if TYPE_CHECKING:
    from workflows.ledger_rows import LedgerRow

STAC_VERSION = "1.1.0"
# An item must say when; these bounds say that nothing is known of the one date or the other.
_EVER, _STILL = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
_JSON, _GEOJSON = "application/json", "application/geo+json"


def stac_item(row: LedgerRow, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item of a pair, which lies beside its report.

    It has the same content whoever did the pair and however long it took, and nothing that the table may say
    otherwise later without the pair being done anew, as its site. Its geometry is
    :func:`pair_geometry`; its time runs from the beginning of the date before to the end of the date after.

    Args:
        row: the pair.
        report: its report, the feature collection that lies in its folder.
    """
    run = report["rscc"]
    geometry = pair_geometry(row, report)
    start, end = _interval(run)
    model = run["model"]
    properties = {
        "title": f"What changed: {row.pair}",
        "datetime": None,
        "start_datetime": start,
        "end_datetime": end,
        "gsd": run["tiling"]["gsd"],
        "rscc:changes": len(report["features"]),
        "rscc:area_m2": round(sum(f["properties"]["area_m2"] for f in report["features"]), 2),
        "rscc:before": run["inputs"]["before"]["path"],
        "rscc:after": run["inputs"]["after"]["path"],
        "rscc:model": f"{model['name']} {model['version']}",
        "rscc:weights_sha256": model["weights_sha256"],
        "rscc:version": run["versions"]["rscc"],
    }
    item: dict[str, Any] = {
        "type": "Feature",
        "stac_version": STAC_VERSION,
        "stac_extensions": [],
        "id": row.pair,
        "geometry": None if geometry is None else geometry_member(geometry),
        "properties": properties,
        "links": [{"rel": rel, "href": "../../catalog.json", "type": _JSON} for rel in ("root", "parent")],
        "assets": {
            "changes": {"href": f"./{REPORT}", "type": _GEOJSON, "title": "Changes", "roles": ["data"]},
            "style": {
                "href": f"./{STYLE}",
                "type": "application/xml",
                "title": "Style for QGIS",
                "roles": ["metadata"],
            },
        },
    }
    if geometry is not None:
        item["bbox"] = collection_bbox([geometry])
    return item


def pair_geometry(row: LedgerRow, report: Mapping[str, Any] | None = None) -> Polygon | MultiPolygon | None:
    """Return where a pair lies, in degrees of WGS84; None when nothing tells.

    That is the common ground as the run over it or the table of pairs has it, else the box of its changes.
    """
    ground = report["rscc"].get("ground") if report else None
    bbox = report.get("bbox") if report else None
    if ground is not None:
        found = shapely.geometry.shape(ground)
    elif row.footprint is not None:
        found = shapely.from_wkb(row.footprint)
    elif bbox is not None:
        found = _box(*bbox)
    else:
        return None
    found = rounded(found)
    return None if found.is_empty else found


def catalog_lines(
    pairs: Iterable[str], about: Mapping[str, Any], layers: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """Yield the text of the catalog, one item a line.

    Args:
        pairs: the ids of the pairs that are done, in order.
        about: further members of the catalog, under names with the prefix ``rscc:``.
        layers: (type, title) of what describes all pairs, by name.
    """
    head = {
        "type": "Catalog",
        "stac_version": STAC_VERSION,
        "stac_extensions": [],
        "id": "rscc-archive",
        "title": "Changes found by rscc",
        "description": "What changed between pairs of scenes, in polygons and words: one item per pair.",
        **about,
    }
    yield _text(head)[:-1] + ', "links": [\n'
    yield _text({"rel": "root", "href": "./catalog.json", "type": _JSON})
    for name, (kind, title) in layers.items():
        yield ",\n" + _text({"rel": "enclosure", "href": f"./{name}", "type": kind, "title": title})
    for pair in pairs:
        yield ",\n" + _text({"rel": "item", "href": f"./pairs/{pair}/{ITEM}", "type": _GEOJSON})
    yield "\n]}\n"


def _interval(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return from when to when; dates of a year or a month count as a whole."""
    dates = sorted((day for role in ("before", "after") if (day := run["inputs"][role]["date"])), key=_first)
    if not dates:
        return _EVER, _STILL
    known = {role: run["inputs"][role]["date"] is not None for role in ("before", "after")}
    start = f"{_first(dates[0])}T00:00:00Z" if known["before"] else _EVER
    end = f"{max(_last(day) for day in dates)}T23:59:59Z" if known["after"] else _STILL
    return start, end


def _first(day: str) -> str:
    return day + "-01-01"[len(day) - 4 :]


def _last(day: str) -> str:
    if len(day) == 4:
        return f"{day}-12-31"
    if len(day) == 7:
        return f"{day}-{calendar.monthrange(int(day[:4]), int(day[5:]))[1]}"
    return day


def _box(west: float, south: float, east: float, north: float) -> Polygon | MultiPolygon:
    """Return a box as a polygon; where west > east it crosses 180 degrees and comes in two parts."""
    if west <= east:
        return box(west, south, east, north)
    return MultiPolygon([box(west, south, 180, north), box(-180, south, east, north)])


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
