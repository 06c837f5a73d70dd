"""Runs a model over validation pairs and fits its calibration on what it says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize

from rscc.data.pairs import PairRecord, truly_changed
from rscc.inference.calibration import (
    FEWEST,
    LOGIT_LIMIT,
    Calibration,
    FlagCalibration,
    ScoreCalibration,
    change_evidence,
    log_likelihood,
    reliability,
    sigmoid,
)
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.search_rules import SearchRules
from rscc.text.no_change import is_no_change
from rscc.training.caching import Caches
from rscc.training.validation import encoded_batches

BEAMS = 3


@dataclass(frozen=True)
class Answers:
    """What a model answers for N pairs before anything is calibrated.

    Attributes:
        logits: (N,) of P(changed).
        evidence: (N,) of :func:`~rscc.inference.calibration.change_evidence`; None without a trained change
            head.
        captions: its sentences when something is known to have changed, or when it may say that nothing did.
        likelihoods: (N,) geometric mean of the words' probabilities, 0..1.
    """

    logits: np.ndarray
    evidence: np.ndarray | None
    captions: list[str]
    likelihoods: np.ndarray

    def called(self, flag: FlagCalibration | None) -> np.ndarray:
        """Return which pairs are called changed, (N,): by P(changed), or without a flag by the captions."""
        if flag is None:
            return np.array([not is_no_change(caption) for caption in self.captions])
        return flag.probability(self.logits, self.evidence) >= flag.threshold


@torch.no_grad()
def answer_pairs(
    model: ChangeCaptioner,
    records: Sequence[PairRecord],
    *,
    size: int,
    pixels: int,
    by_head: bool,
    rules: SearchRules | None,
    caches: Caches,
    bf16: bool,
    support: int = 0,
) -> Answers:
    """Run the model over pairs.

    Args:
        model: in evaluation mode.
        size: side that images are resized to.
        pixels: of the evidence.
        by_head: whether the change head was trained; then images are read, for its maps are not stored.
        rules: of captions that name a change; None when the decoder may say that nothing changed.
        caches: of the pairs.
    """
    device = next(model.parameters()).device
    logits: list[float] = []
    evidence: list[float] = []
    captions: list[str] = []
    likelihoods: list[float] = []
    if by_head:
        caches = replace(caches, features=None)
    for features in encoded_batches(model, records, size=size, caches=caches, bf16=bf16, batch_size=16):
        logits.extend(features.changed_logits.float().tolist())
        if by_head:
            assert features.change_logits is not None
            evidence.extend(change_evidence(features.change_logits, pixels).tolist())
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            hypotheses = model.generate_from(features, beams=BEAMS, rules=rules, support=support)
        captions.extend(model.vocabulary.decode(best.ids) for best, *_ in hypotheses)
        likelihoods.extend(best.score for best, *_ in hypotheses)
    return Answers(np.array(logits), np.array(evidence) if by_head else None, captions, np.array(likelihoods))


def calibrate(
    answers: Answers,
    records: Sequence[PairRecord],
    *,
    pixels: int,
    flag_decides: bool,
    start: FlagCalibration | None = None,
) -> Calibration:
    """Fit what a model answers for pairs to what is true of them.

    Args:
        answers: for the pairs, in the same order.
        pixels: of the evidence.
        flag_decides: whether P(changed) was learnt and decides; otherwise the caption's words do.
        start: see :func:`calibrate_flag`.
    """
    truth = np.array([truly_changed(record) for record in records])
    flag = None
    if flag_decides:
        flag = calibrate_flag(answers.logits, answers.evidence, truth, pixels=pixels, start=start)
    used = [i for i in np.flatnonzero(truth & answers.called(flag)).tolist() if records[i].captions]
    return Calibration(
        changed=flag,
        score=calibrate_score(
            answers.likelihoods[used],
            {records[i].id: answers.captions[i] for i in used},
            {records[i].id: records[i].captions for i in used},
        ),
    )


_FOLDS = 10
_SCORE_BINS = 5  # sentences to judge are fewer than pairs
_QUARTER = 25.0
# Inverse strength of the L2 penalty on standardised values.
_C = 1.0


def calibrate_flag(
    logits: np.ndarray,
    evidence: np.ndarray | None,
    changed: np.ndarray,
    *,
    pixels: int,
    start: FlagCalibration | None = None,
) -> FlagCalibration | None:
    """Fit P(changed) on validation pairs.

    Args:
        logits: (N,) the model's own logits of P(changed).
        evidence: (N,) of :func:`~rscc.inference.calibration.change_evidence`; None for a model without a
            trained change head.
        changed: (N,) bool, the truth.
        pixels: of the evidence.
        start: of the model that this one was tuned from. With fewer than :data:`ENOUGH` changed or unchanged
            pairs its calibration is moved as far as they ask for, and its threshold stays.

    Returns:
        The start, by default None, when there are fewer than :data:`FEWEST` changed or unchanged pairs.
    """
    if _too_few(changed):
        return start
    if start is not None and min(changed.sum(), (~changed).sum()) >= ENOUGH:
        start = None
    columns = [logits] if evidence is None else [logits, evidence]
    values = np.stack(columns, axis=1).clip(-LOGIT_LIMIT, LOGIT_LIMIT)

    def fit(values: np.ndarray, changed: np.ndarray) -> Logistic:
        if start is None:
            return fit_logistic(values, changed)
        slopes = np.array([start.a, start.b][: values.shape[1]])
        scale, shift = moved(values @ slopes + start.c, changed)
        return Logistic(scale * slopes, scale * start.c + shift)

    def threshold_of(fitted: Logistic, values: np.ndarray, changed: np.ndarray) -> float:
        return best_threshold(fitted(values), changed) if start is None else start.threshold

    whole = fit(values, changed)
    probabilities, decided = np.empty(len(changed)), np.empty(len(changed), dtype=bool)
    for held, fitted in _folds(values, changed, fit):
        probabilities[held] = fitted(values[held])
        threshold = threshold_of(fitted, values[~held], changed[~held])
        decided[held] = probabilities[held] >= threshold
    uncalibrated, bins = sigmoid(values[:, 0]), reliability(probabilities, changed)
    return FlagCalibration(
        a=float(whole.slopes[0]),
        b=0.0 if evidence is None else float(whole.slopes[1]),
        c=whole.offset,
        pixels=pixels,
        threshold=threshold_of(whole, values, changed),
        accuracy=float((decided == changed).mean()),
        precision=float(changed[decided].mean()) if decided.any() else 0.0,
        recall=float(decided[changed].mean()),
        error_before=reliability(uncalibrated, changed).error,
        error_after=bins.error,
        brier_before=_brier(uncalibrated, changed),
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
    values = log_likelihood(np.asarray(likelihoods)[[pair in several for pair in captions]])[:, None]
    if _too_few(good):
        return None
    whole = fit_logistic(values, good)
    probabilities = np.empty(len(good))
    for held, fitted in _folds(values, good):
        probabilities[held] = fitted(values[held])
    uncalibrated, bins = np.exp(values[:, 0]), reliability(probabilities, good, _SCORE_BINS)
    return ScoreCalibration(
        slope=float(whole.slopes[0]),
        offset=whole.offset,
        level=level,
        good=float(good.mean()),
        error_before=reliability(uncalibrated, good, _SCORE_BINS).error,
        error_after=bins.error,
        brier_before=_brier(uncalibrated, good),
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
    from rscc.evaluation.metrics import cider_per_pair

    sentences = {f"m/{pair}": sentence for pair, sentence in captions.items() if pair in references}
    truth = {name: references[name[2:]] for name in sentences}
    for pair, several in references.items():
        for number, sentence in enumerate(several):
            sentences[f"r{number}/{pair}"] = sentence
            truth[f"r{number}/{pair}"] = [*several[:number], *several[number + 1 :]]
    scores = cider_per_pair(sentences, truth)
    model = np.array([value for name, value in scores.items() if name.startswith("m/")])
    people = [value for name, value in scores.items() if not name.startswith("m/")]
    return model, float(np.percentile(people, _QUARTER))


@dataclass(frozen=True)
class Logistic:
    """P = sigmoid(values @ slopes + offset) for values (N, F)."""

    slopes: np.ndarray
    offset: float

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return P (N,)."""
        return sigmoid(values @ self.slopes + self.offset)


