"""What is in the report of a pair, and whether people have marked or edited it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rscc.files import parsed_json, read_file
from workflows.errors import ReportInvalid, ReportsDamaged
from workflows.report.geojson import json_lines
from workflows.report.reading import LARGEST_BYTES, open_report, report_content
from workflows.report.report import Report
from workflows.report.review import REVIEW_FIELDS

_MARK = re.compile(rf'"({"|".join(REVIEW_FIELDS)})"\s*:\s*"[^"]'.encode())


class Found(NamedTuple):
    """What is in a report.

    Attributes:
        changes: their number, ``area_m2`` the sum of their square metres.
    """

    changes: int = 0
    area_m2: float = 0.0
    tiles: int | None = None
    seconds: float | None = None
    warnings: tuple[str, ...] = ()


def found_in(report: Mapping[str, Any]) -> Found:
    """Count the changes of a report, a feature collection; an area that is not a number counts as 0."""
    areas = [feature["properties"].get("area_m2") for feature in report["features"]]
    run = report["rscc"]
    tiles, seconds, warnings = run["tiling"].get("tiles"), run.get("seconds"), run.get("warnings")
    return Found(
        changes=len(areas),
        area_m2=round(sum(area for area in areas if isinstance(area, int | float)), 2),
        tiles=tiles if isinstance(tiles, int) and abs(tiles) < 2**62 else None,
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        warnings=tuple(map(str, warnings)) if isinstance(warnings, list) else (),
    )


def read_found(path: Path) -> Found | None:
    """Return what is in the report at ``path``; None if it is damaged."""
    try:
        return found_in(report_content(path))
    except (ReportInvalid, LookupError, TypeError, AttributeError, OverflowError):
        return None


def is_marked(path: Path, *, edited: bool = True) -> bool:
    """Return whether people have marked a report, or ``edited`` it in a GIS.

    A damaged report counts as marked if marks stand in its text.
    """
    try:
        changes = [feature["properties"] for feature in report_content(path)["features"]]
        return any(change.get(name) for change in changes for name in REVIEW_FIELDS) or (
            edited and _is_edited(path)
        )
    except (ReportInvalid, LookupError, TypeError, AttributeError):
        return _has_marks(path)


def done_report(path: Path, changes: int | None) -> Report:
    """Return the report of a pair that is done.

    Raises:
        ReportsDamaged: it is missing, damaged, or has another number of ``changes`` than the index.
    """
    try:
        report = open_report(path)
    except ReportInvalid as error:
        remedy = "run the same rscc batch command again to make it again"
        raise ReportsDamaged(path, [path.parent.name], remedy) from error
    if len(report.changes) != changes:
        remedy, what = "try again", "was edited while it was read"
        raise ReportsDamaged(path, [path.parent.name], remedy, what=what)
    return report


def _is_edited(path: Path) -> bool:
    """Return whether a report has another text than rscc writes, as after it was saved in a GIS."""
    text = read_file(path, LARGEST_BYTES)
    content = parsed_json(text)
    features = content.pop("features")
    if "".join(json_lines(content, features)).encode() == text:
        return False
    open_report(path)
    return True


def _has_marks(path: Path) -> bool:
    try:
        return bool(_MARK.search(read_file(path, LARGEST_BYTES)))
    except OSError:
        return False
