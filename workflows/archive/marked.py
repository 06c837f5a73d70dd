"""Reports of an archive that people have marked or edited: a run loses none of them unless it is asked to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rscc.files import parsed_json
from tiling import plain_only
from workflows.errors import OutputExists, ReportInvalid
from workflows.inspection.event import read_report
from workflows.inspection.review import SAID
from workflows.report.reading import report_content
from workflows.report.report import collection_lines
from workflows.store.ledger_rows import Found

_SAID = re.compile(rf'"({"|".join(SAID)})"\s*:\s*"[^"]'.encode())


def marked(report: Path, *, edited: bool = True) -> Found | None:
    """Return what is in a report with marks of people, or that a GIS ``edited``; None for any other.

    Of one that is damaged that is nothing.
    """
    try:
        changes = [feature["properties"] for feature in report_content(report)["features"]]
        if any(change.get(name) for change in changes for name in SAID) or (edited and _is_of_gis(report)):
            return found_in(changes)
    except (ReportInvalid, LookupError, TypeError, AttributeError):
        if _is_said(report):
            return Found(0, 0.0)
    return None


def _is_of_gis(report: Path) -> bool:
    """Return whether a report is sound and has another text than rscc gives it, as what a GIS saves.

    Raises:
        ReportInvalid: it is damaged.
    """
    with open(report, "rb", opener=plain_only) as file:
        text = file.read()
    content = parsed_json(text)
    features = content.pop("features")
    if "".join(collection_lines(content, features)).encode() == text:
        return False
    read_report(report)
    return True


def _is_said(report: Path) -> bool:
    """Return whether marks stand in what cannot be read as a report, as after a slip in an editor."""
    try:
        with open(report, "rb", opener=plain_only) as file:
            return bool(_SAID.search(file.read()))
    except OSError:
        return False


def found_in(changes: Sequence[dict[str, Any]]) -> Found:
    """Return how many changes there are and their square metres; an area that is no number counts as none."""
    areas = (change.get("area_m2") for change in changes)
    return Found(len(changes), round(sum(area for area in areas if isinstance(area, (int, float))), 2))


def refuse_loss(reports: Sequence[Path], remedy: str) -> None:
    """Refuse to replace marked reports, if there are any.

    Raises:
        OutputExists: there are; its message ends with the remedy.
    """
    if reports:
        others = f" and {len(reports) - 1:,} more" if len(reports) > 1 else ""
        raise OutputExists(f"{reports[0]}{others}: would be replaced, with what people said in it; {remedy}")
