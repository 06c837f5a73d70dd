"""Finds changed pixels and changed pairs, and grounds captions on them; in none of the five papers."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.models.shared.blocks import Positions2d
from rscc.models.trunks.backbone import Backbone

_MIDDLE, _SPREAD = 0.1, 0.3  # approximate mean and standard deviation of change probabilities
_POSITIONS = 25.0  # factor that brings initial positions to half the size of a normalised token


class ChangeHead(nn.Module):
    """Change per pixel from the trunk's three maps of both dates, finest map at stride 4.

    At every stride both dates pass the same 1 x 1 convolution, which gives a and b; [a, b, |a - b|] is mixed
    and added to the enlarged result of the coarser stride.
    """

    def __init__(self, *, channels: tuple[int, ...], width: int):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1) for c in channels)
        self.mix = nn.ModuleList(_conv_norm(3 * width, width) for _ in channels)
        self.smooth = nn.ModuleList(_conv_norm(width, width) for _ in channels[:-1])
        self.logit = nn.Conv2d(width, 1, 1)

    def forward(self, before: list[Tensor], after: list[Tensor]) -> Tensor:
        """Return logits (B, H / 4, W / 4) for maps as ``Backbone`` gives them."""
        return self.compare(self.reduced(before), self.reduced(after))

    def reduced(self, maps: list[Tensor]) -> list[Tensor]:
        """Return the maps of one date, (B, width, h, w) each: all that the head reads of it."""
        return [lateral(one) for lateral, one in zip(self.lateral, maps, strict=True)]

    def compare(self, before: list[Tensor], after: list[Tensor]) -> Tensor:
        """Return logits (B, H / 4, W / 4) for maps of :meth:`reduced`."""
        levels = [
            mix(torch.cat([a, b, (a - b).abs()], dim=1))
            for mix, a, b in zip(self.mix, before, after, strict=True)
        ]
        x = levels[-1]
        for level, smooth in zip(levels[-2::-1], self.smooth, strict=True):
            enlarged = F.interpolate(x, size=level.shape[-2:], mode="bilinear", align_corners=False)
            x = smooth(level + enlarged)
        return self.logit(x).squeeze(1)


def _conv_norm(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(8, outputs), nn.ReLU(inplace=True)
    )


class ChangedHead(nn.Module):
    """P(anything changed) of a pair, from the mean and the maximum of its difference tokens."""

    def __init__(self, *, width: int, dropout: float = 0.0):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(2 * width),
            nn.Linear(2 * width, width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(width, 1),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Map difference tokens (B, N, D) to logits (B,)."""
        return self.net(torch.cat([tokens.mean(1), tokens.amax(1)], dim=-1)).squeeze(-1)


class ChangeDetector(nn.Module):
    """The part of a captioner that finds changed pixels: trunk and change head.

    Reports need no more of a captioner, so that its other weights are loaded only for other uses.

    Attributes:
        pool: see :func:`average_positions`.
    """

    def __init__(self, *, backbone: Backbone, change_head: nn.Module, pool: int):
        super().__init__()
        self.backbone, self.change_head, self.pool = backbone, change_head, pool

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the last maps of both dates, (B, C, h, w) each, and change logits (B, H / 4, W / 4).

        The dates are (B, 3, H, W) RGB in 0..255.
        """
        # One date after the other: a batch of both needs twice the memory.
        maps_before, maps_after = (self.backbone(date) for date in (before, after))
        logits = self.change_head(maps_before, maps_after)
        first, second = (average_positions(maps[-1], self.pool) for maps in (maps_before, maps_after))
        return first, second, logits


class Grounding(nn.Module):
    """Adds positions and the change head's map to the input of a captioner.

    All five encoders work on differences of two projected maps. The positions that were added to both dates
    cancel in them, and the trunk's last map is too coarse to count houses. So the second date gets, at every
    position, one more vector: the change head's finest map, read by two convolutions, and a position of its
    own. The equations of the papers are unchanged.
    """

    def __init__(self, *, width: int):
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(1, 48, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(48, width, 3, stride=2, padding=1),
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


def average_positions(maps: Tensor, pool: int) -> Tensor:
    """Average maps (..., h, w) over squares of ``pool`` positions."""
    return F.avg_pool2d(maps, pool) if pool > 1 else maps
