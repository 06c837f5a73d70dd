from dataclasses import replace

import numpy as np
import pytest
from pair_samples import sample

from rscc.data import augmentation
from rscc.data.augmentation import (
    DISTURBANCES,
    augment_for_masks,
    blur,
    coarsen,
    disturb,
    haze,
    jitter_colour,
    random_crop,
    shift_image,
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


def ramp() -> np.ndarray:
    return np.broadcast_to(np.arange(32, dtype=np.uint8) * 4, (3, 16, 32)).copy()


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


def test_a_crop_takes_images_and_mask_from_one_place() -> None:
    one = sample(height=60, width=80)
    place = np.arange(60 * 80).reshape(60, 80)
    marked = replace(
        one,
        before=np.stack([place % 256] * 3).astype(np.uint8),
        after=np.stack([place % 256] * 3).astype(np.uint8),
        mask=place % 2 == 0,
    )
    corners = set()
    for seed in range(20):
        cut = random_crop(marked, 32, 32, rng(seed))
        assert cut.before.shape == (3, 32, 32)
        np.testing.assert_array_equal(cut.before, cut.after)
        np.testing.assert_array_equal(cut.mask, cut.before[0] % 2 == 0)
        corners.add(int(cut.before[0, 0, 0]))
    assert len(corners) > 10
    small = random_crop(sample(height=24, width=40), 64, 32, rng(0))
    assert small.before.shape == (3, 32, 32)


def test_augmentation_for_masks_keeps_the_mask_on_the_change() -> None:
    mask = np.zeros((32, 32), bool)
    mask[4:12, 18:28] = True
    before = np.full((3, 32, 32), 60, np.uint8)
    after = before.copy()
    after[:, mask] = 200
    swapped = 0
    for seed in range(40):
        one = augment_for_masks(PairSample("x", before, after, mask, (), None), rng(seed))
        assert one.before.dtype == one.after.dtype == np.uint8
        assert one.mask.sum() == mask.sum()
        dates = [one.before.astype(int).mean(0), one.after.astype(int).mean(0)]
        contrast = [abs(date[one.mask].mean() - date[~one.mask].mean()) for date in dates]
        swapped += contrast[0] > contrast[1]
        assert max(contrast) > 10 * min(contrast), "one date has the square, at the mask"
    assert 10 < swapped < 30


def test_jitter_and_shift_are_small_and_reproducible() -> None:
    image = sample(height=32, width=32).before
    np.testing.assert_array_equal(jitter_colour(image, rng(3), 0.3), jitter_colour(image, rng(3), 0.3))
    assert not np.array_equal(jitter_colour(image, rng(3), 0.3), jitter_colour(image, rng(4), 0.3))
    assert np.abs(jitter_colour(image, rng(3), 0.0).astype(int) - image).max() <= 1
    moved = shift_image(image, rng(5), 2)
    assert moved.shape == image.shape
    matches = [
        np.array_equal(np.roll(image, (-dy, -dx), (1, 2))[:, 2:-2, 2:-2], moved[:, 2:-2, 2:-2])
        for dy in range(-2, 3)
        for dx in range(-2, 3)
    ]
    assert sum(matches) == 1
