"""Writes the model folder at the end of a run: thresholds and calibration from the validation split, card."""

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rscc.config import Config
from rscc.data.caches import EMPTY, PairCache
from rscc.data.labels import read_labelled
from rscc.data.pairs import PairRecord
from rscc.errors import ExtraNotInstalled, WeightsNotFound
from rscc.evaluation.evaluate import OVERHEAD
from rscc.facts.fact_model import FactModel
from rscc.model_card import LOCALISATIONS, ModelCard
from rscc.model_folder import (
    ModelFolder,
    find_model,
    load_facts,
    load_familiarity,
    load_model,
    open_model_folder,
    save_model_folder,
)
from rscc.models.int8 import TRUNKS, activation_ranges
from rscc.models.localisers import Localiser
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.change_detector import ChangeHead
from rscc.models.shared.generation import SearchRules
from rscc.models.trunks.backbone import fold_norms
from rscc.sequences import evenly
from rscc.training.card_text import FACTS_HEADING, card_text, facts_text, familiarity_text, make_card
from rscc.training.confidence import Confidence, measure_confidence
from rscc.training.fact_training import fit_facts
from rscc.training.head_training import fit_familiarity, fit_roads
from rscc.training.training_data import learns_the_flag, no_change_prefixes, no_change_runs
from rscc.training.training_loop import TrainResult
from rscc.training.training_run import Run, RunPaths
from rscc.training.validation import image_batches, mask_curve

_log = logging.getLogger(__name__)

# Training pairs on which the ranges of the trunk's activations are measured.
_RANGE_PAIRS = 64


def export_model(
    run: Run,
    model: ChangeCaptioner,
    result: TrainResult,
    *,
    train: Sequence[PairRecord],
    val: Sequence[PairRecord],
    val_cache: PairCache = EMPTY,
) -> ModelFolder:
    """Choose the thresholds on the validation split and write the model folder with its card."""
    config = run.config
    trunk_source, word_source = _sources(run.paths)
    prefixes = no_change_prefixes(train)
    runs = no_change_runs(train, () if word_source is None else word_source.no_change_runs)
    rules = model.search_rules(prefixes, runs)
    head_card = _card_of_trained_head(trunk_source)
    has_head = head_card is not None or config.loss.get("change_mask", 0) > 0
    localiser = "change_head" if has_head else model.localiser
    confidence = Confidence()
    if not run.masks_only:
        confidence = measure_confidence(
            model,
            val,
            config,
            cache=val_cache,
            by_head=localiser == "change_head",
            rules=rules if learns_the_flag(config, train) else None,
            # Of P(changed), if trunk and change head are still those of the start.
            start=word_source.card.flag if word_source is not None and run.keeps_trunk else None,
        )
    if head_card is not None and run.freezes_trunk:  # the same trunk and head have the same scores
        threshold = head_card.threshold
        has_masks = any(record.mask is not None for record in val)
        mask_scores = {k: v for k, v in head_card.scores.items() if has_masks and k == "mask_f1"}
    else:
        threshold, mask_scores = _choose_mask_threshold(model, val, config, localiser, confidence, rules)
    is_compact = config.model.paper == "davir" and config.model.options.get("size", "compact") == "compact"
    paper = config.model.paper.upper() + " (compact)" * is_compact
    card = make_card(
        run,
        model,
        result,
        data=f"{config.data.name}: {len(train)} training and {len(val)} validation pairs",
        scores=result.best_scores | confidence.scores | mask_scores,
        description=config.card.description
        or f"{paper} on {config.model.backbone}, trained on {config.data.name}",
        threshold=threshold,
        changed_threshold=confidence.threshold,
        localisation=LOCALISATIONS[localiser],
        localiser=localiser,
        calibration=confidence.calibration,
        support=config.card.support,
        kinds=confidence.kinds,
        cost=config.card.cost,
        ranges=int8_ranges(model, train, size=config.data.size),
    )
    facts = _fit_facts_if_possible(run, model, train, card, trunk_source)
    familiarity = fit_familiarity(model, train, val, size=config.data.size)
    text = card_text(card, config) + ("" if familiarity is None else f"\n{familiarity_text(familiarity)}")
    return save_model_folder(
        run.paths.output / "model",
        model,
        card=card,
        card_text=text + ("" if facts is None else f"\n{facts_text(facts)}"),
        no_change_prefixes=prefixes,
        no_change_runs=runs,
        facts=facts,
        familiarity=familiarity,
    )


def _sources(paths: RunPaths) -> tuple[ModelFolder | None, ModelFolder | None]:
    models = (paths.trunk, paths.start)
    trunk, start = (None if model is None else open_model_folder(find_model(model)) for model in models)
    return trunk or start, start or trunk


