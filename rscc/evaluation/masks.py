"""Scores of change masks and change flags. All in 0..1."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from rscc.evaluation.bootstrap import Count, Interval, Resamples, parts_of, share, wilson_interval

SIZES = (0, 50, 100, 200, 400)
"""Square metres from which the classes of size of true objects begin; the last has no end."""
FOUND = 0.5
"""Share of its pixels from which a true object counts as found."""


@dataclass(frozen=True)
class SizeRecall:
    """How many true objects of one class of size are found.

    An object is a patch of the true mask whose pixels touch by their sides. Those that the border of the
    picture cuts are left out: how large they are is not known.

    Attributes:
        least: square metres, one of :data:`SIZES`; the class ends where the next begins.
        objects, found: counts.
        interval: Wilson's 95 percent interval of the share that is found; None without objects.
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
        pairs, pixels: how much was counted.
        changed: share of the pixels that truly changed.
        precision: None when no pixel was predicted. recall: None when no pixel changed.
        f1, iou: None when neither.
        by_size: recall of true objects by their size; empty where no GSD is known.
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
    """Counts pixels pair by pair, so that no mask needs to be kept."""

    def __init__(self) -> None:
        self._counts: list[tuple[int, int, int, int]] = []
        self._objects: list[tuple[float, bool]] = []  # square metres, found

    def add(self, predicted: np.ndarray, truth: np.ndarray, *, gsd: float | None = None) -> None:
        """Count one pair.

        Args:
            predicted: (H, W) bool.
            truth: (H, W) bool.
            gsd: metres per pixel; None where it is not known, and no object is measured.
        """
        hits = int((predicted & truth).sum())
        self._counts.append((hits, int(predicted.sum()) - hits, int(truth.sum()) - hits, truth.size))
        if gsd is not None:
            areas, covered = _whole_objects(truth, predicted)
            self._objects += zip((areas * gsd**2).tolist(), (covered >= FOUND).tolist(), strict=True)

    def scores(self) -> MaskScores | None:
        """Return the scores of what was counted; None when nothing was."""
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
        found = [[0, 0] for _ in SIZES]
        for area, is_found in self._objects:
            found[bisect_right(SIZES, area) - 1][is_found] += 1
        return [
            SizeRecall(least, missed + hits, hits, wilson_interval(hits, missed + hits))
            for least, (missed, hits) in zip(SIZES, found, strict=True)
        ]

    def intervals(self) -> dict[str, Interval]:
        """Return the 95 percent bootstrap intervals over pairs of the scores that are defined."""
        if not self._counts:
            return {}
        hits, false, missed, _ = np.array(self._counts, dtype=np.float64).T
        return Resamples(len(self._counts)).intervals(_parts(hits, false, missed))


def _whole_objects(truth: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels of every object of a mask that the border does not cut, and the share predicted."""
    labels, count = ndimage.label(truth)
    border = np.concatenate([labels[[0, -1]].ravel(), labels[:, [0, -1]].ravel()])
    whole = np.setdiff1d(np.arange(1, count + 1), border)
    areas = np.bincount(labels.ravel(), minlength=count + 1)[whole]
    hits = np.bincount(labels[predicted], minlength=count + 1)[whole]
    return areas, hits / areas


def _parts(hits: Count, false: Count, missed: Count) -> dict[str, tuple[Count, Count]]:
    return parts_of(hits, false, missed) | {"iou": (hits, hits + false + missed)}
