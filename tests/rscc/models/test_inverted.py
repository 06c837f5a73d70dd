"""The EfficientNet-Lite0 of our own is timm's ``tf_efficientnet_lite0``."""

import pytest
import torch
from torch import nn
from trunk_maps import assert_same_maps

from rscc.errors import WeightsNotFound
from rscc.models.trunks import build_backbone

NAME = "efficientnet_lite0"


@pytest.fixture(scope="module")
def network() -> nn.Module:
    """timm's, with statistics of its norms that are no beginner's."""
    import timm

    torch.manual_seed(3)
    network = timm.create_model(f"tf_{NAME}", pretrained=False).eval()
    for name, value in network.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            value.uniform_(0.5, 1.5)
    return network


def timm_stages(network) -> nn.ModuleList:
    stem, blocks = nn.Sequential(network.conv_stem, network.bn1), network.blocks
    return nn.ModuleList(
        [nn.Sequential(stem, *blocks[:2]), nn.Sequential(blocks[2]), nn.Sequential(*blocks[3:5])]
    )


@pytest.mark.parametrize("size", [(64, 96), (75, 50)])
def test_it_answers_what_timms_answers_bit_for_bit(network, size):
    stages, trunk = timm_stages(network).eval(), build_backbone(NAME).eval()
    trunk.stages.load_state_dict(stages.state_dict())
    images = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8)
    assert_same_maps(stages, trunk, images)


def test_published_weights_are_taken_in_their_order(network, tmp_path):
    file = tmp_path / "published.pth"
    torch.save({f"of_another_name.{name}": value for name, value in network.state_dict().items()}, file)
    trunk = build_backbone(NAME, weights=file)
    assert trunk.stages.state_dict().keys() == timm_stages(network).state_dict().keys()
    for value, expected in zip(
        trunk.stages.state_dict().values(), timm_stages(network).state_dict().values(), strict=True
    ):
        assert torch.equal(value, expected)
    torch.save({"stem": torch.zeros(3)}, file)
    with pytest.raises(WeightsNotFound, match=r"published\.pth: these weights are of another network"):
        build_backbone(NAME, weights=file)


def test_its_first_values_are_drawn_as_timm_draws_them():
    import timm

    torch.manual_seed(0)
    ours, theirs = build_backbone(NAME).stages, timm_stages(timm.create_model(f"tf_{NAME}", pretrained=False))
    for (name, one), two in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert one.shape == two.shape, name
        torch.testing.assert_close(one.std(), two.std(), rtol=0.2, atol=1e-6, msg=name)
