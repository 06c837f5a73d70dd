"""A convolutional trunk and its change head in 8-bit integers, for processors that multiply them fast.

Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", after training: a number is ``scale * (integer - zero)`` (their Eq. 1). Weights are quantised per
output channel, symmetrically; activations per layer, by their largest values on training images
(:func:`activation_ranges`, stored in the model's card). Layers before the first block stay in float32:
quantising them changes one in a hundred words. Sums are exact, so an answer depends neither on the batch nor
on the number of threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.models.shared.change_detector import ChangeHead
from rscc.models.trunks.backbone import Backbone
from rscc.models.trunks.bottleneck import Bottleneck
from rscc.models.trunks.inverted_residual import InvertedResidual, SameConv2d, SeparableConv, added_sides

TRUNKS = frozenset({"resnet50", "efficientnet_lite0"})
"""Trunks whose blocks are supported, without loss of quality (``docs/results.md``)."""
LEVELS = 255
"""The largest integer of an activation."""
_MIDDLE = 127
# Share of an image's activations within a range: clipping the few others makes the steps finer.
_HELD = 0.9999
# From this width on, oneDNN expects the weights in another order, or reorders them every time.
_WIDE = 16
# Activations in oneDNN: name, parameters, variant.
_ACTIVATIONS: dict[str, tuple[str, list[float], str]] = {
    "none": ("none", [], ""),
    "relu": ("relu", [], ""),
    "relu6": ("hardtanh", [0.0, 6.0], ""),
}


class Quantization(NamedTuple):
    """How a map is stored: a number is ``scale * (integer - zero)``."""

    scale: float
    zero: int

    @classmethod
    def of(cls, most: float, *, signed: bool) -> Quantization:
        """Return the storage of numbers from ``-most`` (0 unless ``signed``) to ``most``."""
        return cls(most / _MIDDLE, _MIDDLE) if signed else cls(most / LEVELS, 0)

    def quantize(self, numbers: Tensor) -> Tensor:
        """Round numbers to uint8 of the same shape, clipped to the range."""
        shifted = torch.add(self.zero, numbers, alpha=1 / self.scale) if self.zero else numbers / self.scale
        return shifted.round_().clamp_(0, LEVELS).to(torch.uint8)

    def dequantize(self, integers: Tensor) -> Tensor:
        """Return the numbers of integers, float32 of the same shape."""
        numbers = integers.float()
        return (numbers.sub_(self.zero) if self.zero else numbers).mul_(self.scale)


@dataclass(frozen=True)
class _Plan:
    """Structure of a block of a trunk.

    Attributes:
        convs: its convolutions in order, by name.
        inner, last: the activation after each but the last of them, and after the last and the shortcut.
        shortcut: layers of the shortcut; None without one.
    """

    name: str
    convs: tuple[tuple[str, nn.Conv2d], ...]
    inner: str
    last: str
    shortcut: nn.Module | None


def _plans(trunk: Backbone) -> Iterator[_Plan]:
    for name, block in trunk.named_modules():
        convs = tuple((key, conv) for key, conv in block.named_children() if isinstance(conv, nn.Conv2d))
        if isinstance(block, Bottleneck):
            yield _Plan(name, convs, "relu", "relu", block.downsample)
        elif isinstance(block, InvertedResidual | SeparableConv):
            yield _Plan(name, convs, "relu6", "none", nn.Identity() if block.has_skip else None)


def _opening(trunk: Backbone, first: _Plan) -> tuple[str, nn.Sequential]:
    """Return the layers before the first block, and the name of the last of them."""
    stage, count = trunk.stages[0], int(first.name.split(".")[2])
    assert isinstance(stage, nn.Sequential)
    return f"stages.0.{count - 1}", nn.Sequential(*list(stage)[:count])


class Int8Trunk(Backbone):
    """A trunk that computes in 8-bit integers.

    Its last map, which the captioners read, is float32. The others are uint8, for :class:`Int8ChangeHead`.

    Args:
        trunk: one of :data:`TRUNKS`, its norms folded, see :func:`~rscc.models.trunks.backbone.fold_norms`.
        ranges: of every activation, from :func:`activation_ranges`.

    Attributes:
        outputs: storage of each of the three maps.

    Raises:
        KeyError: an activation has no range.
        ValueError: the trunk is not supported.
    """

    def __init__(self, trunk: Backbone, ranges: dict[str, float]):
        plans = list(_plans(trunk))
        if not plans:
            raise ValueError("this trunk cannot compute in integers")
        name, opening = _opening(trunk, plans[0])
        source = first = Quantization.of(ranges[name], signed=False)
        stages: list[list[_Block]] = [[] for _ in trunk.stages]
        for plan in plans:
            block = _Block(plan, ranges, source)
            stages[int(plan.name.split(".")[1])].append(block)
            source = block.output
        mean, std = (tuple(values.flatten().tolist()) for values in (trunk.mean, trunk.std))
        super().__init__(
            [nn.Sequential(*blocks) for blocks in stages], channels=trunk.channels, mean=mean, std=std
        )
        self.opening, self._first = opening, first
        self.outputs = [blocks[-1].output for blocks in stages]

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map (B, 3, H, W) RGB in 0..255 to three maps of the shapes of :class:`Backbone`."""
        with torch.autocast(images.device.type, enabled=False):
            x = (images.float() - self.mean) / self.std
            x = self.opening(x.contiguous(memory_format=torch.channels_last))
        x = self._first.quantize(x)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return [*maps[:-1], self.outputs[-1].dequantize(maps[-1])]


