"""Reports of an archive that people have marked: a run loses none of them unless it is asked to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workflows.errors import OutputExists, ReportInvalid
from workflows.inspection.review import SAID
from workflows.report.reading import report_content


def is_marked(report: Path) -> bool:
    """Return whether somebody said something of a change; a report that cannot be read says nothing."""
    try:
        features = report_content(report)["features"]
        return any(feature["properties"].get(name) for feature in features for name in SAID)
    except (ReportInvalid, LookupError, TypeError, AttributeError):
        return False


def refuse_loss(marked: Sequence[Path], remedy: str) -> None:
    """Refuse to replace marked reports, if there are any.

    Raises:
        OutputExists: there are; its message ends with the remedy.
    """
    if marked:
        others = f" and {len(marked) - 1:,} more" if len(marked) > 1 else ""
        raise OutputExists(f"{marked[0]}{others}: would be replaced, with what people said in it; {remedy}")