def _card_of_trained_head(source: ModelFolder | None) -> ModelCard | None:
    if source is None or source.card.parts or source.card.localiser != "change_head":
        return None
    return source.card


def _choose_mask_threshold(
    model: ChangeCaptioner,
    val: Sequence[PairRecord],
    config: Config,
    localiser: str,
    confidence: Confidence,
    rules: SearchRules,
) -> tuple[float, dict[str, float]]:
    """Return the threshold with the best pixel F1 on the validation masks, and that score, if any has one."""
    masked = [record for record in val if record.mask is not None]
    if not masked:
        return 0.5, {}
    maps = None
    if localiser != "change_head":
        flag = None if confidence.calibration is None else confidence.calibration.changed
        maps = Localiser(localiser, confidence.threshold, rules, flag)
    batches = image_batches(masked, size=config.data.size)
    curve = mask_curve(model, batches, bf16=config.train.bf16, localiser=maps)
    return curve.best_threshold(), {"mask_f1": float(curve.f1().max())}


def _fit_facts_if_possible(
    run: Run,
    model: ChangeCaptioner,
    train: Sequence[PairRecord],
    card: ModelCard,
    trunk_source: ModelFolder | None,
) -> FactModel | None:
    """Train the fact heads of a captioner of overhead images with a change head; log why if it fails."""
    settings, facts = run.config.train, None
    overhead = run.config.data.name in OVERHEAD
    if settings.facts and overhead and card.calibration is not None and card.localiser == "change_head":
        if trunk_source is not None and "backbone" in settings.frozen:
            facts = load_facts(trunk_source)  # they fit the same trunk
        try:
            facts = fit_facts_and_roads(run, model, train, card, start=facts)
        except (ExtraNotInstalled, WeightsNotFound) as error:
            _log.warning("%s: %s", "the facts of the start stay" if facts else "no facts are learned", error)
    for folder in (run.paths.roads, run.paths.labelled):
        if folder is not None and facts is None:
            _log.warning("%s is not used: the model has no facts", folder)
    return facts


def fit_facts_and_roads(
    run: Run,
    model: ChangeCaptioner,
    records: Sequence[PairRecord],
    card: ModelCard,
    *,
    start: FactModel | None,
) -> FactModel | None:
    """Train fact heads on captioned pairs and the run's labelled pairs, and a road head on its road masks.

    Args:
        card: gives tile size, GSD and change threshold of the model.

    Other arguments, result and errors are those of :func:`~rscc.training.fact_training.fit_facts`.
    """
    paths, data = run.paths, run.config.data
    config = replace(run.config, data=replace(data, size=card.tile_size, gsd=card.gsd))
    labelled = () if paths.labelled is None else read_labelled(paths.labelled, paths.labels)
    facts = fit_facts(
        model,
        records,
        config,
        threshold=card.threshold,
        start=start,
        labelled=labelled,
        report=run.report,
    )
    if facts is not None and paths.roads is not None:
        facts = replace(facts, roads=fit_roads(model, paths.roads, config, report=run.report))
    return facts


def save_with_facts(path: Path, folder: ModelFolder, facts: FactModel, card: ModelCard) -> None:
    """Write a model folder with the captioner of another and its own facts.

    Args:
        card: of the new folder; its text differs from the other's in the heading and the section on facts.
    """
    text = (folder.path / "CARD.md").read_text(encoding="utf-8").partition(f"\n{FACTS_HEADING}\n")[0]
    _, _, text = text.partition("\n")
    save_model_folder(
        path,
        load_model(folder),
        card=card,
        card_text=f"# {card.name} {card.version}\n{text.rstrip()}\n\n{facts_text(facts)}",
        no_change_prefixes=folder.no_change_prefixes,
        no_change_runs=folder.no_change_runs,
        facts=facts,
        familiarity=load_familiarity(folder),
    )


def int8_ranges(model: ChangeCaptioner, records: Sequence[PairRecord], *, size: int) -> dict[str, float]:
    """Measure the activation ranges for 8-bit inference on training pairs; empty if the trunk has no int8."""
    if model.config.backbone not in TRUNKS or not records:
        return {}
    trunk = copy.deepcopy(model.backbone)
    fold_norms(trunk)
    assert isinstance(model.change_head, ChangeHead)
    device = trunk.mean.device
    pairs = (
        (batch.before.to(device), batch.after.to(device))
        for batch in image_batches(evenly(records, _RANGE_PAIRS), size=size)
        if batch.before is not None and batch.after is not None
    )
    return activation_ranges(trunk, model.change_head, pairs)
