"""Estimate how many changes of an archive are right, from the verdicts on a random sample of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rscc.evaluation.bootstrap import Interval, wilson_interval
from workflows.errors import MarksInvalid
from workflows.printable import printable
from workflows.report.change import CONFIRMED, WRONG_PLACE, WRONG_WORDS, Change
from workflows.report.edited import BY_HAND
from workflows.report.report import Report


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
