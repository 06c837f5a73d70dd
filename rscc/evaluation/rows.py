"""The rows of an evaluation: the scores of one captioner on one subset of the pairs, and on its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rscc.evaluation.bootstrap import Interval, parts_of, share, wilson_interval
from rscc.evaluation.masks import MaskScores
from rscc.evaluation.metrics import CaptionScores
from rscc.text.object_classes import Hallucinations

SUBSETS = ("all", "changed", "unchanged")
PEOPLE = "people"
SHARES = ("direction", "number", "place")
"""Facts of which a share of the captions is right."""


@dataclass(frozen=True)
class FlagScores:
    """Scores of "changed or not", in 0..1.

    Attributes:
        accuracy: share of right flags.
        precision: None when no pair was called changed. recall: None when no pair changed.
        calibration_error: expected, of P(changed), see :class:`rscc.inference.calibration.Reliability`; None
            for a captioner without that probability, and where all pairs changed or none did.
    """

    accuracy: float
    precision: float | None
    recall: float | None
    calibration_error: float | None = None


@dataclass(frozen=True)
class EvaluationRow:
    """Scores of one captioner on one subset of the pairs.

    Attributes:
        name: the model or the baseline.
        subset: ``all``, ``changed`` or ``unchanged`` (by the true flag), or a type of change as the data set
            names it, of which only changed pairs are counted.
        captions: in percent.
        flags: in 0..1.
        mask: in 0..1; None when the captioner gives no masks or no pair has one.
        objects: how often captions name objects that no reference names; None when not counted.
        intervals: 95 percent intervals by the names of the scores, those of the captions in percent, the
            others in 0..1; what is undefined is absent. Wilson's of ``flag_precision``, ``flag_recall`` and
            ``hallucination_rate``; of all others (captions, ``flag_accuracy``, ``mask_precision``,
            ``mask_recall``, ``mask_f1``, ``mask_iou``) by the bootstrap over pairs,
            :mod:`rscc.evaluation.bootstrap`.
    """

    name: str
    subset: str
    captions: CaptionScores
    flags: FlagScores
    mask: MaskScores | None
    objects: Hallucinations | None = None
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "subset": self.subset,
            **self.captions.as_dict(),
            "flag_accuracy": self.flags.accuracy,
            "flag_precision": self.flags.precision,
            "flag_recall": self.flags.recall,
            "calibration_error": self.flags.calibration_error,
            "mask": None if self.mask is None else asdict(self.mask),
            "hallucinations": None if self.objects is None else self.objects.as_dict(),
            "intervals": dict(self.intervals),
            "notes": list(self.captions.notes),
        }


@dataclass(frozen=True)
class Share:
    """How many of some pairs, or captions, are right.

    Attributes:
        right, counted: of all that were counted.
        interval: 95 percent; None of nothing.
    """

    right: int
    counted: int
    interval: Interval | None

    @classmethod
    def of(cls, right: int, counted: int) -> Share:
        """Return a share with Wilson's interval."""
        return cls(right, counted, wilson_interval(right, counted))

    @property
    def value(self) -> float | None:
        """The share in 0..1; None of nothing."""
        return share(self.right, self.counted)

    def as_dict(self, counted: str, hits: str = "right") -> dict[str, Any]:
        """Return plain values for JSON.

        Args:
            counted: what was counted, ``pairs`` or ``captions``.
            hits: what those are that the share is of, ``right`` or ``wrong``.
        """
        return {hits: self.right, counted: self.counted, "share": self.value, "interval": self.interval}


@dataclass(frozen=True)
class ObjectScores:
    """How well captions name object classes.

    Attributes:
        right, wrong, missed: how often a class was named truly, named falsely, and not named.
        intervals: 95 percent, by the bootstrap over pairs, of those scores that are defined.
    """

    right: int
    wrong: int
    missed: int
    intervals: Mapping[str, Interval]

    @property
    def values(self) -> dict[str, float | None]:
        """``precision``, ``recall`` and ``f1`` in 0..1; None where nothing is named, or to be named."""
        parts = parts_of(self.right, self.wrong, self.missed)
        return {name: share(*part) for name, part in parts.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        counts = {"right": self.right, "wrong": self.wrong, "missed": self.missed}
        return {**counts, **self.values, "intervals": dict(self.intervals)}


@dataclass(frozen=True)
class FactScores:
    """What the captions of one captioner, or of people, state of changed pairs.

    Attributes:
        name: the captioner, or :data:`PEOPLE`.
        pairs: changed pairs.
        shares: of its captions, by the names of :data:`SHARES`. Wilson's intervals; of people, who say
            several captions a pair, by the bootstrap over pairs.
        other_objects: captions that name an object which no reference names, of those that name any; None
            when objects were not read. Intervals as of the shares.
        objects: of all classes together; None when they were not read.
        by_class: of each class that is named by the captions, or by two references.
        distinct: different sentences; of people the mean over their first, second ... references.
    """

    name: str
    pairs: int
    shares: Mapping[str, Share]
    other_objects: Share | None
    objects: ObjectScores | None
    distinct: float
    by_class: Mapping[str, ObjectScores] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "pairs": self.pairs,
            **{fact: one.as_dict("captions") for fact, one in self.shares.items()},
            "other_objects": self.other_objects and self.other_objects.as_dict("captions", "wrong"),
            "objects": None if self.objects is None else self.objects.as_dict(),
            "objects_by_class": {name: scores.as_dict() for name, scores in self.by_class.items()},
            "distinct_sentences": self.distinct,
        }
