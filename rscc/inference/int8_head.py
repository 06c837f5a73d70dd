"""The change head in 8-bit integers, over the maps of a trunk that computes in them.

The convolutions of :class:`~rscc.models.shared.blocks.ChangeHead` compute in integers, see
:mod:`rscc.inference.int8`; its norms, what is enlarged and the last layer, whose one channel takes little
time, in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.inference.int8 import LEVELS, Int8Conv, Int8Trunk, Stored
from rscc.models.shared.blocks import ChangeHead


class Int8ChangeHead(nn.Module):
    """A change head that reads the maps of an :class:`~rscc.inference.int8.Int8Trunk`.

    Args:
        head: trained on the maps of the float trunk.
        trunk: whose maps it reads.
        ranges: of its activations, see :func:`~rscc.inference.int8.activation_ranges`.

    Raises:
        KeyError: an activation has no range.
    """

    def __init__(self, head: ChangeHead, trunk: Int8Trunk, ranges: dict[str, float]):
        super().__init__()
        self._last = trunk.gives[-1]
        inner = [ranges[f"change_head.lateral.{level}"] for level in range(len(head.lateral))]
        summed = [ranges[f"change_head.smooth.{level}"] for level in range(len(head.smooth))]
        self._levels = [
            _Level(lateral, mix, given, Stored.of(most, signed=True))
            for lateral, mix, given, most in zip(head.lateral, head.mix, trunk.gives, inner, strict=True)
        ]
        # What is smoothed is a sum of two maps that an activation gave.
        self._smooth = [
            _ConvNorm(smooth, Stored.of(most, signed=False))
            for smooth, most in zip(head.smooth, summed, strict=True)
        ]
        self.logit = head.logit

    def forward(self, before: list[Tensor], after: list[Tensor]) -> Tensor:
        """Return logits (B, H / 4, W / 4) float32 for the maps of both dates."""
        dates = ([*maps[:-1], self._last.integers(maps[-1])] for maps in (before, after))
        with torch.autocast(before[-1].device.type, enabled=False):
            levels = [level(*maps) for level, *maps in zip(self._levels, *dates, strict=True)]
            x = levels[-1]
            for level, smooth in zip(levels[-2::-1], self._smooth, strict=True):
                enlarged = F.interpolate(x, size=level.shape[-2:], mode="bilinear", align_corners=False)
                x = smooth(smooth.given.integers(level.add_(enlarged)))
            # Not by a convolution: its sums of floats depend on how many pairs there are, and on the threads.
            weight, bias = self.logit.weight.flatten(), self.logit.bias
            logits: Tensor = (x * weight[:, None, None]).sum(dim=1).add_(bias)
        return logits


class _Level:
    """What the head makes of both dates' maps of one stride: lateral convolutions, [a, b, |a - b|], mix.

    Args:
        lateral, mix: of the head.
        given: how the maps are stored.
        inner: how a, b and what is between them are.
    """

    def __init__(self, lateral: nn.Module, mix: nn.Module, given: Stored, inner: Stored):
        assert isinstance(lateral, nn.Conv2d)
        self.lateral, self.mix = Int8Conv(lateral, given, inner), _ConvNorm(mix, inner)

    def __call__(self, before: Tensor, after: Tensor) -> Tensor:
        """Map two (B, channels, h, w) uint8 to (B, width, h, w) float32."""
        a, b = self.lateral(before, "none"), self.lateral(after, "none")
        zero = self.mix.given.zero
        apart = (torch.maximum(a, b) - torch.minimum(a, b)).clamp_(max=LEVELS - zero).add_(zero)
        return self.mix(torch.cat([a, b, apart], dim=1))


class _ConvNorm:
    """A convolution in integers, then its norm and activation in floats.

    Args:
        layers: the three of them.
        given: how the input is stored.
    """

    def __init__(self, layers: nn.Module, given: Stored):
        assert isinstance(layers, nn.Sequential)
        conv, self.norm, self.activation = layers
        assert isinstance(conv, nn.Conv2d)
        self.given, self.conv = given, Int8Conv(conv, given, None)

    def __call__(self, x: Tensor) -> Tensor:
        """Map (B, channels, h, w) uint8 to (B, width, h, w) float32."""
        y: Tensor = self.activation(self.norm(self.conv(x, "none")))
        return y
