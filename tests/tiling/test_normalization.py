import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiling.normalization import Normalization
from tiling.radiometry import Table


def cells(seed=0, count=4000):
    """Grey values (3, n) of some ground: two kinds of surface and what is between."""
    rng = np.random.default_rng(seed)
    surface = rng.choice([70.0, 110.0, 160.0], count, p=[0.5, 0.35, 0.15])
    return surface + rng.normal(0, 12, (3, count))


def test_other_light_is_found():
    before = cells()
    noise = np.random.default_rng(1).normal(0, 3, before.shape)
    after = before * np.array([[0.7], [0.8], [0.9]]) + np.array([[20], [5], [-10]]) + noise
    light = Normalization.fit(before, after)
    assert light.gain == pytest.approx((1 / 0.7, 1 / 0.8, 1 / 0.9), rel=0.03)
    assert light.offset == pytest.approx((-20 / 0.7, -5 / 0.8, 10 / 0.9), abs=3)
    assert min(light.correlation) > 0.95 and light.stable > 0.9


def test_the_same_light_is_left_alone():
    before = cells()
    light = Normalization.fit(before, before + np.random.default_rng(1).normal(0, 8, before.shape))
    # Noise on one date must not pull the line towards it.
    assert light.gain == pytest.approx((1, 1, 1), abs=0.08)
    assert not Normalization.fit(before, before * 1.005 + 1).applied
    assert Normalization.fit(before, before * 1.005 + 8).applied
    assert Normalization.fit(before, before * 0.95).applied


def test_a_veil_of_uneven_thickness_is_matched_on_the_whole():
    before = cells()
    veil = np.random.default_rng(1).uniform(0.2, 0.6, before.shape[1])
    after = before * (1 - veil) + 205 * veil
    light = Normalization.fit(before, after)
    back = after * np.array(light.gain)[:, None] + np.array(light.offset)[:, None]
    assert min(light.correlation) < 0.9
    assert np.abs(back.mean(1) - before.mean(1)).max() < 5
    assert back.std() == pytest.approx(before.std(), rel=0.15)


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


def test_clipped_values_tell_nothing():
    before = cells()
    after = (before * 2.2 - 60).clip(0, 255)
    light = Normalization.fit(before, after)
    assert light.gain == pytest.approx((1 / 2.2,) * 3, rel=0.1)


def test_dates_that_do_not_go_together():
    assert Normalization.fit(cells(), cells(1)) is None
    assert Normalization.fit(cells(), 255 - cells()) is None
    assert Normalization.fit(cells(), cells() * 0.2 + 100) is None, "a gain of 5 would be all noise"
    assert Normalization.fit(cells()[:, :100], cells()[:, :100]) is None
    flat = np.full((3, 1000), 80.0)
    assert Normalization.fit(flat, flat) is None


def test_a_table_stretches_and_normalises_at_once():
    light = Normalization((1.5, 1.0, 0.5), (-10.0, 0.0, 20.0), (1.0,) * 3, 1.0)
    values = np.array([[10, 100, 200]] * 3, np.uint8)
    shown = light.table(None).apply(values)
    assert shown.tolist() == [[5, 140, 255], [10, 100, 200], [25, 70, 120]]
    stretched = light.table(Table((0.0,) * 3, (1000.0,) * 3)).grey(np.full((3, 1), 500.0))
    assert stretched[:, 0] == pytest.approx([127.5 * 1.5 - 10, 127.5, 127.5 / 2 + 20])


@given(st.floats(0.5, 2.0), st.floats(-25, 25))
def test_any_moderate_light_comes_back(gain, offset):
    before = cells(count=1500)
    after = before * gain + offset
    inside = ((after > 2) & (after < 253)).all(axis=0)
    light = Normalization.fit(before[:, inside], after[:, inside])
    back = after[:, inside] * np.array(light.gain)[:, None] + np.array(light.offset)[:, None]
    assert np.abs(back - before[:, inside]).max() < 0.5


def test_the_record_is_plain():
    record = json.loads(json.dumps(Normalization.fit(cells(), cells() * 0.9 + 5).as_dict()))
    assert record["gain"] == pytest.approx([1.1111] * 3, abs=1e-3) and record["stable"] <= 1
