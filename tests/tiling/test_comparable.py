"""Ground that one date does not show has no say in stretch, brightness and shift."""

import numpy as np
import pytest
from painted_ground import moved
from rasters import write_scene
from scipy import ndimage

from tiling import ScenePair
from tiling.comparable import comparable

SIDE = 512


def ground(seed=0):
    """Texture (3, SIDE, SIDE) float64 in about 40..215."""
    noise = np.random.default_rng(seed).normal(size=(3, SIDE, SIDE))
    fine, broad = (ndimage.gaussian_filter(noise, (0, s, s)) for s in (1.5, 12))
    return 128 + 22 * fine / fine.std() + 18 * broad / broad.std()


def clouded(image, value, columns):
    """Lay a flat cloud over the west, with the grain of a sensor."""
    image = image.copy()
    grain = np.random.default_rng(1).normal(0, 1, image[:, :, :columns].shape)
    image[:, :, :columns] = value + grain
    return image


def opened(folder, before, after, scale=1.0, dtype="uint8", **options):
    paths = []
    for name, image in (("before", before), ("after", after)):
        paths.append(folder / f"{name}.tif")
        write_scene(paths[-1], (scale * image).clip(0, np.iinfo(dtype).max).astype(dtype))
    return ScenePair.open(*paths, **options)


def test_flat_ground_beside_textured_ground_is_not_comparable_but_a_roof_is():
    before, valid = ground(), np.ones((SIDE, SIDE), bool)
    after = clouded(before, 200, 200)
    after[:, 300:330, 300:330] = 240
    shown = comparable(before, after, valid)
    assert not shown[:, :200].any() and shown[:, 256:].all()
    np.testing.assert_array_equal(comparable(after, before, valid), shown)
    assert comparable(before, before, valid).all()


def test_water_on_both_dates_and_pixels_of_two_types_are_comparable():
    before, valid = clouded(ground(), 60, 200), np.ones((SIDE, SIDE), bool)
    assert comparable(before, before + 3, valid).all()
    after = clouded(ground(), 200, 200)
    assert comparable(before.astype(np.uint8), (20 * after).astype(np.uint16), valid).all()


@pytest.mark.slow
@pytest.mark.parametrize("value", [30, 215])
def test_a_stretch_does_not_follow_cloud_or_shadow_on_one_date(tmp_path, value):
    before = ground()
    with opened(tmp_path, before, before, 40, "uint16") as pair:
        clear = pair.stretch
    with opened(tmp_path, before, clouded(before, value, 300), 40, "uint16") as pair:
        veiled = pair.stretch
    spread = np.array(clear.before.high) - clear.before.low
    for name in ("low", "high"):
        off = np.array(getattr(veiled.before, name)) - getattr(clear.before, name)
        assert (np.abs(off) < 0.05 * spread).all()


def test_brightness_is_matched_on_ground_that_both_dates_show(tmp_path):
    before = ground()
    with opened(tmp_path, before, clouded(before + 20, 230, 300), normalize=True) as pair:
        assert pair.normalization is not None and pair.normalization.applied
        assert pair.normalization.offset == pytest.approx([-20] * 3, abs=2)


def test_the_shift_is_that_of_the_ground_and_not_of_its_clouds(tmp_path):
    before = ground()
    after = clouded(moved(before, 3, -2), 230, 200)
    with opened(tmp_path, clouded(before, 235, 150), after) as pair:
        assert (pair.registration.cols, pair.registration.rows) == pytest.approx((3, -2), abs=0.2)
