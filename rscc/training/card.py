"""The card of a model folder as a page for people; figures come from the run, words from the config."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any

import torch

from rscc.config import SENTENCES, Config
from rscc.inference.calibration import Calibration, FlagCalibration, Reliability, ScoreCalibration
from rscc.inference.fact_heads import SURE_ON_MAPS
from rscc.inference.facts import FactModel
from rscc.inference.roads import BESIDE, NEW, NEW_METRES
from rscc.markdown import percent, table, unit
from rscc.model_folder import ModelCard
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.training.fact_rules import LEAST_F1, LEAST_RIGHT
from rscc.training.loop import TrainResult
from rscc.training.start import Run


def device_words(model: ChangeCaptioner) -> str:
    """Name the device that a model lies on."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    count = torch.get_num_threads()
    return f"{count} {'thread' if count == 1 else 'threads'} of a {platform.machine()} CPU"


def make_card(
    run: Run,
    model: ChangeCaptioner,
    result: TrainResult,
    *,
    data: str,
    scores: Mapping[str, float],
    **fields: Any,
) -> ModelCard:
    """Make the card of a trained model.

    Args:
        run: gives what the card states of sizes, licence and limits.
        model: on the device of the training.
        data: training and validation data, without a full stop.
        fields: the other fields of the card.
    """
    config, card = run.config, run.config.card
    stated: dict[str, Any] = {
        name: getattr(card, name) for name in ("version", "licence", "limits", "sentences", "search_size")
    }
    return ModelCard(
        name=run.name,
        paper=config.model.paper,
        weights_sha256="",
        gsd=config.data.gsd,
        gsd_range=card.gsd_range,
        tile_size=config.data.size,
        data=f"{data}. {card.data}".strip(),
        trained=f"`{run.command}`, {result.seconds / 60:.0f} minutes on {device_words(model)}",
        scores={key: round(value, 4) for key, value in scores.items()},
        **stated | fields,
    )


_SCORE_NAMES = {
    "cider": "CIDEr, all pairs, greedy",
    "cider_changed": "CIDEr, changed pairs, greedy",
    "flag_accuracy": "changed or not: accuracy, by cross-validation where P(changed) is calibrated",
    "mask_f1": "change mask: pixel F1 at the chosen threshold",
    "mask_f1_at_half": "change mask: pixel F1 at threshold 0.5",
    "threshold": "change probability threshold",
}


def card_text(card: ModelCard, config: Config) -> str:
    """Write the card of ``card`` as Markdown; ``config`` is the config of its last training stage."""
    rows = "\n".join(f"| {_SCORE_NAMES.get(key, key)} | {value:.4g} |" for key, value in card.scores.items())
    limits = "\n".join(f"- {limit}" for limit in card.limits)
    return f"""# {card.name} {card.version}

{card.description}

| | |
|---|---|
| paper | {card.paper} |
| input | two dates, RGB, {card.tile_size} x {card.tile_size} px tiles at {card.gsd:g} m per pixel |
| meant for | scenes of {card.gsd_range[0]:g} to {card.gsd_range[1]:g} m per pixel |
| polygons from | {card.localisation}; threshold {card.threshold:g} |
| changed or not | P(changed) of at least {card.changed_threshold:.3f} |
| captions chosen by | {_choice(card)} |
| sentences from | {SENTENCES[card.sentences]} |
| trained on | {card.data} |
| trained by | {card.trained} |
| licence | {card.licence} |
| time and energy | {card.cost or "not measured"} |

## Scores on the validation split

The checkpoint and both thresholds were chosen on this split, so these figures flatter the model: judge it by
pairs that had no part in its making (`rscc evaluate`).

| score | value |
|---|---|
{rows}
{kinds_table(card)}
## Confidence

{confidence_text(card)}

## Limits

{limits or "None were written down."}

## Settings of the last stage

```json
{json.dumps(config.to_dict(), indent=1)}
```
"""


def _choice(card: ModelCard) -> str:
    if card.support:
        return f"likelihood, less what few of the {card.support} sentences of the search name"
    return "likelihood"


def kinds_table(card: ModelCard) -> str:
    """Write a table of the scores by kind of change; empty without any."""
    if not card.kinds:
        return ""
    rows = [
        (
            kind,
            f"{scores['pairs']:.0f}",
            unit(scores["called_changed"]),
            percent(scores.get("cider")),
            unit(scores.get("other_objects")),
        )
        for kind, scores in card.kinds.items()
    ]
    names = ("kind of change", "pairs", "called changed", "CIDEr", "names other objects")
    head = "By kind of change; a pair may be of several, and each is scored alone:"
    return f"\n{head}\n\n{table(names, rows)}\n"


