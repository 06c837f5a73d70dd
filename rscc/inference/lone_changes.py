"""What is found where the change head, which knows buildings, finds nothing: new roads and clearings.

The fact heads learnt "came road" and "gone trees" from what people said of whole pictures, but a picture
pools its positions, so that each position x of the trunk's last maps has an answer p(x) of its own. That of
trees outlines a clearing by itself. That of a road spreads over what came with it; the road head tells
which of these positions are road, new(x) of :mod:`rscc.inference.roads`, so a new road is::

    road(x) = sqrt(new(x) * p(x))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from rscc.inference.fact_heads import ANSWERS, FactRules, bag_logits
from rscc.inference.roads import CAME_ROAD, new_roads, road_logits

GONE_TREES = ANSWERS.index("gone trees")


@dataclass(frozen=True)
class LoneKind:
    """A kind of change that may lie by itself.

    Attributes:
        name: of what its outlines are, as a report has it.
        answer: which of :data:`~rscc.inference.fact_heads.ANSWERS` the fact heads must be sure of.
        least: probability of a position from which it belongs to one.
        least_mean: the mean of a whole one at least.
        least_m2: square metres of the smallest.
        positions: of the answers of a tile, (len(ANSWERS), h, w) or with as many more as
            :meth:`rscc.captioner.Captioner.survey` gives, and the rules that calibrate them: the probability
            at each position, (h, w) float32 in 0..1; None where the model cannot tell.
    """

    name: str
    answer: int
    least: float
    least_mean: float
    least_m2: float
    positions: Callable[[np.ndarray, FactRules], np.ndarray | None]

    def in_tile(self, answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
        """Return the positions of a tile; None where it has none of this kind. Arguments as above."""
        positions = self.positions(answers, rules)
        return positions if positions is not None and positions.max() >= self.least else None


def _new_road(answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
    logits = road_logits(answers)
    if logits is None:
        return None
    came: np.ndarray = rules.probability(CAME_ROAD, answers[CAME_ROAD]).astype(np.float32)
    return np.sqrt(new_roads(logits) * came)


def _cleared(answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
    """Return the means of positions and those around them: a single one tells more of its picture."""
    values: np.ndarray = rules.probability(GONE_TREES, answers[GONE_TREES]).astype(np.float32)
    return ndimage.uniform_filter(values, 3, mode="nearest")


# All limits were chosen on held-out places.
ROAD = LoneKind("road", CAME_ROAD, least=0.3, least_mean=0.3, least_m2=384.0, positions=_new_road)
"""6 positions of 8 m at least."""
CLEARING = LoneKind("clearing", GONE_TREES, least=0.5, least_mean=0.6, least_m2=512.0, positions=_cleared)
"""8 positions of 8 m at least. Woods that stand without leaves, or in snow, seldom have such a mean."""
KINDS = (ROAD, CLEARING)
"""In this order: where both are, a clearing along a new road is told by the sentence of the road."""


def may_hold_lone_change(answers: np.ndarray, rules: FactRules) -> bool:
    """Return whether a tile may hold one that the fact heads are sure of; arguments as of :class:`LoneKind`.

    No region is surer of an answer than the surest of its positions.
    """
    return any(
        rules.is_sure(kind.answer, answers[kind.answer].max()) and kind.in_tile(answers, rules) is not None
        for kind in KINDS
    )


def lone_answers(answers: np.ndarray, rules: FactRules, metres: float) -> dict[str, float]:
    """Return the answers of changes that lie by themselves in a picture, each with its logit there.

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


def surest(lone: Mapping[str, float], rules: FactRules) -> float:
    """Return the probability of the surest of :func:`lone_answers`, 0..1; 0 without any."""
    found = (rules.probability(ANSWERS.index(name), np.array(logit)) for name, logit in lone.items())
    return float(max(found, default=0.0))
