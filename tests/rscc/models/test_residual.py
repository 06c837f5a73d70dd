"""The ResNet-50 of our own is torchvision's, in the layout of the Keras weights."""

import torch
from torch import nn
from trunk_maps import assert_same_maps

from rscc.models.trunks import build_backbone


def torchvision_layers() -> nn.ModuleList:
    from torchvision import models

    network = models.resnet50(weights=None)
    for layer in (network.layer2, network.layer3):
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-3
    children = list(network.children())
    return nn.ModuleList([nn.Sequential(*children[:5]), children[5], children[6]])


def test_it_answers_what_torchvisions_answers_bit_for_bit():
    torch.manual_seed(3)
    stages, trunk = torchvision_layers().eval(), build_backbone("resnet50").eval()
    for name, value in stages.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            value.uniform_(0.5, 1.5)
    # A stage of one layer is that layer alone here, and holds it there.
    state = {_name(name): value for name, value in stages.state_dict().items()}
    assert [(n, v.shape) for n, v in trunk.stages.state_dict().items()] == [
        (n, v.shape) for n, v in state.items()
    ]
    trunk.stages.load_state_dict(state)
    images = torch.randint(0, 256, (2, 3, 64, 96), dtype=torch.uint8)
    assert_same_maps(stages, trunk, images)


def test_its_first_values_are_drawn_as_torchvision_draws_them():
    torch.manual_seed(0)
    ours, theirs = build_backbone("resnet50").stages, torchvision_layers()
    for (name, one), two in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert one.shape == two.shape, name
        torch.testing.assert_close(one.std(), two.std(), rtol=0.1, atol=1e-6, msg=name)


def _name(name: str) -> str:
    stage, rest = name.split(".", 1)
    return name if stage == "0" else f"{stage}.0.{rest}"
