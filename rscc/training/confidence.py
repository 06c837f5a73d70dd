"""Calibrates P(changed) and the captions' scores of a model on validation pairs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rscc.config import Config
from rscc.data.caches import PairCache
from rscc.data.pairs import PairRecord, truly_changed
from rscc.evaluation.scoring import KindScores, score_kinds
from rscc.facts.calibration import (
    EVIDENCE_AREA,
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
from rscc.models.shared.generation import SearchRules
from rscc.text.no_change import is_no_change
from rscc.training.logistic import Logistic, best_threshold, fit_adaptation, fit_logistic
from rscc.training.validation import encoded_batches

BEAMS = 3
ENOUGH = 30
"""Changed and unchanged pairs from which P(changed) of a tuned model is calibrated without its start."""
_FOLDS = 10
_SCORE_BINS = 5  # fewer than for P(changed), because fewer sentences are judged
_GOOD_PERCENTILE = 25.0


@dataclass(frozen=True)
class Confidence:
    """What the validation split shows of a model.

    Attributes:
        calibration: of P(changed) and the captions' scores; None for a model without captions.
        threshold: of P(changed); 0 if it was not learned.
        scores: accuracy with the threshold.
        kinds: see :func:`~rscc.evaluation.scoring.score_kinds`.
    """

    calibration: Calibration | None = None
    threshold: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)
    kinds: KindScores = field(default_factory=dict)


@dataclass(frozen=True)
class Answers:
    """Uncalibrated answers of a model for N pairs.

    Attributes:
        logits: (N,) of P(changed).
        evidence: (N,) of :func:`~rscc.facts.calibration.change_evidence`; None without a trained change
            head.
        captions: one sentence per pair.
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


def measure_confidence(
    model: ChangeCaptioner,
    val: Sequence[PairRecord],
    config: Config,
    *,
    cache: PairCache,
    by_head: bool,
    rules: SearchRules | None,
    start: FlagCalibration | None = None,
) -> Confidence:
    """Calibrate P(changed) and the captions' scores of a model, and score each kind of change.

    Args:
        by_head: whether the change head was trained.
        rules: of captions that describe a change; None if P(changed) was not learned.
        start: calibration of P(changed) of the model that this one was tuned from.
    """
    pixels = max(1, round(EVIDENCE_AREA / config.data.gsd**2))
    answers = answer_pairs(model, val, config, pixels=pixels, by_head=by_head, rules=rules, cache=cache)
    calibration = calibrate(answers, val, pixels=pixels, flag_decides=rules is not None, start=start)
    flag = calibration.changed
    threshold, scores, called = 0.0, {}, answers.called(flag)
    if flag is not None:
        threshold, scores = flag.threshold, {"flag_accuracy": flag.accuracy}
    elif rules is not None:
        truth = np.array([truly_changed(record) for record in val])
        probabilities = sigmoid(answers.logits)
        threshold = best_threshold(probabilities, truth)
        called = probabilities >= threshold
        scores = {"flag_accuracy": float((called == truth).mean())}
    captioned = [number for number, record in enumerate(val) if record.captions]
    kinds = score_kinds(
        [val[number] for number in captioned],
        [answers.captions[number] for number in captioned],
        called[captioned],
    )
    return Confidence(calibration, threshold, scores, kinds)