def confidence_text(card: ModelCard) -> str:
    """Say in Markdown what P(changed) and the captions' scores of a model mean, with the figures."""
    calibration = card.calibration or Calibration()
    if calibration.changed is not None:
        changed = _flag_text(calibration.changed)
    elif card.changed_threshold == 0:
        changed = "P(changed) was not learnt: the words of the caption say whether anything changed."
    else:
        changed = "P(changed) is the network's own and is not calibrated."
    if calibration.score is not None:
        return f"{changed}\n\n{_score_text(calibration.score)}"
    return (
        f"{changed}\n\n"
        "A caption's score is the geometric mean of its words' probabilities, not a chance of being right."
    )


def _flag_text(flag: FlagCalibration) -> str:
    evidence, meaning = "", ""
    if flag.reads_evidence:
        evidence = f" + {flag.b:.3f} x evidence"
        meaning = f"; the evidence is the logit of change that {flag.pixels} pixels of the tile reach"
    return " ".join(
        (
            "P(changed) is the probability that anything changed in a tile:",
            f"sigmoid({flag.a:.3f} x logit{evidence} {flag.c:+.3f}){meaning}.",
            f"It was fitted on {sum(flag.bins.counts)} validation pairs.",
            f"From {flag.threshold:.3f} a tile is called changed: precision {flag.precision:.3f},",
            f"recall {flag.recall:.3f}, accuracy {flag.accuracy:.3f}.",
            f"Expected calibration error {flag.error_before:.3f} before, {flag.error_after:.3f} after;",
            f"mean squared error {flag.brier_before:.3f} before, {flag.brier_after:.3f} after.",
            "The figures are by ten-fold cross-validation.",
        )
    ) + _reliability_table(flag.bins, "P(changed)", "truly changed")


def _score_text(score: ScoreCalibration) -> str:
    return " ".join(
        (
            "A caption's score is P(changed), or 1 where it is known that something changed, times the",
            "probability that the sentence is good for a change: that it agrees with what people say of the",
            f"pair as well as three of four people do (CIDEr of at least {score.level:.1f}).",
            f"It was fitted on {sum(score.bins.counts)} validation pairs that changed and are called",
            f"changed, of which {100 * score.good:.0f} percent got a good sentence.",
            f"Expected calibration error {score.error_before:.3f} before (the geometric mean of the words'",
            f"probabilities), {score.error_after:.3f} after;",
            f"mean squared error {score.brier_before:.3f} before, {score.brier_after:.3f} after;",
            "by ten-fold cross-validation.",
            'The score of "no change" is 1 - P(changed).',
        )
    ) + _reliability_table(score.bins, "probability of a good sentence", "good sentences")


def confidence_line(card: ModelCard) -> str:
    """Say in one line how far P(changed) of a model can be trusted; empty where it is not calibrated."""
    flag = None if card.calibration is None else card.calibration.changed
    if flag is None:
        return ""
    return (
        f"changed from P(changed) {card.changed_threshold:.2f}: precision {flag.precision:.2f}, "
        f"recall {flag.recall:.2f}, calibration error {flag.error_after:.3f} (validation)"
    )


def _reliability_table(bins: Reliability, predicted: str, observed: str) -> str:
    rows = "\n".join(
        f"| {p:.2f} | {share:.2f} | {count} |"
        for p, share, count in zip(bins.said, bins.found, bins.counts, strict=True)
    )
    return f"\n\n| {predicted}, mean | {observed} | pairs |\n|---|---|---|\n{rows}"


FACTS_HEADING = "## Facts"


def facts_text(facts: FactModel) -> str:
    """Return the section of ``CARD.md`` on the facts that a model tells."""
    rules, roads = facts.rules, ""
    if facts.roads is not None:
        roads = f"""
A road is stated only where one is found: from a probability of {BESIDE:g}, a new one from {NEW:g} along
{NEW_METRES:g} m. Road masks of single dates taught this; on images held out, positions with road are told
from others with an AUC of {facts.roads.stored["area"]:g}.
"""
    rows = [(name, *(f"{value:g}" for value in scores.values())) for name, scores in rules.scores.items()]
    columns = ("fact", "changed pairs", "AUC", "F1", "stated", "of these right")
    return f"""{FACTS_HEADING}

Sentences are made of facts, each stated from a calibrated probability of {rules.sure[0]:g},
on maps what came or is gone from {SURE_ON_MAPS:g}. The labels are what at least two references of a
training pair state, or its only one. Area under the ROC curve (AUC) and F1 are of changed training pairs,
each answered by heads that did not learn from its place. Never stated is what they stated less than
{LEAST_RIGHT:.0%} rightly there, or with an F1 below {LEAST_F1:g}; of what came and what is gone the better
one counts.

{table(columns, rows)}
{roads}"""
