"""Scores a captioner on a captioned data set beside three baselines.

Every subset is scored alone, as the papers do: all pairs, the changed and the unchanged ones, and where a
data set names types of change the changed pairs of each type.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rscc.baselines import baseline_captions
from rscc.comparison import paper_tables
from rscc.data.pairs import PairRecord, read_mask, truly_changed
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid
from rscc.evaluation_report import SUBSETS, EvaluationReport, EvaluationRow, run_record
from rscc.mask_metrics import MaskCounter, MaskScores, bootstrap_interval, flag_accuracy
from rscc.metrics import CaptionScorer
from rscc.predictions import (
    PairCaptioner,
    PairPrediction,
    caption_predictions,
    captioner_predictions,
    masks_count,
)

MOST_NEIGHBOURS = 20_000
"""Training pairs up to which the nearest-pair baseline is made: the trunk has to see all of them."""

_MASKS_UNSCORED = "change masks are not scored, because this model has no trained change head"


def subsets(records: Sequence[PairRecord]) -> dict[str, list[PairRecord]]:
    """Return the pairs by subset: those of :data:`SUBSETS` first, then the types of the changed pairs.

    Left out are empty subsets and those that hold the same pairs as an earlier one.
    """
    found: dict[str, list[PairRecord]] = {subset: [] for subset in SUBSETS}
    kinds: dict[str, list[PairRecord]] = {}
    for record in records:
        changed = truly_changed(record)
        found["all"].append(record)
        found["changed" if changed else "unchanged"].append(record)
        if changed and record.kind:
            kinds.setdefault(record.kind, []).append(record)
    different: dict[tuple[str, ...], str] = {}
    found |= {kind: kinds[kind] for kind in sorted(kinds)}
    for subset, members in found.items():
        if members:
            different.setdefault(tuple(record.id for record in members), subset)
    return {subset: found[subset] for subset in different.values()}


def score_predictions(
    name: str, records: Sequence[PairRecord], predictions: Iterable[PairPrediction], scorer: CaptionScorer
) -> list[EvaluationRow]:
    """Score one captioner.

    Args:
        name: of the rows.
        records: pairs with references.
        predictions: one per record, in order; read one at a time, so that masks need not be kept.
        scorer: shared by all captioners of an evaluation.

    Returns:
        One row per subset, see :func:`subsets`.

    Raises:
        DatasetLayoutInvalid: a pair has no reference, two pairs share an id, or a mask has another size than
            the true one.
    """
    if len({record.id for record in records}) != len(records):
        raise DatasetLayoutInvalid("two pairs of this split have the same id; every pair needs its own")
    groups = subsets(records)
    member_of: dict[str, list[str]] = {}
    for subset, members in groups.items():
        for record in members:
            member_of.setdefault(record.id, []).append(subset)
    captions: dict[str, str] = {}
    right: dict[str, bool] = {}
    counters = {subset: MaskCounter() for subset in groups}
    for record, said in zip(records, predictions, strict=True):
        captions[record.id] = said.caption
        right[record.id] = said.changed == truly_changed(record)
        if record.mask is None or said.mask is None:
            continue
        truth = read_mask(record.mask)
        for subset in member_of[record.id]:
            counters[subset].add(said.mask, truth)
    return [
        _row(name, subset, members, captions, right, counters[subset].scores(), scorer)
        for subset, members in groups.items()
    ]


def _row(
    name: str,
    subset: str,
    records: Sequence[PairRecord],
    captions: dict[str, str],
    right: dict[str, bool],
    mask: MaskScores | None,
    scorer: CaptionScorer,
) -> EvaluationRow:
    ids = [record.id for record in records]
    scores = scorer.score({i: captions[i] for i in ids}, {record.id: record.captions for record in records})
    per_pair = scores.per_pair.get("cider")
    hits = [right[i] for i in ids]
    return EvaluationRow(
        name=name,
        subset=subset,
        captions=scores,
        cider_interval=None if per_pair is None else bootstrap_interval(per_pair.values()),
        flag_accuracy=flag_accuracy(hits, [True] * len(hits)),
        flag_interval=bootstrap_interval(map(float, hits)),
        mask=mask,
    )


def score_captioner(
    captioner: PairCaptioner, records: Sequence[PairRecord], scorer: CaptionScorer, *, beams: int = 3
) -> list[EvaluationRow]:
    """Run a captioner over pairs with references and score what it says."""
    said = captioner_predictions(captioner, records, beams=beams)
    return score_predictions(captioner.card.name, records, said, scorer)


def score_model(
    model: str | Path,
    records: Sequence[PairRecord],
    *,
    beams: int = 3,
    java: bool = True,
    device: str = "auto",
) -> list[EvaluationRow]:
    """Score a model folder, or a shipped model by name, on pairs, without baselines.

    Args:
        model: folder or name.
        records: pairs to score; those without references are left out.
        beams: width of the caption search.
        java: run METEOR and the PTB tokenizer.
        device: where the model runs.

    Returns:
        One row per subset, see :func:`subsets`.

    Raises:
        ModelNotFound: no such model. ModelFolderInvalid: a damaged one.
        DatasetLayoutInvalid: no pair has references, or an image is missing.
        DeviceUnavailable: this machine has no such device.
    """
    from rscc.captioner import Captioner

    scored = _with_references(records)
    with CaptionScorer(java=java) as scorer:
        return score_captioner(Captioner.load(model, device=device), scored, scorer, beams=beams)


def _with_references(records: Sequence[PairRecord]) -> list[PairRecord]:
    scored = [record for record in records if record.captions]
    if not scored:
        raise DatasetLayoutInvalid("no pair of this split has captions to compare with; choose another split")
    return scored


def evaluate_records(
    captioner: PairCaptioner,
    records: Sequence[PairRecord],
    train: Sequence[PairRecord],
    *,
    run: dict[str, object],
    dataset: str = "levir_cc",
    beams: int = 3,
    features: Callable[[Sequence[PairRecord]], np.ndarray] | None = None,
    java: bool = True,
) -> EvaluationReport:
    """Score a captioner and the baselines.

    Args:
        captioner: the model.
        records: pairs to score; those without references are left out.
        train: training pairs, for the baselines; may be empty.
        run: what else the report's record holds (command, data, split ...).
        dataset: whose papers' rows stand beside.
        beams: width of the caption search.
        features: gives (N, 2, C) pooled features of pairs, for the nearest-pair baseline.
        java: run METEOR and the PTB tokenizer.

    Raises:
        DatasetLayoutInvalid: no pair has references.
    """
    scored = _with_references(records)
    train = [record for record in train if record.captions]
    know = features is not None and bool(train)
    baselines = baseline_captions(
        train,
        len(scored),
        train_features=features(train) if features is not None and know else None,
        features=features(scored) if features is not None and know else None,
    )
    with CaptionScorer(java=java) as scorer:
        rows = score_captioner(captioner, scored, scorer, beams=beams)
        for name, captions in baselines.items():
            rows += score_predictions(name, scored, caption_predictions(captions), scorer)
    card = captioner.card
    counts = dict.fromkeys(SUBSETS, 0) | {k: len(members) for k, members in subsets(scored).items()}
    counts["changed"] = sum(truly_changed(record) for record in scored)
    record = {
        **run,
        "dataset": dataset,
        "counts": counts | {"unchanged": len(scored) - counts["changed"]},
        "training_pairs_of_baselines": len(train),
        "model": {
            "name": card.name,
            "version": card.version,
            "weights_sha256": card.weights_sha256,
            "trained_on": card.data,
        },
        "beams": beams,
    }
    notes = [_MASKS_UNSCORED] if not masks_count(card) and any(one.mask is not None for one in scored) else []
    return EvaluationReport(rows=rows, run=record, papers=paper_tables(dataset), notes=notes)


def evaluate(
    model: str | Path,
    data: str | Path,
    *,
    dataset: str = "levir_cc",
    split: str = "test",
    beams: int = 3,
    device: str = "auto",
) -> EvaluationReport:
    """Score a model folder, or a shipped model by name, on a captioned data set.

    Args:
        model: folder or name.
        data: root folder of the data set.
        dataset: its layout, a key of :data:`rscc.data.registry.DATASETS`.
        split: as the data set names it.
        beams: width of the caption search.
        device: where the model runs.

    Raises:
        ConfigInvalid: the layout is unknown.
        ModelNotFound: no such model. ModelFolderInvalid: a damaged one.
        DatasetLayoutInvalid: the folder is not in that layout, or the split is empty.
        DeviceUnavailable: this machine has no such device.
        ExtraNotInstalled: the libraries of the extra ``train`` are not installed.
    """
    from rscc.captioner import Captioner
    from rscc.data.features import pooled_features
    from rscc.data.registry import DATASETS
    from rscc.weights import find_model, load_model, open_model_folder

    if dataset not in DATASETS:
        raise ConfigInvalid(f"data set {dataset!r} is not known; use one of {', '.join(DATASETS)}")
    records = DATASETS[dataset](data, split).records
    try:
        train = DATASETS[dataset](data, "train").records
    except DatasetLayoutInvalid:
        train = []  # a test split alone may be scored; the report says how many training pairs there were
    folder = open_model_folder(find_model(model), check_hashes=True)
    network = load_model(folder)
    captioner = Captioner(network, folder, device=device)

    def features(pairs: Sequence[PairRecord]) -> np.ndarray:
        return pooled_features(network.backbone, pairs, size=captioner.card.tile_size, bf16=captioner.bf16)

    run = {
        **run_record(shlex.join(["rscc", *sys.argv[1:]])),
        "data": str(data),
        "split": split,
        "device": str(captioner.device),
    }
    few = len(train) <= MOST_NEIGHBOURS
    report = evaluate_records(
        captioner, records, train, run=run, dataset=dataset, beams=beams, features=features if few else None
    )
    if few:
        return report
    note = f"no nearest training pair is looked for among more than {MOST_NEIGHBOURS:,} training pairs"
    return replace(report, notes=[*report.notes, note])
