"""What is found where the change head, which knows buildings, finds nothing: new roads and clearings.

The road head answers for positions of the trunk's last maps, and so do the fact heads: they learnt "gone
trees" from what people said of whole pictures, but a picture pools its positions, so that each has an answer
of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from rscc.inference.fact_heads import ANSWERS, FactRules
from rscc.inference.roads import CAME_ROAD, NEW, new_roads, road_logits

GONE_TREES = ANSWERS.index("gone trees")
CLEARED, CLEARED_MEAN = 0.5, 0.6
"""Probability of a position from which it belongs to a clearing, and the mean of a whole one at least.

Chosen on held-out places. Woods that stand without leaves, or in snow, seldom have such a mean.
"""


@dataclass(frozen=True)
class LoneKind:
    """A kind of change that may lie by itself.

    Attributes:
        name: of what its outlines are, as a report has it.
        answer: which of :data:`~rscc.inference.fact_heads.ANSWERS` the fact heads must be sure of.
        least: probability of a position from which it belongs to one.
        least_m2: square metres of the smallest.
        positions: of the answers of a tile, (len(ANSWERS), h, w) or with as many more as
            :meth:`rscc.captioner.Captioner.survey` gives, and the rules that calibrate them: the probability
            at each position, (h, w) float32 in 0..1; None where the model cannot tell.
    """

    name: str
    answer: int
    least: float
    least_m2: float
    positions: Callable[[np.ndarray, FactRules], np.ndarray | None]

    def in_tile(self, answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
        """Return the positions of a tile; None where it has none of this kind. Arguments as above."""
        positions = self.positions(answers, rules)
        return positions if positions is not None and positions.max() >= self.least else None


def _new_road(answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
    logits = road_logits(answers)
    return None if logits is None else new_roads(logits)


def _cleared(answers: np.ndarray, rules: FactRules) -> np.ndarray | None:
    """Return the means of positions and those around them: a single one tells more of its picture."""
    values: np.ndarray = rules.probability(GONE_TREES, answers[GONE_TREES]).astype(np.float32)
    return ndimage.uniform_filter(values, 3, mode="nearest")


ROAD = LoneKind("road", CAME_ROAD, NEW, 320.0, _new_road)
"""40 m by a position of 8 m at least."""
CLEARING = LoneKind("clearing", GONE_TREES, CLEARED, 512.0, _cleared)
"""8 positions of 8 m at least."""
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
