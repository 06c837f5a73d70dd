"""Merge the verdicts of reviewers into a report, and estimate from them how many changes are right.

Marks, as the page of a report saves them, may come from anybody: if one does not fit the report, none is
merged. Every verdict carries the time at which it was given, and the newest one of a change is the valid one,
in whatever order marks are merged.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rscc.evaluation.bootstrap import Interval, wilson_interval
from rscc.files import parsed_json, read_file
from workflows.errors import MarksInvalid, OptionInvalid
from workflows.files import write_together
from workflows.printable import printable
from workflows.report.change import CONFIRMED, VERDICTS, WRONG_PLACE, WRONG_WORDS, Change
from workflows.report.edited import BY_HAND, found_count
from workflows.report.formats.layers import LAYER_FORMATS
from workflows.report.geojson import json_lines
from workflows.report.locking import locked
from workflows.report.reading import chips_in, open_report, report_content
from workflows.report.record import run_id
from workflows.report.report import Report, check_report

REVIEW_FIELDS = ("review_status", "reviewer", "reviewer_caption", "reviewer_note", "reviewed_at")
"""Attributes of a change that come from a reviewer."""
LARGEST_BYTES = 64 * 2**20
"""Largest file of marks that is read."""
_LONGEST_TEXT = 20_000
_ANOTHER = "give a file of marks that the page of this report gave out"


@dataclass(frozen=True)
class Mark:
    """The verdict of a reviewer on one change.

    Attributes:
        verdict: one of :data:`workflows.report.change.VERDICTS`.
        time: when it was given, with a time zone.
        caption: the right words, where those of the report are wrong; else empty.
        note, reviewer: empty where there is none.
    """

    id: int
    verdict: str
    time: datetime
    caption: str = ""
    note: str = ""
    reviewer: str = ""


@dataclass(frozen=True)
class Conflict:
    """Two reviewers disagree on a change; the newer verdict is valid.

    Attributes:
        verdict, reviewer: of the newer verdict; the reviewer may be empty.
        other_verdict, other_reviewer: of the older one.
    """

    id: int
    verdict: str
    reviewer: str
    other_verdict: str
    other_reviewer: str


@dataclass(frozen=True)
class Precision:
    """The precision of an archive; a change in the wrong words is a true one.

    Shares, 0..1, have 4 decimals. Intervals, of 95 percent, are Wilson's, within what was seen: they have no
    width where all changes of the archive were marked.

    Attributes:
        changes: number of changes in the archive from which the sample was drawn.
        drawn: changes of the sample, ``marked`` those with a verdict.
        precision: share of true changes.
        true_changes: number of true changes in the archive.
        right_words: of the true changes, the share in the right words; None without true changes.
    """

    changes: int
    drawn: int
    marked: int
    precision: float
    precision_interval: Interval
    true_changes: int
    true_changes_interval: tuple[int, int]
    right_words: float | None
    right_words_interval: Interval | None


@dataclass(frozen=True)
class Review:
    """A report with the marks merged.

    Attributes:
        conflicts: changes on which reviewers disagree.
        deleted: number of changes with a mark that are no longer in the report.
        precision: of the archive, where the report is a sample of one.
    """

    report: Report
    conflicts: tuple[Conflict, ...] = ()
    deleted: int = 0
    precision: Precision | None = None


def review_report(
    path: Path, marks: Sequence[Path], output: Path | None = None, *, overwrite: bool = False
) -> Review:
    """Merge files of marks into a report.

    Args:
        path: the report; the marks are written into it, a ``.geojson``, where there is no ``output``.

    Raises:
        OptionInvalid: the report is of a format that marks cannot be written into.
    """
    if output is not None:
        check_report(output, overwrite, (path, *marks))
        review = _merged(path, marks)
        review.report.write(output, overwrite, chips_in(path))
        return review
    if not marks:
        return _merged(path, marks)
    if path.suffix.lower() in LAYER_FORMATS:
        raise OptionInvalid(f"{path}: only a .geojson can be updated with marks; give -o with another file")
    if not path.is_file():
        return _merged(path, marks)  # which says what is wrong
    path = path.resolve()  # a link stays a link
    with locked(path):
        review = _merged(path, marks)
        _write_marks(path, review.report)
    return review


def read_marks(path: Path, report: Report) -> list[Mark]:
    """Read marks of a report, also those of changes that were deleted from it since.

    Raises:
        MarksInvalid: the file cannot be read, is no file of marks, or belongs to another report.
    """
    content = _content(path)
    listed = content.get("marks")
    if not isinstance(listed, list):
        raise MarksInvalid(f"{printable(path)}: there are no marks in it; {_ANOTHER}")
    if content.get("report") != run_id(report.run):
        raise MarksInvalid(f"{printable(path)}: these are marks of another report; {_ANOTHER}")
    known, first = {change.id for change in report.changes}, range(1, found_count(report.run) + 1)
    marks = []
    for number, one in enumerate(listed, start=1):
        mark = _mark(one)
        if mark is None or not (mark.id in known or mark.id in first):
            raise MarksInvalid(
                f"{printable(path)}: its mark {number} is of no change, or its id, verdict or time is bad "
                f"or missing; {_ANOTHER}"
            )
        marks.append(mark)
    return marks


def merge_marks(report: Report, marks: Sequence[Mark]) -> Review:
    """Merge marks into a report in memory; of several verdicts on a change the newest is valid."""
    by_change: dict[int, list[Mark]] = {}
    for mark in marks:
        by_change.setdefault(mark.id, []).append(mark)
    changes, conflicts = [], []
    for change in report.changes:
        given = by_change.pop(change.id, [])
        if given:
            earlier = _earlier_verdict(change)
            # The report first: where two are of the same time, it stays as it is.
            newest = max([*earlier, *given], key=lambda mark: mark.time)
            conflicts += _conflicts(newest, [*earlier, *given])
            change = change if newest in earlier else _with_mark(change, newest)
        changes.append(change)
    return Review(replace(report, changes=changes, finished=None), tuple(conflicts), len(by_change))


def _merged(path: Path, marks: Sequence[Path]) -> Review:
    report = open_report(path)
    review = merge_marks(report, [mark for one in marks for mark in read_marks(one, report)])
    return replace(review, precision=precision_of(review.report, path))


def _write_marks(path: Path, merged: Report) -> None:
    """Write verdicts into the GeoJSON report that ``merged`` was read from; all else in it stays."""
    content = report_content(path)
    features = content.pop("features")
    for feature, change in zip(features, merged.changes, strict=True):
        feature["properties"] |= {name: getattr(change, name) for name in REVIEW_FIELDS}
    write_together({path: json_lines(content, features)})


def _earlier_verdict(change: Change) -> list[Mark]:
    """Return the verdict in the report; one that was typed in a GIS has no time and counts as oldest."""
    if change.review_status is None:
        return []
    given = _time(change.reviewed_at) or datetime.min.replace(tzinfo=UTC)
    texts = (change.reviewer_caption or "", change.reviewer_note or "", change.reviewer or "")
    return [Mark(change.id, change.review_status, given, *texts)]


def _with_mark(change: Change, mark: Mark) -> Change:
    return replace(
        change,
        review_status=mark.verdict,
        reviewer=mark.reviewer or None,
        reviewer_caption=mark.caption or None,
        reviewer_note=mark.note or None,
        reviewed_at=mark.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )


def _conflicts(newest: Mark, marks: Sequence[Mark]) -> list[Conflict]:
    """Return where others than the reviewer of the newest verdict gave another one."""
    others = {
        (mark.verdict, mark.reviewer)
        for mark in marks
        if mark.verdict != newest.verdict and not (mark.reviewer and mark.reviewer == newest.reviewer)
    }
    return [Conflict(newest.id, newest.verdict, newest.reviewer, *other) for other in sorted(others)]


def _content(path: Path) -> Mapping[str, Any]:
    name = printable(path)
    try:
        content = parsed_json(read_file(path, LARGEST_BYTES))
    except OSError as error:
        raise MarksInvalid(f"{name}: it cannot be read ({error.strerror}); {_ANOTHER}") from error
    except ValueError as error:
        raise MarksInvalid(f"{name}: it is no JSON; {_ANOTHER}") from error
    if not isinstance(content, dict):
        raise MarksInvalid(f"{name}: there are no marks in it; {_ANOTHER}")
    return content


def _mark(value: Any) -> Mark | None:
    """Return a mark; None for a value that is none."""
    if (
        not isinstance(value, dict)
        or type(value.get("id")) is not int
        or value.get("verdict") not in VERDICTS
    ):
        return None
    texts = {name: value.get(name, "") for name in ("caption", "note", "reviewer")}
    if not all(isinstance(text, str) and len(text) <= _LONGEST_TEXT for text in texts.values()):
        return None
    given = _time(value.get("time"))
    return None if given is None else Mark(value["id"], value["verdict"], given, **texts)


def _time(text: Any) -> datetime | None:
    """Return a time in ISO form; None where it is none, or has no time zone."""
    try:
        given = datetime.fromisoformat(text)
        return None if given.tzinfo is None else given.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def verdicts_of(changes: Iterable[Change]) -> Counter[str | None]:
    """Count the verdicts on changes; None are those without one."""
    return Counter(change.review_status for change in changes)


def precision_of(report: Report, source: str | Path) -> Precision | None:
    """Estimate how many changes of an archive are right; None for a report that is no sample, or unmarked."""
    if "sample" not in report.run:
        return None
    drawn = [change for change in report.changes if change.model != BY_HAND]  # others were not sampled
    counts = verdicts_of(drawn)
    sample = report.run["sample"]
    total = sample.get("changes") if isinstance(sample, dict) else None
    if type(total) is not int or not len(drawn) <= total < 2**53:
        raise MarksInvalid(
            f"{printable(source)}: it does not say of how many changes it was drawn; draw another sample"
        )
    marked, wrong = len(drawn) - counts[None], counts[WRONG_PLACE]
    true = marked - wrong
    interval = _interval(true, wrong, total)
    if interval is None:
        return None
    words = _interval(counts[CONFIRMED], counts[WRONG_WORDS], total - wrong)
    return Precision(
        changes=total,
        drawn=len(drawn),
        marked=marked,
        precision=round(true / marked, 4),
        precision_interval=_rounded(interval),
        true_changes=round(true / marked * total),
        true_changes_interval=(round(interval[0] * total), round(interval[1] * total)),
        right_words=None if words is None else round(counts[CONFIRMED] / true, 4),
        right_words_interval=None if words is None else _rounded(words),
    )


def _interval(right: int, wrong: int, total: int) -> Interval | None:
    """Return Wilson's interval within what was seen of ``total``; None where nothing was."""
    interval = wilson_interval(right, right + wrong)
    if interval is None:
        return None
    return max(interval[0], right / total), min(interval[1], 1 - wrong / total)


def _rounded(interval: Interval) -> Interval:
    return round(interval[0], 4), round(interval[1], 4)
