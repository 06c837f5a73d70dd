"""95 percent intervals of scores by the bootstrap over pairs.

Pairs are drawn with replacement, as many as there are, and every score is computed again from the counts of
the drawn pairs: BLEU from n-grams and lengths, METEOR from matches and chunks, F1 of a mask from pixels. The
interval is the 2.5th to the 97.5th percentile of 1,000 such scores. All captioners of an evaluation share the
draws. CIDEr's document frequencies stay those of all scored references: the pairs' scores are drawn again,
not the weights of the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from rscc.errors import DatasetLayoutInvalid

if TYPE_CHECKING:
    from rscc.evaluation.metrics import CaptionScores

SAMPLES, LEVEL = 1000, 0.95
Interval = tuple[float, float]
Count = TypeVar("Count", int, np.ndarray)

# METEOR 1.5 for English (Denkowski and Lavie 2014, Table 1: "ranking"); the weights are those of exact, stem,
# synonym and paraphrase matches.
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_MATCHES = np.array([1.0, 0.6, 0.8, 0.6])


class Resamples:
    """Draws of pairs with replacement.

    Attributes:
        weights: (samples, N) float64, how often each draw holds each pair.
    """

    def __init__(self, pairs: int, *, samples: int = SAMPLES, seed: int = 1):
        """Draw; the same seed gives the same draws."""
        if not pairs:
            raise DatasetLayoutInvalid("there is no score to resample; check the split")
        rng = np.random.default_rng(seed)
        self.weights = rng.multinomial(pairs, np.full(pairs, 1 / pairs), size=samples).astype(np.float64)

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sum per-pair values (N,) or (N, K) over each draw: (samples,) or (samples, K)."""
        return self.weights @ np.asarray(values, dtype=np.float64)

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return each draw's mean of per-pair values (N,)."""
        return self.totals(values) / self.weights.shape[1]

    def shares(self, part: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """Return each draw's sum of ``part`` by its sum of ``whole``; NaN where the latter is 0."""
        parts, wholes = self.totals(part), self.totals(whole)
        return np.divide(parts, wholes, out=np.full_like(parts, np.nan), where=wholes != 0)

    def intervals(self, parts: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Interval]:
        """Return the defined intervals of shares, given by name as part and whole per pair."""
        draws = {name: percentile_interval(self.shares(*pair)) for name, pair in parts.items()}
        return {name: interval for name, interval in draws.items() if interval is not None}


def parts_of(hits: Count, false: Count, missed: Count) -> dict[str, tuple[Count, Count]]:
    """Return part and whole of ``precision``, ``recall`` and ``f1``, of counts or of arrays of them."""
    return {
        "precision": (hits, hits + false),
        "recall": (hits, hits + missed),
        "f1": (2 * hits, 2 * hits + false + missed),
    }


def share(part: int, whole: int) -> float | None:
    """Return a share in 0..1; None of nothing."""
    return part / whole if whole else None


def percentile_interval(scores: np.ndarray) -> Interval | None:
    """Return the interval that holds 95 percent of the draws' scores; None if one in ten is undefined."""
    defined = scores[~np.isnan(scores)]
    if defined.size < 0.9 * scores.size:
        return None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def bleu_of_counts(counts: np.ndarray) -> np.ndarray:
    """Return BLEU-1 to BLEU-4 in 0..1, (..., 4), of summed counts, as pycocoevalcap computes it of a corpus.

    Args:
        counts: (..., 10): words of the captions, words of the references of the closest length, n-grams of
            the captions (n from 1 to 4), matched n-grams.
    """
    words, reference_words = counts[..., 0], counts[..., 1]
    guessed, right = counts[..., 2:6], counts[..., 6:10]
    precision = np.cumprod((right + 1e-15) / (guessed + 1e-9), axis=-1) ** (1 / np.arange(1, 5))
    ratio = (words + 1e-15) / (reference_words + 1e-9)
    with np.errstate(over="ignore"):
        brevity = np.where(ratio < 1, np.exp(1 - 1 / np.maximum(ratio, 1e-300)), 1.0)
    return precision * brevity[..., None]


def meteor_of_counts(counts: np.ndarray) -> np.ndarray:
    """Return METEOR in 0..1 of summed counts (Denkowski and Lavie 2014, Eq. 1 to 5).

    Args:
        counts: (..., 23) in the order of METEOR's own statistics: words of caption and reference, function
            words of both; per kind of match content words of both, function words of both; chunks; matched
            words of both. A sentence that matches as a whole has no chunk.
    """
    words, reference_words, function_words, reference_function_words = np.moveaxis(counts[..., :4], -1, 0)
    kinds = counts[..., 4:20].reshape(*counts.shape[:-1], 4, 4)
    content, reference_content, function, reference_function = np.moveaxis(
        np.einsum("...mk,m->...k", kinds, _MATCHES), -1, 0
    )
    chunks, matched = counts[..., 20], counts[..., 21:23].mean(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = (_DELTA * content + (1 - _DELTA) * function) / (
            _DELTA * (words - function_words) + (1 - _DELTA) * function_words
        )
        recall = (_DELTA * reference_content + (1 - _DELTA) * reference_function) / (
            _DELTA * (reference_words - reference_function_words) + (1 - _DELTA) * reference_function_words
        )
        mean = precision * recall / (_ALPHA * precision + (1 - _ALPHA) * recall)
        score = mean * (1 - _GAMMA * (chunks / matched) ** _BETA)
    return np.nan_to_num(score)


def caption_intervals(scores: CaptionScores, resamples: Resamples) -> dict[str, Interval]:
    """Return the intervals of caption scores in percent, by name; a score that is None has none."""
    bleus = 100 * bleu_of_counts(resamples.totals(scores.counts["bleu"]))
    draws = {f"bleu{n + 1}": bleus[:, n] for n in range(4)}
    if "meteor" in scores.counts:
        draws["meteor"] = 100 * meteor_of_counts(resamples.totals(scores.counts["meteor"]))
    for name in ("rouge_l", "cider"):
        if name in scores.per_pair:
            draws[name] = resamples.means(np.array(list(scores.per_pair[name].values())))
    parts = ("bleu4", "meteor", "rouge_l", "cider")
    if all(name in draws for name in parts):
        draws["s_m"] = np.mean([draws[name] for name in parts], axis=0)
    return {name: interval for name, values in draws.items() if (interval := percentile_interval(values))}


def wilson_interval(part: int, whole: int) -> Interval | None:
    """Return Wilson's 95 percent interval of a share, which is also valid at 0 and 1; None of nothing.

    Equation 4 of Brown, Cai and DasGupta 2001, Interval estimation for a binomial proportion.
    """
    if not whole:
        return None
    # scipy.stats has it, too, but its import takes more time and memory than the rest of rscc review.
    z = 1.959964
    share, square = part / whole, z * z
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    half = z / (1 + square / whole) * (share * (1 - share) / whole + square / (4 * whole**2)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)
