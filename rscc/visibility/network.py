"""The network that finds veils: a small U-Net over cells of both dates (Ronneberger et al. 2015)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.visibility.cells import CHANNELS

TYPICAL, SPREAD = (0.4, 0.4, 0.4, 0.06, 0.2), (0.2, 0.2, 0.2, 0.05, 0.15)
"""Mean and deviation of the channels of a date, by which they are normalised."""
WIDTHS = (24, 32, 48)
"""Channels at full, half and quarter size of the grid of cells."""


class VeilNetwork(nn.Module):
    """Opacity of the veil over a date and the share of light that a cloud takes there, seen beside another.

    (B, 11, H, W) cells of the date, of the other date, and of validity -> (B, 2, H, W) logits. H and W are
    multiples of :data:`~rscc.visibility.cells.WHOLE`.
    """

    typical: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        fine, half, quarter = WIDTHS
        typical, spread = (torch.tensor((*one, *one, rest)) for one, rest in ((TYPICAL, 0.0), (SPREAD, 1.0)))
        self.register_buffer("typical", typical[:, None, None], persistent=False)
        self.register_buffer("spread", spread[:, None, None], persistent=False)
        self.enter = nn.Conv2d(2 * CHANNELS + 1, fine, 3, padding=1)
        self.down = nn.Conv2d(fine, half, 3, stride=2, padding=1)
        self.downer = nn.Conv2d(half, quarter, 3, stride=2, padding=1)
        self.wide = nn.ModuleList(
            nn.Conv2d(quarter, quarter, 3, padding=space, dilation=space) for space in (1, 2, 4)
        )
        self.up = nn.Conv2d(quarter + half, half, 3, padding=1)
        self.upper = nn.Conv2d(half + fine, fine, 3, padding=1)
        self.leave = nn.Conv2d(fine, 2, 1)

    def forward(self, cells: Tensor) -> Tensor:
        """Return logits of opacity and shade; see the class."""
        fine = F.relu(self.enter((cells - self.typical) / self.spread))  # (B, 24, H, W)
        half = F.relu(self.down(fine))  # (B, 32, H/2, W/2)
        deep = F.relu(self.downer(half))  # (B, 48, H/4, W/4)
        for layer in self.wide:
            deep = deep + F.relu(layer(deep))
        half = F.relu(self.up(torch.cat([_doubled(deep), half], dim=1)))
        fine = F.relu(self.upper(torch.cat([_doubled(half), fine], dim=1)))
        logits: Tensor = self.leave(fine)
        return logits


def _doubled(maps: Tensor) -> Tensor:
    return F.interpolate(maps, scale_factor=2.0, mode="bilinear", align_corners=False)
