"""How like the training data some ground is, from the trunk's last maps.

The features f of a block of positions are mean and deviation of each channel. Standardized, those of training
ground lie near a subspace spanned by K principal axes a_k. What they leave out is the distance::

    r(f) = log |f - sum_k (a_k . f) a_k|^2

which is centred and scaled by the r of places that the axes were not fitted on. With the mean z of both
dates, the logit of a familiar block is ``SLOPE * (STRANGE - z)``.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rscc.weights import load_weights, save_weights

WEIGHTS = "familiarity.safetensors"
"""File of a model folder with a measure of what is familiar."""
AXES = 32
"""Principal axes of the features of training blocks."""
BLOCK = 256
"""Pixels a side of a block; the last ones of a tile may be smaller or larger by half."""
STRANGE, SLOPE = 1.25, 2.5
"""Deviations from held-out places at which a block is as likely strange as familiar, and the steepness there.
Chosen with ``benchmarks/familiarity.py`` on the data sets that it lists, none of them held out."""


class Familiarity(nn.Module):
    """The measure of one trunk.

    Attributes:
        mean, scale: (2C,), of the features of training blocks.
        axes: (AXES, 2C), orthonormal.
        centre, spread: of r at held-out places.
    """

    mean: Tensor
    scale: Tensor
    axes: Tensor
    centre: Tensor
    spread: Tensor

    def __init__(self, *, channels: int, axes: int = AXES) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2 * channels))
        self.register_buffer("scale", torch.ones(2 * channels))
        self.register_buffer("axes", torch.zeros(axes, 2 * channels))
        self.register_buffer("centre", torch.zeros(1))
        self.register_buffer("spread", torch.ones(1))

    def maps(self, before: Tensor, after: Tensor, side: int, ground: Tensor | None = None) -> Tensor:
        """Return the logit of familiar ground at every position, (B, 1, h, w); those of a block are equal.

        Args:
            before, after: (B, C, h, w), the trunk's last maps.
            side: of a position in pixels.
            ground: (B, 1, h, w), share of each position that has data; None where all have.
        """
        dates = [self.unfamiliarity(blocks(maps, side, ground)) for maps in (before, after)]
        unfamiliarity = torch.stack(dates).mean(0)
        logits = SLOPE * (STRANGE - unfamiliarity)
        return F.interpolate(logits[:, None], size=before.shape[-2:], mode="nearest")

    def unfamiliarity(self, features: Tensor) -> Tensor:
        """Return z for features (..., 2C)."""
        return (self.distance(features) - self.centre) / self.spread

    def distance(self, features: Tensor) -> Tensor:
        """Return r for features (..., 2C)."""
        f = (features - self.mean) / self.scale
        left = f.square().sum(-1) - (f @ self.axes.T).square().sum(-1)
        return left.clamp_min(1e-6).log()

    def save(self, folder: Path) -> None:
        """Write the file into a folder, the axes in half precision."""
        state = {name: value.contiguous().cpu() for name, value in self.state_dict().items()}
        save_weights({**state, "axes": state["axes"].half()}, folder / WEIGHTS)

    @classmethod
    def load(cls, folder: Path) -> Familiarity:
        """Read the file of a folder."""
        state = load_weights(folder / WEIGHTS)
        axes, size = state["axes"].shape
        loaded = cls(channels=size // 2, axes=axes)
        loaded.load_state_dict(state)
        return loaded.eval()


def blocks(maps: Tensor, side: int, ground: Tensor | None = None) -> Tensor:
    """Return the features of the blocks of maps (B, C, h, w): (B, rows, columns, 2C).

    With ``ground``, (B, 1, h, w), positions count by the share of them that has data.
    """
    maps = maps.float()
    ground = torch.ones_like(maps[:, :1]) if ground is None else ground
    rows, columns = (max(1, round(length * side / BLOCK)) for length in maps.shape[-2:])
    size = (rows, columns)
    share = F.adaptive_avg_pool2d(ground, size).clamp_min(1e-6)
    mean = F.adaptive_avg_pool2d(maps * ground, size) / share
    squares = F.adaptive_avg_pool2d(maps.square() * ground, size) / share
    deviation = (squares - mean.square()).clamp_min(0).sqrt()
    return torch.cat([mean, deviation], 1).permute(0, 2, 3, 1)
