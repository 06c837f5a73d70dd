"""Scores one captioner on every subset of the pairs, with 95 percent intervals.

Every subset is scored alone, as the papers do: all pairs, the changed and the unchanged ones, and the changed
pairs of each kind of change, where the data set names kinds or they are read from the references.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rscc.data.pairs import PairRecord, read_mask, truly_changed
from rscc.errors import DatasetLayoutInvalid, ExtraNotInstalled, WeightsNotFound
from rscc.evaluation.bootstrap import (
    Resamples,
    caption_intervals,
    percentile_interval,
    share,
    wilson_interval,
)
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
    ids = {subset: {record.id for record in members} for subset, members in groups.items()}
    counters = {subset: MaskCounter() for subset in groups}
    said: dict[str, PairPrediction] = {}
    for record, prediction in zip(records, predictions, strict=True):
        said[record.id] = replace(prediction, mask=None, facts=None)
        if record.mask is None or prediction.mask is None:
            continue
        truth = read_mask(record.mask)
        for subset, members in ids.items():
            if record.id in members:
                counters[subset].add(prediction.mask, truth, gsd=record.gsd)
    wrong = _wrong_objects(records, said) if objects else None
    return [
        _row(name, subset, members, said, wrong, counters[subset], scorer)
        for subset, members in groups.items()
    ]


def _wrong_objects(
    records: Sequence[PairRecord], said: Mapping[str, PairPrediction]
) -> dict[str, tuple[str, ...]]:
    """Return by pair the classes that a caption names and no reference does; of pairs called changed."""
    called = [record for record in records if said[record.id].changed]
    wrong = unnamed_objects(
        [said[record.id].caption for record in called], [record.captions for record in called]
    )
    return {record.id: classes for record, classes in zip(called, wrong, strict=True)}


def _row(
    name: str,
    subset: str,
    records: Sequence[PairRecord],
    said: Mapping[str, PairPrediction],
    wrong: Mapping[str, tuple[str, ...]] | None,
    masks: MaskCounter,
    scorer: CaptionScorer,
) -> EvaluationRow:
    scores = scorer.score(*_captions(records, said))
    resamples = Resamples(len(records))
    truth = np.array([truly_changed(record) for record in records])
    called = np.array([said[record.id].changed for record in records])
    both = int((called & truth).sum())
    flags = {"precision": (both, int(called.sum())), "recall": (both, int(truth.sum()))}
    shares = {"flag_accuracy": percentile_interval(resamples.means(called == truth))}
    shares |= {f"flag_{key}": wilson_interval(*part) for key, part in flags.items()}
    objects = None
    if wrong is not None:
        objects = count_hallucinations(wrong[record.id] for record in records if record.id in wrong)
        shares["hallucination_rate"] = wilson_interval(objects.wrong, objects.captions)
    intervals = caption_intervals(scores, resamples)
    intervals |= {key: one for key, one in shares.items() if one is not None}
    intervals |= {f"mask_{key}": one for key, one in masks.intervals().items()}
    return EvaluationRow(
        name=name,
        subset=subset,
        captions=scores,
        flags=FlagScores(
            accuracy=float((called == truth).mean()),
            **{key: share(*part) for key, part in flags.items()},
            calibration_error=_calibration_error([said[record.id].probability for record in records], truth),
        ),
        mask=masks.scores(),
        objects=objects,
        intervals=intervals,
    )


def _captions(
    records: Sequence[PairRecord], said: Mapping[str, PairPrediction]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return what is said of pairs, and their references, by pair."""
    return {one.id: said[one.id].caption for one in records}, {one.id: one.captions for one in records}


def _calibration_error(probabilities: Sequence[float | None], truth: np.ndarray) -> float | None:
    if None in probabilities or not 0 < truth.sum() < len(truth):
        return None
    return reliability(np.array(probabilities), truth).error


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
    said = {
        record.id: PairPrediction(caption if flag else NO_CHANGE_CAPTION, flag)
        for record, caption, flag in zip(records, captions, called.tolist(), strict=True)
    }
    try:
        groups = subsets(records, kinds_named(records) or kinds_read(records))
        return {
            kind: _kind_scores(members, said, words=kind != "unchanged")
            for kind, members in groups.items()
            if kind != "all"
        }
    except (ExtraNotInstalled, WeightsNotFound):
        return {}


def _kind_scores(
    records: Sequence[PairRecord], said: Mapping[str, PairPrediction], *, words: bool
) -> dict[str, float]:
    changed = float(np.mean([said[record.id].changed for record in records]))
    scores = {"pairs": float(len(records)), "called_changed": changed}
    if words and len(records) >= FEWEST:
        scores["cider"] = cider(*_captions(records, said))
    if words and (wrong := _wrong_objects(records, said)):
        scores["other_objects"] = float(np.mean([bool(classes) for classes in wrong.values()]))
    return {name: round(value, 4) for name, value in scores.items()}
