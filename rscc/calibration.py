"""Confidence that means something: P(changed) and caption scores that come true as often as they say.

Networks are surer than they are right. What a model says is therefore mapped by logistic regressions that
are fitted on the validation split (Platt scaling), with slopes of at least 0, so that more evidence never
lowers a probability:

* ``P(changed) = sigmoid(a * changed_logit + b * evidence + c)``. The evidence is the logit of the change
  probability that at least 50 square metres of the tile reach: a change head that was trained on masks knows
  small changes which the mean of a tile's tokens hides. Without such a head b is 0.
* ``P(good | changed) = sigmoid(slope * log(likelihood) + offset)``. A sentence is good when it agrees with
  the references of its pair (CIDEr) as well as three of four references of the split agree with the others
  of theirs. The likelihood is the geometric mean of the words' probabilities.

Errors and reliabilities are those of ten-fold cross-validation: no pair is judged by a fit that saw it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

    from rscc.structures import DifferenceFeatures

EVIDENCE_AREA = 50.0
"""Square metres that must reach a change probability for it to count as evidence: half a house."""
FEWEST = 5
"""Pairs of either kind (changed and unchanged, good and poor) without which nothing is fitted."""

_LOGIT_LIMIT = 12.0
_FOLDS = 10
_BINS = 10
_SCORE_BINS = 5  # sentences to judge are fewer than pairs
_QUARTER = 25.0
# Inverse strength of the L2 penalty on standardised values.
_C = 1.0


@dataclass(frozen=True)
class Reliability:
    """How often what was said with a probability came true, by bins of that probability.

    Attributes:
        said: mean probability of each bin that holds anything, rising, 0..1.
        found: share of it that came true, 0..1.
        counts: how many it holds.
    """

    said: tuple[float, ...]
    found: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def error(self) -> float:
        """Expected calibration error: mean of |said - found|, weighted by counts, 0..1."""
        gaps = np.abs(np.array(self.said) - np.array(self.found))
        return float(np.average(gaps, weights=self.counts))


def reliability(probabilities: np.ndarray, truth: np.ndarray, bins: int = _BINS) -> Reliability:
    """Compare probabilities with what came true.

    Args:
        probabilities: (N,) in 0..1.
        truth: (N,) bool, what they were probabilities of; N at least 1.
        bins: of equal width between 0 and 1; the empty ones are left out.
    """
    index = np.minimum((np.asarray(probabilities) * bins).astype(int), bins - 1)
    members = [index == number for number in range(bins) if (index == number).any()]
    return Reliability(
        said=tuple(round(float(probabilities[member].mean()), 6) for member in members),
        found=tuple(round(float(truth[member].mean()), 6) for member in members),
        counts=tuple(int(member.sum()) for member in members),
    )


@dataclass(frozen=True)
class FlagCalibration:
    """P(anything changed in a tile), see the module's first equation.

    Attributes:
        a, b, c: the coefficients; a and b are at least 0.
        pixels: that must reach a change probability for it to count as evidence.
        threshold: P(changed) of the highest accuracy on the validation split, the nearest to 0.5 of equals.
        accuracy, precision, recall: of the decision "changed" by cross-validation, the threshold chosen anew
            without the pairs that are judged, 0..1.
        error_before, error_after: expected calibration error of sigmoid(changed_logit), and of P(changed) by
            cross-validation, 0..1.
        brier_before, brier_after: mean squared error of the same two, 0..1.
        bins: reliability of P(changed) by cross-validation.
    """

    a: float
    b: float
    c: float
    pixels: int
    threshold: float
    accuracy: float
    precision: float
    recall: float
    error_before: float
    error_after: float
    brier_before: float
    brier_after: float
    bins: Reliability

    @property
    def reads_evidence(self) -> bool:
        """Whether the change head must run for P(changed)."""
        return self.b > 0

    def probability(self, logits: np.ndarray, evidence: np.ndarray | None) -> np.ndarray:
        """Map logits (N,) and evidence (N,), which may be None when b is 0, to P(changed) (N,)."""
        total = self.a * logits.clip(-_LOGIT_LIMIT, _LOGIT_LIMIT) + self.c
        if self.reads_evidence:
            assert evidence is not None
            total = total + self.b * evidence.clip(-_LOGIT_LIMIT, _LOGIT_LIMIT)
        return _sigmoid(total)


@dataclass(frozen=True)
class ScoreCalibration:
    """P(a sentence is good, given that something changed), see the module's second equation.

    Attributes:
        slope, offset: the coefficients; the slope is at least 0.
        level: CIDEr in percent from which a sentence is good.
        good: share of good sentences among those it was fitted on, 0..1.
        error_before, error_after: expected calibration error of the likelihood taken as that probability, and
            of the probability by cross-validation, 0..1.
        brier_before, brier_after: mean squared error of the same two, 0..1.
        bins: reliability by cross-validation.
    """

    slope: float
    offset: float
    level: float
    good: float
    error_before: float
    error_after: float
    brier_before: float
    brier_after: float
    bins: Reliability

    def probability(self, likelihood: float) -> float:
        """Map the geometric mean of the words' probabilities, 0..1, to P(good | changed)."""
        return float(_sigmoid(self.slope * _log(np.array(likelihood)) + self.offset))


