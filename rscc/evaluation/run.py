"""Scores a captioner on a captioned data set beside baselines, and on pairs made from its images.

What is scored on which subset of the pairs: :mod:`rscc.evaluation.scoring`; what captions state:
:mod:`rscc.evaluation.facts`; the pairs that are made: :mod:`rscc.evaluation.robustness`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rscc.data.leaks import LeakCheck, Tell, find_leaks, image_files
from rscc.data.pairs import PairRecord, truly_changed
from rscc.errors import DatasetLayoutInvalid, ExtraNotInstalled, WeightsNotFound
from rscc.evaluation.baselines import TEMPLATE_BY_COUNT, baseline_captions, template_caption
from rscc.evaluation.facts import FactScorer
from rscc.evaluation.metrics import CaptionScorer, caption_metrics
from rscc.evaluation.papers import paper_tables, search_name
from rscc.evaluation.predictions import (
    PairCaptioner,
    PairPrediction,
    caption_predictions,
    captioner_predictions,
    masks_count,
)
from rscc.evaluation.report import EvaluationReport, run_record
from rscc.evaluation.robustness import measure_robustness
from rscc.evaluation.rows import SUBSETS, EvaluationRow, FactScores
from rscc.evaluation.scoring import kinds_named, kinds_read, score_predictions, subsets
from rscc.freed_memory import keep_freed_memory
from rscc.model_folder import sha256_of
from rscc.text.parsing import load_parser

MOST_NEIGHBOURS = 20_000
"""Training pairs up to which the nearest-pair baseline is made: the trunk has to see all of them."""

OVERHEAD = ("levir_cc", "dubai_cc")
"""Data sets whose captions are about the objects of :mod:`rscc.text.object_classes`."""

_MASKS_UNSCORED = "change masks are not scored, because this model has no trained change head"


def score_model(
    model: str | Path, records: Sequence[PairRecord], *, beams: int = 3, device: str = "auto"
) -> list[EvaluationRow]:
    """Score a model folder, or a shipped model by name, on pairs, without baselines and Java.

    Args:
        records: pairs to score; those without references are left out.
        beams: width of the caption search.

    Returns:
        One row per subset, see :func:`subsets`.

    Raises:
        ModelNotFound: no such model. ModelFolderInvalid: a damaged one.
        DatasetLayoutInvalid: no pair has references, or an image is missing.
        DeviceUnavailable: this machine has no such device.
    """
    from rscc.captioner import Captioner

    scored = _with_references(records)
    captioner = Captioner.load(model, device=device)
    predictions = captioner_predictions(captioner, scored, beams=beams)
    return score_predictions(captioner.card.name, scored, predictions, CaptionScorer(java=False))


def _with_references(records: Sequence[PairRecord]) -> list[PairRecord]:
    scored = [record for record in records if record.captions]
    if not scored:
        raise DatasetLayoutInvalid("no pair of this split has captions to compare with; choose another split")
    return scored


@dataclass(frozen=True)
class EvaluationOptions:
    """What an evaluation does besides scoring the model's captions, flags and masks.

    Attributes:
        baselines: score the baselines too; the nearest training pair makes the trunk see all of them.
        kinds: read kinds of change from the references where the data set names none.
        robustness: show pairs backwards, and images beside themselves.
    """

    baselines: bool = True
    kinds: bool = False
    robustness: bool = False


def evaluate_records(
    captioner: PairCaptioner,
    records: Sequence[PairRecord],
    train: Sequence[PairRecord],
    *,
    run: dict[str, object],
    leaks: LeakCheck | None = None,
    dataset: str = "levir_cc",
    beams: int = 3,
    features: Callable[[Sequence[PairRecord]], np.ndarray] | None = None,
    java: bool = True,
    options: EvaluationOptions = EvaluationOptions(),
    observe: Callable[[PairRecord, PairPrediction], None] | None = None,
) -> EvaluationReport:
    """Score a captioner and the baselines.

    Args:
        records: pairs to score; those without references are left out.
        train: training pairs, for the baselines; may be empty.
        run: what else the report's record holds (command, data, split ...).
        leaks: whether images of ``records`` lie in training data; None where nobody looked.
        dataset: whose papers' rows stand beside.
        beams: width of the caption search.
        features: gives (N, 2, C) pooled features of pairs, for the nearest-pair baseline.
        java: run METEOR and the PTB tokenizer.
        options: what else is measured.
        observe: called with every pair and its prediction, in order.

    Raises:
        DatasetLayoutInvalid: no pair has references.
        ExtraNotInstalled, WeightsNotFound: kinds are asked for, and spaCy or its parser is not installed.
    """
    scored = _with_references(records)
    train = [record for record in train if record.captions]
    baselines = baseline_captions(scored, train, features) if options.baselines else {}
    kinds = kinds_named(scored) or (kinds_read(scored) if options.kinds else {})
    objects, notes = dataset in OVERHEAD, []
    if objects:
        try:
            load_parser()
        except (ExtraNotInstalled, WeightsNotFound) as error:
            objects, notes = False, [f"objects that no reference names are not counted: {error}"]
    said: list[str] = []
    counted: list[str] = []  # what counting the model's masks says; fewer where some pair has no mask

    def watched() -> Iterator[PairPrediction]:
        predictions = captioner_predictions(captioner, scored, beams=beams)
        for record, prediction in zip(scored, predictions, strict=True):
            if observe is not None:
                observe(record, prediction)
            said.append(prediction.caption)
            if prediction.mask is not None:
                counted.append(template_caption(prediction.mask))
            yield prediction

    with CaptionScorer(java=java) as scorer:
        rows = score_predictions(captioner.card.name, scored, watched(), scorer, kinds=kinds, objects=objects)
        if options.baselines and dataset in OVERHEAD and len(counted) == len(scored):
            baselines = {TEMPLATE_BY_COUNT: counted, **baselines}
        for name, captions in baselines.items():
            rows += score_predictions(
                name, scored, caption_predictions(captions), scorer, kinds=kinds, objects=objects
            )
    card = captioner.card
    counts = dict.fromkeys(SUBSETS, 0) | {k: len(members) for k, members in subsets(scored, kinds).items()}
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
            "facts_sha256": card.facts_sha256,
            "trained_on": card.data,
        },
        "beams": beams,
        "decoding": "facts, no search" if run.get("grounded") else search_name(beams, card.support),
    }
    if not masks_count(card) and any(one.mask is not None for one in scored):
        notes.append(_MASKS_UNSCORED)
    return EvaluationReport(
        rows=rows,
        run=record,
        papers=paper_tables(dataset),
        notes=notes,
        facts=_facts(scored, {card.name: said, **baselines}, objects) if dataset in OVERHEAD else (),
        robustness=measure_robustness(captioner, scored, beams=beams) if options.robustness else None,
        leaks=leaks,
    )


def _facts(
    records: Sequence[PairRecord], captions: Mapping[str, Sequence[str]], objects: bool
) -> list[FactScores]:
    """Score what captions state, by captioner, the model first, people next; nothing when no pair changed."""
    if not any(map(truly_changed, records)):
        return []
    scorer = FactScorer(records, objects=objects)
    model, *baselines = (scorer.score(name, said) for name, said in captions.items())
    return [model, scorer.people(), *baselines]


def evaluate(
    model: str | Path,
    data: str | Path,
    *,
    dataset: str = "levir_cc",
    split: str = "test",
    beams: int = 3,
    device: str = "auto",
    ground: bool = True,
    options: EvaluationOptions = EvaluationOptions(),
    observe: Callable[[PairRecord, PairPrediction], None] | None = None,
    training: Sequence[Path] = (),
    tell: Tell | None = None,
) -> EvaluationReport:
    """Score a model folder, or a shipped model by name, on a captioned data set.

    Args:
        data: root folder of the data set.
        dataset: its layout, a key of :data:`rscc.data.benchmarks.registry.DATASETS`.
        split: as the data set names it.
        beams: width of the caption search.
        ground: make sentences of measured facts where the model tells them.
        options, observe: see :func:`evaluate_records`.
        training: folders with all images that the model learnt from, in which those of the split are looked
            for; none: nobody looks.
        tell: see :func:`rscc.data.leaks.find_leaks`.

    Raises:
        ModelNotFound: no such model. ModelFolderInvalid: a damaged one.
        DatasetLayoutInvalid: the folder is not in that layout, or the split is empty.
        DeviceUnavailable: this machine has no such device.
        ExtraNotInstalled: the libraries of the extra ``train`` are not installed.
    """
    from rscc.captioner import Captioner
    from rscc.data.benchmarks.registry import DATASETS
    from rscc.data.caches import pooled_features
    from rscc.model_folder import find_model, load_model, open_model_folder

    caption_metrics()
    records = DATASETS[dataset](data, split).records
    try:
        train = DATASETS[dataset](data, "train").records
    except DatasetLayoutInvalid:
        train = []  # a test split alone may be scored; the report says how many training pairs there were
    keep_freed_memory()
    folder = open_model_folder(find_model(model), check_hashes=True)
    network = load_model(folder)
    captioner = Captioner(network, folder, device=device, ground=ground)

    def features(pairs: Sequence[PairRecord]) -> np.ndarray:
        return pooled_features(network.backbone, pairs, size=captioner.card.tile_size, bf16=captioner.bf16)

    leaks = _leaks(records, training, tell) if training else None
    run = {
        **run_record(shlex.join(["rscc", *sys.argv[1:]])),
        "data": str(data),
        "index": index_of(Path(data)),
        "split": split,
        "device": str(captioner.device),
        "grounded": captioner.facts is not None,
    }
    few = len(train) <= MOST_NEIGHBOURS or not options.baselines
    report = evaluate_records(
        captioner,
        records,
        train,
        run=run,
        leaks=leaks,
        dataset=dataset,
        beams=beams,
        features=features if few else None,
        options=options,
        observe=observe,
    )
    if few:
        return report
    note = f"no nearest training pair is looked for among more than {MOST_NEIGHBOURS:,} training pairs"
    return replace(report, notes=[*report.notes, note])


def index_of(data: Path) -> dict[str, str]:
    """Return the SHA-256 of the files below a folder that list its pairs: JSON, CSV and text."""
    files = sorted(path for path in data.rglob("*") if path.suffix in (".json", ".csv", ".txt"))
    return {path.relative_to(data).as_posix(): sha256_of(path) for path in files if path.is_file()}


def _leaks(records: Sequence[PairRecord], training: Sequence[Path], tell: Tell | None) -> LeakCheck:
    images = [path for record in records for path in (record.before, record.after)]
    learnt = [path for folder in training for path in image_files(folder, but=images)]
    return find_leaks(images, list(dict.fromkeys(learnt)), tell=tell)