class _Block(nn.Module):
    """One block in integers; ``output`` is the storage of its output."""

    def __init__(self, plan: _Plan, ranges: dict[str, float], source: Quantization):
        super().__init__()
        self.output = Quantization.of(ranges[plan.name], signed=plan.last == "none")
        self.inner, self.last, self.adds = plan.inner, plan.last, plan.shortcut is not None
        inside = [Quantization.of(ranges[f"{plan.name}.{key}"], signed=False) for key, _ in plan.convs[:-1]]
        self.convs = [
            Int8Conv(conv, *stored)
            for (_, conv), stored in zip(
                plan.convs, itertools.pairwise([source, *inside, self.output]), strict=True
            )
        ]
        self.shortcut, self.added = None, source
        if isinstance(plan.shortcut, nn.Sequential):
            self.added = Quantization.of(ranges[f"{plan.name}.downsample"], signed=True)
            self.shortcut = Int8Conv(plan.shortcut[0], source, self.added)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels, H, W) uint8 to the block's output, uint8."""
        y = x
        for conv in self.convs[:-1]:
            y = conv(y, self.inner)
        if not self.adds:
            return self.convs[-1](y, self.last)
        shortcut = x if self.shortcut is None else self.shortcut(x, "none")
        return self.convs[-1].add(y, shortcut, self.added, self.last)


