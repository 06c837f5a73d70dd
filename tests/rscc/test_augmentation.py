import numpy as np
import pytest

from rscc.data import augmentation
from rscc.data.augmentation import (
    DISTURBANCES,
    augment_for_masks,
    blur,
    coarsen,
    disturb,
    haze,
    jpeg,
    shift_subpixel,
    tint,
)
from rscc.data.pairs import PairSample

every = pytest.mark.parametrize("change", DISTURBANCES.values(), ids=DISTURBANCES)


def image(height: int = 24, width: int = 40) -> np.ndarray:
    """Smooth shapes with a sharp edge, neither black nor white."""
    rows, columns = np.mgrid[:height, :width]
    x = np.stack([60 + 2 * rows, 80 + columns, 90 + rows + columns])
    x[:, height // 3 : height // 2, width // 4 : width // 2] = 190
    return x.astype(np.uint8)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def ramp(width: int = 32) -> np.ndarray:
    return np.broadcast_to(np.arange(width, dtype=np.uint8) * 4, (3, 16, width)).copy()


@every
def test_a_disturbance_is_a_function_of_image_seed_and_strength(change) -> None:
    original = image()
    given = original.copy()
    one = change(given, rng(3), 0.8)
    assert (one.dtype, one.shape) == (np.uint8, original.shape)
    assert one.flags.c_contiguous
    np.testing.assert_array_equal(given, original)
    np.testing.assert_array_equal(one, change(given, rng(3), 0.8))
    assert any(not np.array_equal(one, change(given, rng(seed), 0.8)) for seed in range(4, 9))
    assert not np.array_equal(one, original)


@every
def test_strength_0_leaves_image_and_generator_alone(change) -> None:
    generator = rng(1)
    np.testing.assert_array_equal(change(image(), generator, 0.0), image())
    assert generator.random() == rng(1).random()


@every
def test_more_strength_changes_more(change) -> None:
    def moved(strength: float) -> float:
        pairs = [(change(image(), rng(seed), strength), image()) for seed in range(12)]
        return float(np.mean([np.abs(a.astype(int) - b).mean() for a, b in pairs]))

    assert moved(0.1) < moved(0.5) < moved(1.0)


@every
def test_shapes_stay_where_they_are(change) -> None:
    """The bright block is still the brightest thing, and its centre moves by less than two pixels."""
    for seed in range(5):
        grey = change(image(), rng(seed), 1.0).astype(float).mean(0)
        above = grey > np.median(grey) + 0.6 * (grey.max() - np.median(grey))
        centre = np.argwhere(above).mean(0)
        np.testing.assert_allclose(centre, (9.5, 14.5), atol=2)


@every
def test_tiny_and_flat_images_are_served(change) -> None:
    for shape in ((3, 1, 1), (3, 2, 7)):
        flat = np.full(shape, 128, np.uint8)
        assert change(flat, rng(), 1.0).shape == shape


def test_a_shift_reads_between_pixels() -> None:
    for seed in range(5):
        dx = float(rng(seed).uniform(-1.5, 1.5, 2)[1])
        moved = shift_subpixel(ramp(), rng(seed), 1.0)
        np.testing.assert_allclose(moved[:, :, 4:-4].astype(float) - ramp()[:, :, 4:-4], 4 * dx, atol=0.5)


def test_haze_brightens_and_flattens_but_keeps_the_order() -> None:
    dark = ramp() // 2
    veiled = haze(dark, rng(2), 1.0).astype(int)
    assert veiled.min() > dark.min()
    assert veiled.std() < dark.std()


def test_a_tint_turns_plants_more_than_roofs() -> None:
    plants = np.broadcast_to(np.array([70, 110, 60], np.uint8)[:, None, None], (3, 8, 8)).copy()
    roofs = np.full((3, 8, 8), 90, np.uint8)
    ways = set()
    for seed in range(8):
        turned = (tint(plants, rng(seed), 1.0).astype(int) - plants).mean((1, 2))
        grey = (tint(roofs, rng(seed), 1.0).astype(int) - roofs).mean((1, 2))
        assert turned[0] * turned[1] < 0, "red and green move apart"
        assert abs(grey[0]) < abs(turned[0])
        ways.add(turned[0] > 0)
    assert ways == {True, False}, "to brown and back to green"


def test_blur_and_coarse_pixels_soften_edges_and_keep_the_mean() -> None:
    for change in (blur, coarsen):
        soft = change(image(), rng(1), 1.0)
        sharpest = [np.abs(np.diff(a.astype(int), axis=2)).max() for a in (soft, image())]
        assert sharpest[0] < sharpest[1]
        assert abs(soft.mean() - image().mean()) < 2


def test_jpeg_is_coarser_at_more_strength() -> None:
    noise = rng(0).integers(0, 256, (3, 32, 32), dtype=np.uint8)
    lost = [np.abs(jpeg(noise, rng(1), s).astype(int) - noise).mean() for s in (0.2, 1.0)]
    assert 0 < lost[0] < lost[1]


def test_disturb_applies_each_at_times(monkeypatch) -> None:
    called = []
    fakes = {name: lambda x, r, s, name=name: called.append((name, s)) or x for name in DISTURBANCES}
    monkeypatch.setattr(augmentation, "DISTURBANCES", fakes)
    for seed in range(60):
        disturb(image(), rng(seed), 0.4)
    names = [name for name, _ in called]
    assert {s for _, s in called} == {0.4}
    assert all(5 < names.count(name) < 35 for name in DISTURBANCES)
    generator = rng(1)
    assert disturb(image(), generator, 0.0) is not None
    assert generator.random() == rng(1).random(), "at strength 0 nothing is drawn"


def test_crops_for_masks_are_disturbed_after_everything_else() -> None:
    """The same turns and colours with and without, so that earlier results can be had again."""
    mask = np.zeros((24, 24), bool)
    mask[3:9, 4:12] = True
    one = PairSample("x", image(24, 24), image(24, 24)[::-1].copy(), mask, (), None)
    differ = 0
    for seed in range(10):
        plain, again = (augment_for_masks(one, rng(seed), d) for d in (0.0, 0.6))
        np.testing.assert_array_equal(plain.mask, again.mask)
        differ += not np.array_equal(plain.before, again.before)
    assert differ >= 5