def fit_logistic(values: np.ndarray, truth: np.ndarray, *, least: float = 0.0) -> Logistic:
    """Fit a logistic regression with a small L2 penalty and slopes of at least ``least``.

    A value whose slope would be smaller is left out (slope 0), the worst one first.

    Args:
        values: (N, F).
        truth: (N,) bool with both kinds.
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
        if unscaled.min() >= least:
            slopes[used] = unscaled
            return Logistic(slopes, float(fitted.intercept_[0] - unscaled @ mean))
        used.pop(int(fitted.coef_[0].argmin()))
    share = truth.mean()
    return Logistic(slopes, float(np.log(share / (1 - share))))


ENOUGH = 30
"""Changed pairs, and unchanged ones, from which P(changed) of a tuned model is calibrated anew."""
STAYS = 3.0
"""How strongly logits that were calibrated elsewhere stay as they are, see :func:`moved`."""


def moved(logits: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the scale s and the shift t by which s * logit + t is truest of a few answers, however few.

    The maximum a posteriori for a shift and a logarithm of the scale that are normal around 0, with variances
    of 1 / :data:`STAYS` and a quarter of that: five answers change little, five hundred decide.

    Args:
        logits: (N,), calibrated elsewhere. truth: (N,) bool.
    """
    sign = np.where(truth, -1.0, 1.0)

    def cost(values: np.ndarray) -> tuple[float, np.ndarray]:
        scale, shift = np.exp(values[0]), values[1]
        wrong = sign * (scale * logits + shift)
        slope = sign * sigmoid(wrong)
        prior = STAYS * np.array([4 * values[0], values[1]])
        value = np.logaddexp(0, wrong).sum() + prior @ values / 2
        return float(value), np.array([scale * slope @ logits, slope.sum()]) + prior

    found = minimize(cost, np.zeros(2), jac=True).x
    return float(np.exp(found[0])), float(found[1])


