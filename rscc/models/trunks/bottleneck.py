"""ResNet-50 up to stride 16 (He et al. 2016, "Deep Residual Learning for Image Recognition", Table 1).

It is implemented here because the default model uses it, and importing torchvision takes longer than all
other work before the first tile. Names and values are torchvision's; the layout is that of the Keras
weights: the stride of a stage is in the first 1 x 1 convolution, as in the paper, and BatchNorm's epsilon is
1e-3.
"""

from collections import OrderedDict

from torch import Tensor, nn

_EPSILON = 1e-3
_WIDER = 4
CHANNELS = (256, 512, 1024)
"""Channels of the maps at strides 4, 8 and 16."""


class Bottleneck(nn.Module):
    """One residual block, Fig. 5 right: 1 x 1, 3 x 3 and 1 x 1 convolution and a shortcut."""

    def __init__(self, *, channels: int, width: int, stride: int = 1) -> None:
        super().__init__()
        wide = _WIDER * width
        self.conv1 = nn.Conv2d(channels, width, 1, stride=stride, bias=False)
        self.bn1 = nn.BatchNorm2d(width, eps=_EPSILON)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width, eps=_EPSILON)
        self.conv3 = nn.Conv2d(width, wide, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(wide, eps=_EPSILON)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if channels != wide:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, wide, 1, stride=stride, bias=False), nn.BatchNorm2d(wide, eps=_EPSILON)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels, H, W) to (B, 4 * width, H / stride, W / stride)."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.downsample(x)
        return self.relu(y)


def _layer(channels: int, width: int, blocks: int, *, stride: int) -> nn.Sequential:
    first = Bottleneck(channels=channels, width=width, stride=stride)
    return nn.Sequential(first, *(Bottleneck(channels=_WIDER * width, width=width) for _ in range(1, blocks)))


def residual_layers() -> nn.Sequential:
    """Return the layers in order, by their usual names; the last three end at the three strides."""
    layers = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            bn1=nn.BatchNorm2d(64, eps=_EPSILON),
            relu=nn.ReLU(inplace=True),
            maxpool=nn.MaxPool2d(3, stride=2, padding=1),
            layer1=_layer(64, 64, 3, stride=1),
            layer2=_layer(256, 128, 4, stride=2),
            layer3=_layer(512, 256, 6, stride=2),
        )
    )
    for module in layers.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return layers
