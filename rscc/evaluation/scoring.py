"""Scores one captioner on every subset of the pairs, with 95 percent intervals.

Every subset is scored alone, as the papers do: all pairs, the changed and the unchanged ones, and the changed
pairs of each kind of change, where the data set names kinds or they are read from the references.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rscc.data.pairs import PairRecord, read_mask, truly_changed
from rscc.errors import DatasetLayoutInvalid, ExtraNotInstalled, WeightsNotFound
from rscc.evaluation.bootstrap import Resamples, caption_intervals, percentile_interval, wilson_interval
from rscc.evaluation.masks import MaskCounter
from rscc.evaluation.metrics import CaptionScorer, cider
from rscc.evaluation.predictions import PairPrediction
from rscc.evaluation.rows import SUBSETS, EvaluationRow, FlagScores
from rscc.inference.calibration import FEWEST, reliability
from rscc.structures import NO_CHANGE_CAPTION
from rscc.text.object_classes import OTHER_KIND, count_hallucinations, kinds_of_change, unnamed_objects

Kinds = Mapping[str, Sequence[str]]
"""Pair id to the kinds of change that the pair is of."""


def kinds_named(records: Sequence[PairRecord]) -> dict[str, tuple[str, ...]]:
    """Return the kind of every pair as the data set names it; empty when it names none."""
    return {record.id: (record.kind,) for record in records if record.kind}


def kinds_read(records: Sequence[PairRecord]) -> dict[str, tuple[str, ...]]:
    """Return the kinds of every changed pair as its references tell, see :mod:`rscc.text.object_classes`.

    Raises:
        ExtraNotInstalled: spaCy is not installed.
        WeightsNotFound: no parser is installed.
    """
    changed = [record for record in records if truly_changed(record)]
    read = kinds_of_change([record.captions for record in changed])
    return {record.id: kinds for record, kinds in zip(changed, read, strict=True)}


def subsets(records: Sequence[PairRecord], kinds: Kinds | None = None) -> dict[str, list[PairRecord]]:
    """Return the pairs by subset: those of :data:`SUBSETS` first, then the kinds of the changed pairs.

    Left out are empty subsets and those that hold the same pairs as an earlier one.

    Args:
        records: the pairs.
        kinds: of the changed pairs; as the data set names them when None.
    """
    kinds = kinds_named(records) if kinds is None else kinds
    groups: dict[str, list[PairRecord]] = {subset: [] for subset in SUBSETS}
    by_kind: dict[str, list[PairRecord]] = {}
    for record in records:
        changed = truly_changed(record)
        groups["all"].append(record)
        groups["changed" if changed else "unchanged"].append(record)
        for kind in kinds.get(record.id, ()) if changed else ():
            by_kind.setdefault(kind, []).append(record)
    groups |= {kind: by_kind[kind] for kind in sorted(by_kind, key=lambda kind: (kind == OTHER_KIND, kind))}
    different: dict[tuple[str, ...], str] = {}
    for subset, members in groups.items():
        if members:
            different.setdefault(tuple(record.id for record in members), subset)
    return {subset: groups[subset] for subset in different.values()}


@dataclass
class _Answers:
    """What is known of a captioner's answers, by pair."""

    captions: dict[str, str] = field(default_factory=dict)
    called: dict[str, bool] = field(default_factory=dict)
    probability: dict[str, float] = field(default_factory=dict)
    wrong_objects: dict[str, tuple[str, ...]] | None = None


def score_predictions(
    name: str,
    records: Sequence[PairRecord],
    predictions: Iterable[PairPrediction],
    scorer: CaptionScorer,
    *,
    kinds: Kinds | None = None,
    objects: bool = False,
) -> list[EvaluationRow]:
    """Score one captioner.

    Args:
        records: pairs with references.
        predictions: one per record, in order; read one at a time, so that masks need not be kept.
        scorer: shared by all captioners of an evaluation.
        kinds: see :func:`subsets`.
        objects: also count objects that no reference names.

    Returns:
        One row per subset, see :func:`subsets`.

    Raises:
        DatasetLayoutInvalid: a pair has no reference, or two pairs share an id.
        ExtraNotInstalled, WeightsNotFound: ``objects``, and spaCy or its parser is not installed.
    """
    if len({record.id for record in records}) != len(records):
        raise DatasetLayoutInvalid("two pairs of this split have the same id; every pair needs its own")
    groups = subsets(records, kinds)
    member_of: dict[str, list[str]] = {}
    for subset, members in groups.items():
        for record in members:
            member_of.setdefault(record.id, []).append(subset)
    answers = _Answers()
    counters = {subset: MaskCounter() for subset in groups}
    for record, prediction in zip(records, predictions, strict=True):
        answers.captions[record.id] = prediction.caption
        answers.called[record.id] = prediction.changed
        if prediction.probability is not None:
            answers.probability[record.id] = prediction.probability
        if record.mask is None or prediction.mask is None:
            continue
        truth = read_mask(record.mask)
        for subset in member_of[record.id]:
            counters[subset].add(prediction.mask, truth, gsd=record.gsd)
    if objects:
        answers.wrong_objects = _wrong_objects(records, answers)
    return [
        _row(name, subset, members, answers, counters[subset], scorer) for subset, members in groups.items()
    ]


