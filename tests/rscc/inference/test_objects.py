"""Buildings that touch in a mask are parted; one building stays one."""

import numpy as np
import pytest
from scipy import ndimage

from rscc.inference.facts import counted
from rscc.inference.objects import both_sizes, object_sizes, parted


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
    labels, count = parted(mask)
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
    assert parted(mask_of(*boxes))[1] == 1


def test_a_row_of_houses_drawn_as_one_is_as_many_as_it_has_waists() -> None:
    houses = [(20, 4 + 22 * number, 24, 16) for number in range(5)]
    bridges = [(30, 20 + 22 * number, 4, 6) for number in range(4)]
    assert parted(mask_of(*houses, *bridges))[1] == 5
    assert ndimage.label(mask_of(*houses, *bridges))[1] == 1


def test_only_a_narrow_waist_parts_for_certain() -> None:
    narrow, wide = mask_of(HOUSE, BRIDGE, NEXT), mask_of(HOUSE, (25, 30, 14, 6), NEXT)
    assert parted(narrow)[1] == parted(wide)[1] == 2
    assert sorted(both_sizes(narrow)[1]) == sorted(object_sizes(narrow))
    assert both_sizes(wide)[1].tolist() == [wide.sum()]
    third = mask_of(HOUSE, BRIDGE, NEXT, (25, 56, 14, 6), (20, 62, 24, 20))
    assert both_sizes(third)[0].tolist() == object_sizes(third).tolist()
    assert len(object_sizes(third)) == 3 and len(both_sizes(third)[1]) == 2
    assert both_sizes(third)[1].sum() == third.sum()
    assert both_sizes(mask_of(HOUSE))[1].tolist() == [24 * 20]


def test_an_empty_mask_has_no_object() -> None:
    labels, count = parted(np.zeros((5, 7), bool))
    assert (labels.shape, count, len(object_sizes(labels > 0))) == ((5, 7), 0, 0)


def test_turning_a_mask_changes_no_count() -> None:
    mask = mask_of(HOUSE, BRIDGE, NEXT, (60, 60, 8, 8))
    assert {parted(np.ascontiguousarray(view))[1] for view in (mask, mask.T, mask[::-1], mask[:, ::-1])} == {
        3
    }


def test_pictures_count_objects_and_leave_out_outlines_that_are_too_small() -> None:
    outlines, sizes = counted(mask_of(HOUSE, BRIDGE, NEXT, (70, 100, 5, 5)))
    assert len(sizes) == 2 and sizes.sum() == outlines.sum()
    assert np.array_equal(outlines, mask_of(HOUSE, BRIDGE, NEXT))
