"""An archive at one look, as plain values: its sums, its failures, each pair with its ground and dates."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import shapely
from shapely.geometry import MultiPolygon, Polygon

from workflows.archive.reports import done_report, report_path
from workflows.archive.status import archives_in, failure_reasons, shards_missing
from workflows.layers.stac import pair_geometry
from workflows.report.geojson import collection_bbox, parts_of
from workflows.report.record import text_in
from workflows.report.report import ChangeReport
from workflows.report.summary import SceneSummary, archive_summary, summary_of
from workflows.store.failures import without_names
from workflows.store.folder import ArchiveFolder
from workflows.store.ledger import Ledger
from workflows.store.ledger_rows import DONE, FAILED, LedgerRow

# What a pair of the overview is.
CHANGED, UNCHANGED, LOST, LEFT = ("with changes", "without changes", "failed", "not done")
# Units of the longer side of the map, the share around what is shown, the degrees that it has at least, and
# how many times longer than the other it is at most.
_SIDE, _AROUND, _LEAST, _NARROWEST = 4000, 0.06, 0.01, 3
# The end of the year 9999: a tampered ledger may have any time.
_LATEST = 253_402_300_799.0
METRES_PER_DEGREE = 111_195.0
"""Of latitude, on a sphere."""
Ground: TypeAlias = Polygon | MultiPolygon


def archive_overview(folder: str | Path, page: Path) -> dict[str, Any]:
    """Return what there is to know of an archive, or of its shards, at one look.

    Args:
        folder: the archive.
        page: where this is to be shown; reports are named relative to it.

    Returns:
        ``name``, ``finished`` (when the last pair ended, UTC), ``model`` and ``rscc`` (all that reports were
        made by, None before one is done), ``summary`` (see :meth:`SceneSummary.as_dict`), ``reasons`` of
        failures, ``map`` (see :func:`_map`), and ``pairs``: dictionaries with ``id``, ``site``, ``state``
        (one of the four above), ``before``, ``after`` (dates), ``changes``, ``area_m2``, ``directions``
        (changes by direction), ``reason`` (of a failure), ``report``, ``page`` (addresses, None where there
        are none), ``at`` (longitude and latitude of its middle) and ``rings`` (x and y of the corners of its
        ground in units of the map).

    Raises:
        ArchiveMissing, LedgerForeign, LedgerUnusable: see :func:`workflows.archive.status.archive_status`.
        ReportsDamaged: a report of a pair that is done is missing or damaged.
    """
    pairs: list[dict[str, Any]] = []
    grounds: list[Ground | None] = []
    scenes: list[SceneSummary] = []
    # Reports that people marked may be of another model than those that were done anew.
    made: dict[str, set[str]] = {"model": set(), "rscc": set()}
    finished = 0.0
    for archive in archives_in(folder):
        for row, path, report in _rows(archive):
            scene = None if report is None else summary_of(report.changes)
            if report is not None and scene is not None:
                scenes.append(scene)
                names = (text_in(report.run, "model", name) for name in ("name", "version"))
                made["model"].add(" ".join(filter(None, names)))
                made["rscc"].add(text_in(report.run, "versions", "rscc") or "")
            finished = min(max(finished, row.finished or 0.0), _LATEST)
            grounds.append(_ground(row, report))
            pairs.append(_pair(row, path, report, scene, page))
    states = [pair["state"] for pair in pairs]
    unbegun = len(shards_missing(folder))
    summary = archive_summary(scenes, failed=states.count(LOST), left=states.count(LEFT), unbegun=unbegun)
    plane = _map([ground for ground in grounds if ground is not None])
    for pair, ground in zip(pairs, grounds, strict=True):
        pair |= _placed(ground, plane)
    return {
        "name": Path(folder).resolve().name,
        "finished": datetime.fromtimestamp(finished, UTC).isoformat(timespec="minutes") if finished else None,
        **{name: ", ".join(sorted(filter(None, told))) or None for name, told in made.items()},
        "summary": summary.as_dict(),
        "reasons": [asdict(reason) | {"pairs": list(reason.pairs)} for reason in failure_reasons(folder)],
        "map": plane,
        "pairs": pairs,
    }


def _rows(archive: ArchiveFolder) -> Iterator[tuple[LedgerRow, Path, ChangeReport | None]]:
    """Yield each pair of the table, where its report is, and the report if it is done."""
    with Ledger.reader(archive.path) as ledger:
        for row in ledger.rows():
            path = report_path(archive, row.pair)
            yield row, path, done_report(path, row.changes) if row.state == DONE else None


def _pair(
    row: LedgerRow, path: Path, report: ChangeReport | None, scene: SceneSummary | None, page: Path
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
    """Return the address of a file from a page: relative, and with nothing in it that a browser obeys."""
    relative = os.path.relpath(path.resolve(), page.resolve().parent)
    return quote(os.fsencode(relative.replace(os.sep, "/")))


def _ground(row: LedgerRow, report: ChangeReport | None) -> Ground | None:
    """Return where a pair lies, in degrees; None where nothing tells, or what tells is damaged."""
    told = None
    if report is not None:
        told = {"rscc": report.run, "bbox": collection_bbox(change.geometry for change in report.changes)}
    try:
        ground = pair_geometry(row, told)
        west, south, east, north = (math.nan,) * 4 if ground is None else ground.bounds
    # Whatever a tampered record or ledger brings shapely to say.
    except Exception:
        return None
    return ground if -180 <= west <= east <= 180 and -90 <= south <= north <= 90 else None


def _map(grounds: Sequence[Ground]) -> dict[str, Any]:
    """Return the plane that all grounds are shown on, longitude and latitude at the scale of the middle.

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
    """Return where a pair lies: ``at``, and ``rings`` on the plane."""
    if ground is None:
        return {"at": None, "rings": []}
    middle = max(parts_of(ground), key=lambda part: part.area).representative_point()
    rings = []
    for part in parts_of(ground):
        corners = shapely.get_coordinates(part.exterior)[:-1]
        # East of the western edge, though it may be numbered from the other side.
        turn = 360 if corners[:, 0].min() < plane["west"] else 0
        xs = (corners[:, 0] + turn - plane["west"]) * plane["across"]
        ys = (plane["north"] - corners[:, 1]) * plane["along"]
        rings.append([round(float(value), 3) for place in zip(xs, ys, strict=True) for value in place])
    return {"at": [round(middle.x, 5), round(middle.y, 5)], "rings": rings}
