import numpy as np
import pytest
from rasters import textured, write_scene

from tiling import describe
from tiling.radiometry import Stretch, Table, fill_values


def samples(dtype, low, high, seed=0):
    return np.random.default_rng(seed).uniform(low, high, (3, 5000)).astype(dtype)


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


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", ">u2", ">i2"])
@pytest.mark.parametrize("shape", [(2**16,), (256, 256)])
def test_every_small_integer_becomes_what_is_computed_of_it(dtype, shape):
    every = np.arange(2**16, dtype=np.uint16).astype(dtype).reshape(shape)
    values = np.stack([every, every[::-1], np.roll(every, 7)])[:, ::3]
    for table in (
        Table((5.0, -300.5, 0.0), (5.0, 40_000.25, 100.0)),
        Table((0.0, 10.0, 1e3), (1e5, 11.0, 1.0), (9.5, 0.0, 255.0), (200.0, 254.6, 0.0)),
    ):
        shown = table.apply(values)
        assert shown.dtype == np.uint8 and shown.shape == values.shape
        np.testing.assert_array_equal(shown, np.rint(table.grey(values)))


# --- what stands for nodata but is not declared


def with_fill(values, fill, share):
    pixels = np.tile(values, (3, 1))
    pixels[:, : round(share * pixels.shape[1])] = fill
    return pixels


@pytest.mark.parametrize(
    ("dtype", "low", "high", "fill", "share", "is_fill"),
    [
        ("float32", 0, 1, -9999, 0.03, True),
        ("float32", 0, 1, np.finfo(np.float32).min, 0.5, True),
        ("uint16", 300, 3000, 65535, 0.3, True),
        ("uint16", 300, 3000, 0, 0.06, True),
        ("uint16", 300, 3000, 0, 0.02, False),  # dark ground
        ("int16", 300, 3000, -9999, 0.005, False),  # too few to matter
        ("uint16", 300, 3000, 3100, 0.3, False),  # bright roofs
        ("uint8", 20, 200, 0, 0.1, True),
        ("uint8", 20, 90, 255, 0.1, True),
        ("uint8", 20, 200, 255, 0.1, False),  # clouds
        ("uint8", 20, 90, 245, 0.1, False),  # roofs: fill of 8 bits is black or white
    ],
)
def test_values_far_from_all_others_are_taken_for_fill(dtype, low, high, fill, share, is_fill):
    values = np.random.default_rng(0).uniform(low, high, 10_000).astype(dtype)
    expected = {float(np.array(fill, dtype)): pytest.approx(share, abs=0.01)} if is_fill else {}
    assert fill_values(with_fill(values, fill, share)) == expected


# --- a scale that was asked for


def info_of(path, dtype, **said):
    return describe(write_scene(path, textured(8, 9, dtype="float64").astype(dtype), **said))


REFLECTANCES = {
    "ten-thousandths": ("uint16", {}, (0, 3000)),
    "signed": ("int16", {}, (0, 3000)),
    "fractions": ("float32", {}, (0, 0.3)),
    "the file's own": ("uint16", {"scales": [2e-4] * 3, "offsets": [-0.1] * 3}, (500, 2000)),
    "the file's own of 8 bits": ("uint8", {"scales": [0.002] * 3}, (0, 150)),
    "Landsat's names": ("uint16", {"names": ("SR_B4", "SR_B3", "SR_B2")}, (7272.73, 18181.8)),
    "Sentinel's names": ("uint16", {"names": ("B04", "B03", "B02")}, (0, 3000)),
}


@pytest.mark.parametrize("kind", REFLECTANCES)
def test_reflectances(tmp_path, kind):
    dtype, said, limits = REFLECTANCES[kind]
    info = info_of(tmp_path / "a.tif", dtype, **said)
    table = Stretch.reflectance((info, info), ((1, 2, 3),) * 2).after
    assert (table.low[1], table.high[1]) == pytest.approx(limits, rel=1e-5)
    assert table.dark == (0,) * 3 and table.bright == (255,) * 3