@torch.no_grad()
def answer_pairs(
    model: ChangeCaptioner,
    records: Sequence[PairRecord],
    config: Config,
    *,
    pixels: int,
    by_head: bool,
    rules: SearchRules | None,
    cache: PairCache,
) -> Answers:
    """Run the model over pairs.

    Args:
        config: gives ``data.size``, ``train.bf16`` and ``card.support``.
        by_head: whether the change head was trained; then images are read, because its maps are not stored.
        rules: of captions that describe a change; None if the decoder may say that nothing changed.
    """
    device = next(model.parameters()).device
    logits: list[float] = []
    evidence: list[float] = []
    captions: list[str] = []
    likelihoods: list[float] = []
    if by_head:
        cache = PairCache(extracted=cache.extracted)
    for features in encoded_batches(model, records, config, cache=cache, batch_size=16):
        logits.extend(features.changed_logits.float().tolist())
        if by_head:
            assert features.change_logits is not None
            evidence.extend(change_evidence(features.change_logits, pixels).tolist())
        with torch.autocast(device.type, torch.bfloat16, enabled=config.train.bf16):
            hypotheses = model.generate_from(features, beams=BEAMS, rules=rules, support=config.card.support)
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
    """Fit the calibration of a model to its answers for pairs.

    Args:
        flag_decides: whether P(changed) was learned and decides; otherwise the words of the caption decide.
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
        evidence: (N,) of :func:`~rscc.facts.calibration.change_evidence`; None for a model without a
            trained change head.
        changed: (N,) bool, the truth.
        start: of the model that this one was tuned from. With fewer than :data:`ENOUGH` changed or unchanged
            pairs its calibration is adapted, see :func:`~rscc.training.logistic.fit_adaptation`, and its
            threshold stays.

    Returns:
        ``start`` if there are fewer than :data:`FEWEST` changed or unchanged pairs.
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
        scale, shift = fit_adaptation(values @ slopes + start.c, changed)
        return Logistic(scale * slopes, scale * start.c + shift)

    def threshold_of(fitted: Logistic, values: np.ndarray, changed: np.ndarray) -> float:
        return best_threshold(fitted(values), changed) if start is None else start.threshold

    whole = fit(values, changed)
    probabilities, decided = np.empty(len(changed)), np.empty(len(changed), dtype=bool)
    for held, fitted in _folds(values, changed, fit):
        probabilities[held] = fitted(values[held])
        decided[held] = probabilities[held] >= threshold_of(fitted, values[~held], changed[~held])
    return FlagCalibration(
        a=float(whole.slopes[0]),
        b=0.0 if evidence is None else float(whole.slopes[1]),
        c=whole.offset,
        pixels=pixels,
        threshold=threshold_of(whole, values, changed),
        accuracy=float((decided == changed).mean()),
        precision=float(changed[decided].mean()) if decided.any() else 0.0,
        recall=float(decided[changed].mean()),
        **_errors(sigmoid(values[:, 0]), probabilities, changed),
    )


def calibrate_score(
    likelihoods: np.ndarray, captions: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> ScoreCalibration | None:
    """Fit the score on validation pairs that changed and that the model calls changed.

    ``likelihoods`` (N,) are geometric means of the words' probabilities. Returns None if fewer than
    :data:`FEWEST` sentences are good, or poor.
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
    for held, fitted in _folds(values, good, fit_logistic):
        probabilities[held] = fitted(values[held])
    return ScoreCalibration(
        slope=float(whole.slopes[0]),
        offset=whole.offset,
        level=level,
        good=float(good.mean()),
        **_errors(np.exp(values[:, 0]), probabilities, good, _SCORE_BINS),
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
    return model, float(np.percentile(people, _GOOD_PERCENTILE))


def _folds(
    values: np.ndarray, truth: np.ndarray, fit: Callable[[np.ndarray, np.ndarray], Logistic]
) -> Iterator[tuple[np.ndarray, Logistic]]:
    """Yield the members (N,) bool of each stratified fold, and the fit on all others."""
    number = np.empty(len(truth), dtype=int)
    number[np.argsort(truth, kind="stable")] = np.arange(len(truth)) % _FOLDS
    for fold in range(_FOLDS):
        held = number == fold
        yield held, fit(values[~held], truth[~held])


def _errors(
    uncalibrated: np.ndarray, calibrated: np.ndarray, truth: np.ndarray, *bins: int
) -> dict[str, Any]:
    """Return calibration error and Brier score before and after, and the reliability after."""
    after = reliability(calibrated, truth, *bins)
    return {
        "error_before": reliability(uncalibrated, truth, *bins).error,
        "error_after": after.error,
        "brier_before": float(np.mean((uncalibrated - truth) ** 2)),
        "brier_after": float(np.mean((calibrated - truth) ** 2)),
        "bins": after,
    }


def _too_few(truth: np.ndarray) -> bool:
    return min(int(truth.sum()), int((~truth).sum())) < FEWEST
