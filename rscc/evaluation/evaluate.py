"""Scores a captioner on a captioned data set, beside baselines and the rows of papers.

Subsets of the pairs: :mod:`rscc.evaluation.scoring`; facts that captions state:
:mod:`rscc.evaluation.stated_facts`; pairs made from real ones: :mod:`rscc.evaluation.robustness`.
"""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rscc.captioner import Captioner
from rscc.data.benchmarks.registry import DATASETS
from rscc.data.leaks import Progress, find_leaks, image_files
from rscc.data.pairs import PairRecord, truly_changed
from rscc.data.trunk_maps import pooled_features
from rscc.devices import keep_freed_memory
from rscc.errors import DatasetLayoutInvalid, ExtraNotInstalled, WeightsNotFound
from rscc.evaluation.baselines import TEMPLATE_BY_COUNT, baseline_captions, template_caption
from rscc.evaluation.evaluation_report import EvaluationReport, run_record
from rscc.evaluation.metrics import CaptionScorer, caption_metrics
from rscc.evaluation.papers import paper_tables, search_name
from rscc.evaluation.predictions import (
    PairPrediction,
    caption_predictions,
    captioner_predictions,
    masks_count,
    ungated_captions,
)
from rscc.evaluation.robustness import measure_robustness
from rscc.evaluation.score_rows import SUBSETS, EvaluationRow, FactScores
from rscc.evaluation.scoring import Kinds, kinds_named, kinds_read, score_predictions, subsets
from rscc.evaluation.stated_facts import FactScorer
from rscc.model_folder import find_model, load_model, open_model_folder, sha256_of
from rscc.text.parsing import load_parser

MAX_NEIGHBOURS = 20_000
"""Most training pairs for the nearest-pair baseline, for which the trunk runs on all of them."""

UNGATED = ", decoder alone"
"""Ends the name of the row of a model whose fixed "no change" sentence is left out."""

OVERHEAD = ("levir_cc", "dubai_cc")
"""Data sets whose captions are about the objects of :mod:`rscc.text.object_classes`."""

_OF_MODEL = ("name", "version", "weights_sha256", "facts_sha256")

Observe = Callable[[PairRecord, PairPrediction], None]
"""Called with every pair and its prediction, in order."""


@dataclass(frozen=True)
class EvaluationOptions:
    """Settings of an evaluation.

    Attributes:
        dataset: layout of the data, a key of :data:`rscc.data.benchmarks.registry.DATASETS`; also selects the
            papers' rows.
        ground: make sentences from facts, if the model has fact heads.
        baselines: also score the baselines; for the nearest training pair the trunk runs on all of them.
        kinds: read kinds of change from the references if the data set names none.
        robustness: also caption pairs with swapped dates, and images beside themselves.
        java: run METEOR and the PTB tokenizer.
    """

    dataset: str = "levir_cc"
    split: str = "test"
    beams: int = 3
    ground: bool = True
    baselines: bool = True
    kinds: bool = False
    robustness: bool = False
    java: bool = True


def score_model(
    model: str | Path, records: Sequence[PairRecord], *, beams: int = 3, device: str = "auto"
) -> list[EvaluationRow]:
    """Score a model folder, or a shipped model by name, on pairs, without baselines and Java.

    Pairs without references are left out. Returns a row per subset, see :func:`subsets`.
    """
    scored = _with_references(records)
    captioner = Captioner.load(model, device=device)
    predictions = captioner_predictions(captioner, scored, beams=beams)
    return score_predictions(captioner.card.name, scored, predictions, CaptionScorer(java=False))


def _with_references(records: Sequence[PairRecord]) -> list[PairRecord]:
    scored = [record for record in records if record.captions]
    if not scored:
        raise DatasetLayoutInvalid("no pair of this split has captions to compare with; choose another split")
    return scored


def evaluate(
    model: str | Path,
    data: str | Path,
    options: EvaluationOptions = EvaluationOptions(),
    *,
    device: str = "auto",
    observe: Observe | None = None,
    training: Sequence[Path] = (),
    progress: Progress | None = None,
) -> EvaluationReport:
    """Score a model folder, or a shipped model by name, on a captioned data set.

    Args:
        training: folders with all images that the model was trained on, to search for the images of the
            split; empty: no search.
        progress: see :func:`rscc.data.leaks.find_leaks`.

    Raises:
        ModelNotFound: no such model. ModelFolderInvalid: a damaged one.
        DatasetLayoutInvalid: the folder is not in that layout, or the split is empty.
        DeviceUnavailable: this machine has no such device.
        ExtraNotInstalled: the libraries of the extra ``train`` are not installed.
    """
    caption_metrics()
    records = DATASETS[options.dataset](data, options.split)
    try:
        train = DATASETS[options.dataset](data, "train")
    except DatasetLayoutInvalid:
        train = []  # a test split alone may be scored; the report has the number of training pairs
    keep_freed_memory()
    folder = open_model_folder(find_model(model), check_hashes=True)
    network = load_model(folder)
    captioner = Captioner(network, folder, device=device, ground=options.ground)

    def features(pairs: Sequence[PairRecord]) -> np.ndarray:
        return pooled_features(network.backbone, pairs, size=captioner.card.tile_size, bf16=captioner.bf16)

    leaks = None
    if training:
        images = [path for record in records for path in (record.before, record.after)]
        trained = [path for folder in training for path in image_files(folder, but=images)]
        leaks = find_leaks(images, trained, progress=progress)
    run = {
        **run_record(shlex.join(["rscc", *sys.argv[1:]])),
        "data": str(data),
        "index": index_of(Path(data)),
        "split": options.split,
        "device": str(captioner.device),
        "grounded": captioner.facts is not None,
    }
    too_many = options.baselines and len(train) > MAX_NEIGHBOURS
    report = evaluate_records(
        captioner,
        records,
        train,
        options,
        run=run,
        features=None if too_many else features,
        observe=observe,
    )
    notes = list(report.notes)
    if too_many:
        notes.append(f"no nearest training pair is looked for among more than {MAX_NEIGHBOURS:,} pairs")
    return replace(report, leaks=leaks, notes=notes)


