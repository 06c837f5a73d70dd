"""Results of an evaluation: scores of a captioner on a subset of the pairs, and of the facts it states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rscc.evaluation.bootstrap import Interval, parts_of, share, wilson_interval
from rscc.evaluation.mask_scores import MaskScores
from rscc.evaluation.metrics import CaptionScores
from rscc.text.object_classes import Hallucinations

SUBSETS = ("all", "changed", "unchanged")
PEOPLE = "people"
SHARES = ("direction", "number", "place")
"""Facts that a share of the captions states correctly."""


@dataclass(frozen=True)
class FlagScores:
    """Scores of "changed or not", in 0..1.

    Attributes:
        accuracy: share of correct flags.
        precision: None if no pair was called changed. recall: None if no pair changed.
        calibration_error: expected, of P(changed), see :class:`rscc.facts.calibration.Reliability`; None for
            a captioner without P(changed), and if all pairs changed or none did.
    """

    accuracy: float
    precision: float | None
    recall: float | None
    calibration_error: float | None = None


@dataclass(frozen=True)
class EvaluationRow:
    """Scores of one captioner on one subset of the pairs.

    Attributes:
        subset: ``all``, ``changed`` or ``unchanged`` by the true flag, or a kind of change (changed pairs).
        captions: in percent. flags, mask: in 0..1; ``mask`` is None if there is nothing to score.
        objects: how often captions name objects that no reference names; None if not counted.
        intervals: 95 percent intervals by name of the score; undefined ones are absent. Those of captions
            are in percent, others in 0..1. ``flag_precision``, ``flag_recall`` and ``hallucination_rate``
            have Wilson's intervals, all others those of the bootstrap over pairs.
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
    """``right`` of ``counted`` pairs or captions, with a 95 percent interval; None of nothing."""

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
        """Return plain values for JSON, with these names for ``counted`` and ``right``."""
        return {hits: self.right, counted: self.counted, "share": self.value, "interval": self.interval}


@dataclass(frozen=True)
class ObjectScores:
    """How often a class was named correctly, named falsely, and not named; bootstrap intervals by score."""

    right: int
    wrong: int
    missed: int
    intervals: Mapping[str, Interval]

    @property
    def values(self) -> dict[str, float | None]:
        """``precision``, ``recall`` and ``f1`` in 0..1; None if undefined."""
        parts = parts_of(self.right, self.wrong, self.missed)
        return {name: share(*part) for name, part in parts.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        counts = {"right": self.right, "wrong": self.wrong, "missed": self.missed}
        return {**counts, **self.values, "intervals": dict(self.intervals)}


@dataclass(frozen=True)
class FactScores:
    """Scores of the facts that the captions of one captioner, or of people, state of changed pairs.

    Attributes:
        name: the captioner, or :data:`PEOPLE`.
        shares: of its captions, by the names of :data:`SHARES`. Wilson's intervals; of people, who have
            several captions per pair, bootstrap intervals.
        other_objects: captions that name an object which no reference names, of those that name any; None
            if objects were not read. Intervals as of the shares.
        objects: of all classes together; None if they were not read.
        distinct: number of distinct sentences; of people the mean over their first, second ... references.
        by_class: of each class that the captions, or two references, name.
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
            **{fact: part.as_dict("captions") for fact, part in self.shares.items()},
            "other_objects": self.other_objects and self.other_objects.as_dict("captions", "wrong"),
            "objects": None if self.objects is None else self.objects.as_dict(),
            "objects_by_class": {name: scores.as_dict() for name, scores in self.by_class.items()},
            "distinct_sentences": self.distinct,
        }
