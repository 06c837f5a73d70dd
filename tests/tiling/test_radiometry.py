import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiling import Stretch
from tiling.radiometry import Table


def samples(dtype, low, high, seed=0):
    return np.random.default_rng(seed).uniform(low, high, (3, 5000)).astype(dtype)


def test_uint8_is_left_alone():
    stretch = Stretch.fit(samples("uint8", 0, 90), samples("uint8", 100, 250))
    assert stretch.as_dict() == {"kind": "none"} and stretch.before is stretch.after is None


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32"])
def test_one_type_shares_one_table_fitted_on_both_dates(dtype):
    before, after = samples(dtype, 100, 1000), samples(dtype, 2000, 3000, 1)
    stretch = Stretch.fit(before, after)
    assert stretch.kind == "shared" and stretch.before is stretch.after
    expected = np.percentile(np.concatenate([before, after], axis=1).astype(float), (2, 98), axis=1)
    np.testing.assert_allclose([stretch.before.low, stretch.before.high], expected)
    # The dates do not become alike: what differs on the ground differs in the picture.
    dark, bright = stretch.before.apply(before[:, None]), stretch.after.apply(after[:, None])
    assert bright.mean() - dark.mean() > 100


def test_scenes_of_different_types_meet_at_their_percentiles():
    ground = samples("float64", 20, 230)
    eight, sixteen = ground.astype(np.uint8), (ground * 40 + 300).astype(np.uint16)
    stretch = Stretch.fit(eight, sixteen)
    assert stretch.kind == "per type" and stretch.before is None
    back = stretch.after.apply(sixteen[:, None])[:, 0]
    inner = (eight > 30) & (eight < 220)
    assert np.abs(back[inner].astype(int) - eight[inner]).max() <= 2
    turned = Stretch.fit(sixteen, eight)
    assert turned.before == stretch.after and turned.after is None


def test_two_types_without_uint8_use_all_of_the_range():
    ground = samples("float64", 20, 230)
    stretch = Stretch.fit((ground * 40).astype(np.uint16), (ground / 255).astype(np.float32))
    one = stretch.before.apply((ground * 40).astype(np.uint16)[:, None])
    other = stretch.after.apply((ground / 255).astype(np.float32)[:, None])
    assert np.abs(one.astype(int) - other).max() <= 2
    assert one.min() == 0 and one.max() == 255


def test_a_flat_band_does_not_divide_by_zero():
    table = Table((5.0, 0.0, 0.0), (5.0, 10.0, 10.0))
    out = table.apply(np.full((3, 1, 2), 5, np.int16))
    assert out[:, 0, 0].tolist() == [0, 128, 128]


def test_what_is_not_finite_becomes_zero():
    table = Table((0.0,) * 3, (1.0,) * 3)
    values = np.tile(np.array([np.nan, np.inf, -np.inf, 2.0, -1.0, 0.5], np.float32), (3, 1, 1))
    assert table.apply(values)[0, 0].tolist() == [0, 0, 0, 255, 0, 128]


@given(st.floats(-1e6, 1e6), st.floats(0.01, 1e6), st.lists(st.floats(-1e7, 1e7), min_size=2, max_size=9))
def test_brighter_stays_brighter(low, span, values):
    table = Table((low,) * 3, (low + span,) * 3)
    line = np.sort(np.array(values, np.float64))
    assert (np.diff(table.apply(np.tile(line, (3, 1, 1))).astype(int)) >= 0).all()


def test_the_record_is_plain():
    stretch = Stretch.fit(samples("uint16", 0, 1000), samples("float32", 0, 1))
    record = json.loads(json.dumps(stretch.as_dict()))
    assert record["kind"] == "per type" and record["percentiles"] == [2, 98]
    assert record["before"]["low"] == list(stretch.before.low)