def index_of(data: Path) -> dict[str, str]:
    """Return the SHA-256 of the JSON, CSV and text files below a folder, which list its pairs."""
    files = sorted(path for path in data.rglob("*") if path.suffix in (".json", ".csv", ".txt"))
    return {path.relative_to(data).as_posix(): sha256_of(path) for path in files if path.is_file()}


def evaluate_records(
    captioner: Captioner,
    records: Sequence[PairRecord],
    train: Sequence[PairRecord],
    options: EvaluationOptions = EvaluationOptions(),
    *,
    run: dict[str, Any],
    features: Callable[[Sequence[PairRecord]], np.ndarray] | None = None,
    observe: Observe | None = None,
) -> EvaluationReport:
    """Score a captioner and the baselines.

    Args:
        records: pairs to score; those without references are left out.
        run: further fields of the report's record (command, data, split ...).
        features: gives (N, 2, C) pooled features of pairs, for the nearest-pair baseline.
    """
    scored, card = _with_references(records), captioner.card
    train = [record for record in train if record.captions]
    baselines = baseline_captions(scored, train, features) if options.baselines else {}
    kinds = kinds_named(scored) or (kinds_read(scored) if options.kinds else {})
    overhead = options.dataset in OVERHEAD
    objects, notes = _objects_readable() if overhead else (False, [])
    said: list[str] = []
    templates: list[str] = []

    def seen() -> Iterator[PairPrediction]:
        found = captioner_predictions(captioner, scored, beams=options.beams)
        for pair, prediction in zip(scored, found, strict=True):
            if observe is not None:
                observe(pair, prediction)
            said.append(prediction.caption)
            if prediction.mask is not None:
                templates.append(template_caption(prediction.mask))
            yield prediction

    with CaptionScorer(java=options.java) as scorer:
        score = partial(score_predictions, records=scored, scorer=scorer, kinds=kinds, objects=objects)
        rows = score(card.name, predictions=seen())
        if card.changed_threshold > 0 and not run.get("grounded"):
            alone = ungated_captions(captioner, scored, beams=options.beams)
            rows += score(card.name + UNGATED, predictions=caption_predictions(alone))
        # Where some pair has no mask, its patches cannot be counted.
        if options.baselines and overhead and len(templates) == len(scored):
            baselines = {TEMPLATE_BY_COUNT: templates, **baselines}
        for name, captions in baselines.items():
            rows += score(name, predictions=caption_predictions(captions))
    record = {
        **run,
        "dataset": options.dataset,
        "counts": _count_pairs(scored, kinds),
        "training_pairs_of_baselines": len(train),
        "model": {name: getattr(card, name) for name in _OF_MODEL} | {"trained_on": card.data},
        "beams": options.beams,
        "decoding": "facts, no search" if run.get("grounded") else search_name(options.beams, card.support),
    }
    if not masks_count(card) and any(pair.mask is not None for pair in scored):
        notes.append("change masks are not scored, because this model has no trained change head")
    return EvaluationReport(
        rows=rows,
        run=record,
        papers=paper_tables(options.dataset),
        notes=notes,
        facts=_score_facts(scored, {card.name: said, **baselines}, objects) if overhead else (),
        robustness=measure_robustness(captioner, scored, beams=options.beams) if options.robustness else None,
    )


def _objects_readable() -> tuple[bool, list[str]]:
    try:
        load_parser()
    except (ExtraNotInstalled, WeightsNotFound) as error:
        return False, [f"objects that no reference names are not counted: {error}"]
    return True, []


def _count_pairs(records: Sequence[PairRecord], kinds: Kinds) -> dict[str, int]:
    members = subsets(records, kinds)
    counts = dict.fromkeys(SUBSETS, 0) | {name: len(pairs) for name, pairs in members.items()}
    changed = sum(map(truly_changed, records))
    return counts | {"changed": changed, "unchanged": len(records) - changed}


def _score_facts(
    records: Sequence[PairRecord], captions: Mapping[str, Sequence[str]], objects: bool
) -> list[FactScores]:
    if not any(map(truly_changed, records)):
        return []
    scorer = FactScorer(records, objects=objects)
    model, *baselines = (scorer.score(name, sentences) for name, sentences in captions.items())
    return [model, scorer.people(), *baselines]
