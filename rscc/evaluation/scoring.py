"""Scores one captioner on every subset of the pairs, with 95 percent intervals.

Every subset is scored alone, as the papers do: all pairs, the changed and the unchanged ones, and the changed
pairs of each kind of change, which the data set names or the references tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from rscc.evaluation.metrics import CaptionScorer, cider
from rscc.evaluation.predictions import PairPrediction
from rscc.evaluation.score_rows import SUBSETS, EvaluationRow, FlagScores, MaskCounter
from rscc.facts.calibration import FEWEST, reliability
from rscc.structures import NO_CHANGE_CAPTION
from rscc.text.object_classes import OTHER_KIND, count_hallucinations, kinds_of_change, unnamed_objects

Kinds = Mapping[str, Sequence[str]]
"""Pair id to the kinds of its change."""
KindScores = dict[str, dict[str, float]]


def kinds_named(records: Sequence[PairRecord]) -> dict[str, tuple[str, ...]]:
    """Return the kind of every pair as the data set names it; empty if it names none."""
    return {record.id: (record.kind,) for record in records if record.kind}


def kinds_read(records: Sequence[PairRecord]) -> dict[str, tuple[str, ...]]:
    """Return the kinds of every changed pair by its references, see :mod:`rscc.text.object_classes`."""
    return {record.id: kinds_of_change(record.captions) for record in records if truly_changed(record)}


def subsets(records: Sequence[PairRecord], kinds: Kinds | None = None) -> dict[str, list[PairRecord]]:
    """Return the pairs by subset: those of :data:`SUBSETS` first, then the kinds of the changed pairs.

    Empty subsets are left out, and those with the same pairs as an earlier one.

    Args:
        kinds: of the changed pairs; None: as the data set names them.
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


@dataclass(frozen=True)
class _Predicted:
    """Some pairs, their predictions by id, and by id the objects that no reference names (if counted)."""

    records: Sequence[PairRecord]
    predictions: Mapping[str, PairPrediction]
    wrong: Mapping[str, tuple[str, ...]] | None = None

    @property
    def captions(self) -> dict[str, str]:
        return {record.id: self.predictions[record.id].caption for record in self.records}

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        return {record.id: record.captions for record in self.records}

    @property
    def called(self) -> np.ndarray:
        """Which pairs are called changed, (N,) bool."""
        return np.array([self.predictions[record.id].changed for record in self.records])

    def wrong_objects(self) -> dict[str, tuple[str, ...]]:
        """Return by id the object classes that only the caption names, of pairs called changed."""
        called = [record for record in self.records if self.predictions[record.id].changed]
        captions = [self.predictions[record.id].caption for record in called]
        wrong = unnamed_objects(captions, [record.captions for record in called])
        return {record.id: classes for record, classes in zip(called, wrong, strict=True)}


def score_predictions(
    name: str,
    records: Sequence[PairRecord],
    predictions: Iterable[PairPrediction],
    scorer: CaptionScorer,
    *,
    kinds: Kinds | None = None,
    objects: bool = False,
) -> list[EvaluationRow]:
    """Score one captioner; return a row per subset, see :func:`subsets`, which also explains ``kinds``.

    Args:
        predictions: one per record, in order; read one at a time, so that masks are not kept.
        scorer: shared by all captioners of an evaluation.
        objects: also count objects that no reference names.
    """
    if len({record.id for record in records}) != len(records):
        raise DatasetLayoutInvalid("two pairs of this split have the same id; every pair needs its own")
    groups = subsets(records, kinds)
    ids = {subset: {record.id for record in members} for subset, members in groups.items()}
    counters = {subset: MaskCounter() for subset in groups}
    kept: dict[str, PairPrediction] = {}
    for record, prediction in zip(records, predictions, strict=True):
        kept[record.id] = replace(prediction, mask=None, facts=None)
        if record.mask is None or prediction.mask is None:
            continue
        truth = read_mask(record.mask)
        for subset, members in ids.items():
            if record.id in members:
                counters[subset].add(prediction.mask, truth, gsd=record.gsd)
    wrong = _Predicted(records, kept).wrong_objects() if objects else None
    return [
        _score_subset(name, subset, _Predicted(members, kept, wrong), counters[subset], scorer)
        for subset, members in groups.items()
    ]


