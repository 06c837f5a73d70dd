"""Trunks by name."""

import pytest
import torch
from tiny_models import random_images

from rscc.models.backbones import build_backbone


@pytest.mark.parametrize(
    ("name", "channels"),
    [
        ("resnet50", (256, 512, 1024)),
        ("efficientnet_lite0", (24, 40, 112)),
        ("torchvision/resnet18", (64, 128, 256)),
        ("timm/resnet18", (64, 128, 256)),
    ],
)
def test_trunks_have_maps_at_strides_4_8_and_16_and_train_whole(name, channels) -> None:
    trunk = build_backbone(name).train()
    maps = trunk(random_images(1, 64, 96)[0])
    assert [tuple(m.shape[2:]) for m in maps] == [(16, 24), (8, 12), (4, 6)]
    assert tuple(m.shape[1] for m in maps) == trunk.channels == channels
    norms = [m for m in trunk.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms
    assert not any(m.training for m in norms)
    sum(m.mean() for m in maps).backward()
    assert [n for n, p in trunk.named_parameters() if p.grad is None] == []


def test_a_plain_transformer_has_one_map_at_the_stride_of_its_patches() -> None:
    trunk = build_backbone("timm/vit_tiny_patch16_224")
    (last,) = trunk(random_images(1, 64, 90)[0])
    assert last.shape == (1, 192, 4, 6), "90 px are filled up to 6 patches"
    assert trunk.channels == (192,)
    transformer = trunk.stages[0]
    torch.testing.assert_close(last.mean(1), torch.zeros(1, 4, 6), atol=1e-5, rtol=0)  # after its norm
    last.square().mean().backward()
    assert transformer.cls_token.grad is not None
    assert [n for n, p in trunk.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize(
    ("name", "grid", "channels"),
    [
        ("timm/vit_large_patch14_clip_224.openai", 16, 1024),
        ("timm/vit_base_patch32_clip_224.openai", 7, 768),
        ("torchvision/resnet101.IMAGENET1K_V1", 14, 1024),
    ],
)
@pytest.mark.slow
def test_every_visual_encoder_of_cheers_table_6_is_a_trunk(name, grid, channels) -> None:
    """Without weights and values: sizes, and what CLIP was shown."""
    if name.startswith("torchvision"):
        trunk = build_backbone(name)
    else:
        with torch.device("meta"):
            trunk = build_backbone(name)
    device = next(trunk.parameters()).device
    last = trunk(torch.zeros(1, 3, 224, 224, device=device))[-1]
    assert last.shape == (1, channels, grid, grid)
    assert trunk.channels[-1] == channels
