"""The change head in 8-bit integers, on the maps of a trunk in 8-bit integers.

The convolutions of :class:`~rscc.models.shared.change_detector.ChangeHead` compute in integers, see
:mod:`rscc.models.int8_trunk`; its norms, interpolation and the last layer, which has one channel and takes
little time, in float32.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.models.int8_trunk import LEVELS, Int8Conv, Int8Trunk, Quantization
from rscc.models.shared.change_detector import ChangeHead


class Int8ChangeHead(nn.Module):
    """A change head that reads the maps of an :class:`~rscc.models.int8_trunk.Int8Trunk`.

    Args:
        ranges: of its activations, see :func:`~rscc.models.int8_trunk.activation_ranges`.

    Raises:
        KeyError: an activation has no range.
    """

    def __init__(self, head: ChangeHead, trunk: Int8Trunk, ranges: dict[str, float]):
        super().__init__()
        self._last = trunk.outputs[-1]
        inner = [ranges[f"change_head.lateral.{level}"] for level in range(len(head.lateral))]
        summed = [ranges[f"change_head.smooth.{level}"] for level in range(len(head.smooth))]
        self._levels = [
            _Level(lateral, mix, source, Quantization.of(most, signed=True))
            for lateral, mix, source, most in zip(head.lateral, head.mix, trunk.outputs, inner, strict=True)
        ]
        # The input of a smoothing layer is a sum of two outputs of activations, so it is not negative.
        self._smooth = [
            _ConvNorm(smooth, Quantization.of(most, signed=False))
            for smooth, most in zip(head.smooth, summed, strict=True)
        ]
        self.logit = head.logit

    def forward(self, before: list[Tensor], after: list[Tensor]) -> Tensor:
        """Return logits (B, H / 4, W / 4) float32 for the maps of both dates."""
        return self.compare(self.reduced(before), self.reduced(after))

    def reduced(self, maps: list[Tensor]) -> list[Tensor]:
        """Return the maps of one date, (B, width, h, w) uint8 each: all that the head reads of it."""
        integers = [*maps[:-1], self._last.quantize(maps[-1])]
        return [level.lateral(one, "none") for level, one in zip(self._levels, integers, strict=True)]

    def compare(self, before: list[Tensor], after: list[Tensor]) -> Tensor:
        """Return logits (B, H / 4, W / 4) float32 for maps of :meth:`reduced`."""
        bias = self.logit.bias
        assert bias is not None
        with torch.autocast(before[-1].device.type, enabled=False):
            levels = [level(a, b) for level, a, b in zip(self._levels, before, after, strict=True)]
            x = levels[-1]
            for level, smooth in zip(levels[-2::-1], self._smooth, strict=True):
                enlarged = F.interpolate(x, size=level.shape[-2:], mode="bilinear", align_corners=False)
                x = smooth(smooth.source.quantize(level.add_(enlarged)))
            # Not a convolution, whose sums of floats depend on the batch size and on the threads.
            weight = self.logit.weight.flatten()
            logits: Tensor = (x * weight[:, None, None]).sum(dim=1).add_(bias)
        return logits


class _Level:
    """One stride of the head: lateral convolutions, [a, b, |a - b|], mix.

    Args:
        source: storage of the maps.
        inner: storage of a, b and their difference.
    """

    def __init__(self, lateral: nn.Module, mix: nn.Module, source: Quantization, inner: Quantization):
        assert isinstance(lateral, nn.Conv2d)
        self.lateral, self.mix = Int8Conv(lateral, source, inner), _ConvNorm(mix, inner)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Map two outputs of :attr:`lateral`, uint8, to (B, width, h, w) float32."""
        zero = self.mix.source.zero
        apart = (torch.maximum(a, b) - torch.minimum(a, b)).clamp_(max=LEVELS - zero).add_(zero)
        return self.mix(torch.cat([a, b, apart], dim=1))


class _ConvNorm:
    """A convolution in integers, then its norm and activation in floats.

    Args:
        source: storage of the input.
    """

    def __init__(self, layers: nn.Module, source: Quantization):
        assert isinstance(layers, nn.Sequential)
        conv, self.norm, self.activation = layers
        assert isinstance(conv, nn.Conv2d)
        self.source, self.conv = source, Int8Conv(conv, source, None)

    def __call__(self, x: Tensor) -> Tensor:
        """Map (B, channels, h, w) uint8 to (B, width, h, w) float32."""
        y: Tensor = self.activation(self.norm(self.conv(x, "none")))
        return y
