"""Scores of change masks and change flags. All in 0..1."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from rscc.errors import DatasetLayoutInvalid
from rscc.evaluation.bootstrap import Interval, Resamples, percentile_interval


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
        self._counts: list[tuple[int, int, int, int]] = []

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
        hits = int((predicted & truth).sum())
        self._counts.append((hits, int(predicted.sum()) - hits, int(truth.sum()) - hits, truth.size))

    def scores(self) -> MaskScores | None:
        """Return the scores of what was counted; None when nothing was."""
        if not self._counts:
            return None
        hits, false, missed, pixels = (sum(column) for column in zip(*self._counts, strict=True))
        return MaskScores(
            pairs=len(self._counts),
            pixels=pixels,
            changed=(hits + missed) / pixels,
            precision=_share(hits, hits + false),
            recall=_share(hits, hits + missed),
            f1=_share(2 * hits, 2 * hits + false + missed),
            iou=_share(hits, hits + false + missed),
        )

    def intervals(self) -> dict[str, Interval]:
        """Return the 95 percent bootstrap intervals over pairs of the scores that are defined."""
        if not self._counts:
            return {}
        hits, false, missed, _ = np.array(self._counts, dtype=np.float64).T
        resamples = Resamples(len(self._counts))
        parts = {
            "precision": (hits, hits + false),
            "recall": (hits, hits + missed),
            "f1": (2 * hits, 2 * hits + false + missed),
            "iou": (hits, hits + false + missed),
        }
        draws = {name: resamples.shares(part, whole) for name, (part, whole) in parts.items()}
        return {name: interval for name, values in draws.items() if (interval := percentile_interval(values))}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
