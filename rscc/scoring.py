"""Scores one captioner on every subset of the pairs, with 95 percent intervals.

Every subset is scored alone, as the papers do: all pairs, the changed and the unchanged ones, and the changed
pairs of each kind of change, where the data set names kinds or they are read from the references.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rscc.bootstrap import Resamples, caption_intervals, percentile_interval, wilson_interval
from rscc.calibration import reliability
from rscc.data.pairs import PairRecord, read_mask, truly_changed
from rscc.errors import DatasetLayoutInvalid
from rscc.evaluation_report import SUBSETS, EvaluationRow, FlagScores
from rscc.mask_metrics import MaskCounter, flag_accuracy
from rscc.metrics import CaptionScorer
from rscc.object_classes import (
    OTHER_KIND,
    count_hallucinations,
    kinds_of_change,
    unnamed_objects,
)
from rscc.predictions import PairPrediction

Kinds = Mapping[str, Sequence[str]]
"""Pair id to the kinds of change that the pair is of."""


def kinds_named(records: Sequence[PairRecord]) -> dict[str, tuple[str, ...]]:
    """Return the kind of every pair as the data set names it; empty when it names none."""
    return {record.id: (record.kind,) for record in records if record.kind}


def kinds_read(records: Sequence[PairRecord]) -> dict[str, tuple[str, ...]]:
    """Return the kinds of every changed pair as its references tell, see :mod:`rscc.object_classes`.

    Raises:
        ExtraNotInstalled: spaCy is not installed.
        WeightsNotFound: no parser is installed.
    """
    changed = [record for record in records if truly_changed(record)]
    found = kinds_of_change([record.captions for record in changed])
    return {record.id: kinds for record, kinds in zip(changed, found, strict=True)}


def subsets(records: Sequence[PairRecord], kinds: Kinds | None = None) -> dict[str, list[PairRecord]]:
    """Return the pairs by subset: those of :data:`SUBSETS` first, then the kinds of the changed pairs.

    Left out are empty subsets and those that hold the same pairs as an earlier one.

    Args:
        records: the pairs.
        kinds: of the changed pairs; as the data set names them when None.
    """
    kinds = kinds_named(records) if kinds is None else kinds
    found: dict[str, list[PairRecord]] = {subset: [] for subset in SUBSETS}
    by_kind: dict[str, list[PairRecord]] = {}
    for record in records:
        changed = truly_changed(record)
        found["all"].append(record)
        found["changed" if changed else "unchanged"].append(record)
        for kind in kinds.get(record.id, ()) if changed else ():
            by_kind.setdefault(kind, []).append(record)
    found |= {kind: by_kind[kind] for kind in sorted(by_kind, key=lambda kind: (kind == OTHER_KIND, kind))}
    different: dict[tuple[str, ...], str] = {}
    for subset, members in found.items():
        if members:
            different.setdefault(tuple(record.id for record in members), subset)
    return {subset: found[subset] for subset in different.values()}


@dataclass
class _Judged:
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
        name: of the rows.
        records: pairs with references.
        predictions: one per record, in order; read one at a time, so that masks need not be kept.
        scorer: shared by all captioners of an evaluation.
        kinds: see :func:`subsets`.
        objects: also count objects that no reference names.

    Returns:
        One row per subset, see :func:`subsets`.

    Raises:
        DatasetLayoutInvalid: a pair has no reference, two pairs share an id, or a mask has another size than
            the true one.
        ExtraNotInstalled, WeightsNotFound: ``objects``, and spaCy or its parser is not installed.
    """
    if len({record.id for record in records}) != len(records):
        raise DatasetLayoutInvalid("two pairs of this split have the same id; every pair needs its own")
    groups = subsets(records, kinds)
    member_of: dict[str, list[str]] = {}
    for subset, members in groups.items():
        for record in members:
            member_of.setdefault(record.id, []).append(subset)
    judged = _Judged()
    counters = {subset: MaskCounter() for subset in groups}
    for record, said in zip(records, predictions, strict=True):
        judged.captions[record.id] = said.caption
        judged.called[record.id] = said.changed
        if said.probability is not None:
            judged.probability[record.id] = said.probability
        if record.mask is None or said.mask is None:
            continue
        truth = read_mask(record.mask)
        for subset in member_of[record.id]:
            counters[subset].add(said.mask, truth)
    if objects:
        judged.wrong_objects = _wrong_objects(records, judged)
    return [
        _row(name, subset, members, judged, counters[subset], scorer) for subset, members in groups.items()
    ]


def _wrong_objects(records: Sequence[PairRecord], judged: _Judged) -> dict[str, tuple[str, ...]]:
    """Return by pair the classes that a caption names and no reference does; of pairs called changed."""
    called = [record for record in records if judged.called[record.id]]
    wrong = unnamed_objects(
        [judged.captions[record.id] for record in called], [record.captions for record in called]
    )
    return {record.id: classes for record, classes in zip(called, wrong, strict=True)}


def _row(
    name: str,
    subset: str,
    records: Sequence[PairRecord],
    judged: _Judged,
    masks: MaskCounter,
    scorer: CaptionScorer,
) -> EvaluationRow:
    ids = [record.id for record in records]
    scores = scorer.score(
        {i: judged.captions[i] for i in ids}, {record.id: record.captions for record in records}
    )
    resamples = Resamples(len(ids))
    truth = np.array([truly_changed(record) for record in records])
    called = np.array([judged.called[i] for i in ids])
    both = int((called & truth).sum())
    found_intervals = {
        "flag_accuracy": percentile_interval(resamples.means(called == truth)),
        "flag_precision": wilson_interval(both, int(called.sum())),
        "flag_recall": wilson_interval(both, int(truth.sum())),
    }
    objects = None
    if judged.wrong_objects is not None:
        objects = count_hallucinations(judged.wrong_objects[i] for i in ids if judged.called[i])
        found_intervals["hallucination_rate"] = wilson_interval(objects.wrong, objects.captions)
    intervals = caption_intervals(scores.counts, scores.per_pair, resamples)
    intervals |= {key: one for key, one in found_intervals.items() if one is not None}
    intervals |= {f"mask_{key}": one for key, one in masks.intervals().items()}
    return EvaluationRow(
        name=name,
        subset=subset,
        captions=scores,
        flags=_flags(called, truth, [judged.probability[i] for i in ids if i in judged.probability]),
        mask=masks.scores(),
        objects=objects,
        intervals=intervals,
    )


def _flags(called: np.ndarray, truth: np.ndarray, probabilities: Sequence[float]) -> FlagScores:
    both = int((called & truth).sum())
    known = len(probabilities) == len(truth) and 0 < truth.sum() < len(truth)
    return FlagScores(
        accuracy=flag_accuracy(called.tolist(), truth.tolist()),
        precision=both / int(called.sum()) if called.any() else None,
        recall=both / int(truth.sum()) if truth.any() else None,
        calibration_error=reliability(np.array(probabilities), truth).error if known else None,
    )
