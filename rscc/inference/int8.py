"""The ResNet-50 trunk in 8-bit integers, for processors with instructions for products of them.

Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", after training: a number is ``scale * (integer - zero)`` (their Eq. 1). Weights are rounded for
each output channel, evenly around 0; activations for each layer, by the largest value that they took on
training images (:func:`activation_ranges`, kept in the model's card). The first convolution, whose three
channels take little time, and the pooling behind it stay in float32. Sums are exact, so that an answer does
not depend on the batch, nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from rscc.models.shared.backbone import Backbone
from rscc.models.shared.residual import Bottleneck

_LEVELS = 255
# Signed numbers are stored with this as their 0.
_MIDDLE = 127
# Share of an image's activations that a range holds: the few beyond are cut, and all others are finer.
_HELD = 0.9999
_POOL = "stages.0.3"
# Sizes of maps whose order of the weights is kept, 8 MB each for the whole trunk.
_SIZES = 8


class Int8Trunk(Backbone):
    """A ResNet-50 trunk that computes in 8-bit integers; its maps are float32.

    Args:
        trunk: with its norms folded, see :func:`~rscc.models.shared.backbone.fold_norms`.
        ranges: of every activation, as :func:`activation_ranges` gives them.

    Raises:
        KeyError: an activation has no range.
        ValueError: it is no ResNet-50.
    """

    def __init__(self, trunk: Backbone, ranges: dict[str, float]):
        if not any(isinstance(module, Bottleneck) for module in trunk.modules()):
            raise ValueError("it is no ResNet-50")
        stages: list[list[_Block]] = [[], [], []]
        scale = first = ranges[_POOL] / _LEVELS
        for name, block in trunk.named_modules():
            if isinstance(block, Bottleneck):
                made = _Block(block, name, ranges, scale)
                stages[int(name.split(".")[1])].append(made)
                scale = made.scale
        mean, std = (tuple(values.flatten().tolist()) for values in (trunk.mean, trunk.std))
        super().__init__(
            [nn.Sequential(*blocks) for blocks in stages], channels=trunk.channels, mean=mean, std=std
        )
        opening = trunk.stages[0]
        assert isinstance(opening, nn.Sequential)
        self.stem = opening[:4]
        self._first, self._scales = first, [blocks[-1].scale for blocks in stages]

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map (B, 3, H, W) RGB in 0..255 to three maps, as :class:`Backbone` does."""
        with torch.autocast(images.device.type, enabled=False):
            x = (images.float() - self.mean) / self.std
            x = self.stem(x.contiguous(memory_format=torch.channels_last))
        x = x.mul_(1 / self._first).round_().clamp_(0, _LEVELS).to(torch.uint8)
        maps = []
        for stage, scale in zip(self.stages, self._scales, strict=True):
            x = stage(x)
            maps.append(x.float().mul_(scale))
        return maps


class _Conv:
    """A convolution of 8-bit integers.

    Args:
        conv: with a bias.
        given: scale of what it is given, whose zero is 0.
        scale, zero: of what it gives.
    """

    def __init__(self, conv: nn.Conv2d, given: float, scale: float, zero: int = 0):
        assert conv.bias is not None, "its norm is not folded into it"
        weight, self.bias = conv.weight.detach().float(), conv.bias.detach().float()
        smallest = torch.finfo(torch.float32).tiny
        self.weight_scales = (weight.abs().amax((1, 2, 3)) / _MIDDLE).clamp(min=smallest)
        self.weight_zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.integers = (weight / self.weight_scales.view(-1, 1, 1, 1)).round().to(torch.int8)
        self.layout = (list(conv.stride), list(conv.padding), list(conv.dilation), conv.groups)
        self._packed: dict[tuple[int, int], Tensor] = {}
        self.given, self.scale, self.zero = given, scale, zero

    def __call__(self, x: Tensor, *, relu: bool) -> Tensor:
        return torch.ops.onednn.qconv2d_pointwise(
            *self._what(x), self.bias, *self._how(), "relu" if relu else "none", [], ""
        )

    def add(self, x: Tensor, shortcut: Tensor, scale: float, zero: int) -> Tensor:
        """Convolve, add the shortcut, whose memory is taken for the result, and apply the ReLU."""
        return torch.ops.onednn.qconv2d_pointwise.binary(
            *self._what(x), shortcut, self.bias, *self._how(), scale, zero, "sum", 1.0, "relu", [], ""
        )

    def _what(self, x: Tensor) -> tuple[Any, ...]:
        return x, self.given, 0, self._weights_for(x), self.weight_scales, self.weight_zeros

    def _weights_for(self, x: Tensor) -> Tensor:
        """Return the weights in the order that is fastest for maps of this size; each size has its own."""
        size = (x.shape[2], x.shape[3])
        if size not in self._packed:
            if len(self._packed) == _SIZES:
                del self._packed[next(iter(self._packed))]
            self._packed[size] = torch.ops.onednn.qconv_prepack(
                self.integers, self.weight_scales, self.given, 0, *self.layout, list(x.shape)
            )
        return self._packed[size]

    def _how(self) -> tuple[Any, ...]:
        return *self.layout, self.scale, self.zero, torch.uint8


