"""Scores a captioner on a captioned data set beside three baselines, on all, changed and unchanged pairs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rscc.baselines import baseline_captions
from rscc.data.pairs import PairRecord, read_mask, read_pair, resize, truly_changed
from rscc.errors import DatasetLayoutInvalid
from rscc.evaluation_report import SUBSETS, EvaluationReport, EvaluationRow, paper_rows, run_record
from rscc.mask_metrics import MaskCounter, MaskScores, bootstrap_interval, flag_accuracy
from rscc.metrics import CaptionScorer, is_no_change

if TYPE_CHECKING:
    from rscc.structures import Caption, ChangePrediction
    from rscc.weights import ModelCard

_BATCH = 16


@dataclass(frozen=True)
class PairPrediction:
    """What a captioner says of one pair.

    Attributes:
        caption: the sentence.
        changed: whether anything changed.
        mask: (H, W) bool at the size of the true mask; None when the captioner gives none.
    """

    caption: str
    changed: bool
    mask: np.ndarray | None = None


class PairCaptioner(Protocol):
    """The part of :class:`~rscc.captioner.Captioner` that an evaluation calls."""

    card: ModelCard

    def predict_change(self, before: np.ndarray, after: np.ndarray) -> ChangePrediction:
        """Return probabilities for (B, 3, H, W) uint8 images."""

    def caption(self, before: np.ndarray, after: np.ndarray, *, beams: int) -> list[Caption]:
        """Return one caption per pair."""


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
        One row per subset that holds a pair: all, changed, unchanged.

    Raises:
        DatasetLayoutInvalid: a pair has no reference, or a mask has another size than the true one.
    """
    captions: dict[str, str] = {}
    right: dict[str, bool] = {}
    counters = {subset: MaskCounter() for subset in SUBSETS}
    groups: dict[str, list[PairRecord]] = {subset: [] for subset in SUBSETS}
    for record, said in zip(records, predictions, strict=True):
        changed = truly_changed(record)
        captions[record.id], right[record.id] = said.caption, said.changed == changed
        truth = read_mask(record.mask) if record.mask is not None and said.mask is not None else None
        for subset in ("all", "changed" if changed else "unchanged"):
            groups[subset].append(record)
            if truth is not None and said.mask is not None:
                counters[subset].add(said.mask, truth)
    return [
        _row(name, subset, members, captions, right, counters[subset].scores(), scorer)
        for subset, members in groups.items()
        if members
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


def caption_predictions(captions: Iterable[str]) -> Iterator[PairPrediction]:
    """Make predictions of captions alone; the flag is what the caption says."""
    for caption in captions:
        yield PairPrediction(caption=caption, changed=not is_no_change(caption))


def captioner_predictions(
    captioner: PairCaptioner, records: Sequence[PairRecord], *, beams: int = 3, batch_size: int = _BATCH
) -> Iterator[PairPrediction]:
    """Run a captioner over pairs, at the model's tile size; masks come back at the size of the images."""
    card = captioner.card
    for start in range(0, len(records), batch_size):
        part = records[start : start + batch_size]
        before, after, sizes = read_batch(part, card.tile_size)
        seen = captioner.predict_change(before, after)
        said = captioner.caption(before, after, beams=beams)
        for index, size in enumerate(sizes):
            probability = enlarge(seen.change_probability[index], size)
            yield PairPrediction(
                caption=said[index].text,
                changed=_is_changed(float(seen.changed_probability[index]), said[index].text, card),
                mask=probability >= card.threshold,
            )


def _is_changed(probability: float, caption: str, card: ModelCard) -> bool:
    """Decide by P(anything changed); a model that never learnt it (threshold 0) decides by what it says."""
    return probability >= card.changed_threshold and (card.changed_threshold > 0 or not is_no_change(caption))


def read_batch(
    records: Sequence[PairRecord], side: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    """Read pairs as (B, 3, side, side) uint8 each date, and the (height, width) they had."""
    samples = [read_pair(record) for record in records]
    before, after = (
        np.stack([resize(image, (side, side)) for image in images])
        for images in ([s.before for s in samples], [s.after for s in samples])
    )
    return before, after, [(s.before.shape[1], s.before.shape[2]) for s in samples]


def enlarge(probability: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize a probability map (h, w) bilinearly to (height, width)."""
    if probability.shape == size:
        return probability
    import torch

    from rscc.models.blocks import enlarge_maps

    grid = torch.from_numpy(np.ascontiguousarray(probability, dtype=np.float32))
    return enlarge_maps(grid[None], size)[0].numpy()


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
    scored = [record for record in records if record.captions]
    train = [record for record in train if record.captions]
    if not scored:
        raise DatasetLayoutInvalid("no pair of this split has captions to compare with; choose another split")
    know = features is not None and bool(train)
    baselines = baseline_captions(
        train,
        len(scored),
        train_features=features(train) if features is not None and know else None,
        features=features(scored) if features is not None and know else None,
    )
    with CaptionScorer(java=java) as scorer:
        said = captioner_predictions(captioner, scored, beams=beams)
        rows = score_predictions(captioner.card.name, scored, said, scorer)
        for name, captions in baselines.items():
            rows += score_predictions(name, scored, caption_predictions(captions), scorer)
    papers, papers_split = paper_rows(dataset)
    card = captioner.card
    counts = {row.subset: row.captions.count for row in rows[: len(SUBSETS)] if row.name == card.name}
    record = {
        **run,
        "counts": counts,
        "training_pairs_of_baselines": len(train),
        "model": {"name": card.name, "version": card.version, "weights_sha256": card.weights_sha256},
        "beams": beams,
    }
    return EvaluationReport(rows=rows, run=record, papers=papers, papers_split=papers_split)


def evaluate(
    model: str | Path, data: str | Path, *, split: str = "test", beams: int = 3, device: str = "auto"
) -> EvaluationReport:
    """Score a model folder, or a shipped model by name, on a data set in LEVIR-CC's layout.

    Raises:
        ModelNotFound: no such model. ModelFolderInvalid: a damaged one.
        DatasetLayoutInvalid: the folder is not in LEVIR-CC's layout, or the split is empty.
        DeviceUnavailable: this machine has no such device.
        ExtraNotInstalled: the libraries of the extra ``train`` are not installed.
    """
    from rscc.captioner import Captioner
    from rscc.data.features import pooled_features
    from rscc.data.levir_cc import LevirCC
    from rscc.weights import find_model, load_model, open_model_folder

    records = LevirCC(data, split).records
    try:
        train = LevirCC(data, "train").records
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
    return evaluate_records(captioner, records, train, run=run, beams=beams, features=features)