def _wrong_objects(records: Sequence[PairRecord], answers: _Answers) -> dict[str, tuple[str, ...]]:
    """Return by pair the classes that a caption names and no reference does; of pairs called changed."""
    called = [record for record in records if answers.called[record.id]]
    wrong = unnamed_objects(
        [answers.captions[record.id] for record in called], [record.captions for record in called]
    )
    return {record.id: classes for record, classes in zip(called, wrong, strict=True)}


def _row(
    name: str,
    subset: str,
    records: Sequence[PairRecord],
    answers: _Answers,
    masks: MaskCounter,
    scorer: CaptionScorer,
) -> EvaluationRow:
    ids = [record.id for record in records]
    scores = scorer.score(
        {i: answers.captions[i] for i in ids}, {record.id: record.captions for record in records}
    )
    resamples = Resamples(len(ids))
    truth = np.array([truly_changed(record) for record in records])
    called = np.array([answers.called[i] for i in ids])
    both = int((called & truth).sum())
    shares = {
        "flag_accuracy": percentile_interval(resamples.means(called == truth)),
        "flag_precision": wilson_interval(both, int(called.sum())),
        "flag_recall": wilson_interval(both, int(truth.sum())),
    }
    objects = None
    if answers.wrong_objects is not None:
        objects = count_hallucinations(answers.wrong_objects[i] for i in ids if answers.called[i])
        shares["hallucination_rate"] = wilson_interval(objects.wrong, objects.captions)
    intervals = caption_intervals(scores.counts, scores.per_pair, resamples)
    intervals |= {key: one for key, one in shares.items() if one is not None}
    intervals |= {f"mask_{key}": one for key, one in masks.intervals().items()}
    return EvaluationRow(
        name=name,
        subset=subset,
        captions=scores,
        flags=_flags(called, truth, [answers.probability[i] for i in ids if i in answers.probability]),
        mask=masks.scores(),
        objects=objects,
        intervals=intervals,
    )


def _flags(called: np.ndarray, truth: np.ndarray, probabilities: Sequence[float]) -> FlagScores:
    both = int((called & truth).sum())
    calibrated = len(probabilities) == len(truth) and 0 < truth.sum() < len(truth)
    return FlagScores(
        accuracy=float((called == truth).mean()),
        precision=both / int(called.sum()) if called.any() else None,
        recall=both / int(truth.sum()) if truth.any() else None,
        calibration_error=reliability(np.array(probabilities), truth).error if calibrated else None,
    )


KindScores = dict[str, dict[str, float]]


def score_kinds(records: Sequence[PairRecord], captions: Sequence[str], called: np.ndarray) -> KindScores:
    """Score captions by kind of change.

    Args:
        records: pairs with references.
        captions: what the model says of each pair, given that it changed.
        called: (N,) bool, whether the model calls the pair changed; of others it says that nothing changed.

    Returns:
        By kind, which the data set names or the references tell, and for all changed and all unchanged pairs:
        ``pairs``; ``called_changed``, the share of them; of changed ones also ``cider`` in percent, where
        there are at least :data:`~rscc.inference.calibration.FEWEST` pairs, and ``other_objects``, the share
        of captions of pairs called changed that name an object which no reference names. Empty where the
        parser or the scorer is not installed.
    """
    sentences = {
        record.id: caption if flag else NO_CHANGE_CAPTION
        for record, caption, flag in zip(records, captions, called.tolist(), strict=True)
    }
    flags = {record.id: flag for record, flag in zip(records, called.tolist(), strict=True)}
    try:
        groups = subsets(records, kinds_named(records) or kinds_read(records))
        return {
            kind: _scores(members, sentences, flags, words=kind != "unchanged")
            for kind, members in groups.items()
            if kind != "all"
        }
    except (ExtraNotInstalled, WeightsNotFound):
        return {}


def _scores(
    members: Sequence[PairRecord], sentences: dict[str, str], flags: dict[str, bool], *, words: bool
) -> dict[str, float]:
    scores = {"pairs": float(len(members)), "called_changed": float(np.mean([flags[r.id] for r in members]))}
    if words:
        scores |= _of_words(members, sentences, flags)
    return {name: round(value, 4) for name, value in scores.items()}


def _of_words(
    members: Sequence[PairRecord], sentences: dict[str, str], flags: dict[str, bool]
) -> dict[str, float]:
    scores = {}
    if len(members) >= FEWEST:
        scores["cider"] = cider({r.id: sentences[r.id] for r in members}, {r.id: r.captions for r in members})
    called = [record for record in members if flags[record.id]]
    if called:
        wrong = unnamed_objects([sentences[record.id] for record in called], [r.captions for r in called])
        scores["other_objects"] = float(np.mean([bool(classes) for classes in wrong]))
    return scores
