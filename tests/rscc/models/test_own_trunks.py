"""Trunks of our own: torchvision's ResNet-50 in the Keras weights' layout, timm's EfficientNet-Lite0."""

import pytest
import torch
from torch import nn

from rscc.errors import WeightsNotFound
from rscc.models.backbones import build_backbone


def torchvision_stages() -> nn.ModuleList:
    from torchvision import models

    network = models.resnet50(weights=None)
    for layer in (network.layer2, network.layer3):
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-3
    children = list(network.children())
    # A stage of one layer holds that layer.
    return nn.ModuleList(nn.Sequential(*some) for some in (children[:5], children[5:6], children[6:7]))


def timm_network() -> nn.Module:
    import timm

    return timm.create_model("tf_efficientnet_lite0", pretrained=False)


def timm_stages(network: nn.Module | None = None) -> nn.ModuleList:
    network = network or timm_network()
    stem, blocks = nn.Sequential(network.conv_stem, network.bn1), network.blocks
    return nn.ModuleList(
        [nn.Sequential(stem, *blocks[:2]), nn.Sequential(blocks[2]), nn.Sequential(*blocks[3:5])]
    )


def with_statistics(network: nn.Module) -> nn.Module:
    """Give the norms statistics that are no beginner's."""
    for name, value in network.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            value.uniform_(0.5, 1.5)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "library", "size"),
    [
        ("resnet50", torchvision_stages, (64, 96)),
        ("efficientnet_lite0", timm_stages, (64, 96)),
        ("efficientnet_lite0", timm_stages, (75, 50)),
    ],
)
@pytest.mark.slow
def test_it_answers_what_the_librarys_answers_bit_for_bit(name, library, size):
    torch.manual_seed(3)
    stages, trunk = with_statistics(library()), build_backbone(name).eval()
    trunk.stages.load_state_dict(stages.state_dict())
    images = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8)
    for autocast in (False, True):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            x = ((images.float() - trunk.mean) / trunk.std).contiguous(memory_format=torch.channels_last)
            for stage, answer in zip(stages, trunk(images), strict=True):
                x = stage(x)
                assert torch.equal(x, answer)


def test_published_weights_are_taken_in_their_order(tmp_path):
    file = tmp_path / "published.pth"
    network = with_statistics(timm_network())
    torch.save({f"of_another_name.{name}": value for name, value in network.state_dict().items()}, file)
    state = build_backbone("efficientnet_lite0", weights=file).stages.state_dict()
    expected = timm_stages(network).state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in state.items())
    torch.save({"stem": torch.zeros(3)}, file)
    with pytest.raises(WeightsNotFound):
        build_backbone("efficientnet_lite0", weights=file)
