"""Estimate how many changes of an archive are right, from the verdicts on a random sample of them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rscc.evaluation.bootstrap import Interval, wilson_interval
from workflows.errors import MarksInvalid
from workflows.printable import printable
from workflows.report.change import CONFIRMED, WRONG_PLACE, WRONG_WORDS
from workflows.report.edited import BY_HAND
from workflows.report.report import Report


@dataclass(frozen=True)
class Share:
    """A share, 0..1, and its 95 percent interval."""

    share: float
    interval: Interval


@dataclass(frozen=True)
class Precision:
    """The precision of an archive; a change in the wrong words is a true one.

    Attributes:
        changes: number of changes in the archive from which the sample was drawn.
        drawn: changes of the sample, ``marked`` those with a verdict.
        precision: share of true changes. Wilson's interval, within what was seen: it has no width where all
            changes of the archive were marked.
        true_changes: number of true changes in the archive, and its interval.
        right_words: of the true changes, the share in the right words; None without true changes.
    """

    changes: int
    drawn: int
    marked: int
    precision: Share
    true_changes: tuple[int, int, int]
    right_words: Share | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, shares with 4 decimals."""
        number, low, high = self.true_changes
        return {
            "changes": self.changes,
            "drawn": self.drawn,
            "marked": self.marked,
            **_plain("precision", self.precision),
            "true_changes": number,
            "true_changes_interval": [low, high],
            **_plain("right_words", self.right_words),
        }


def verdicts_of(report: Report) -> Counter[str | None]:
    """Count the verdicts of a report; None are the changes without one."""
    return Counter(change.review_status for change in report.changes)


def precision_of(report: Report, source: str | Path) -> Precision | None:
    """Estimate how many changes of an archive are right; None for a report that is no sample, or unmarked."""
    if "sample" not in report.run:
        return None
    drawn = [change for change in report.changes if change.model != BY_HAND]  # others were not sampled
    counts = Counter(change.review_status for change in drawn)
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
    share = true / marked
    return Precision(
        changes=total,
        drawn=len(drawn),
        marked=marked,
        precision=Share(share, interval),
        true_changes=(round(share * total), round(interval[0] * total), round(interval[1] * total)),
        right_words=None if words is None else Share(counts[CONFIRMED] / true, words),
    )


def _interval(right: int, wrong: int, total: int) -> Interval | None:
    """Return Wilson's interval within what was seen of ``total``; None where nothing was."""
    interval = wilson_interval(right, right + wrong)
    if interval is None:
        return None
    return max(interval[0], right / total), min(interval[1], 1 - wrong / total)


def _plain(name: str, share: Share | None) -> dict[str, Any]:
    if share is None:
        return {name: None, f"{name}_interval": None}
    return {name: round(share.share, 4), f"{name}_interval": [round(end, 4) for end in share.interval]}
