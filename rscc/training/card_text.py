"""The card of a model folder: its fields, and ``CARD.md`` for readers."""

import json
import platform
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

import torch

from rscc.config import SENTENCES, Config
from rscc.evaluation.markdown import percent, table, unit
from rscc.facts.calibration import Calibration, Reliability
from rscc.facts.fact_model import FactModel
from rscc.facts.familiarity import Familiarity
from rscc.facts.road_head import BESIDE, NEW, NEW_METRES
from rscc.facts.rules import SURE_ON_MAPS
from rscc.model_card import ModelCard
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.training.fact_calibration import MIN_F1, MIN_PRECISION
from rscc.training.training_loop import TrainResult
from rscc.training.training_run import Run


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
    """Make the card of a trained model; ``data`` are its pairs in words, without a full stop."""
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


FACTS_HEADING = "## Facts"
_SCORE_NAMES = {
    "cider": "CIDEr, all pairs, greedy",
    "cider_changed": "CIDEr, changed pairs, greedy",
    "flag_accuracy": "changed or not: accuracy, by cross-validation where P(changed) is calibrated",
    "mask_f1": "change mask: pixel F1 at the chosen threshold",
    "mask_f1_at_half": "change mask: pixel F1 at threshold 0.5",
    "threshold": "change probability threshold",
}


@cache
def _texts() -> dict[str, str]:
    file = resources.files("rscc").joinpath("training", "card_texts.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def card_text(card: ModelCard, config: Config) -> str:
    """Return ``CARD.md`` as Markdown; ``config`` is the config of the last training stage."""
    rows = (f"| {_SCORE_NAMES.get(key, key)} | {value:.4g} |" for key, value in card.scores.items())
    choice = "likelihood"
    if card.support:
        choice += f", less what few of the {card.support} sentences of the search name"
    return _texts()["card"].format(
        card=card,
        choice=choice,
        sentences=SENTENCES[card.sentences],
        cost=card.cost or "not measured",
        scores="\n".join(rows),
        kinds=kinds_table(card),
        confidence=confidence_text(card),
        limits="\n".join(f"- {limit}" for limit in card.limits) or "None were written down.",
        settings=json.dumps(asdict(config), indent=1),
    )


def kinds_table(card: ModelCard) -> str:
    """Return a table of the scores by kind of change, or an empty text."""
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
    return _texts()["kinds"].format(table=table(names, rows))


def confidence_text(card: ModelCard) -> str:
    """Return the meaning of P(changed) and of the captions' scores of a model, with figures, as Markdown."""
    calibration, texts = card.calibration or Calibration(), _texts()
    flag, score = calibration.changed, calibration.score
    if flag is not None:
        changed = texts["calibrated"].format(
            flag=flag,
            evidence=f" + {flag.b:.3f} x evidence" if flag.reads_evidence else "",
            meaning=texts["evidence"].format(flag=flag) if flag.reads_evidence else "",
            pairs=sum(flag.bins.counts),
        )
        changed += _reliability_table(flag.bins, "P(changed)", "truly changed")
    else:
        changed = texts["not_learned" if card.changed_threshold == 0 else "uncalibrated"]
    if score is None:
        return f"{changed}\n\n{texts['uncalibrated_score']}"
    text = texts["score"].format(score=score, pairs=sum(score.bins.counts), good=100 * score.good)
    bins = _reliability_table(score.bins, "probability of a good sentence", "good sentences")
    return f"{changed}\n\n{text}{bins}"


def confidence_line(card: ModelCard) -> str:
    """Return the reliability of P(changed) in one line; empty if it is not calibrated."""
    flag = card.flag
    return "" if flag is None else _texts()["confidence_line"].format(card=card, flag=flag)


def _reliability_table(bins: Reliability, predicted: str, observed: str) -> str:
    rows = "\n".join(
        f"| {p:.2f} | {share:.2f} | {count} |"
        for p, share, count in zip(bins.said, bins.found, bins.counts, strict=True)
    )
    return f"\n\n| {predicted}, mean | {observed} | pairs |\n|---|---|---|\n{rows}"


def familiarity_text(measure: Familiarity) -> str:
    """Return the section of ``CARD.md`` on what ground is familiar."""
    return _texts()["familiarity"].format(axes=len(measure.axes))


def facts_text(facts: FactModel) -> str:
    """Return the section of ``CARD.md`` on the facts that a model states."""
    rules, roads = facts.rules, ""
    if facts.roads is not None:
        roads = _texts()["roads"].format(
            beside=BESIDE, new=NEW, new_metres=NEW_METRES, area=facts.roads.stored["area"]
        )
    rows = [(name, *(f"{value:g}" for value in scores.values())) for name, scores in rules.scores.items()]
    columns = ("fact", "changed pairs", "AUC", "F1", "stated", "of these right")
    return _texts()["facts"].format(
        sure=rules.sure[0],
        sure_on_maps=SURE_ON_MAPS,
        min_precision=MIN_PRECISION,
        min_f1=MIN_F1,
        table=table(columns, rows),
        roads=roads,
    )
