"""Results of an evaluation: scores of captions, flags and masks on a subset of pairs, and of stated facts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import ndimage

from rscc.evaluation.bootstrap import Count, Interval, Resamples, parts_of, share, wilson_interval
from rscc.evaluation.metrics import CaptionScores
from rscc.text.object_classes import Hallucinations

SUBSETS = ("all", "changed", "unchanged")
PEOPLE = "people"
SHARES = ("direction", "number", "place")
"""Facts that a share of the captions states correctly."""
SIZES = (0, 50, 100, 200, 400)
"""Lower limits of the size classes of true objects in square metres; the last class has no upper limit."""
FOUND = 0.5
"""Share of its pixels from which a true object counts as found."""


@dataclass(frozen=True)
class SizeRecall:
    """How many true objects of one size class are found.

    An object is a 4-connected patch of the true mask that the image border does not cut.

    Attributes:
        least: lower limit in square metres, one of :data:`SIZES`.
        interval: Wilson's 95 percent interval of the share; None without objects.
    """

    least: int
    objects: int
    found: int
    interval: Interval | None

    @property
    def recall(self) -> float | None:
        """The share that is found, 0..1; None without objects."""
        return share(self.found, self.objects)


@dataclass(frozen=True)
class MaskScores:
    """Pixel scores of the class "changed", counted over all pixels of a set of pairs.

    Attributes:
        changed: share of the pixels that truly changed.
        precision: None if no pixel was predicted. recall: None if no pixel changed.
        f1, iou: None if neither.
        by_size: recall of true objects by their size; empty if no GSD is known.
    """

    pairs: int
    pixels: int
    changed: float
    precision: float | None
    recall: float | None
    f1: float | None
    iou: float | None
    by_size: Sequence[SizeRecall] = ()


class MaskCounter:
    """Counts pixels pair by pair, so that no mask is kept."""

    def __init__(self) -> None:
        self._counts: list[tuple[int, int, int, int]] = []
        self._objects: list[tuple[float, bool]] = []  # square metres, found

    def add(self, predicted: np.ndarray, truth: np.ndarray, *, gsd: float | None = None) -> None:
        """Count one pair of masks (H, W) bool; without metres per pixel, ``gsd``, no object is measured."""
        hits = int((predicted & truth).sum())
        self._counts.append((hits, int(predicted.sum()) - hits, int(truth.sum()) - hits, truth.size))
        if gsd is not None:
            areas, covered = _whole_objects(truth, predicted)
            self._objects += zip((areas * gsd**2).tolist(), (covered >= FOUND).tolist(), strict=True)

    def scores(self) -> MaskScores | None:
        """Return the scores of all counted pairs; None without any."""
        if not self._counts:
            return None
        hits, false, missed, pixels = (sum(column) for column in zip(*self._counts, strict=True))
        return MaskScores(
            pairs=len(self._counts),
            pixels=pixels,
            changed=(hits + missed) / pixels,
            by_size=self._by_size(),
            **{name: share(*part) for name, part in _parts(hits, false, missed).items()},
        )

    def _by_size(self) -> list[SizeRecall]:
        if not self._objects:
            return []
        counts = [[0, 0] for _ in SIZES]  # missed, found
        for area, found in self._objects:
            counts[bisect_right(SIZES, area) - 1][found] += 1
        return [
            SizeRecall(least, missed + found, found, wilson_interval(found, missed + found))
            for least, (missed, found) in zip(SIZES, counts, strict=True)
        ]

    def intervals(self) -> dict[str, Interval]:
        """Return the 95 percent bootstrap intervals over pairs of the defined scores."""
        if not self._counts:
            return {}
        hits, false, missed, _ = np.array(self._counts, dtype=np.float64).T
        return Resamples(len(self._counts)).intervals(_parts(hits, false, missed))


def _whole_objects(truth: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels, and share of predicted ones, of every object that the border does not cut."""
    labels, count = ndimage.label(truth)
    border = np.concatenate([labels[[0, -1]].ravel(), labels[:, [0, -1]].ravel()])
    whole = np.setdiff1d(np.arange(1, count + 1), border)
    areas = np.bincount(labels.ravel(), minlength=count + 1)[whole]
    hits = np.bincount(labels[predicted], minlength=count + 1)[whole]
    return areas, hits / areas


def _parts(hits: Count, false: Count, missed: Count) -> dict[str, tuple[Count, Count]]:
    return parts_of(hits, false, missed) | {"iou": (hits, hits + false + missed)}


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