@dataclass(frozen=True)
class Calibration:
    """What a model's probabilities are mapped by.

    Attributes:
        changed: of P(changed); None where the model never learnt it, or pairs to fit on were too few.
        score: of the caption's score; None where pairs to fit on were too few.
    """

    changed: FlagCalibration | None = None
    score: ScoreCalibration | None = None


def evidence_pixels(gsd: float) -> int:
    """Return how many pixels of ``gsd`` metres are :data:`EVIDENCE_AREA`; at least one."""
    return max(1, round(EVIDENCE_AREA / gsd**2))


def change_evidence(change_logits: torch.Tensor, pixels: int) -> torch.Tensor:
    """Return the logit that so many pixels of each tile reach.

    Args:
        change_logits: (B, H / 4, W / 4) of the change head, which are enlarged to (B, H, W) as its maps are.
        pixels: how many; all of a smaller tile.

    Returns:
        (B,) float32.
    """
    from rscc.models.blocks import enlarge_maps

    height, width = change_logits.shape[1:]
    flat = enlarge_maps(change_logits, (4 * height, 4 * width)).flatten(1)
    return flat.topk(min(pixels, flat.shape[1]), dim=1).values[:, -1]


def changed_probability(features: DifferenceFeatures, flag: FlagCalibration | None) -> torch.Tensor:
    """Return P(anything changed) of encoded pairs, (B,) float32; without a calibration the head's own."""
    logits = features.changed_logits.float()
    if flag is None:
        return logits.sigmoid()
    evidence = None
    if flag.reads_evidence:
        assert features.change_logits is not None, "P(changed) of this model needs the change head"
        evidence = change_evidence(features.change_logits, flag.pixels).cpu().numpy()
    return logits.new_tensor(flag.probability(logits.cpu().numpy(), evidence))


def calibrate_flag(
    logits: np.ndarray, evidence: np.ndarray | None, changed: np.ndarray, *, pixels: int
) -> FlagCalibration | None:
    """Fit P(changed) on validation pairs.

    Args:
        logits: (N,) the model's own logits of P(changed).
        evidence: (N,) of :func:`change_evidence`; None for a model without a trained change head.
        changed: (N,) bool, the truth.
        pixels: of the evidence.

    Returns:
        None when there are fewer than :data:`FEWEST` changed or unchanged pairs.
    """
    if _too_few(changed):
        return None
    columns = [logits] if evidence is None else [logits, evidence]
    values = np.stack(columns, axis=1).clip(-_LOGIT_LIMIT, _LOGIT_LIMIT)
    whole = fit_logistic(values, changed)
    probabilities, decided = np.empty(len(changed)), np.empty(len(changed), dtype=bool)
    for held, fitted in _folds(values, changed):
        probabilities[held] = fitted(values[held])
        threshold = best_threshold(fitted(values[~held]), changed[~held])
        decided[held] = probabilities[held] >= threshold
    own, bins = _sigmoid(values[:, 0]), reliability(probabilities, changed)
    return FlagCalibration(
        a=float(whole.slopes[0]),
        b=0.0 if evidence is None else float(whole.slopes[1]),
        c=whole.offset,
        pixels=pixels,
        threshold=best_threshold(whole(values), changed),
        accuracy=float((decided == changed).mean()),
        precision=float(changed[decided].mean()) if decided.any() else 0.0,
        recall=float(decided[changed].mean()),
        error_before=reliability(own, changed).error,
        error_after=bins.error,
        brier_before=_brier(own, changed),
        brier_after=_brier(probabilities, changed),
        bins=bins,
    )


