"""A head on a frozen trunk that tells where roads are, and what that says of a change on a map.

A small network r looks at the trunk's last maps of one date and gives each position x a logit; p is its
sigmoid, the probability that a road is there. A road is new where there is one now and was none before, there
or beside it, for two dates never lie on each other to the pixel::

    new(x) = p_after(x) * (1 - max p_before(y)),  y at most one position from x

It learns from road masks of single dates, which mark no drives. The fact heads learnt what people say of
whole pictures, drives and all, so a road that they tell of is stated only where this head finds one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy import ndimage
from scipy.special import expit
from torch import Tensor, nn

from rscc.inference.fact_heads import ANSWERS

CHANNELS = 2
"""Maps of logits that tell of roads: those of the date before and of the date after."""
CAME_ROAD = ANSWERS.index("came road")
BESIDE = 0.5
"""Probability of a road near a change from which one is stated at all, chosen on held-out places."""
BESIDE_METRES = 16.0
"""How much of it is as sure at least beside a change on a map, by validation scenes: drives are shorter.

People call a drive a road, so in a picture one position does.
"""
NEW, NEW_METRES = 0.3, 40.0
"""Probability of a new road from which one is said to be built, and how much of it is as sure at least."""


class RoadHead(nn.Module):
    """The network r; its input is brought to mean 0 and variance 1 first.

    Attributes:
        stored: what it is made of anew: its sizes, and the area under the ROC curve on images held out.
    """

    def __init__(self, *, channels: int, hidden: int = 64, area: float = 0.0) -> None:
        super().__init__()
        self.stored = {"channels": channels, "hidden": hidden, "area": area}
        self.mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.scale = nn.Parameter(torch.ones(channels), requires_grad=False)
        self.layers = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Dropout(0.2),
            nn.Linear(channels, hidden),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.Linear(hidden, 1),
        )

    def forward(self, positions: Tensor) -> Tensor:
        """Return the logits (...) of positions (..., C) of the trunk's last maps of one date."""
        logits: Tensor = self.layers((positions - self.mean) / self.scale)[..., 0]
        return logits

    def maps(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the logits of both dates, (B, :data:`CHANNELS`, h, w), of their last maps (B, C, h, w)."""
        return torch.stack([self(maps.movedim(1, -1)) for maps in (before, after)], 1)


@dataclass(frozen=True)
class RoadEvidence:
    """What is known of roads near a change.

    Attributes:
        standing: the probability of a road on the date after, 0..1, that enough of it reaches.
        new: the probability of a new road that :data:`NEW_METRES` of it reach, 0..1.
    """

    standing: float
    new: float

    @property
    def absent(self) -> frozenset[str]:
        """The answers of the fact heads that no road near the change bears out."""
        found = {"came road": self.new >= NEW, "around road": self.standing >= BESIDE}
        return frozenset(name for name, is_found in found.items() if not is_found)


def road_logits(answers: np.ndarray) -> np.ndarray | None:
    """Return those of roads among the answers of a tile, (:data:`CHANNELS`, h, w); None without a head.

    Args:
        answers: (len(ANSWERS), h, w), or as many more, see :meth:`rscc.captioner.Captioner.survey`.
    """
    logits = answers[len(ANSWERS) :]
    return logits if len(logits) else None


def new_roads(logits: np.ndarray) -> np.ndarray:
    """Return the probability that a new road is at each position, (h, w) float32 in 0..1.

    Args:
        logits: (:data:`CHANNELS`, h, w), see :meth:`RoadHead.maps`.
    """
    before, after = expit(logits.astype(np.float32))
    new: np.ndarray = after * (1 - ndimage.maximum_filter(before, 3, mode="nearest"))
    return new


def road_maps(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of a road on the date after and of a new one, (2, h, w); as above."""
    return np.stack([expit(logits[1].astype(np.float32)), new_roads(logits)])


def picture_roads(logits: np.ndarray, metres: float) -> RoadEvidence:
    """Return what is known of roads in a picture ``metres`` wide; ``logits`` as in :func:`new_roads`."""
    standing, new = road_maps(logits).reshape(2, -1)
    return road_evidence(standing, new, metres / logits.shape[-1])


def road_evidence(standing: np.ndarray, new: np.ndarray, metres: float, least: float = 0.0) -> RoadEvidence:
    """Return what the positions near a change tell.

    Args:
        standing, new: (n,) in 0..1, probabilities of a road on the date after and of a new one.
        metres: the side of a position.
        least: metres of a standing road that are enough.
    """

    def reached(probabilities: np.ndarray, length: float) -> float:
        count = max(1, math.ceil(length / metres))
        return float(np.sort(probabilities)[-count]) if len(probabilities) >= count else 0.0

    return RoadEvidence(reached(standing, least), reached(new, NEW_METRES))
