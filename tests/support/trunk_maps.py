"""A trunk of our own beside the same of a library."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rscc.models.shared.backbone import Backbone


def assert_same_maps(stages: nn.ModuleList, trunk: Backbone, images: Tensor) -> None:
    """A trunk gives bit for bit what the library's stages give one after the other, in both precisions."""
    for autocast in (False, True):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            x = ((images.float() - trunk.mean) / trunk.std).contiguous(memory_format=torch.channels_last)
            for stage, answer in zip(stages, trunk(images), strict=True):
                x = stage(x)
                assert torch.equal(x, answer)
