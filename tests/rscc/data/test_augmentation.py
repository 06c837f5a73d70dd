from dataclasses import replace

import numpy as np
import pytest
from stored import assert_as_stored
from training_runs import sample

import rscc.data.augmentation as changes
from rscc.data.augmentation import DISTURBANCES, augment_for_masks, random_crop
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


def test_every_change_of_an_image_is_as_stored() -> None:
    names = {"shift_image": (2,), "relight": (), "disturb_scene": (), "add_shadow": (), "add_cars": ()}
    for name in ("jitter_colour", "shift_subpixel", "haze", "tint", "blur", "coarsen", "jpeg"):
        names[name] = (0.5,)
    found = {}
    for name, more in names.items():
        made = [getattr(changes, name)(image(64, 80), rng(seed), *more).astype(float) for seed in range(3)]
        found[name] = [[one.mean(), one.std(), one[:, :9].mean(), *one[:, 20, 30]] for one in made]
    assert_as_stored("disturbances", found, rel=0.005)


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
