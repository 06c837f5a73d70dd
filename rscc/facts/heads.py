"""Heads on a frozen trunk that find what came, what is gone, and what is around a change.

For the trunk's last maps b and a of the two dates and the change head's probability c, a small network h
gives one logit per position and object class::

    came(x)  = h(b(x), a(x), c(x))         gone(x) = h(a(x), b(x), c(x))

One network serves both: what is gone is what came when time runs backwards. A region R is a bag of positions
(multiple-instance learning), whose logit is a smooth maximum of theirs::

    logit(R) = log( sum_x R(x) exp(logit(x)) / sum_x R(x) )

so that heads trained on captions of whole pairs also answer for an outline on a map.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rscc.facts.answers import AROUND, CHANGING
from rscc.text.change_facts import BUILT

REDUCED = 128
"""Largest number of trunk channels that the heads read."""
_BUILDING = CHANGING.index("building")


class FactHeads(nn.Module):
    """The network h; its first layer reduces the trunk's channels and is not trained on labels.

    Attributes:
        sizes: the arguments that it was built with.
    """

    def __init__(self, *, channels: int, reduced: int = REDUCED, width: int = 48, hidden: int = 64) -> None:
        super().__init__()
        self.sizes = {"channels": channels, "reduced": reduced, "width": width, "hidden": hidden}
        self.reduce = nn.Linear(channels, reduced)
        self.project = nn.Linear(reduced, width)
        self.drop = nn.Dropout(0.3)
        self.layers = nn.Sequential(
            nn.LayerNorm(3 * width + 2),
            nn.Linear(3 * width + 2, hidden),
            nn.GELU(),
            nn.Dropout(0.3),
            nn.Linear(hidden, len(CHANGING) + len(AROUND)),
        )
        self.register_buffer("stands", torch.tensor([name in BUILT for name in AROUND]), persistent=False)

    def positions(self, before: Tensor, after: Tensor, change: Tensor) -> Tensor:
        """Return the logits of every position, (B, N, len(ANSWERS)).

        In evaluation mode, built objects around a position where a building is gone are those that h finds
        with the dates swapped: nearly all training data are of new buildings.

        Args:
            before, after: (B, N, reduced), maps after :attr:`reduce`.
            change: (B, N, 2), see :func:`change_cells`.
        """
        b, a = self.project(self.drop(before)), self.project(self.drop(after))
        forward = self.layers(torch.cat([b, a, a - b, change], -1))
        backward = self.layers(torch.cat([a, b, b - a, change], -1))
        count = len(CHANGING)
        around = forward[..., count:]
        if not self.training:
            gone, came = backward[..., _BUILDING], forward[..., _BUILDING]
            is_gone = (gone > 0) & (gone > came)
            around = torch.where(is_gone[..., None] & self.stands, backward[..., count:], around)
        return torch.cat([forward[..., :count], backward[..., :count], around], -1)

    def maps(self, before: Tensor, after: Tensor, change: Tensor) -> Tensor:
        """Return the logits of every position as maps, (B, len(ANSWERS), h, w).

        Args:
            before, after: (B, C, h, w), the trunk's last maps.
            change: (B, H, W) in 0..1, change probability.
        """
        grid = (before.shape[-2], before.shape[-1])
        first, second = (self.reduce(maps.flatten(2).transpose(1, 2)) for maps in (before, after))
        logits = self.positions(first, second, change_cells(change, grid))
        return logits.transpose(1, 2).unflatten(2, grid)


def change_cells(change: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return the mean and the largest change probability at each position, (B, h * w, 2)."""
    both = (F.adaptive_avg_pool2d(change, grid), F.adaptive_max_pool2d(change, grid))
    return torch.stack(both, -1).flatten(1, 2)


def region_logits(maps: Tensor, region: Tensor) -> Tensor:
    """Return the logits (B, K) of a region in each pair, from the logits of all positions, (B, K, h, w).

    ``region`` is (B, H, W) in 0..1; an empty region counts as the whole pair.
    """
    weights = F.adaptive_avg_pool2d(region.float(), (maps.shape[-2], maps.shape[-1])).flatten(1)
    return pooled(maps.flatten(2).transpose(1, 2), weights)


def pooled(logits: Tensor, weights: Tensor) -> Tensor:
    """Return the logits (B, K) of bags, from those of their positions, (B, N, K), weighted by (B, N)."""
    weights = torch.where(weights.sum(1, keepdim=True) > 0, weights, torch.ones_like(weights))
    shares = weights / weights.sum(1, keepdim=True)
    return torch.logsumexp(logits.float() + shares.clamp_min(1e-12).log()[..., None], 1)


def bag_logits(logits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the logits (K,) of one bag from those of its positions, (K, n); weights (n,), not all 0."""
    top = logits.max(axis=1)
    pooled: np.ndarray = top + np.log(np.exp(logits - top[:, None]) @ (weights / weights.sum()))
    return pooled