class Int8Conv:
    """A convolution of 8-bit integers.

    Args:
        conv: any norm behind it folded in, where that can be.
        source, output: how its input and its output are stored; None gives the output in float32.
    """

    def __init__(self, conv: nn.Module, source: Quantization, output: Quantization | None):
        assert isinstance(conv, nn.Conv2d) and isinstance(conv.padding, tuple)
        weight = conv.weight.detach().float()
        self.bias = None if conv.bias is None else conv.bias.detach().float()
        smallest = torch.finfo(torch.float32).tiny
        self.weight_scales = (weight.abs().amax((1, 2, 3)) / _MIDDLE).clamp(min=smallest)
        self.weight_zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.integers = (weight / self.weight_scales.view(-1, 1, 1, 1)).round().to(torch.int8)
        self.layout = (list(conv.stride), list(conv.padding), list(conv.dilation), conv.groups)
        self.pads, self.kernel = isinstance(conv, SameConv2d), conv.kernel_size
        self.source = source
        stored = (1.0, 0, torch.float32) if output is None else (*output, torch.uint8)
        self._settings = (*self.layout, *stored)
        self._packed: dict[bool, Tensor] = {}

    def __call__(self, x: Tensor, activation: str) -> Tensor:
        """Convolve (B, channels, H, W) uint8."""
        return torch.ops.onednn.qconv2d_pointwise(
            *self._inputs(x), self.bias, *self._settings, *_ACTIVATIONS[activation]
        )

    def add(self, x: Tensor, shortcut: Tensor, stored: Quantization, activation: str) -> Tensor:
        """Convolve, then add to the shortcut in place."""
        then = _ACTIVATIONS[activation]
        return torch.ops.onednn.qconv2d_pointwise.binary(
            *self._inputs(x), shortcut, self.bias, *self._settings, *stored, "sum", 1.0, *then
        )

    def _inputs(self, x: Tensor) -> tuple[Any, ...]:
        if self.pads:
            x = F.pad(x, added_sides(x, self.kernel, self.layout[0]), value=self.source.zero)
        return x, *self.source, self._weights_for(x), self.weight_scales, self.weight_zeros

    def _weights_for(self, x: Tensor) -> Tensor:
        """Return the weights in the fastest order for maps of this width."""
        wide = -(-x.shape[3] // self.layout[0][1]) >= _WIDE
        if wide not in self._packed:
            self._packed[wide] = torch.ops.onednn.qconv_prepack(
                self.integers, self.weight_scales, *self.source, *self.layout, list(x.shape)
            )
        return self._packed[wide]


class Int8ChangeHead(nn.Module):
    """A change head that reads the maps of an :class:`Int8Trunk`.

    Its convolutions compute in integers; its norms, interpolation and the last layer, which has one channel
    and takes little time, in float32.

    Args:
        ranges: of its activations, see :func:`activation_ranges`.

    Raises:
        KeyError: an activation has no range.
    """

    def __init__(self, head: ChangeHead, trunk: Int8Trunk, ranges: dict[str, float]):
        super().__init__()
        self._last = trunk.outputs[-1]
        inner = [
            Quantization.of(ranges[f"change_head.lateral.{level}"], signed=True)
            for level in range(len(head.lateral))
        ]
        self._lateral = list(map(Int8Conv, head.lateral, trunk.outputs, inner))
        self._mix = list(map(_ConvNorm, head.mix, inner))
        # The input of a smoothing layer is a sum of two outputs of activations, so it is not negative.
        self._smooth = [
            _ConvNorm(smooth, Quantization.of(ranges[f"change_head.smooth.{level}"], signed=False))
            for level, smooth in enumerate(head.smooth)
        ]
        self.logit = head.logit

    def forward(self, before: list[Tensor], after: list[Tensor]) -> Tensor:
        """Return logits (B, H / 4, W / 4) float32 for the maps of both dates."""
        return self.compare(self.reduced(before), self.reduced(after))

    def reduced(self, maps: list[Tensor]) -> list[Tensor]:
        """Return the maps of one date, (B, width, h, w) uint8 each: all that the head reads of it."""
        integers = [*maps[:-1], self._last.quantize(maps[-1])]
        return [lateral(one, "none") for lateral, one in zip(self._lateral, integers, strict=True)]

    def compare(self, before: list[Tensor], after: list[Tensor]) -> Tensor:
        """Return logits (B, H / 4, W / 4) float32 for maps of :meth:`reduced`."""
        bias = self.logit.bias
        assert bias is not None
        with torch.autocast(before[-1].device.type, enabled=False):
            levels = [
                mix(torch.cat([a, b, _difference(a, b, mix.source.zero)], dim=1))
                for mix, a, b in zip(self._mix, before, after, strict=True)
            ]
            x = levels[-1]
            for level, smooth in zip(levels[-2::-1], self._smooth, strict=True):
                enlarged = F.interpolate(x, size=level.shape[-2:], mode="bilinear", align_corners=False)
                x = smooth(smooth.source.quantize(level.add_(enlarged)))
            # Not a convolution, whose sums of floats depend on the batch size and on the threads.
            weight = self.logit.weight.flatten()
            logits: Tensor = (x * weight[:, None, None]).sum(dim=1).add_(bias)
        return logits


def _difference(a: Tensor, b: Tensor, zero: int) -> Tensor:
    """Return |a - b| of maps uint8 with the same quantization, in it too."""
    return (torch.maximum(a, b) - torch.minimum(a, b)).clamp_(max=LEVELS - zero).add_(zero)


class _ConvNorm:
    """A convolution in integers of an input stored as ``source``, then its norm and activation in floats."""

    def __init__(self, layers: nn.Module, source: Quantization):
        assert isinstance(layers, nn.Sequential)
        conv, self.norm, self.activation = layers
        self.source, self.conv = source, Int8Conv(conv, source, None)

    def __call__(self, x: Tensor) -> Tensor:
        """Map (B, channels, h, w) uint8 to (B, width, h, w) float32."""
        y: Tensor = self.activation(self.norm(self.conv(x, "none")))
        return y


def activation_ranges(
    trunk: Backbone, head: ChangeHead, pairs: Iterable[tuple[Tensor, Tensor]]
) -> dict[str, float]:
    """Measure the range of the activations of a trunk and its change head, by the name of their module.

    Args:
        trunk: one of :data:`TRUNKS`, its norms folded.
        head: reads its maps.
        pairs: both dates of training pairs, (B, 3, H, W) RGB in 0..255.

    Returns:
        For each activation the 99.99th percentile of its absolute values, maximum over the images.
    """
    ranges: dict[str, float] = {}

    def record(name: str, values: Tensor) -> None:
        sizes = values.detach().abs().flatten(1)
        most = sizes.kthvalue(max(1, round(_HELD * sizes.shape[1])), dim=1).values.max()
        ranges[name] = max(ranges.get(name, 0.0), float(most))

    def on_input(name: str, module: nn.Module) -> Any:
        return module.register_forward_pre_hook(lambda _, values: record(name, values[0]))

    def on_output(name: str, module: nn.Module) -> Any:
        return module.register_forward_hook(lambda _, __, values: record(name, values))

    plans = list(_plans(trunk))
    name, opening = _opening(trunk, plans[0])
    hooks = [on_output(name, opening[-1])]
    for plan in plans:
        # The output of a convolution, after the activation, is the input of the next one.
        for (key, _), (_, taker) in itertools.pairwise(plan.convs):
            hooks.append(on_input(f"{plan.name}.{key}", taker))
        if isinstance(plan.shortcut, nn.Sequential):
            hooks.append(on_output(f"{plan.name}.downsample", plan.shortcut))
        hooks.append(on_output(plan.name, trunk.get_submodule(plan.name)))
    hooks += [on_output(f"change_head.lateral.{level}", module) for level, module in enumerate(head.lateral)]
    hooks += [on_input(f"change_head.smooth.{level}", module) for level, module in enumerate(head.smooth)]
    with torch.inference_mode():
        for before, after in pairs:
            head(trunk(before), trunk(after))
    for hook in hooks:
        hook.remove()
    return {name: float(f"{most:.4g}") for name, most in ranges.items()}
