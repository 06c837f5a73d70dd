"""Calibrates facts on answers of held-out pairs: from what probability on they come true, and which are told.

Arrays alone: :mod:`rscc.training.facts` has the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rscc.inference.fact_heads import ANSWERS, AROUND, CHANGING, OF_AROUND, FactRules
from rscc.training.calibration import area_under_curve, fit_logistic, moved

FEWEST_LABELS = 20
"""Pairs that an answer is true of, at least, for it to be calibrated and stated."""
LEAST_RIGHT, LEAST_F1 = 2 / 3, 0.4
"""Share that is right of what is stated at held-out places, and F1 there, from which an answer is stated at
all: of what came and what is gone, the better one's.
"""
GROUND = ("trees", "grass", "bare ground")
"""Covers that are weighed against each other: people name the one that there is most of."""
_TWINS = [(n, n + len(CHANGING)) for n in range(len(CHANGING))]
# The answers that share their calibration, by the number of each of all.
_ALIKE = [*_TWINS, *_TWINS, *((2 * len(CHANGING) + n,) for n in range(len(AROUND)))]


def calibrated_rules(logits: np.ndarray, labels: np.ndarray, changed: np.ndarray) -> FactRules:
    """Fit the calibration of every answer to held-out logits (N, len(ANSWERS)), and score them.

    What came and what is gone are one answer of the same head, with time running forwards and backwards: they
    have one calibration, fitted to both, so that a removal is as easily stated as its opposite.

    Args:
        labels: (N, len(ANSWERS)) in {0, 1}. changed: (N,) bool, the pairs that are scored.
    """
    fits = [
        _calibration(logits[:, alike].reshape(-1, 1), labels[:, alike].ravel()) or (0.0, 0.0)
        for alike in _ALIKE
    ]
    slopes, offsets = zip(*fits, strict=True)
    around = _around(fits[OF_AROUND], logits[changed, OF_AROUND], labels[changed, OF_AROUND])
    rules = FactRules(slopes, offsets, around=around)
    rules = _scored(rules, logits[changed], labels[changed] > 0)
    known = [
        name in rules.scores
        and rules.scores[name]["right"] >= LEAST_RIGHT
        and rules.scores[name]["f1"] >= LEAST_F1
        for name in ANSWERS
    ]
    stated = (any(known[i] for i in alike) for alike in _ALIKE)
    return replace(rules, slopes=tuple(s if known else 0.0 for s, known in zip(slopes, stated, strict=True)))


def _calibration(logits: np.ndarray, labels: np.ndarray, *, least: float = 0.0) -> tuple[float, ...] | None:
    """Return slopes, of at least ``least``, and offset of logits (N, F); None for too few labels (N,)."""
    label = labels > 0
    if not FEWEST_LABELS <= label.sum() < len(label):
        return None
    fitted = fit_logistic(logits, label, least=least)
    return (*map(float, fitted.slopes), fitted.offset)


def _around(
    fits: Sequence[tuple[float, ...]], logits: np.ndarray, labels: np.ndarray
) -> tuple[tuple[float, ...], ...]:
    """Return :attr:`FactRules.around` of changed pairs; slope and offset of ``fits`` where they tell nothing.

    Args:
        fits, logits, labels: of the answers about :data:`AROUND` alone.
    """
    rows = np.zeros((len(AROUND), len(AROUND) + 1))
    for number, name in enumerate(AROUND):
        rows[number, [number, -1]] = fits[number]
        read, least = ([AROUND.index(one) for one in GROUND], -np.inf) if name in GROUND else ([number], 0.0)
        fitted = _calibration(logits[:, read], labels[:, number], least=least)
        if fitted is not None:
            rows[number, [*read, -1]] = fitted
    return tuple(map(tuple, rows.tolist()))


def adapted_rules(start: FactRules, logits: np.ndarray, labels: np.ndarray, changed: np.ndarray) -> FactRules:
    """Move the calibration of a start as far as a few answers ask for; arguments as :func:`calibrated_rules`.

    What the start never states is calibrated as if there were none.
    """
    new = calibrated_rules(logits, labels, changed)
    fits: list[tuple[float, ...]] = list(zip(new.slopes, new.offsets, strict=True))
    for number, (slope, offset) in enumerate(zip(start.slopes, start.offsets, strict=True)):
        if slope:
            alike = _ALIKE[number]
            told = (slope * logits[:, alike] + offset).ravel()
            fits[number] = _moved((slope, offset), told, labels[:, alike].ravel())
    slopes, offsets = zip(*fits, strict=True)
    around = list(new.around) if start.around else []
    told = start.calibrated_logits(logits[changed])[:, OF_AROUND]
    for number, row in enumerate(start.around):
        if start.slopes[OF_AROUND][number]:
            around[number] = _moved(row, told[:, number], labels[changed, OF_AROUND][:, number])
    rules = FactRules(slopes, offsets, start.sure, around=tuple(around))
    return _scored(rules, logits[changed], labels[changed] > 0)


def _moved(row: tuple[float, ...], told: np.ndarray, labels: np.ndarray) -> tuple[float, ...]:
    """Return weights and an offset moved as :func:`moved` says, by the logits (N,) that they told."""
    scale, shift = moved(told, labels > 0)
    *weights, offset = row
    return (*(scale * weight for weight in weights), scale * offset + shift)


def _scored(rules: FactRules, logits: np.ndarray, labels: np.ndarray) -> FactRules:
    """Return rules with their scores, of the answers that are known, on logits (N, len(ANSWERS))."""
    scores: dict[str, dict[str, float]] = {}
    told = rules.calibrated(logits)
    for name, column, true, slope, sure in zip(
        ANSWERS, told.T, labels.T, rules.slopes, rules.sure, strict=True
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
