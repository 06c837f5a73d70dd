import numpy as np
import pytest
from scipy import ndimage

from rscc.data.synthesis.blending import feather, find_ground, insert_building, match_colours, remove_building

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


def test_feather_is_whole_then_fades() -> None:
    mask = np.zeros((60, 60), bool)
    mask[20:30, 20:30] = True
    alpha = feather(mask)
    assert (alpha[mask] == 1).all() and alpha[25, 31] == 1
    line = alpha[25, 31:38]
    assert (np.diff(line) < 0).all() and line[-1] == 0
    assert not feather(np.zeros((5, 5), bool)).any()


@pytest.mark.parametrize("seed", range(4))
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


def test_the_border_of_a_piece_takes_the_colour_of_the_ground() -> None:
    place, donor = field(0, (90, 130, 70)), field(1, (150, 120, 110))
    donor, building = with_house(donor, 40, 40)
    put = insert_building(place, np.ones((128, 128), bool), donor, building, np.random.default_rng(0))
    seam = (put.alpha > 0) & (put.alpha < 1)
    np.testing.assert_allclose(put.image[:, seam].mean(1), place[:, seam].mean(1), atol=8)


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


@pytest.mark.parametrize("seed", range(4))
def test_a_removed_building_is_gone(seed: int) -> None:
    place, building = with_house(field(seed), 50, 60)
    ground = find_ground(place, building)
    gone = remove_building(place, ground, building, np.random.default_rng(seed))
    np.testing.assert_array_equal(gone.mask, building)
    np.testing.assert_array_equal(gone.image[:, gone.alpha == 0], place[:, gone.alpha == 0])
    np.testing.assert_allclose(gone.image[:, building].mean(1), field(seed).mean((1, 2)), atol=8)


def test_the_earlier_date_covers_what_no_other_ground_does() -> None:
    earlier = field(5)
    place, building = with_house(earlier, 50, 60)
    none = np.zeros((128, 128), bool)
    gone = remove_building(place, none, building, np.random.default_rng(0), earlier=field(5, (90, 110, 70)))
    np.testing.assert_allclose(gone.image[:, building].mean(1), earlier[:, building].mean(1), atol=12)


def test_another_building_is_never_copied_as_ground() -> None:
    place, building = with_house(field(0), 50, 60)
    assert remove_building(place, np.zeros((128, 128), bool), building, np.random.default_rng(0)) is None
    unlike = np.random.default_rng(0).integers(0, 256, place.shape, dtype=np.uint8)
    unlike[:, :40] = 90  # a flat strip is no piece of this noisy ground
    strip = np.zeros((128, 128), bool)
    strip[:40] = True
    lone = np.zeros((128, 128), bool)
    lone[80:95, 60:75] = True
    assert remove_building(unlike, strip, lone, np.random.default_rng(0)) is None


def test_ground_is_even_and_unbuilt() -> None:
    place, house = with_house(field(3), 20, 20)
    place[:, 90:96] = np.array((190, 190, 190))[:, None, None]  # a road
    place[:, 104:] = np.array((20, 30, 40))[:, None, None]  # a river
    ground = find_ground(place, house)
    assert not ground[house].any() and not ground[90:96].any() and not ground[104:].any()
    assert not find_ground(place, np.zeros_like(house))[18:22, 20:40].any(), "the edge of an unknown roof"
    assert ground[50:80, 60:120].mean() > 0.9


def test_colours_are_those_of_the_model() -> None:
    image, model = field(0, (200, 90, 100)), field(1)
    matched = match_colours(image, model)
    np.testing.assert_allclose(matched.mean((1, 2)), model.mean((1, 2)), atol=1)
    flat = np.full((3, 16, 16), 9, np.uint8)
    assert np.ptp(match_colours(flat, model)) <= np.ptp(model.mean((1, 2))) + 1
