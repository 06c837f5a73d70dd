"""The end of a training run: thresholds chosen on the validation split, the card, the model folder."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rscc.config import Config
from rscc.data.labels import read_labelled
from rscc.data.pairs import PairRecord, truly_changed
from rscc.errors import ExtraNotInstalled, WeightsNotFound
from rscc.evaluation.run import OVERHEAD
from rscc.evaluation.scoring import KindScores, score_kinds
from rscc.inference.calibration import Calibration, FlagCalibration, evidence_pixels, sigmoid
from rscc.inference.int8 import TRUNKS, activation_ranges
from rscc.inference.localisers import LOCALISERS
from rscc.model_folder import (
    LOCALISATIONS,
    ModelCard,
    ModelFolder,
    find_model,
    load_facts,
    load_model,
    open_model_folder,
    save_model_folder,
)
from rscc.models.shared.backbone import fold_norms
from rscc.models.shared.blocks import ChangeHead
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.search_rules import SearchRules
from rscc.sequences import evenly
from rscc.training.caching import NOTHING, Caches
from rscc.training.calibration import answer_pairs, best_threshold, calibrate
from rscc.training.card import FACTS_HEADING, card_text, facts_text, make_card
from rscc.training.facts import fit_facts
from rscc.training.loop import TrainResult
from rscc.training.no_change import learns_the_flag, no_change_prefixes, no_change_runs
from rscc.training.roads import fit_roads
from rscc.training.start import Run, RunPaths, sees_as_start
from rscc.training.validation import MaskCurve, image_batches, mask_curve, masked_batches

_log = logging.getLogger(__name__)

# Training pairs that the trunk's activations are measured on.
_RANGED_PAIRS = 64

if TYPE_CHECKING:
    from pathlib import Path

    from rscc.inference.facts import FactModel


def finish(
    run: Run,
    model: ChangeCaptioner,
    result: TrainResult,
    *,
    val: Sequence[PairRecord],
    captions: Sequence[PairRecord],
    val_caches: Caches = NOTHING,
) -> ModelFolder:
    """Choose the thresholds on the validation split and write the model folder with its card.

    Args:
        model: with the best weights.
        captions: the training pairs, for the "no change" beginnings and runs of words.
        val_caches: of ``val``.
    """
    config, paths = run.config, run.paths
    sources = [open_model_folder(find_model(one)) for one in (paths.trunk, paths.start) if one is not None]
    # The trunk may come from elsewhere than the words.
    origin, speaker = (sources[0], sources[-1]) if sources else (None, None)
    prefixes = no_change_prefixes(captions)
    runs = no_change_runs(captions, () if speaker is None else speaker.no_change_runs)
    rules = model.search_rules(prefixes, runs)
    head = None if origin is None else origin.card
    if head is not None and (head.parts or head.localiser != "change_head"):
        head = None
    learns_head = head is not None or config.loss.get("change_mask", 0) > 0
    localiser = "change_head" if learns_head else model.localiser
    confidence = Confidence()
    if any(weight > 0 and term != "change_mask" for term, weight in config.loss.items()):
        confidence = measure_confidence(
            model,
            val,
            config,
            caches=val_caches,
            by_head=localiser == "change_head",
            rules=rules if learns_the_flag(config, captions) else None,
            start=_known_flag(speaker, paths, config),
        )
    threshold, mask_scores = 0.5, {}
    masked = any(record.mask is not None for record in val)
    if head is not None and {"backbone", "change_head"} <= set(config.train.frozen):
        threshold = head.threshold  # the same trunk and head, so the same scores
        mask_scores = {key: value for key, value in head.scores.items() if masked and key == "mask_f1"}
    elif masked:
        curve = _mask_curve(model, val, config, localiser, confidence, rules)
        threshold, mask_scores = curve.best_threshold(), {"mask_f1": float(curve.f1().max())}
    card = make_card(
        run,
        model,
        result,
        data=f"{config.data.name}: {len(captions)} training and {len(val)} validation pairs",
        scores=result.best_scores | confidence.scores | mask_scores,
        description=config.card.description
        or f"{config.model.paper.upper()} on {config.model.backbone}, trained on {config.data.name}",
        threshold=threshold,
        changed_threshold=confidence.threshold,
        localisation=LOCALISATIONS[localiser],
        localiser=localiser,
        calibration=confidence.calibration,
        support=config.card.support,
        kinds=confidence.kinds,
        cost=config.card.cost,
        ranges=int8_ranges(model, captions, size=config.data.size),
    )
    facts = None
    tells = config.train.facts and confidence.calibration is not None and config.data.name in OVERHEAD
    if tells and localiser == "change_head":
        if origin is not None and "backbone" in config.train.frozen:
            facts = load_facts(origin)  # the same trunk, so they hold
        try:
            facts = facts_and_roads(run, model, captions, card, start=facts)
        except (ExtraNotInstalled, WeightsNotFound) as error:
            kept = "keep the facts of the start" if facts else "tell no facts"
            _log.warning("the model will %s: %s", kept, error)
    for folder in (paths.roads, paths.labelled):
        if folder is not None and facts is None:
            _log.warning("%s is not learnt from: the model tells no facts", folder)
    return save_model_folder(
        paths.output / "model",
        model,
        card=card,
        card_text=card_text(card, config) + ("" if facts is None else f"\n{facts_text(facts)}"),
        no_change_prefixes=prefixes,
        no_change_runs=runs,
        facts=facts,
    )


def facts_and_roads(
    run: Run,
    model: ChangeCaptioner,
    records: Sequence[PairRecord],
    card: ModelCard,
    *,
    start: FactModel | None,
) -> FactModel | None:
    """Learn what a model tells facts by, and roads where the run is given some; all see what its card says.

    Pairs with labels, where the run is given some, are learnt from too.

    Arguments, values and errors are else those of :func:`~rscc.training.facts.fit_facts`.
    """
    settings, paths = run.config.train, run.paths
    how: dict[str, Any] = {"size": card.tile_size, "seed": settings.seed, "report": run.report}
    labelled = () if paths.labelled is None else read_labelled(paths.labelled, paths.labels)
    facts = fit_facts(
        model,
        records,
        threshold=card.threshold,
        bf16=settings.bf16,
        start=start,
        labelled=labelled,
        **how,
    )
    if facts is not None and paths.roads is not None:
        facts = replace(facts, roads=fit_roads(model, paths.roads, gsd=card.gsd, **how))
    return facts


def save_with_facts(path: Path, folder: ModelFolder, facts: FactModel, card: ModelCard) -> None:
    """Write a model folder with the captioner of another and facts of its own.

    Args:
        card: of the new folder; its text is that of the other, but for the heading and the section on facts.
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
    )


