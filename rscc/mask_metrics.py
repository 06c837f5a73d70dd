"""Scores of change masks and change flags, and how sure a mean over pairs is. All in 0..1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from rscc.errors import DatasetLayoutInvalid


@dataclass(frozen=True)
class MaskScores:
    """Pixel scores of the class "changed", counted over all pixels of a set of pairs.

    Attributes:
        pairs, pixels: how much was counted.
        changed: share of the pixels that truly changed.
        precision: None when no pixel was predicted. recall: None when no pixel changed.
        f1, iou: None when neither.
    """

    pairs: int
    pixels: int
    changed: float
    precision: float | None
    recall: float | None
    f1: float | None
    iou: float | None

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the scores by name."""
        return asdict(self)


class MaskCounter:
    """Counts pixels pair by pair, so that no mask needs to be kept."""

    def __init__(self) -> None:
        self._pairs = self._hits = self._false = self._missed = self._pixels = 0

    def add(self, predicted: np.ndarray, truth: np.ndarray) -> None:
        """Count one pair.

        Args:
            predicted: (H, W) bool.
            truth: (H, W) bool.

        Raises:
            DatasetLayoutInvalid: the two differ in size.
        """
        if predicted.shape != truth.shape:
            raise DatasetLayoutInvalid(
                f"predicted mask of {predicted.shape} and true mask of {truth.shape} pixels differ in size; "
                "predict at the size of the true mask"
            )
        predicted, truth = predicted.astype(bool), truth.astype(bool)
        self._pairs += 1
        self._pixels += truth.size
        self._hits += int((predicted & truth).sum())
        self._false += int((predicted & ~truth).sum())
        self._missed += int((~predicted & truth).sum())

    def scores(self) -> MaskScores | None:
        """Return the scores of what was counted; None when nothing was."""
        if not self._pairs:
            return None
        hits, false, missed = self._hits, self._false, self._missed
        return MaskScores(
            pairs=self._pairs,
            pixels=self._pixels,
            changed=(hits + missed) / self._pixels,
            precision=_share(hits, hits + false),
            recall=_share(hits, hits + missed),
            f1=_share(2 * hits, 2 * hits + false + missed),
            iou=_share(hits, hits + false + missed),
        )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def flag_accuracy(predicted: Sequence[bool], truth: Sequence[bool]) -> float:
    """Return the share of pairs whose change flag is right.

    Raises:
        DatasetLayoutInvalid: no pairs, or not as many predictions as truths.
    """
    if not truth or len(predicted) != len(truth):
        raise DatasetLayoutInvalid(
            f"{len(predicted)} predicted flags for {len(truth)} pairs; give one for each"
        )
    return sum(bool(p) == bool(t) for p, t in zip(predicted, truth, strict=True)) / len(truth)


def bootstrap_interval(
    values: Iterable[float], *, level: float = 0.95, samples: int = 2000, seed: int = 1
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of per-pair scores.

    Args:
        values: one score per pair.
        level: coverage, above 0 and below 1.
        samples: resamples.
        seed: of the resampling; the same seed gives the same interval.

    Raises:
        DatasetLayoutInvalid: there is no value.
    """
    scores = np.asarray(list(values), dtype=np.float64)
    if not scores.size:
        raise DatasetLayoutInvalid("there is no score to resample; check the split")
    rng = np.random.default_rng(seed)
    means = np.array([scores[rng.integers(scores.size, size=scores.size)].mean() for _ in range(samples)])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
