"""Scores of change masks, in 0..1."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from rscc.evaluation.bootstrap import Count, Interval, Resamples, parts_of, share, wilson_interval

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
        """Count one pair.

        Args:
            predicted, truth: (H, W) bool.
            gsd: metres per pixel; None if unknown, then no object is measured.
        """
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
