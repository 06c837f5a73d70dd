"""Finds changed pixels and changed pairs; not part of any of the five papers."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.models.trunks.backbone import Backbone


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

        Args:
            before, after: (B, 3, H, W) RGB in 0..255.
        """
        # One date after the other: a batch of both needs twice the memory.
        maps_before, maps_after = (self.backbone(date) for date in (before, after))
        logits = self.change_head(maps_before, maps_after)
        first, second = (average_positions(maps[-1], self.pool) for maps in (maps_before, maps_after))
        return first, second, logits


def average_positions(maps: Tensor, pool: int) -> Tensor:
    """Average maps (..., h, w) over squares of ``pool`` positions."""
    return F.avg_pool2d(maps, pool) if pool > 1 else maps
