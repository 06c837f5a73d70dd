from functools import cache

import numpy as np
import pytest
from painted_ground import moved
from scipy import ndimage

from tiling.registration import measure


def ground(height=640, width=700, seed=0):
    """Smooth texture (3, height, width) in about 40..215, with detail of a few pixels and larger forms."""
    return painted(height, width, seed).copy()


@cache
def painted(height, width, seed):
    noise = np.random.default_rng(seed).normal(size=(3, height, width))
    fine, broad = (ndimage.gaussian_filter(noise, (0, s, s)) for s in (1.5, 12))
    return 128 + 22 * fine / fine.std() + 18 * broad / broad.std()


def measured(before, after, valid=None, gsd=0.5):
    height, width = before.shape[1:]
    valid = np.ones((height, width), bool) if valid is None else valid

    def read(window):
        part = window.slices(type(window)(0, 0, width, height))
        return before[:, *part], after[:, *part], valid[part]

    return measure(read, width, height, gsd)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cols", "rows"), [(0, 0), (3, -2), (-0.5, 0.25), (1.3, 0.8), (16, -12), (-2, 17), (-22, -22)]
)
def test_a_shift_is_found(cols, rows):
    before = ground()
    after = moved(before, cols, rows) + np.random.default_rng(1).normal(0, 4, before.shape)
    shift = measured(before.astype(np.uint8), after.clip(0, 255).astype(np.uint8))
    assert (shift.cols, shift.rows) == pytest.approx((cols, rows), abs=0.1)
    assert shift.metres == pytest.approx(0.5 * np.hypot(cols, rows), abs=0.05)
    assert shift.agreeing == shift.groups == 5 and shift.windows == 9 and shift.spread < 0.1


@pytest.mark.slow
def test_light_haze_and_type_do_not_matter():
    before = ground()
    after = moved(before, 2.5, -1.5)
    veil = np.linspace(0.1, 0.6, before.shape[2])
    after = (255 * (after.clip(0, 255) / 255) ** 1.4 * (1 - veil) + 210 * veil).astype(np.uint8)
    shift = measured((before * 40).astype(np.uint16), after)
    assert (shift.cols, shift.rows) == pytest.approx((2.5, -1.5), abs=0.1)


@pytest.mark.slow
def test_change_in_a_part_of_the_scene_does_not_matter():
    before = ground()
    after = moved(before, -4, 2)
    after[:, :, 420:] = ground(seed=7)[:, :, 420:]
    shift = measured(before, after)
    assert (shift.cols, shift.rows) == pytest.approx((-4, 2), abs=0.1)


@pytest.mark.slow
def test_other_ground_has_no_shift():
    for seed in (1, 2, 3):
        shift = measured(ground(), ground(seed=seed))
        assert (shift.cols, shift.rows, shift.metres, shift.spread) == (None,) * 4
        assert shift.pixels is shift.remaining is None and shift.windows == 9 and shift.agreeing == 0


@pytest.mark.slow
def test_parts_that_are_displaced_against_each_other_have_no_common_shift():
    before, rim = ground(800, 800), 24
    around = np.pad(before, ((0, 0), (rim, rim), (rim, rim)), mode="edge")
    after = before.copy()
    for row in range(0, 800, 200):
        for col in range(0, 800, 200):
            by = np.random.default_rng([row, col]).uniform(-20, 20, 2)
            part = moved(around[:, row : row + 200 + 2 * rim, col : col + 200 + 2 * rim], *by)
            after[:, row : row + 200, col : col + 200] = part[:, rim:-rim, rim:-rim]
    assert measured(before, after).cols is None


@pytest.mark.slow
def test_the_outline_of_nodata_is_no_structure():
    before = ground()
    after = moved(before, 4, 3)
    rows, cols = np.indices(before.shape[1:])
    valid = (rows // 40 + cols // 60) % 3 > 0
    for image in (before, after):
        image[:, ~valid] = 0
    shift = measured(before, after, valid)
    assert (shift.cols, shift.rows) == pytest.approx((4, 3), abs=0.25) and shift.windows == 9
