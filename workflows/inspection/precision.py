"""How many changes of an archive are right, estimated from what a person said of a random sample of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rscc.evaluation.bootstrap import Interval, wilson_interval
from workflows.errors import MarksInvalid
from workflows.report.change import CONFIRMED, WRONG_PLACE, WRONG_WORDS
from workflows.report.edited import BY_HAND
from workflows.report.report import ChangeReport
from workflows.texts import shown

_DIGITS = 4


@dataclass(frozen=True)
class Share:
    """A share of what was counted, 0..1, and its 95 percent interval."""

    share: float
    interval: Interval


@dataclass(frozen=True)
class Precision:
    """What the verdicts on a sample come to; a change in the wrong words is a true one.

    Attributes:
        changes: of the archive, from which the sample was drawn.
        drawn: changes of the sample, ``marked`` those with a verdict.
        precision: of the changes, those that are true. Wilson's interval, within what was seen: where all
            changes of the archive were marked, it has no width.
        true_changes: how many changes of the archive are true, and the interval of that, in whole changes.
        right_words: of the true changes, those in the right words, with the same interval; None without any.
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


def verdicts_of(report: ChangeReport) -> Counter[str | None]:
    """Count the verdicts of a report; None are the changes without one."""
    return Counter(change.review_status for change in report.changes)


def precision_of(report: ChangeReport, source: str | Path) -> Precision | None:
    """Estimate how many changes of an archive are right; None for what is no sample, or has no verdict.

    Raises:
        MarksInvalid: the record of the sample is damaged.
    """
    if "sample" not in report.run:
        return None
    picked = [change for change in report.changes if change.model != BY_HAND]  # others were not found
    counts = verdicts_of(ChangeReport(picked, report.run))
    sample, drawn = report.run["sample"], len(picked)
    total = sample.get("changes") if isinstance(sample, dict) else None
    if type(total) is not int or not drawn <= total < 2**53:
        raise MarksInvalid(
            f"{shown(source)}: it does not say of how many changes it was drawn; draw another sample"
        )
    marked, wrong = drawn - counts[None], counts[WRONG_PLACE]
    true = marked - wrong
    interval = _interval(true, wrong, total)
    if interval is None:
        return None
    low, high = interval
    words = _interval(counts[CONFIRMED], counts[WRONG_WORDS], total - wrong)
    return Precision(
        changes=total,
        drawn=drawn,
        marked=marked,
        precision=Share(true / marked, (low, high)),
        true_changes=(round(true / marked * total), round(low * total), round(high * total)),
        right_words=None if words is None else Share(counts[CONFIRMED] / true, words),
    )


def _interval(right: int, wrong: int, total: int) -> Interval | None:
    """Return Wilson's interval of a share, within what was seen of ``total``; None where nothing was."""
    interval = wilson_interval(right, right + wrong)
    if interval is None:
        return None
    return max(interval[0], right / total), min(interval[1], 1 - wrong / total)


def _plain(name: str, share: Share | None) -> dict[str, Any]:
    if share is None:
        return {name: None, f"{name}_interval": None}
    return {
        name: round(share.share, _DIGITS),
        f"{name}_interval": [round(end, _DIGITS) for end in share.interval],
    }
