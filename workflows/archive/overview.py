"""The overview of an archive as plain values: totals, failures, pairs with ground and dates, changes."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon

from rscc.text.change_facts import DIRECTIONS
from workflows.archive.folder import THUMBNAILS
from workflows.archive.index import DONE, FAILED, PairState
from workflows.archive.layers.stac import pair_geometry
from workflows.archive.reasons import failure_reasons, without_names
from workflows.archive.reports import done_report
from workflows.archive.state import read_json, read_state
from workflows.report.change import Change
from workflows.report.geojson import collection_bbox, parts_of
from workflows.report.record import text_in
from workflows.report.report import Report
from workflows.report.summary import UNNAMED, SceneSummary, archive_summary, summary_of

# States of a pair in the overview.
CHANGED, UNCHANGED, LOST, LEFT = ("with changes", "without changes", "failed", "not done")
# Units of the longer side of the map, its margin as a share, its least size in degrees, and the longest ratio
# of its sides.
_SIDE, _AROUND, _LEAST, _NARROWEST = 4000, 0.06, 0.01, 3
# The end of the year 9999: a tampered index may have any time.
_LATEST = 253_402_300_799.0
METRES_PER_DEGREE = 111_195.0
"""Of latitude, on a sphere."""
Ground: TypeAlias = Polygon | MultiPolygon
MOST = 5_000
"""Changes on the page of an archive."""
_CAPTION = 300
# Characters of all thumbnails on a page, and bytes of the thumbnails of a pair.
_THUMBNAILS, _LARGEST_FILE = 6_000_000, 2_000_000
_BASE64 = re.compile(r"[A-Za-z0-9+/]{1,40000}={0,2}")


def archive_overview(folder: str | Path, page: Path) -> dict[str, Any]:
    """Return an overview of an archive.

    Args:
        page: where it will be shown; addresses of reports are relative to it.

    Returns:
        ``name``, ``finished`` (when the last pair ended, UTC), ``model`` and ``rscc`` (all that reports were
        made by, None before one is done), ``summary`` (see :meth:`SceneSummary.as_dict`), ``reasons`` of
        failures, ``map`` (see :func:`_map`), and ``pairs``: dictionaries with ``id``, ``site``, ``state``
        (one of the four above), ``before``, ``after`` (dates), ``changes``, ``area_m2``, ``directions``
        (changes by direction), ``reason`` (of a failure), ``report``, ``page`` (addresses, None where there
        are none), ``at`` (longitude and latitude of its middle) and ``rings`` (x and y of the corners of its
        ground in units of the map); ``changes`` (the largest, each with the number of its pair) and
        ``changes_in_all``.

    Raises:
        ReportsDamaged: a report of a pair that is done is missing or damaged.
    """
    pairs: list[dict[str, Any]] = []
    grounds: list[Ground | None] = []
    scenes: list[SceneSummary] = []
    # Reports with marks may be of an older model than the others.
    made: dict[str, set[str]] = {"model": set(), "rscc": set()}
    finished = 0.0
    largest: list[tuple[Change, int, Path]] = []
    with read_state(folder) as state:
        reasons = failure_reasons(state.index.rows(FAILED))
        for row in state.index.rows():
            path = state.folder.report(row.pair)
            report = done_report(path, row.changes) if row.state == DONE else None
            scene = None if report is None else summary_of(report.changes, report.run)
            if report is not None and scene is not None:
                scenes.append(scene)
                largest += ((change, len(pairs), path) for change in report.changes)
                if len(largest) > 2 * MOST:  # memory does not grow with the archive
                    largest = _largest(largest)
                names = (text_in(report.run, "model", name) for name in ("name", "version"))
                made["model"].add(" ".join(filter(None, names)))
                made["rscc"].add(text_in(report.run, "versions", "rscc") or "")
            finished = min(max(finished, row.finished or 0.0), _LATEST)
            grounds.append(_ground(row, report))
            pairs.append(_pair(row, path, report, scene, page))
    states = [pair["state"] for pair in pairs]
    summary = archive_summary(scenes, failed=states.count(LOST), left=states.count(LEFT))
    plane = _map([ground for ground in grounds if ground is not None])
    for pair, ground in zip(pairs, grounds, strict=True):
        pair |= _placed(ground, plane)
    return {
        "name": Path(folder).resolve().name,
        "finished": datetime.fromtimestamp(finished, UTC).isoformat(timespec="minutes") if finished else None,
        **{name: ", ".join(sorted(filter(None, names))) or None for name, names in made.items()},
        "summary": summary.as_dict(),
        "reasons": [asdict(reason) | {"pairs": list(reason.pairs)} for reason in reasons],
        "map": plane,
        "pairs": pairs,
        "changes": _change_rows(_largest(largest), plane),
        "changes_in_all": summary.total.changes,
    }


def _pair(
    row: PairState, path: Path, report: Report | None, scene: SceneSummary | None, page: Path
) -> dict[str, Any]:
    dates = {"before": row.date_before, "after": row.date_after}
    if report is not None:
        dates = {role: text_in(report.run, "inputs", role, "date") or day for role, day in dates.items()}
    state = LOST if row.state == FAILED else LEFT
    if scene is not None:
        state = CHANGED if scene.total.changes else UNCHANGED
    own_page = path.with_suffix(".html")
    return {
        "id": row.pair,
        "site": row.site,
        "state": state,
        **dates,
        "changes": 0 if scene is None else scene.total.changes,
        "area_m2": 0 if scene is None else round(scene.total.area_m2, 2),
        "directions": {} if scene is None else {name: one.changes for name, one in scene.directions.items()},
        "reason": without_names(row, row.line or "") if state == LOST else None,
        "report": None if scene is None else _address(path, page),
        "page": _address(own_page, page) if scene is not None and own_page.is_file() else None,
    }


def _address(path: Path, page: Path) -> str:
    """Return the address of a file relative to a page, quoted."""
    relative = os.path.relpath(path.resolve(), page.resolve().parent)
    return quote(os.fsencode(relative.replace(os.sep, "/")))


def _ground(row: PairState, report: Report | None) -> Ground | None:
    """Return the ground of a pair, in degrees; None where it is not known or damaged."""
    content = None
    if report is not None:
        content = {"rscc": report.run, "bbox": collection_bbox(change.geometry for change in report.changes)}
    try:
        ground = pair_geometry(row, content)
        west, south, east, north = (math.nan,) * 4 if ground is None else ground.bounds
    # A tampered record may make shapely raise anything.
    except Exception:
        return None
    return ground if -180 <= west <= east <= 180 and -90 <= south <= north <= 90 else None


def _map(grounds: Sequence[Ground]) -> dict[str, Any]:
    """Return the plane of the map, with longitude and latitude at the scale of its middle.

    ``x = (longitude - west) * across`` and ``y = (north - latitude) * along``, in units, 0 to ``width`` and
    ``height``; a unit has ``gsd`` metres from north to south. Longitudes go beyond 180 degrees where the
    plane crosses them.
    """
    west, south, east, north = collection_bbox(grounds) or (-180.0, -60.0, 180.0, 80.0)
    east += 360 if east < west else 0
    ratio = max(0.05, math.cos(math.radians((south + north) / 2)))
    span = max((east - west) * ratio, north - south, _LEAST)
    wide, high = (
        max(one, span / _NARROWEST) + 2 * _AROUND * span for one in ((east - west) * ratio, north - south)
    )
    along = _SIDE / max(wide, high)
    return {
        "west": round((west + east) / 2 - wide / 2 / ratio, 7),
        "north": round((south + north) / 2 + high / 2, 7),
        "across": along * ratio,
        "along": along,
        "width": round(wide * along),
        "height": round(high * along),
        "gsd": METRES_PER_DEGREE / along,
    }


def _placed(ground: Ground | None, plane: dict[str, Any]) -> dict[str, Any]:
    """Return the place of a pair: ``at``, and ``rings`` on the plane."""
    if ground is None:
        return {"at": None, "rings": []}
    parts = parts_of(ground)
    middle = max(parts, key=lambda part: part.area).representative_point()
    rings = [_on_plane(shapely.get_coordinates(part.exterior)[:-1], plane) for part in parts]
    return {"at": [round(middle.x, 5), round(middle.y, 5)], "rings": rings}


def _on_plane(corners: np.ndarray, plane: dict[str, Any]) -> list[float]:
    """Return longitudes and latitudes, (n, 2), as x and y on the plane, one after another."""
    # East of the western edge, though it may be numbered from the other side.
    turn = 360 if corners[:, 0].min() < plane["west"] else 0
    x = (corners[:, 0] + turn - plane["west"]) * plane["across"]
    y = (plane["north"] - corners[:, 1]) * plane["along"]
    return [round(float(value), 3) for value in np.column_stack([x, y]).ravel()]


def _box(ground: Ground, plane: dict[str, Any]) -> list[float]:
    """Return west, north, east and south of the largest part of a change on the plane."""
    west, south, east, north = max(parts_of(ground), key=lambda part: part.area).bounds
    return _on_plane(np.array([[west, north], [east, south]]), plane)


def _largest(changes: list[tuple[Change, int, Path]]) -> list[tuple[Change, int, Path]]:
    return sorted(changes, key=lambda one: -one[0].area_m2)[:MOST]


def _change_rows(changes: Sequence[tuple[Change, int, Path]], plane: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the page shows of each change; the first ones that have thumbnails have them in base64."""
    rows, room = [], _THUMBNAILS
    thumbnails = lru_cache(maxsize=64)(_thumbnails)
    for change, pair, report in changes:
        pictures = thumbnails(report.with_name(THUMBNAILS)).get(str(change.id), [])
        room -= sum(map(len, pictures))
        rows.append(
            {
                "id": change.id,
                "caption": change.caption[:_CAPTION],
                "direction": change.direction if change.direction in DIRECTIONS else UNNAMED,
                "kinds": sorted({*change.came, *change.gone}) or ["not stated"],
                "area_m2": round(change.area_m2, 2),
                "score": change.score,
                "pair": pair,
                "box": _box(change.geometry, plane),
                "dates": pictures * (room > 0),
            }
        )
    return rows


def _thumbnails(path: Path) -> Mapping[str, list[str]]:
    """Return the thumbnails of a pair by the ids of its changes; the file may come from anybody."""
    return {
        number: dates
        for number, dates in read_json(path, _LARGEST_FILE).items()
        if isinstance(dates, list)
        and len(dates) == 2
        and all(isinstance(date, str) and _BASE64.fullmatch(date) for date in dates)
    }
