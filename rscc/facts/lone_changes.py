"""Changes without buildings, which the change head does not find: new roads and clearings.

The fact heads learnt "came road" and "gone trees" from captions of whole pictures, but a picture pools its
positions, so each position x of the trunk's last maps has its own answer p(x). That of trees outlines a
clearing directly. That of a road extends over its surroundings; the road head decides which of these
positions are road, new(x) of :mod:`rscc.facts.road_head`, so a new road is::

    road(x) = sqrt(new(x) * p(x))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from rscc.facts.answers import ANSWERS
from rscc.facts.heads import bag_logits
from rscc.facts.road_head import CAME_ROAD, new_roads, road_logits
from rscc.facts.rules import FactRules

GONE_TREES = ANSWERS.index("gone trees")


@dataclass(frozen=True)
class LoneKind:
    """A kind of change without buildings.

    Attributes:
        name: kind of the outlines in a report.
        answer: which of :data:`~rscc.facts.answers.ANSWERS` the fact heads must be sure of.
        least: probability from which a position belongs to a change.
        least_mean: minimum mean probability of a change.
        least_m2: minimum area in square metres.
        positions: of the answers of a tile, (len(ANSWERS), h, w) or with as many more as
            :meth:`rscc.captioner.Captioner.survey` gives, and the rules that calibrate them: the probability
            at each position, (h, w) float32 in 0..1; None without the necessary head.
    """

    name: str
    answer: int
    least: float
    least_mean: float
    least_m2: float
    positions: Callable[[np.ndarray, FactRules], np.ndarray | None]

    def in_tile(self, answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
        """Return the probabilities of a tile; None if none reaches :attr:`least`. Arguments as above."""
        positions = self.positions(answers, rules)
        return positions if positions is not None and positions.max() >= self.least else None


def _new_road(answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
    logits = road_logits(answers)
    if logits is None:
        return None
    came: np.ndarray = rules.probability(CAME_ROAD, answers[CAME_ROAD]).astype(np.float32)
    return np.sqrt(new_roads(logits) * came)


def _cleared(answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
    """Return the probabilities averaged with those around: single positions are noisy."""
    values: np.ndarray = rules.probability(GONE_TREES, answers[GONE_TREES]).astype(np.float32)
    return ndimage.uniform_filter(values, 3, mode="nearest")


# All limits were chosen on held-out locations.
ROAD = LoneKind("road", CAME_ROAD, least=0.3, least_mean=0.3, least_m2=384.0, positions=_new_road)
"""At least 6 positions of 8 m."""
CLEARING = LoneKind("clearing", GONE_TREES, least=0.5, least_mean=0.6, least_m2=512.0, positions=_cleared)
"""At least 8 positions of 8 m. Standing woods without leaves, or in snow, seldom reach the mean."""
KINDS = (ROAD, CLEARING)
"""In this order: a clearing along a new road is covered by the sentence of the road."""


def lone_answers(answers: np.ndarray, rules: FactRules, metres: float) -> dict[str, float]:
    """Return the answers of changes without buildings in a picture, each with its logit.

    Args:
        answers: of the picture, see :class:`LoneKind`; rules: on maps.
        metres: the side of a position.
    """
    found: dict[str, float] = {}
    for kind in KINDS:
        positions = kind.in_tile(answers, rules)
        if positions is None:
            continue
        labels, count = ndimage.label(positions >= kind.least)
        for region in (labels == number for number in range(1, count + 1)):
            if region.sum() * metres**2 < kind.least_m2 or positions[region].mean() < kind.least_mean:
                continue
            (logit,) = bag_logits(answers[[kind.answer]][:, region], np.ones(region.sum()))
            if rules.is_sure(kind.answer, logit):
                name = ANSWERS[kind.answer]
                found[name] = max(found.get(name, -np.inf), float(logit))
    return found


def largest_probability(lone: Mapping[str, float], rules: FactRules) -> float:
    """Return the largest probability of :func:`lone_answers`, 0..1; 0 without any."""
    found = (rules.probability(ANSWERS.index(name), np.array(logit)) for name, logit in lone.items())
    return float(max(found, default=0.0))
