"""Trunks by name."""

import sys

import pytest
import torch
from tiny_models import CAPTIONS, fill_retriever, full_batch, random_images, tiny_config, tiny_vocabulary

from rscc.errors import ConfigInvalid, ExtraNotInstalled
from rscc.models import model_class
from rscc.models.cheers import Cheers
from rscc.models.trunks import build_backbone


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
    transformer = trunk.stages[0].extractor
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


def test_cheers_trains_on_a_transformer_as_its_trunk() -> None:
    model = Cheers(
        config=tiny_config("cheers"),
        backbone=build_backbone("timm/vit_tiny_patch16_224"),
        vocabulary=tiny_vocabulary(),
    )
    fill_retriever(model, 0)
    batch = full_batch(model, CAPTIONS)
    terms = model.losses(batch, dict.fromkeys(model.loss_terms(), 1.0))
    sum(terms.values()).backward()
    assert [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None] == []
    assert model.encode(batch.before, batch.after).pair.grid == (4, 4)


@pytest.mark.parametrize(
    ("name", "recipe"),
    [("resnet18", "DEFAULT"), ("resnet101", "IMAGENET1K_V2"), ("resnet101.IMAGENET1K_V1", "IMAGENET1K_V1")],
)
def test_published_weights_are_the_named_ones(name, recipe, monkeypatch) -> None:
    from torchvision import models

    asked, build = [], models.get_model
    monkeypatch.setattr(
        models, "get_model", lambda name, weights: asked.append(weights) or build(name, weights=None)
    )
    build_backbone(f"torchvision/{name}", download=True)
    assert asked == [models.get_model_weights(name.partition(".")[0])[recipe]]


@pytest.mark.parametrize(
    "name", ["resnet", "torchvision/resnet9000", "timm/none", "torchvision/vit_b_32", ""]
)
def test_unknown_trunks_are_refused(name) -> None:
    with pytest.raises(ConfigInvalid):
        build_backbone(name)


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_a_trunk_of_a_missing_library_is_told_with_what_brings_it(monkeypatch, library) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    message = rf"^backbone '{library}/resnet18' needs {library}: pip install 'rscc\[train\]'$"
    with pytest.raises(ExtraNotInstalled, match=message):
        build_backbone(f"{library}/resnet18")


def test_unknown_weights_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigInvalid, match="'V1' of resnet101; it has IMAGENET1K_V1, IMAGENET1K_V2"):
        build_backbone("torchvision/resnet101.V1")


def test_unknown_papers_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigInvalid, match="rdd"):
        model_class("spelling")
