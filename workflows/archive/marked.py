"""Reports of an archive that people have marked: a run loses none of them unless it is asked to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workflows.errors import OutputExists, ReportInvalid
from workflows.inspection.review import SAID
from workflows.report.reading import report_content
from workflows.store.ledger_rows import Found


def marked(report: Path) -> Found | None:
    """Return what is in a report of which somebody said something; None of others and of damaged ones."""
    try:
        changes = [feature["properties"] for feature in report_content(report)["features"]]
        if any(change.get(name) for change in changes for name in SAID):
            return found_in(changes)
    except (ReportInvalid, LookupError, TypeError, AttributeError):
        pass
    return None


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