class _Block(nn.Module):
    """A residual block of 8-bit integers; ``given`` is the scale of its input, ``scale`` of its output."""

    def __init__(self, block: Bottleneck, name: str, ranges: dict[str, float], given: float):
        super().__init__()
        first, second = (ranges[f"{name}.{conv}"] / _LEVELS for conv in ("conv1", "conv2"))
        self.given, self.scale = given, ranges[name] / _LEVELS
        self.conv1 = _Conv(block.conv1, given, first)
        self.conv2 = _Conv(block.conv2, first, second)
        self.conv3 = _Conv(block.conv3, second, self.scale)
        self.shortcut = None
        if isinstance(block.downsample, nn.Sequential):
            conv = block.downsample[0]
            assert isinstance(conv, nn.Conv2d)
            self.shortcut = _Conv(conv, given, ranges[f"{name}.downsample"] / _MIDDLE, _MIDDLE)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels, H, W) uint8 to the block's output, uint8."""
        y = self.conv2(self.conv1(x, relu=True), relu=True)
        if self.shortcut is None:
            return self.conv3.add(y, x, self.given, 0)
        shortcut = self.shortcut(x, relu=False)
        return self.conv3.add(y, shortcut, self.shortcut.scale, self.shortcut.zero)


def activation_ranges(trunk: Backbone, batches: Iterable[Tensor]) -> dict[str, float]:
    """Measure how large the activations of a ResNet-50 trunk get, by the name of what gives them.

    Args:
        trunk: with its norms folded.
        batches: training images, (B, 3, H, W) RGB in 0..255.

    Returns:
        For each activation the largest over the images of what all but 1 in 10,000 of its values stay below,
        signs left out.
    """
    ranges: dict[str, float] = {}

    def see(name: str, values: Tensor) -> None:
        sizes = values.detach().abs().flatten(1)
        most = sizes.kthvalue(max(1, round(_HELD * sizes.shape[1])), dim=1).values.max()
        ranges[name] = max(ranges.get(name, 0.0), float(most))

    hooks = []
    for name, module in trunk.named_modules():
        if isinstance(module, nn.MaxPool2d):
            hooks.append(module.register_forward_hook(lambda _, __, out, key=name: see(key, out)))
        if not isinstance(module, Bottleneck):
            continue
        # What one convolution gives is what the next one gets, after the ReLU.
        for giver, taker in (("conv1", module.conv2), ("conv2", module.conv3)):
            key = f"{name}.{giver}"
            hooks.append(taker.register_forward_pre_hook(lambda _, given, key=key: see(key, given[0])))
        hooks.append(module.register_forward_hook(lambda _, __, out, key=name: see(key, out)))
        if isinstance(module.downsample, nn.Sequential):
            key = f"{name}.downsample"
            hooks.append(module.downsample.register_forward_hook(lambda _, __, out, key=key: see(key, out)))
    with torch.inference_mode():
        for images in batches:
            trunk(images)
    for hook in hooks:
        hook.remove()
    return {name: float(f"{most:.4g}") for name, most in ranges.items()}
