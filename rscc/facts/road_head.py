"""A head on a frozen trunk that finds roads, and the evidence of roads near a change on a map.

A small network r reads the trunk's last map of one date and gives each position x a logit; p is its sigmoid,
the probability of a road there. A road is new where there is one after and there was none before, at the
position or beside it, because two dates are never aligned to the pixel::

    new(x) = p_after(x) * (1 - max p_before(y)),  y at most one position from x

It is trained on road masks of single dates, which leave out drives. The fact heads are trained on captions
of whole pictures, drives included, so that a road of theirs is stated only where this head finds one.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy import ndimage
from scipy.special import expit
from torch import Tensor, nn

from rscc.facts.answers import ANSWERS

CHANNELS = 2
"""Number of logit maps: one of the date before and one of the date after."""
CAME_ROAD = ANSWERS.index("came road")
BESIDE = 0.5
"""Probability from which a road near a change is stated, chosen on held-out locations."""
BESIDE_METRES = 16.0
"""Minimum length of such a road beside a change on a map, chosen on validation scenes: drives are shorter.

In a picture one position is enough: people call a drive a road.
"""
NEW, NEW_METRES = 0.3, 40.0
"""Probability from which a new road is stated, and its minimum length."""


class RoadHead(nn.Module):
    """The network r; its input is first normalised to mean 0 and variance 1.

    Attributes:
        stored: its sizes, and the area under the ROC curve on held-out images; the arguments to rebuild it.
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
        """Return the logits (...) of positions (..., C) of the trunk's last map of one date."""
        logits: Tensor = self.layers((positions - self.mean) / self.scale)[..., 0]
        return logits

    def maps(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the logits of both dates, (B, :data:`CHANNELS`, h, w), from their maps (B, C, h, w)."""
        return torch.stack([self(maps.movedim(1, -1)) for maps in (before, after)], 1)


@dataclass(frozen=True)
class RoadEvidence:
    """Evidence of roads near a change.

    Attributes:
        standing: the probability of a road on the date after, 0..1, that enough of it reaches.
        new: the probability of a new road that :data:`NEW_METRES` of it reach, 0..1.
    """

    standing: float
    new: float

    @property
    def absent(self) -> frozenset[str]:
        """The answers of the fact heads that no road near the change supports."""
        found = {"came road": self.new >= NEW, "around road": self.standing >= BESIDE}
        return frozenset(name for name, is_found in found.items() if not is_found)


def road_logits(answers: np.ndarray) -> np.ndarray | None:
    """Return the road logits among the answers of a tile, (:data:`CHANNELS`, h, w); None without a head.

    Args:
        answers: (K, h, w), see :meth:`rscc.captioner.Captioner.survey`.
    """
    logits = answers[len(ANSWERS) :]
    return logits if len(logits) else None


def new_roads(logits: np.ndarray) -> np.ndarray:
    """Return the probability of a new road at each position, (h, w) float32 in 0..1.

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
    """Return the evidence of roads in a picture ``metres`` wide; ``logits`` as in :func:`new_roads`."""
    standing, new = road_maps(logits).reshape(2, -1)
    return road_evidence(standing, new, metres / logits.shape[-1])


def road_evidence(
    standing: np.ndarray,
    new: np.ndarray,
    metres: float,
    least: float = 0.0,
    shares: np.ndarray | None = None,
) -> RoadEvidence:
    """Return what the positions near a change say about roads.

    Args:
        standing, new: (n,) in 0..1, probabilities of a road on the date after and of a new one.
        metres: the side of a position.
        least: metres of a standing road that are enough.
        shares: (n,) in 0..1, how much of a whole position each one is; None: all are whole.
    """
    shares = np.ones(len(standing)) if shares is None else shares

    def reached(probabilities: np.ndarray, length: float) -> float:
        """Return the probability that positions over this length have at least."""
        order = np.argsort(-probabilities)
        enough = np.cumsum(shares[order]) >= max(1, math.ceil(length / metres)) - 1e-6
        return float(probabilities[order[enough.argmax()]]) if enough.any() else 0.0

    return RoadEvidence(reached(standing, least), reached(new, NEW_METRES))
