import numpy as np
import pytest
from scipy import ndimage

from rscc.data.synthesis.blending import feather, find_ground, insert_building, remove_building

ROOF = (200, 60, 50)


def field(seed: int, colour=(110, 125, 80), size: int = 128) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(0, 12, (size, size)), 1.2)
    return np.clip(np.array(colour)[:, None, None] + noise, 0, 255).astype(np.uint8)


def with_house(image: np.ndarray, top: int, left: int) -> tuple[np.ndarray, np.ndarray]:
    image, mask = image.copy(), np.zeros(image.shape[1:], bool)
    mask[top : top + 22, left : left + 28] = True
    image[:, mask] = np.array(ROOF)[:, None]
    return image, mask


@pytest.mark.parametrize("seed", range(2))
def test_an_inserted_building_lies_on_ground_and_changes_nothing_else(seed: int) -> None:
    place, known = with_house(field(seed), 70, 70)
    donor, building = with_house(field(seed + 9, (140, 120, 100)), 30, 40)
    ground = find_ground(place, known)
    put = insert_building(place, ground, donor, building, np.random.default_rng(seed))
    np.testing.assert_array_equal(put.image[:, put.alpha == 0], place[:, put.alpha == 0])
    assert ground[put.alpha > 0].all() and not (put.mask & known).any()
    assert put.mask.sum() == building.sum()
    np.testing.assert_array_equal(feather(put.mask), put.alpha)
    # The roof is there, redder than everything around it.
    redness = put.image[0].astype(int) - put.image[1]
    assert redness[put.mask].mean() > redness[~put.mask & ~known].mean() + 40


def test_nothing_is_inserted_without_ground() -> None:
    donor, building = with_house(field(1), 40, 40)
    rng = np.random.default_rng(0)
    assert insert_building(field(0), np.zeros((128, 128), bool), donor, building, rng) is None
    side = 2 + 6  # one pixel of the fading ground too narrow on each side
    narrow = np.zeros((128, 128), bool)
    narrow[60 - side + 2 : 82 + side - 2, 10:120] = True
    assert insert_building(field(0), narrow, donor, building, rng) is None
    small = field(0, size=24)
    assert insert_building(small, np.ones((24, 24), bool), donor, building, rng) is None


@pytest.mark.parametrize("seed", range(2))
def test_a_removed_building_is_gone(seed: int) -> None:
    place, building = with_house(field(seed), 50, 60)
    ground = find_ground(place, building)
    gone = remove_building(place, ground, building, np.random.default_rng(seed))
    np.testing.assert_array_equal(gone.mask, building)
    np.testing.assert_array_equal(gone.image[:, gone.alpha == 0], place[:, gone.alpha == 0])
    np.testing.assert_allclose(gone.image[:, building].mean(1), field(seed).mean((1, 2)), atol=8)
