"""Buildings that touch in a mask are split; one building stays one."""

import numpy as np
import pytest

from rscc.facts import objects
from rscc.facts.objects import both_sizes, object_sizes, split_objects


def mask_of(*boxes: tuple[int, int, int, int], shape=(80, 120)) -> np.ndarray:
    """Mark rectangles (row, column, height, width)."""
    mask = np.zeros(shape, bool)
    for row, column, height, width in boxes:
        mask[row : row + height, column : column + width] = True
    return mask


HOUSE = (20, 10, 24, 20)
BRIDGE = (30, 30, 4, 6)
NEXT = (20, 36, 24, 20)


def test_two_houses_with_a_bridge_between_them_are_two_objects_and_share_its_pixels() -> None:
    mask = mask_of(HOUSE, BRIDGE, NEXT)
    labels, count, _ = split_objects(mask)
    assert count == 2
    assert np.array_equal(labels > 0, mask)
    one, two = labels[30, 15], labels[30, 50]
    assert {one, two} == {1, 2}
    assert np.count_nonzero(labels == one) == pytest.approx(24 * 20 + 12, abs=12)
    assert sorted(object_sizes(mask)) == sorted(np.bincount(labels.ravel())[1:])


@pytest.mark.parametrize(
    "boxes",
    [
        [HOUSE],
        [(20, 10, 12, 80)],  # a long hall
        [(10, 10, 50, 16), (44, 10, 16, 60)],  # an L
        [(2, 2, 1, 1)],
        [(0, 0, 30, 30)],  # in the corner of the picture
        [(20, 10, 24, 20), (30, 8, 4, 4)],  # a porch
    ],
)
def test_one_building_is_one_object(boxes) -> None:
    assert split_objects(mask_of(*boxes))[1] == 1


def test_only_a_narrow_waist_parts_for_certain() -> None:
    narrow, wide = mask_of(HOUSE, BRIDGE, NEXT), mask_of(HOUSE, (25, 30, 14, 6), NEXT)
    assert split_objects(narrow)[1] == split_objects(wide)[1] == 2
    assert sorted(both_sizes(narrow)[1]) == sorted(object_sizes(narrow))
    assert both_sizes(wide)[1].tolist() == [wide.sum()]
    third = mask_of(HOUSE, BRIDGE, NEXT, (25, 56, 14, 6), (20, 62, 24, 20))
    assert both_sizes(third)[0].tolist() == object_sizes(third).tolist()
    assert len(object_sizes(third)) == 3 and len(both_sizes(third)[1]) == 2
    assert both_sizes(third)[1].sum() == third.sum()
    assert both_sizes(mask_of(HOUSE))[1].tolist() == [24 * 20]


@pytest.mark.slow
def test_objects_are_the_same_without_the_fast_path_for_one_hill(monkeypatch) -> None:
    chance = np.random.default_rng(0)
    masks = []
    for _ in range(300):
        corners = chance.integers(4, 24, (chance.integers(1, 5), 2))
        masks.append(mask_of(*((*corner, *chance.integers(2, 24, 2)) for corner in corners), shape=(52, 52)))
    fast = [both_sizes(mask) for mask in masks]
    monkeypatch.setattr(objects, "_has_one_hill", lambda heights: False)
    for mask, sizes in zip(masks, fast, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(both_sizes(mask), sizes, strict=True))
    assert {len(sizes) for sizes, _ in fast} >= {1, 2}
