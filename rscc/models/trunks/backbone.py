"""Pretrained trunks behind one interface: images in, maps at strides 4, 8 and 16 out.

The captioners read the last map (14 x 14 at 224 px, as in the papers); the change head reads all three.
BatchNorm always uses its stored statistics: the batches here are too small to estimate new ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from rscc.text.vocabulary import Vocabulary

STRIDES = (4, 8, 16)
_IMAGENET_MEAN = (123.675, 116.28, 103.53)
_IMAGENET_STD = (58.395, 57.12, 57.375)


class Backbone(nn.Module):
    """A trunk cut after stride 16.

    Attributes:
        channels: channels of the maps at strides 4, 8 and 16.
        vocabulary: of the language model that comes with this trunk; None for a vocabulary from the data.
    """

    vocabulary: Vocabulary | None = None

    def __init__(
        self,
        stages: Iterable[nn.Module],
        *,
        channels: tuple[int, ...],
        mean: tuple[float, ...] = _IMAGENET_MEAN,
        std: tuple[float, ...] = _IMAGENET_STD,
    ):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.channels = channels
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map (B, 3, H, W) RGB in 0..255 to three maps (B, channels[i], H / stride, W / stride)."""
        x = (images.float() - self.mean) / self.std
        x = x.contiguous(memory_format=torch.channels_last)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps

    def train(self, mode: bool = True) -> Backbone:
        """Switch dropout as usual, but keep BatchNorm on its stored statistics."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self


def fold_norms(module: nn.Module) -> None:
    """Fold every BatchNorm that follows a convolution into it, which saves a pass over each map.

    For inference only; ``module`` is in evaluation mode and is changed.
    """
    children = list(module.named_children())
    for (name, first), (after, second) in itertools.pairwise(children):
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
            setattr(module, name, fuse_conv_bn_eval(first, second))
            # timm's norms contain their activation.
            setattr(module, after, getattr(second, "act", nn.Identity()))
    for _, child in children:
        fold_norms(child)