def _score_subset(
    name: str, subset: str, pairs: _Predicted, masks: MaskCounter, scorer: CaptionScorer
) -> EvaluationRow:
    scores = scorer.score(pairs.captions, pairs.references)
    resamples = Resamples(len(pairs.records))
    truth, called = np.array([truly_changed(record) for record in pairs.records]), pairs.called
    both = int((called & truth).sum())
    flags = {"precision": (both, int(called.sum())), "recall": (both, int(truth.sum()))}
    shares = {"flag_accuracy": percentile_interval(resamples.means(called == truth))}
    shares |= {f"flag_{key}": wilson_interval(*part) for key, part in flags.items()}
    objects = None
    if pairs.wrong is not None:
        ids = (record.id for record in pairs.records if record.id in pairs.wrong)
        objects = count_hallucinations(pairs.wrong[pair] for pair in ids)
        shares["hallucination_rate"] = wilson_interval(objects.wrong, objects.captions)
    intervals = caption_intervals(scores, resamples)
    intervals |= {key: interval for key, interval in shares.items() if interval is not None}
    intervals |= {f"mask_{key}": interval for key, interval in masks.intervals().items()}
    probabilities = [pairs.predictions[record.id].probability for record in pairs.records]
    return EvaluationRow(
        name=name,
        subset=subset,
        captions=scores,
        flags=FlagScores(
            accuracy=float((called == truth).mean()),
            **{key: share(*part) for key, part in flags.items()},
            calibration_error=_calibration_error(probabilities, truth),
        ),
        mask=masks.scores(),
        objects=objects,
        intervals=intervals,
    )


def _calibration_error(probabilities: Sequence[float | None], truth: np.ndarray) -> float | None:
    if None in probabilities or not 0 < truth.sum() < len(truth):
        return None
    return reliability(np.array(probabilities), truth).error


def score_kinds(records: Sequence[PairRecord], captions: Sequence[str], called: np.ndarray) -> KindScores:
    """Score captions by kind of change.

    Args:
        captions: the model's caption of each pair, given that it changed.
        called: (N,) bool, whether the model calls the pair changed; others get the "no change" caption.

    Returns:
        By kind, which the data set names or the references tell, and for all changed and all unchanged pairs:
        ``pairs``; ``called_changed``, the share of them; of changed ones also ``cider`` in percent, if there
        are at least :data:`~rscc.facts.calibration.FEWEST` pairs, and ``other_objects``, the share of
        captions of pairs called changed that name an object which no reference names. Empty if the parser or
        the scorer is not installed.
    """
    predictions = {
        record.id: PairPrediction(caption if flag else NO_CHANGE_CAPTION, flag)
        for record, caption, flag in zip(records, captions, called.tolist(), strict=True)
    }
    try:
        groups = subsets(records, kinds_named(records) or kinds_read(records))
        return {
            kind: _score_kind(_Predicted(members, predictions), is_change=kind != "unchanged")
            for kind, members in groups.items()
            if kind != "all"
        }
    except (ExtraNotInstalled, WeightsNotFound):
        return {}


def _score_kind(pairs: _Predicted, *, is_change: bool) -> dict[str, float]:
    scores = {"pairs": float(len(pairs.records)), "called_changed": float(pairs.called.mean())}
    if is_change and len(pairs.records) >= FEWEST:
        scores["cider"] = cider(pairs.captions, pairs.references)
    if is_change and (wrong := pairs.wrong_objects()):
        scores["other_objects"] = float(np.mean([bool(classes) for classes in wrong.values()]))
    return {name: round(value, 4) for name, value in scores.items()}
