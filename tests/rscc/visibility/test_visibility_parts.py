"""Cells, the veil taken off again, and the rules by which dense ground is cloud, shadow or haze."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_veils import with_clouds, with_haze, with_look_alikes, with_other_light, with_weather

from rscc.visibility import detector as detector_module
from rscc.visibility.cells import CELL, CHANNELS, MARGIN, WHOLE, cells_of
from rscc.visibility.detector import (
    CLOUD,
    HAZE,
    SHADOW,
    SMALLEST,
    VeilDetector,
    VeilNetwork,
    load_veil_detector,
)
from rscc.visibility.restoration import AIR, FAINTEST, FULL_FROM, lights, without_veil

WHOLLY = np.ones((64, 96), bool)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def ground(rng):
    """Ground of blocks of many colours, (3, 64, 96)."""
    return rng.integers(20, 180, (3, 8, 12)).repeat(8, axis=1).repeat(8, axis=2).astype(np.uint8)


def test_cells_hold_colour_contrast_darkest_value_and_share():
    image = np.zeros((3, 8, 16), np.uint8)
    image[:, :, 8:] = np.array([255, 51, 102])[:, None, None]
    image[:, ::2, :8] = 200
    valid = np.ones((8, 16), bool)
    valid[:4, 8:] = False
    image[:, ~valid] = 0
    first, second = cells_of(image, valid)[:, 0].T
    np.testing.assert_allclose(first, [*[100 / 255] * 3, 100 / 255, 0, 1], atol=1e-6)
    np.testing.assert_allclose(second, [1, 0.2, 0.4, 0, 0.2, 0.5], atol=1e-3)


def test_cells_without_data_are_zero():
    assert not cells_of(np.zeros((3, 8, 8), np.uint8), np.zeros((8, 8), bool)).any()


@pytest.mark.parametrize("strength", [0.3, 0.45, 0.6])
def test_a_veil_of_known_opacity_is_taken_off(ground, strength):
    light = np.array([225.0, 190.0, 140.0])
    hazy = with_haze(ground, strength, light=light)
    clear = without_veil(hazy.image, hazy.opacity, np.broadcast_to(light[:, None, None], ground.shape))
    assert np.abs(clear.astype(int) - ground).max() <= np.ceil(1 / (1 - strength))


def test_a_faint_veil_stays_and_no_edge_appears_where_it_grows(ground):
    faint = np.full(WHOLLY.shape, FAINTEST, np.float32)
    np.testing.assert_array_equal(without_veil(ground, faint, np.full(ground.shape, AIR)), ground)
    flat = np.full((3, 1, 400), 120, np.uint8)
    growing = np.linspace(0, 0.5, 400, dtype=np.float32)[None]
    taken = without_veil(flat, growing, np.full((3, 1, 400), AIR)).astype(int)
    assert np.abs(np.diff(taken)).max() <= 3 and taken.min() < 60 and FULL_FROM > FAINTEST


def test_the_light_of_a_dense_veil_is_measured_and_that_of_none_is_assumed(ground):
    light = np.array([205.0, 190.0, 150.0])
    hazy = with_haze(ground, 0.7, light=light)
    cells = [cells_of(image, WHOLLY) for image in (hazy.image, ground)]
    opacity = np.full(cells[0].shape[1:], 0.7)
    assert (abs(lights(*cells, opacity) - light[:, None, None]) < 12).all()
    np.testing.assert_allclose(lights(*cells, 0 * opacity), AIR)


class Given(torch.nn.Module):
    """Answers with chosen opacities and shades."""

    def __init__(self, opacity, shade):
        super().__init__()
        self.logits = torch.logit(torch.tensor(np.stack([opacity, shade]), dtype=torch.float32), eps=1e-4)

    def forward(self, cells):
        return self.logits[None, :, :, : cells.shape[3]]


def layers_of(opacity, shade, red=0.0, **sizes):
    cells = np.zeros((CHANNELS + 1, *opacity.shape), np.float32)
    cells[0], cells[-1] = red, 1
    return VeilDetector(Given(opacity, shade), torch.device("cpu"), **sizes).layers(cells, cells)


def test_dense_veils_are_cloud_where_they_are_opaque_and_shadows_need_a_cloud():
    opacity, shade = np.zeros((2, 64, 160))
    opacity[10:20, 10:20] = 0.97
    opacity[:44, 96:144] = 0.75
    opacity[50, 75:79] = 0.99  # a white roof, one cell wide
    opacity[22:24, 24:26] = 0.99  # a small cloud beside the large one
    shade[30:40, 20:30] = 0.5
    shade[50:60, 120:130] = 0.5
    hidden = layers_of(opacity, shade)[0]
    assert (hidden[10:20, 10:20] == CLOUD).all() and (hidden[:44, 96:144] == HAZE).all()
    assert (hidden[30:40, 20:30] == SHADOW).all() and (hidden[22:24, 24:26] == CLOUD).all()
    assert not hidden[50:60, 120:130].any() and not hidden[48:55, 73:81].any()


def test_a_bright_roof_far_from_clouds_is_judged_without_a_veil():
    opacity = np.zeros((64, 160))
    opacity[10:20, 10:20] = 0.97  # a cloud
    opacity[10:13, 80:83] = opacity[40:43, 100:130] = 0.97  # a roof of 24 pixels, and a long one
    layers = layers_of(opacity, 0 * opacity)
    assert (layers[0][10:20, 10:20] == CLOUD).all() and (layers[2][10:20, 10:20] > 200).all()
    assert not layers[0][:, 40:].any() and not layers[2][:, 40:].any()
    coarse = layers_of(opacity, 0 * opacity, smallest=SMALLEST)  # where no roof is so large
    assert (coarse[0][10:13, 80:83] == CLOUD).all()


def test_a_thin_cloud_is_not_judged_and_even_haze_and_roofs_are():
    opacity = np.full((96, 96), 0.3)
    opacity[20:40, 20:40] = 0.6  # a thin cloud over haze
    opacity[82:86, 82:86] = 0.6  # a pale roof, far from it
    hidden = layers_of(opacity, 0 * opacity)[0]
    assert (hidden[20:40, 20:40] == CLOUD).all()
    assert not hidden[74:, 74:].any() and not hidden[:, :8].any()


def test_a_coloured_veil_hides_the_ground_where_it_is_wide():
    opacity = np.zeros((96, 96))
    opacity[:50] = opacity[70:80, 60:70] = 0.78
    hidden = layers_of(opacity, 0 * opacity, red=0.3)[0]
    assert (hidden[:50] == HAZE).all() and not hidden[60:].any()


def test_haze_is_no_edge_of_a_cloud_in_it():
    opacity = np.full((96, 96), 0.5)
    opacity[30:60, 30:60] = 0.97
    hidden = layers_of(opacity, 0 * opacity)[0]
    assert (hidden[30:60, 30:60] == CLOUD).all()
    assert not hidden[:26].any() and not hidden[:, 64:].any()


def test_a_small_cloud_needs_lost_contrast_and_haze_does_not_spread_it():
    rng = np.random.default_rng(2)
    before = np.zeros((CHANNELS + 1, 64, 64), np.float32)
    before[3], before[-1] = 0.1, 1
    after = before.copy()
    after[3] = 0.1 * 0.45 * rng.uniform(0.9, 1.1, (64, 64))  # under haze
    after[3, 30:34, 30:34] = 0.005
    haze = np.full((64, 64), 0.55)
    for opacity, cloudy in ((np.where(after[3] < 0.01, 0.9, haze), True), (haze, False)):
        detector = VeilDetector(Given(opacity, 0 * opacity), torch.device("cpu"))
        hidden = detector.layers(before, after)[1]
        assert (hidden[30:34, 30:34] == CLOUD).all() == cloudy
        assert not hidden[:20].any() and not hidden[:, :20].any()


@pytest.mark.slow
def test_what_is_found_depends_on_the_surroundings_alone(monkeypatch):
    torch.manual_seed(1)
    detector = VeilDetector(VeilNetwork(), torch.device("cpu"))
    rng = np.random.default_rng(0)
    before, after = rng.random((2, CHANNELS + 1, 32, 2 * MARGIN + 80), np.float32)
    before[-1] = after[-1] = 1
    whole = detector.layers(before, after)
    part = detector.layers(before[:, :, WHOLE:], after[:, :, WHOLE:])
    far = slice(MARGIN, None)
    whole, part = whole[:, :, WHOLE:][:, :, far], part[:, :, far]
    np.testing.assert_array_equal(whole[:2], part[:2])
    # The last bits of a convolution depend on the width: a value between two steps may be rounded either way.
    difference = np.abs(whole[2:].astype(int) - part[2:])
    assert difference.max() <= 1 and (difference > 0).mean() < 1e-3
    monkeypatch.setattr(detector_module, "_WIDTH", 2 * WHOLE)
    narrow = detector.layers(before, after)[:, :, WHOLE:][:, :, far]
    assert np.abs(narrow.astype(int) - whole).max() <= 1, "columns that are looked at one after the other"


def test_drawn_weather_says_where_it_is(ground, rng):
    for draw in (with_clouds, with_weather):
        seen = draw(ground, rng)
        assert seen.image.shape == ground.shape and seen.image.dtype == np.uint8
        untouched = (seen.opacity < 1e-3) & (seen.shade < 1e-3)
        assert np.abs(seen.image.astype(int) - ground)[:, untouched].max(initial=0) <= 1
        assert 0 <= seen.opacity.min() <= seen.opacity.max() <= 1
    for draw in (with_look_alikes, with_other_light):
        assert draw(ground, rng).shape == ground.shape


@pytest.mark.parametrize("light", [(235, 235, 235), (190, 155, 110), (235, 215, 150), (170, 195, 230)])
def test_the_shipped_detector_finds_haze_and_leaves_clear_ground(shared_data, light):
    from PIL import Image

    folder = shared_data / "data" / "levir_cc" / "images" / "val"
    name = sorted(path.name for path in (folder / "A").iterdir())[0]
    clear = np.asarray(Image.open(folder / "A" / name).convert("RGB")).transpose(2, 0, 1)
    valid, detector = np.ones(clear.shape[1:], bool), load_veil_detector(torch.device("cpu"))
    before = cells_of(clear, valid)
    light = np.array(light, float)
    hazy = cells_of(with_haze(clear, 0.5, light).image, valid)
    found = detector.layers(before, hazy)
    assert found[2].mean() < 0.06 * 255 and 0.35 * 255 < found[3].mean() < 0.65 * 255
    assert not detector.layers(before, before)[:2].any()
    assert detector.layers(before, cells_of(with_haze(clear, 1.0, light).image, valid))[1].all()
    assert clear.shape[1] % CELL == 0
