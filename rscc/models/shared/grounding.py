"""Adds positions and the change head's map to the input of a captioner; ours, in none of the papers.

All five encoders work on differences of two projected maps. The positions that were added to both dates
cancel in them, and the trunk's last map is too coarse to count houses. So the second date gets, at every
position, one more vector: the change head's finest map, read by two convolutions, and a position of its own.
The equations of the papers are unchanged.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.models.shared.blocks import Positions2d

_MIDDLE, _SPREAD = 0.1, 0.3  # approximate mean and standard deviation of change probabilities
_POSITIONS = 25.0  # factor that brings initial positions to half the size of a normalised token


class Grounding(nn.Module):
    """Maps change probabilities to one vector per position of the encoder's grid."""

    def __init__(self, *, width: int, hidden: int = 48):
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(1, hidden, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(hidden, width, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(width, width, 1),
        )
        self.norm = nn.LayerNorm(width)
        self.positions = Positions2d(width=width)
        with torch.no_grad():
            for vectors in self.positions.parameters():
                vectors.mul_(_POSITIONS)

    def forward(self, change: Tensor, grid: tuple[int, int]) -> Tensor:
        """Map (B, H / 4, W / 4) probabilities in 0..1 to (B, h * w, D), ``grid`` being (h, w)."""
        seen = self.look((change.unsqueeze(1) - _MIDDLE) / _SPREAD)  # (B, D, H / 16, W / 16)
        if seen.shape[-2:] != grid:
            seen = F.adaptive_avg_pool2d(seen, grid)
        return self.norm(seen.flatten(2).transpose(1, 2)) + self.positions(*grid)
