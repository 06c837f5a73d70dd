"""Logistic calibration: fit, adapt and cut probabilities."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from rscc.facts.calibration import sigmoid

# Inverse strength of the L2 penalty on standardised values.
_C = 1.0
PRIOR_STRENGTH = 3.0
"""Strength of the prior that calibrated logits stay as they are, see :func:`fit_adaptation`."""


@dataclass(frozen=True)
class Logistic:
    """P = sigmoid(values @ slopes + offset) for values (N, F)."""

    slopes: np.ndarray
    offset: float

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return P (N,)."""
        return sigmoid(values @ self.slopes + self.offset)


def fit_logistic(values: np.ndarray, truth: np.ndarray, *, min_slope: float = 0.0) -> Logistic:
    """Fit a logistic regression of values (N, F) with a small L2 penalty and slopes of ``min_slope`` or more.

    A value with a smaller slope is left out (slope 0), the smallest first. ``truth`` (N,) has both kinds.
    """
    from sklearn.linear_model import LogisticRegression

    slopes = np.zeros(values.shape[1])
    used = list(range(values.shape[1]))
    while used:
        part = values[:, used]
        scale = part.std(axis=0)
        scale[scale == 0] = 1
        mean = part.mean(axis=0)
        fitted = LogisticRegression(C=_C, max_iter=1000).fit((part - mean) / scale, truth)
        unscaled = fitted.coef_[0] / scale
        if unscaled.min() >= min_slope:
            slopes[used] = unscaled
            return Logistic(slopes, float(fitted.intercept_[0] - unscaled @ mean))
        used.pop(int(fitted.coef_[0].argmin()))
    share = truth.mean()
    return Logistic(slopes, float(np.log(share / (1 - share))))


def fit_adaptation(logits: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the scale s and the shift t with which s * logit + t fits further answers, however few.

    The logits (N,) were calibrated elsewhere; ``truth`` is (N,) bool. The result is the maximum a posteriori
    for a shift and a logarithm of the scale that are normal around 0, with variances of
    1 / :data:`PRIOR_STRENGTH` and a quarter of that: five answers change little, five hundred decide.
    """
    sign = np.where(truth, -1.0, 1.0)

    def cost(values: np.ndarray) -> tuple[float, np.ndarray]:
        scale, shift = np.exp(values[0]), values[1]
        wrong = sign * (scale * logits + shift)
        slope = sign * sigmoid(wrong)
        prior = PRIOR_STRENGTH * np.array([4 * values[0], values[1]])
        value = np.logaddexp(0, wrong).sum() + prior @ values / 2
        return float(value), np.array([scale * slope @ logits, slope.sum()]) + prior

    found = minimize(cost, np.zeros(2), jac=True).x
    return float(np.exp(found[0])), float(found[1])


def best_threshold(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Return the threshold of the highest accuracy, of several the nearest to 0.5. Both are (N,)."""
    edges = np.unique(np.concatenate([[0.0], probabilities, [1.0]]))
    low, high = edges[:-1], edges[1:]
    candidates = np.where((low < 0.5) & (high >= 0.5), 0.5, (low + high) / 2)
    missed = np.searchsorted(np.sort(probabilities[truth]), candidates)
    rejected = np.searchsorted(np.sort(probabilities[~truth]), candidates)
    best = candidates[rejected - missed == (rejected - missed).max()]
    return float(best[np.abs(best - 0.5).argmin()])


def area_under_curve(scores: np.ndarray, true: np.ndarray) -> float:
    """Return the area under the ROC curve, 0..1; 0.5 if there is only one kind."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(true, scores)) if true.any() and not true.all() else 0.5
