"""What people say of the changes of a report: marks, as the page gives them out, merged into the report.

Marks may come from anybody: what does not fit the report is refused, and nothing is merged then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rscc.files import parsed_json
from tiling import is_odd, plain_only
from workflows.errors import MarksInvalid
from workflows.files import write_together
from workflows.report.change import VERDICTS
from workflows.report.edited import found_first
from workflows.report.reading import report_content
from workflows.report.record import run_id
from workflows.report.report import ChangeReport, collection_lines
from workflows.texts import shown

SAID = ("review_status", "reviewer", "reviewer_caption", "reviewer_note")
"""Attributes of a change that a person says."""
LARGEST_BYTES = 64 * 2**20
"""Of a file of marks that is read."""
_LONGEST = 20_000
_ANOTHER = "give a file of marks that the page of this report gave out"


@dataclass(frozen=True)
class Mark:
    """What somebody says of one change.

    Attributes:
        id: of the change.
        verdict: one of :data:`VERDICTS`.
        time: when it was said, UTC; the latest of several holds.
        caption: the right words, where those of the report are wrong; else empty.
        note, reviewer: empty where there is none.
    """

    id: int
    verdict: str
    time: datetime
    caption: str = ""
    note: str = ""
    reviewer: str = ""


def read_marks(path: Path, report: ChangeReport) -> list[Mark]:
    """Read marks of a report, also those of changes that somebody has deleted from it.

    Raises:
        MarksInvalid: the file cannot be read, is no file of marks, or is of another report.
    """
    content = _content(path)
    listed = content.get("marks")
    if not isinstance(listed, list):
        raise MarksInvalid(f"{shown(path)}: there are no marks in it; {_ANOTHER}")
    if content.get("report") != run_id(report.run):
        raise MarksInvalid(f"{shown(path)}: these are marks of another report; {_ANOTHER}")
    known, first = {change.id for change in report.changes}, range(1, found_first(report.run) + 1)
    marks = []
    for number, one in enumerate(listed, start=1):
        mark = _mark(one)
        if mark is None or not (mark.id in known or mark.id in first):
            raise MarksInvalid(
                f"{shown(path)}: its mark {number} is of no change, or its id, verdict or time is missing or "
                f"damaged; {_ANOTHER}"
            )
        marks.append(mark)
    return marks


def reviewed(report: ChangeReport, marks: Sequence[Mark]) -> ChangeReport:
    """Return a report in which marked changes say so; of several marks of one change the latest holds."""
    latest = {mark.id: mark for mark in sorted(marks, key=lambda mark: mark.time)}
    changes = [
        replace(
            change,
            review_status=mark.verdict,
            reviewer=mark.reviewer or None,
            reviewer_caption=mark.caption or None,
            reviewer_note=mark.note or None,
        )
        if (mark := latest.get(change.id))
        else change
        for change in report.changes
    ]
    return ChangeReport(changes, report.run)


def write_marks(path: Path, merged: ChangeReport) -> None:
    """Write what people said into the GeoJSON report that ``merged`` was read from; all else in it stays.

    Raises:
        ReportInvalid: the file is no report any more.
        OutputNotWritable: the system refused; the report is as it was.
    """
    content = report_content(path)
    features = content.pop("features")
    for feature, change in zip(features, merged.changes, strict=True):
        feature["properties"] |= {name: getattr(change, name) for name in SAID}
    write_together({path: collection_lines(content, features)})


def _content(path: Path) -> Mapping[str, Any]:
    name = shown(path)
    try:
        if is_odd(path) or path.stat().st_size > LARGEST_BYTES:
            raise MarksInvalid(f"{name}: it is no file, or too large; {_ANOTHER}")
        with open(path, encoding="utf-8", opener=plain_only) as file:
            content = parsed_json(file.read())
    except OSError as error:
        raise MarksInvalid(f"{name}: it cannot be read ({error.strerror}); {_ANOTHER}") from error
    except ValueError as error:
        raise MarksInvalid(f"{name}: it is no JSON; {_ANOTHER}") from error
    if not isinstance(content, dict):
        raise MarksInvalid(f"{name}: there are no marks in it; {_ANOTHER}")
    return content


def _mark(value: Any) -> Mark | None:
    """Return a mark; None for what is none."""
    if (
        not isinstance(value, dict)
        or type(value.get("id")) is not int
        or value.get("verdict") not in VERDICTS
    ):
        return None
    texts = {name: value.get(name, "") for name in ("caption", "note", "reviewer", "time")}
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts.values()):
        return None
    try:
        time = datetime.fromisoformat(texts.pop("time"))
    except ValueError:
        return None
    return None if time.tzinfo is None else Mark(value["id"], value["verdict"], time, **texts)
