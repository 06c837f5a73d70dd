"""Calibrates fact heads on answers for held-out pairs, and decides which facts are stated at all."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rscc.facts.answers import ANSWERS, AROUND, CHANGING, OF_AROUND
from rscc.facts.rules import FactRules
from rscc.training.logistic import area_under_curve, fit_adaptation, fit_logistic

FEWEST_LABELS = 20
"""Fewest true pairs for an answer to be calibrated and stated."""
MIN_PRECISION, MIN_F1 = 2 / 3, 0.4
"""Precision and F1 at held-out places from which an answer is stated; of "came" and "gone" the better one
counts.
"""
GROUND = ("trees", "grass", "bare ground")
"""Covers that are compared with each other, because people name the largest."""
_TWINS = [(n, n + len(CHANGING)) for n in range(len(CHANGING))]
# Of each answer, the numbers of the answers that share its calibration.
_SHARED = [*_TWINS, *_TWINS, *((2 * len(CHANGING) + n,) for n in range(len(AROUND)))]


def calibrated_rules(logits: np.ndarray, labels: np.ndarray, changed: np.ndarray) -> FactRules:
    """Fit the calibration of every answer to held-out logits (N, len(ANSWERS)), and score them.

    "Came" and "gone" are one answer of the same head with the dates swapped: they share one calibration,
    fitted to both, so that a removal is stated as easily as its opposite.

    Args:
        labels: (N, len(ANSWERS)) in {0, 1}. changed: (N,) bool, the pairs that are scored.
    """
    fits = [
        _fit(logits[:, shared].reshape(-1, 1), labels[:, shared].ravel()) or (0.0, 0.0) for shared in _SHARED
    ]
    slopes, offsets = zip(*fits, strict=True)
    around = _around(fits[OF_AROUND], logits[changed, OF_AROUND], labels[changed, OF_AROUND])
    rules = FactRules(slopes, offsets, around=around)
    rules = _scored(rules, logits[changed], labels[changed] > 0)
    known = [
        name in rules.scores
        and rules.scores[name]["right"] >= MIN_PRECISION
        and rules.scores[name]["f1"] >= MIN_F1
        for name in ANSWERS
    ]
    stated = (any(known[i] for i in shared) for shared in _SHARED)
    return replace(rules, slopes=tuple(s if known else 0.0 for s, known in zip(slopes, stated, strict=True)))


def _fit(logits: np.ndarray, labels: np.ndarray, *, min_slope: float = 0.0) -> tuple[float, ...] | None:
    """Return slopes (at least ``min_slope``) and offset for logits (N, F); None for too few labels (N,)."""
    label = labels > 0
    if not FEWEST_LABELS <= label.sum() < len(label):
        return None
    fitted = fit_logistic(logits, label, min_slope=min_slope)
    return (*map(float, fitted.slopes), fitted.offset)


def _around(
    fits: Sequence[tuple[float, ...]], logits: np.ndarray, labels: np.ndarray
) -> tuple[tuple[float, ...], ...]:
    """Return :attr:`FactRules.around` of changed pairs; slope and offset of ``fits`` if there are too few.

    Args:
        fits, logits, labels: only of the answers about :data:`AROUND`.
    """
    rows = np.zeros((len(AROUND), len(AROUND) + 1))
    for number, name in enumerate(AROUND):
        rows[number, [number, -1]] = fits[number]
        columns, min_slope = [number], 0.0
        if name in GROUND:
            columns, min_slope = [AROUND.index(cover) for cover in GROUND], -np.inf
        fitted = _fit(logits[:, columns], labels[:, number], min_slope=min_slope)
        if fitted is not None:
            rows[number, [*columns, -1]] = fitted
    return tuple(map(tuple, rows.tolist()))


def adapted_rules(start: FactRules, logits: np.ndarray, labels: np.ndarray, changed: np.ndarray) -> FactRules:
    """Adapt the calibration of a start to a few answers; arguments as :func:`calibrated_rules`.

    Answers that the start never states are calibrated without it.
    """
    new = calibrated_rules(logits, labels, changed)
    fits: list[tuple[float, ...]] = list(zip(new.slopes, new.offsets, strict=True))
    for number, (slope, offset) in enumerate(zip(start.slopes, start.offsets, strict=True)):
        if slope:
            shared = _SHARED[number]
            calibrated = (slope * logits[:, shared] + offset).ravel()
            fits[number] = _adapt((slope, offset), calibrated, labels[:, shared].ravel())
    slopes, offsets = zip(*fits, strict=True)
    around = list(new.around) if start.around else []
    calibrated = start.calibrated_logits(logits[changed])[:, OF_AROUND]
    for number, row in enumerate(start.around):
        if start.slopes[OF_AROUND][number]:
            around[number] = _adapt(row, calibrated[:, number], labels[changed, OF_AROUND][:, number])
    rules = FactRules(slopes, offsets, start.sure, around=tuple(around))
    return _scored(rules, logits[changed], labels[changed] > 0)


def _adapt(row: tuple[float, ...], logits: np.ndarray, labels: np.ndarray) -> tuple[float, ...]:
    scale, shift = fit_adaptation(logits, labels > 0)
    *weights, offset = row
    return (*(scale * weight for weight in weights), scale * offset + shift)


def _scored(rules: FactRules, logits: np.ndarray, labels: np.ndarray) -> FactRules:
    """Return rules with the scores of the calibrated answers on logits (N, len(ANSWERS))."""
    scores: dict[str, dict[str, float]] = {}
    probabilities = rules.calibrated(logits)
    for name, column, true, slope, sure in zip(
        ANSWERS, probabilities.T, labels.T, rules.slopes, rules.sure, strict=True
    ):
        if slope:
            stated = column >= sure
            right = (stated & true).sum()
            f1 = 2 * right / max(1, stated.sum() + true.sum())
            scores[name] = {
                "pairs": int(true.sum()),
                "auc": round(area_under_curve(column, true), 4),
                "f1": round(float(f1), 4),
                "stated": int(stated.sum()),
                "right": round(float(right / max(1, stated.sum())), 4),
            }
    return replace(rules, scores=scores)
