"""EfficientNet-Lite0 up to stride 16, of the inverted residual blocks of MobileNetV2.

Tan and Le 2019, "EfficientNet", Table 1 (Lite: ReLU6 instead of SiLU, no squeeze-and-excitation); Sandler et
al. 2018, "MobileNetV2", Fig. 4d. It is implemented here because rscc-small and rscc-medium use it, and
importing timm with torchvision takes longer than all other work before the first tile. Names and values are
timm's ``tf_efficientnet_lite0``: BatchNorm's epsilon is 1e-3, and convolutions of stride 2 pad as in
TensorFlow, depending on the size of the input.
"""

import math
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

_EPSILON = 1e-3
_EXPANSION = 6
_STEM = 32
# Kernel, stride, channels and number of blocks of the layers after the stem.
_LAYERS = ((3, 1, 16, 1), (3, 2, 24, 2), (5, 2, 40, 2), (3, 2, 80, 3), (5, 1, 112, 3))
CHANNELS = (24, 40, 112)
"""Channels of the maps at strides 4, 8 and 16."""


class SameConv2d(nn.Conv2d):
    """A convolution that pads its input so that the output has 1 / stride of its size, rounded up.

    Half of the padding is before and half after, an odd pixel after.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, in, H, W) to (B, out, ceil(H / stride), ceil(W / stride))."""
        return super().forward(F.pad(x, added_sides(x, self.kernel_size, self.stride)))


def added_sides(x: Tensor, kernel: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Return the padding of :class:`SameConv2d` for (B, C, H, W): pixels left, right, above and below."""
    sides = []
    for axis in (1, 0):
        size = x.shape[axis + 2]
        added = max((math.ceil(size / stride[axis]) - 1) * stride[axis] + kernel[axis] - size, 0)
        sides += [added // 2, added - added // 2]
    return sides


class InvertedResidual(nn.Module):
    """1 x 1 convolution to more channels, depthwise convolution, 1 x 1 convolution to fewer channels.

    Attributes:
        has_skip: whether the input is added; it then has the size of the output.
    """

    def __init__(self, channels: int, out: int, *, kernel: int, stride: int) -> None:
        super().__init__()
        wide = _EXPANSION * channels
        self.conv_pw = nn.Conv2d(channels, wide, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide, eps=_EPSILON)
        self.conv_dw = _of_each_channel(wide, kernel, stride)
        self.bn2 = nn.BatchNorm2d(wide, eps=_EPSILON)
        self.conv_pwl = nn.Conv2d(wide, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out, eps=_EPSILON)
        self.has_skip = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels, H, W) to (B, out, ceil(H / stride), ceil(W / stride))."""
        y = F.relu6(self.bn1(self.conv_pw(x)), inplace=True)
        y = F.relu6(self.bn2(self.conv_dw(y)), inplace=True)
        y = self.bn3(self.conv_pwl(y))
        return y + x if self.has_skip else y


class SeparableConv(nn.Module):
    """The first block, which has no more channels inside than its input."""

    has_skip = False

    def __init__(self, channels: int, out: int, *, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv_dw = _of_each_channel(channels, kernel, stride)
        self.bn1 = nn.BatchNorm2d(channels, eps=_EPSILON)
        self.conv_pw = nn.Conv2d(channels, out, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out, eps=_EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels, H, W) to (B, out, ceil(H / stride), ceil(W / stride))."""
        y = F.relu6(self.bn1(self.conv_dw(x)), inplace=True)
        return self.bn2(self.conv_pw(y))


def _of_each_channel(channels: int, kernel: int, stride: int) -> nn.Conv2d:
    if stride == 1:
        return nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False)
    return SameConv2d(channels, channels, kernel, stride=stride, groups=channels, bias=False)


def inverted_stages() -> list[nn.Sequential]:
    """Return three stages, which end at strides 4, 8 and 16."""
    stem = nn.Sequential(
        SameConv2d(3, _STEM, 3, stride=2, bias=False),
        nn.BatchNorm2d(_STEM, eps=_EPSILON),
        nn.ReLU6(inplace=True),
    )
    layers, channels = [stem], _STEM
    for kernel, stride, out, blocks in _LAYERS:
        block = InvertedResidual if len(layers) > 1 else SeparableConv
        first = block(channels, out, kernel=kernel, stride=stride)
        others = (InvertedResidual(out, out, kernel=kernel, stride=1) for _ in range(1, blocks))
        layers.append(nn.Sequential(first, *others))
        channels = out
    stages = [nn.Sequential(*layers[:3]), nn.Sequential(layers[3]), nn.Sequential(*layers[4:])]
    for module in (module for stage in stages for module in stage.modules()):
        if isinstance(module, nn.Conv2d):
            taps = math.prod(module.kernel_size) * module.out_channels // module.groups
            nn.init.normal_(module.weight, std=math.sqrt(2 / taps))
    return stages
