"""Captions of encoded pairs of pictures: sentences from facts, or from the decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from rscc.facts.answers import ANSWERS
from rscc.facts.calibration import changed_probability
from rscc.facts.heads import region_logits
from rscc.facts.lone_changes import largest_probability, lone_answers
from rscc.facts.road_head import picture_roads, road_logits
from rscc.structures import NO_CHANGE_CAPTION, Caption, ChangePrediction, DifferenceFeatures
from rscc.text.no_change import is_no_change
from rscc.text.statements import PLACE_WORDS, without_place
from rscc.weights import check_finite

if TYPE_CHECKING:
    from rscc.facts.fact_model import FactModel
    from rscc.model_card import ModelCard
    from rscc.models.shared.captioner import ChangeCaptioner
    from rscc.models.shared.generation import SearchRules


def fact_answers(
    facts: FactModel, before: torch.Tensor, after: torch.Tensor, change: torch.Tensor
) -> torch.Tensor:
    """Return the logits of fact heads and road head at every position, (B, K, h, w).

    ``before`` and ``after`` (B, C, h, w) are the trunk's last maps, ``change`` (B, H, W) is in 0..1.
    """
    before, after = before.float(), after.float()
    with torch.autocast(before.device.type, enabled=False):
        answers = facts.heads.maps(before, after, change)
        if facts.roads is not None:
            answers = torch.cat([answers, facts.roads.maps(before, after)], 1)
    return answers


def with_lone_changes(
    facts: FactModel, card: ModelCard, found: ChangePrediction, answers: torch.Tensor
) -> tuple[ChangePrediction, list[dict[str, float]]]:
    """Let new roads and clearings count as changes of pairs in which the change head finds nothing.

    Returns the prediction, and for each pair the answers of :func:`rscc.facts.lone_changes.lone_answers`.
    """
    rules = facts.rules.on_maps()
    metres = card.gsd * found.change_probability.shape[-1] / answers.shape[-1]
    probability, lone = found.changed_probability.copy(), [dict[str, float]() for _ in answers]
    for number in np.flatnonzero(probability < card.changed_threshold):
        lone[number] = lone_answers(answers[number].cpu().numpy(), rules, metres)
        probability[number] = max(probability[number], largest_probability(lone[number], rules))
    return ChangePrediction(found.change_probability, probability), lone


def fact_captions(
    facts: FactModel,
    card: ModelCard,
    prediction: ChangePrediction,
    answers: torch.Tensor,
    lone: list[dict[str, float]],
    assume_changed: bool,
) -> list[Caption]:
    """Describe B pairs by facts; an unchanged one gets the fixed sentence.

    Args:
        answers: (B, K, h, w), logits as :meth:`rscc.captioner.Captioner.survey` returns them.
        lone: per pair the answers of changes without buildings, see
            :func:`rscc.facts.lone_changes.lone_answers`.
    """
    masks = prediction.change_probability >= card.threshold
    mask = torch.from_numpy(masks).to(answers.device)
    fact_maps, regions = answers[:, : len(ANSWERS)], (torch.ones_like(mask), mask)
    logits, closer = (region_logits(fact_maps, region).cpu().numpy() for region in regions)
    captions: list[Caption] = []
    for number, probability in enumerate(prediction.changed_probability.tolist()):
        if not assume_changed and probability < card.changed_threshold:
            captions.append(_no_change(probability))
            continue
        roads = road_logits(answers[number].cpu().numpy())
        found = facts.picture_caption(
            logits[number],
            closer[number],
            masks[number],
            1.0 if assume_changed else probability,
            gsd=card.gsd,
            roads=None if roads is None else picture_roads(roads, card.gsd * masks.shape[-1]),
            lone=lone[number],
        )
        captions.append(found)
    return captions


def decoder_captions(
    model: ChangeCaptioner,
    card: ModelCard,
    features: DifferenceFeatures,
    rules: SearchRules,
    *,
    beams: int = 3,
    assume_changed: bool = False,
    placeless: bool = False,
    gated: bool = True,
) -> list[Caption]:
    """Describe encoded pairs by the decoder; arguments as :meth:`rscc.captioner.Captioner.caption`."""
    if beams < 1:
        raise ValueError(f"beams must be at least 1; got {beams}")
    # Without a gate, or a learnt P(changed), the decoder itself states whether anything changed.
    threshold = card.changed_threshold if gated else 0.0
    flagged = assume_changed or threshold > 0
    words = model.vocabulary.words
    hypotheses = model.generate_from(
        features,
        beams=beams,
        rules=rules if flagged else None,
        support=card.support,
        avoided=[number for number, word in enumerate(words) if word in PLACE_WORDS] if placeless else (),
    )
    likelihoods = torch.tensor([ranked[0].score for ranked in hypotheses])
    changes = torch.ones_like(likelihoods) if assume_changed else changed_probability(features, card.flag)
    check_finite(card.name, likelihoods, changes)
    captions = []
    for probability, ranked in zip(changes.tolist(), hypotheses, strict=True):
        if not assume_changed and probability < threshold:
            captions.append(_no_change(probability))
            continue
        sentences = [model.vocabulary.decode(one.ids) for one in ranked]
        text, *others = dict.fromkeys(map(without_place, sentences) if placeless else sentences)
        likelihood = ranked[0].score
        changed = flagged or not is_no_change(text)
        score = _score(card, likelihood, probability) if changed else likelihood
        captions.append(Caption(text, score, changed, tuple(others), likelihood))
    return captions


def _no_change(probability: float) -> Caption:
    return Caption(text=NO_CHANGE_CAPTION, score=1 - probability, changed=False)


def _score(card: ModelCard, likelihood: float, probability: float) -> float:
    calibration = card.calibration
    if calibration is None or calibration.score is None:
        return likelihood
    changed = probability if card.changed_threshold > 0 else 1.0
    return changed * calibration.score.probability(likelihood)