def best_threshold(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Return the threshold of the highest accuracy; among equals the nearest to 0.5. Both are (N,)."""
    edges = np.unique(np.concatenate([[0.0], probabilities, [1.0]]))
    low, high = edges[:-1], edges[1:]
    places = np.where((low < 0.5) & (high >= 0.5), 0.5, (low + high) / 2)
    missed = np.searchsorted(np.sort(probabilities[truth]), places)
    spared = np.searchsorted(np.sort(probabilities[~truth]), places)
    best = places[spared - missed == (spared - missed).max()]
    return float(best[np.abs(best - 0.5).argmin()])


def _folds(
    values: np.ndarray, truth: np.ndarray, fit: Callable[[np.ndarray, np.ndarray], Logistic] = fit_logistic
) -> Iterator[tuple[np.ndarray, Logistic]]:
    """Fit without each fold in turn: its members (N,) bool, the fit; folds have even shares of both kinds."""
    number = np.empty(len(truth), dtype=int)
    number[np.argsort(truth, kind="stable")] = np.arange(len(truth)) % _FOLDS
    for fold in range(_FOLDS):
        held = number == fold
        yield held, fit(values[~held], truth[~held])


def _brier(probabilities: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean((probabilities - truth) ** 2))


def _too_few(truth: np.ndarray) -> bool:
    return min(int(truth.sum()), int((~truth).sum())) < FEWEST


def area_under_curve(scores: np.ndarray, true: np.ndarray) -> float:
    """Return the area under the ROC curve, 0..1; 0.5 where one of both kinds is missing."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(true, scores)) if true.any() and not true.all() else 0.5
