"""Trunk and change head in 8-bit integers answer as the float ones, whatever else is in the batch."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from tiny_models import random_images
from torch import nn

from rscc.captioner import Captioner
from rscc.devices import fast_int8
from rscc.models.backbones import build_backbone
from rscc.models.int8 import TRUNKS, Int8ChangeHead, Int8Conv, Int8Trunk, Quantization, activation_ranges
from rscc.models.shared.change_detector import ChangeHead
from rscc.models.trunks.backbone import fold_norms

pytestmark = pytest.mark.skipif(
    not fast_int8(torch.device("cpu")), reason="the processor has no instructions for 8-bit integers"
)


@pytest.fixture(scope="module", params=sorted(TRUNKS))
def trunk(request):
    """A trunk with random weights and norms, not folded."""
    torch.manual_seed(3)
    trunk = build_backbone(request.param).eval()
    for module in trunk.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.3, 0.6)
            nn.init.normal_(module.bias, std=0.2)
            nn.init.normal_(module.running_mean, std=0.2)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return trunk


def soft_images(batch: int, side: int = 64) -> torch.Tensor:
    coarse = random_images(batch, side // 8, side // 8)[0].float()
    return nn.functional.interpolate(coarse, size=(side, side), mode="bilinear").round().to(torch.uint8)


@pytest.fixture(scope="module")
def plain(trunk):
    """The same trunk with its norms folded."""
    trunk = copy.deepcopy(trunk)
    fold_norms(trunk)
    return trunk


def head_for(trunk) -> ChangeHead:
    torch.manual_seed(6)
    return ChangeHead(channels=trunk.channels, width=16).eval()


@pytest.fixture(scope="module")
def in_integers(plain) -> tuple[Int8Trunk, Int8ChangeHead]:
    """Trunk and head in integers, ranges measured on four images beside each other."""
    head, images = head_for(plain), soft_images(4)
    ranges = activation_ranges(plain, head, [(images, images.roll(1, 0))])
    made = Int8Trunk(plain, ranges)
    return made, Int8ChangeHead(head, made, ranges)


def numbers(made: Int8Trunk, images: torch.Tensor) -> list[torch.Tensor]:
    """The three maps, all as the numbers that they stand for."""
    *maps, last = made(images)
    return [*(stored.dequantize(one) for stored, one in zip(made.outputs, maps, strict=False)), last]


def assert_stored(given: torch.Tensor, numbers: torch.Tensor, stored: Quantization) -> None:
    """Where a number lies half way, the two may round otherwise."""
    expected = (numbers / stored.scale + stored.zero).round().clamp(0, 255)
    assert given.dtype == torch.uint8
    assert expected.std() > 5
    assert (given - expected).abs().max() <= 1
    assert (given == expected).float().mean() > 0.99


@pytest.mark.parametrize(
    ("activation", "gives", "function"),
    [
        ("none", Quantization(0.02, 127), nn.Identity()),
        ("relu", Quantization(0.01, 0), nn.ReLU()),
        ("relu6", Quantization(6 / 255, 0), nn.ReLU6()),
    ],
)
@pytest.mark.parametrize(("zero", "groups"), [(0, 1), (127, 1), (127, 24)])
def test_a_convolution_is_that_of_the_numbers_that_the_integers_stand_for(
    activation, gives, function, zero, groups
) -> None:
    torch.manual_seed(1)
    conv = nn.Conv2d(24, 48, 3, stride=2, padding=1, groups=groups)
    nn.init.normal_(conv.weight, std=0.3 if groups == 24 else 0.08)
    given = Quantization(0.02, zero)
    x = torch.randint(0, 256, (2, 24, 20, 12), dtype=torch.uint8)
    x = x.contiguous(memory_format=torch.channels_last)
    made = Int8Conv(conv, given, gives)
    numbers = (x.float() - given.zero) * given.scale
    weight = made.integers * made.weight_scales.view(-1, 1, 1, 1)
    exact = nn.functional.conv2d(numbers, weight, conv.bias, stride=2, padding=1, groups=groups)
    assert_stored(made(x, activation), function(exact), gives)


def test_ranges_hold_the_largest_values_of_all_pairs(plain) -> None:
    head, images = head_for(plain), soft_images(4)
    pairs = [(images[:2], images[2:]), (images[:2] / 8, images[2:] / 8)]
    bright, dim = (activation_ranges(plain, head, [pair]) for pair in pairs)
    assert bright != dim
    largest = {name: max(bright[name], dim[name]) for name in bright}
    assert activation_ranges(plain, head, pairs) == activation_ranges(plain, head, pairs[::-1]) == largest


def test_the_maps_are_those_of_the_float_trunk(plain, in_integers) -> None:
    (made, _), images = in_integers, soft_images(8)[4:]
    with torch.inference_mode():
        assert [one.dtype for one in made(images)] == [torch.uint8, torch.uint8, torch.float32]
        for expected, given in zip(plain(images), numbers(made, images), strict=True):
            assert given.shape == expected.shape
            assert (given - expected).norm() < 0.15 * expected.norm()


def test_the_head_answers_as_the_float_one(plain, in_integers) -> None:
    made, head = in_integers
    with torch.inference_mode():
        dates = soft_images(8)[4:].chunk(2)
        # The float head sees the same maps: only its own rounding differs.
        expected = head_for(plain)(*(numbers(made, date) for date in dates))
        given = head(*map(made, dates))
        alike = head(made(dates[0]), made(dates[0]))
    assert given.shape == expected.shape
    assert given.dtype == torch.float32
    assert expected.std() > 0.01
    assert (given - expected).norm() < 0.1 * (expected - expected.mean()).norm()
    assert (alike - given).abs().max() > 0.01


@pytest.mark.parametrize("threads", [1, 2])
def test_a_pair_gives_the_same_bytes_alone_and_among_others_of_any_size(
    in_integers, threads, request
) -> None:
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(threads)
    (made, head), images = in_integers, soft_images(4)
    with torch.inference_mode():
        together = made(images)
        logits = head(together, made(images.roll(1, 0)))
        for side in (32, 96, 272):  # wide and narrow maps
            made(soft_images(1, side))
        for number in range(4):
            alone = made(images[number : number + 1])
            for whole, one in zip(together, alone, strict=True):
                assert torch.equal(whole[number], one[0])
            assert torch.equal(head(alone, made(images[number - 1][None]))[0], logits[number])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["rscc-base", "rscc-small"])
def test_a_shipped_model_sees_the_same_in_integers_its_default(model) -> None:
    before, after = (soft_images(2, 256).numpy() for _ in range(2))
    after[:, :, 100:140, 80:160] = 230
    integers = Captioner.load(model, device="cpu")
    floats = Captioner.load(model, device="cpu", int8=False)
    assert (integers.int8, floats.int8) == (True, False)
    first, second = integers.search(before, after), floats.search(before, after)
    assert second.max() - second.min() > 0.05
    assert np.corrcoef(first.ravel(), second.ravel())[0, 1] > 0.98