def _known_flag(start: ModelFolder | None, paths: RunPaths, config: Config) -> FlagCalibration | None:
    """Return what P(changed) of the start is calibrated by, if trunk and change head are still its own."""
    if start is None or start.card.calibration is None or not sees_as_start(paths, config):
        return None
    return start.card.calibration.changed


def int8_ranges(model: ChangeCaptioner, records: Sequence[PairRecord], *, size: int) -> dict[str, float]:
    """Measure on training pairs what a model needs to compute in 8-bit integers; nothing where it cannot."""
    if model.config.backbone not in TRUNKS or not records:
        return {}
    trunk = copy.deepcopy(model.backbone)
    fold_norms(trunk)
    assert isinstance(model.change_head, ChangeHead)
    device = trunk.mean.device
    pairs = (
        (batch.before.to(device), batch.after.to(device))
        for batch in image_batches(evenly(records, _RANGED_PAIRS), size=size)
        if batch.before is not None and batch.after is not None
    )
    return activation_ranges(trunk, model.change_head, pairs)


def _mask_curve(
    model: ChangeCaptioner,
    val: Sequence[PairRecord],
    config: Config,
    localiser: str,
    confidence: Confidence,
    rules: SearchRules,
) -> MaskCurve:
    """Count the pixels of the validation masks by a trained change head, or by another localiser."""
    untrained = None
    if localiser != "change_head":
        flag = None if confidence.calibration is None else confidence.calibration.changed
        untrained = LOCALISERS[localiser](confidence.threshold, rules, flag)
    batches = masked_batches(val, size=config.data.size)
    return mask_curve(model, batches, bf16=config.train.bf16, localiser=untrained)


@dataclass(frozen=True)
class Confidence:
    """What the validation split shows of a model.

    Attributes:
        calibration: of P(changed) and the captions' scores; None for a model without captions.
        threshold: of P(changed); 0 where it was not learnt.
        scores: accuracy with the threshold.
        kinds: see :func:`~rscc.evaluation.scoring.score_kinds`.
    """

    calibration: Calibration | None = None
    threshold: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)
    kinds: KindScores = field(default_factory=dict)


def measure_confidence(
    model: ChangeCaptioner,
    val: Sequence[PairRecord],
    config: Config,
    *,
    caches: Caches,
    by_head: bool,
    rules: SearchRules | None,
    start: FlagCalibration | None = None,
) -> Confidence:
    """Fit P(changed) and the captions' scores of a model, and score each kind of change.

    Args:
        model: in evaluation mode.
        val: the pairs to fit on.
        caches: of ``val``.
        by_head: whether its change head was trained.
        rules: of captions that name a change; None where P(changed) was not learnt.
        start: what P(changed) of the model that this one was tuned from is calibrated by.
    """
    pixels = evidence_pixels(config.data.gsd)
    answers = answer_pairs(
        model,
        val,
        size=config.data.size,
        pixels=pixels,
        by_head=by_head,
        rules=rules,
        caches=caches,
        bf16=config.train.bf16,
        support=config.card.support,
    )
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
