import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiling.normalization import Normalization


def cells(seed=0, count=4000):
    """Grey values (3, n) of some ground: two kinds of surface and what is between."""
    rng = np.random.default_rng(seed)
    surface = rng.choice([70.0, 110.0, 160.0], count, p=[0.5, 0.35, 0.15])
    return surface + rng.normal(0, 12, (3, count))


def test_the_same_light_is_left_alone():
    before = cells()
    light = Normalization.fit(before, before + np.random.default_rng(1).normal(0, 8, before.shape))
    # Noise on one date must not pull the line towards it.
    assert light.gain == pytest.approx((1, 1, 1), abs=0.08)
    assert not Normalization.fit(before, before * 1.005 + 1).applied
    assert Normalization.fit(before, before * 1.005 + 8).applied
    assert Normalization.fit(before, before * 0.95).applied


@pytest.mark.parametrize("share", [0.1, 0.25])
def test_what_changed_has_no_say(share):
    before = cells()
    after = before * 0.8 + 15
    built = slice(0, int(share * before.shape[1]))
    after[:, built] = np.random.default_rng(3).normal(215, 10, after[:, built].shape)
    light = Normalization.fit(before, after)
    assert light.gain == pytest.approx((1.25,) * 3, rel=0.05)
    # The new roofs stay as much brighter as they are.
    back = after * np.array(light.gain)[:, None] + np.array(light.offset)[:, None]
    assert np.abs(back[:, built] - (215 - 15) / 0.8).mean() < 20
    assert np.abs(back[:, built.stop :] - before[:, built.stop :]).mean() < 4


def test_dates_that_do_not_go_together():
    assert Normalization.fit(cells(), cells(1)) is None
    assert Normalization.fit(cells(), 255 - cells()) is None
    assert Normalization.fit(cells(), cells() * 0.2 + 100) is None, "a gain of 5 would be all noise"
    assert Normalization.fit(cells()[:, :100], cells()[:, :100]) is None
    flat = np.full((3, 1000), 80.0)
    assert Normalization.fit(flat, flat) is None


@given(st.floats(0.5, 2.0), st.floats(-25, 25))
def test_any_moderate_light_comes_back(gain, offset):
    before = cells(count=1500)
    after = before * gain + offset
    inside = ((after > 2) & (after < 253)).all(axis=0)
    light = Normalization.fit(before[:, inside], after[:, inside])
    back = after[:, inside] * np.array(light.gain)[:, None] + np.array(light.offset)[:, None]
    assert np.abs(back - before[:, inside]).max() < 0.5