def calibrate_score(
    likelihoods: np.ndarray, captions: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> ScoreCalibration | None:
    """Fit the score on validation pairs that changed and that the model calls changed.

    Args:
        likelihoods: (N,) geometric mean of the words' probabilities, 0..1.
        captions: N sentences by the pairs' ids.
        references: of the same ids.

    Returns:
        None when fewer than :data:`FEWEST` sentences are good, or poor.

    Raises:
        ExtraNotInstalled: pycocoevalcap is not installed.
    """
    several = {pair: sentences for pair, sentences in references.items() if len(sentences) > 1}
    if not several:
        return None
    agreement, level = caption_agreement(captions, several)
    good = agreement >= level
    values = _log(np.asarray(likelihoods)[[pair in several for pair in captions]])[:, None]
    if _too_few(good):
        return None
    whole = fit_logistic(values, good)
    probabilities = np.empty(len(good))
    for held, fitted in _folds(values, good):
        probabilities[held] = fitted(values[held])
    own, bins = np.exp(values[:, 0]), reliability(probabilities, good, _SCORE_BINS)
    return ScoreCalibration(
        slope=float(whole.slopes[0]),
        offset=whole.offset,
        level=level,
        good=float(good.mean()),
        error_before=reliability(own, good, _SCORE_BINS).error,
        error_after=bins.error,
        brier_before=_brier(own, good),
        brier_after=_brier(probabilities, good),
        bins=bins,
    )


def caption_agreement(
    captions: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> tuple[np.ndarray, float]:
    """Return how well sentences agree with references, and how well most people do.

    Args:
        captions: by the pairs' ids; those without references are left out.
        references: at least two of each pair.

    Returns:
        CIDEr in percent of each sentence, in the order of ``captions``; and the CIDEr that three of four
        references reach against the others of their pair, both with the same weights of words.
    """
    from rscc.metrics import cider_per_pair

    said = {f"m/{pair}": sentence for pair, sentence in captions.items() if pair in references}
    truth = {name: references[name[2:]] for name in said}
    for pair, sentences in references.items():
        for number, sentence in enumerate(sentences):
            said[f"r{number}/{pair}"] = sentence
            truth[f"r{number}/{pair}"] = [*sentences[:number], *sentences[number + 1 :]]
    found = cider_per_pair(said, truth)
    model = np.array([value for name, value in found.items() if name.startswith("m/")])
    people = [value for name, value in found.items() if not name.startswith("m/")]
    return model, float(np.percentile(people, _QUARTER))


@dataclass(frozen=True)
class Logistic:
    """P = sigmoid(values @ slopes + offset) for values (N, F)."""

    slopes: np.ndarray
    offset: float

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return P (N,)."""
        return _sigmoid(values @ self.slopes + self.offset)


def fit_logistic(values: np.ndarray, truth: np.ndarray) -> Logistic:
    """Fit a logistic regression with a small L2 penalty and slopes of at least 0.

    A value whose slope would be negative is left out (slope 0), the worst one first.

    Args:
        values: (N, F).
        truth: (N,) bool with both kinds.
    """
    from sklearn.linear_model import LogisticRegression

    slopes = np.zeros(values.shape[1])
    kept = list(range(values.shape[1]))
    while kept:
        part = values[:, kept]
        scale = part.std(axis=0)
        scale[scale == 0] = 1
        mean = part.mean(axis=0)
        fitted = LogisticRegression(C=_C, max_iter=1000).fit((part - mean) / scale, truth)
        found = fitted.coef_[0] / scale
        if found.min() >= 0:
            slopes[kept] = found
            return Logistic(slopes, float(fitted.intercept_[0] - found @ mean))
        kept.pop(int(fitted.coef_[0].argmin()))
    share = truth.mean()
    return Logistic(slopes, float(np.log(share / (1 - share))))


def best_threshold(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Return the threshold of the highest accuracy; among equals the nearest to 0.5.

    Args:
        probabilities: (N,) in 0..1.
        truth: (N,) bool.
    """
    edges = np.unique(np.concatenate([[0.0], probabilities, [1.0]]))
    low, high = edges[:-1], edges[1:]
    places = np.where((low < 0.5) & (high >= 0.5), 0.5, (low + high) / 2)
    missed = np.searchsorted(np.sort(probabilities[truth]), places)
    spared = np.searchsorted(np.sort(probabilities[~truth]), places)
    best = places[spared - missed == (spared - missed).max()]
    return float(best[np.abs(best - 0.5).argmin()])


def _folds(values: np.ndarray, truth: np.ndarray) -> Iterator[tuple[np.ndarray, Logistic]]:
    """Fit without each fold in turn: its members (N,) bool, the fit; folds have even shares of both kinds."""
    number = np.empty(len(truth), dtype=int)
    number[np.argsort(truth, kind="stable")] = np.arange(len(truth)) % _FOLDS
    for fold in range(_FOLDS):
        held = number == fold
        yield held, fit_logistic(values[~held], truth[~held])


def _brier(probabilities: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean((probabilities - truth) ** 2))


def _too_few(truth: np.ndarray) -> bool:
    return min(int(truth.sum()), int((~truth).sum())) < FEWEST


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def _log(likelihoods: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(likelihoods, 1e-6))
