"""How many true objects are found, by their size."""

import numpy as np
import pytest

from rscc.evaluation.masks import SIZES, MaskCounter
from rscc.evaluation.report import size_table


def boxes(*places: tuple[int, int, int, int], size: int = 64) -> np.ndarray:
    """Mark rectangles (row, column, height, width) in a mask."""
    mask = np.zeros((size, size), bool)
    for row, column, height, width in places:
        mask[row : row + height, column : column + width] = True
    return mask


def found(counter: MaskCounter) -> dict[int, tuple[int, int]]:
    return {size.least: (size.objects, size.found) for size in counter.scores().by_size}


def test_objects_are_found_by_half_of_their_pixels_and_counted_by_their_ground_area() -> None:
    counter = MaskCounter()
    # At 0.5 m: 10 x 10 px are 25 m2, 10 x 20 px 50 m2, 20 x 30 px 150 m2.
    truth = boxes((2, 2, 10, 10), (2, 20, 10, 20), (30, 30, 20, 30))
    counter.add(boxes((2, 2, 10, 5), (2, 20, 10, 9), (30, 30, 20, 16)), truth, gsd=0.5)
    assert found(counter) == {0: (1, 1), 50: (1, 0), 100: (1, 1), 200: (0, 0), 400: (0, 0)}
    # The same pixels at 1 m are four times as much ground.
    counter = MaskCounter()
    counter.add(truth, truth, gsd=1.0)
    assert found(counter) == {0: (0, 0), 50: (0, 0), 100: (1, 1), 200: (1, 1), 400: (1, 1)}


@pytest.mark.parametrize("place", [(0, 5), (5, 0), (54, 5), (5, 54)])
def test_objects_that_the_border_cuts_are_left_out(place) -> None:
    counter = MaskCounter()
    truth = boxes((*place, 10, 10), (25, 25, 10, 10))
    counter.add(np.zeros_like(truth), truth, gsd=0.5)
    assert found(counter)[0] == (1, 0)


def test_objects_that_touch_at_a_corner_are_two() -> None:
    counter = MaskCounter()
    truth = boxes((5, 5, 10, 10), (15, 15, 10, 10))
    counter.add(truth, truth, gsd=0.5)
    assert found(counter)[0] == (2, 2)


def test_without_a_gsd_no_size_is_known() -> None:
    counter = MaskCounter()
    counter.add(boxes((5, 5, 10, 10)), boxes((5, 5, 10, 10)))
    assert counter.scores().by_size == []


def test_the_table_names_every_class() -> None:
    counter = MaskCounter()
    counter.add(boxes((5, 5, 10, 10)), boxes((5, 5, 10, 10), (30, 30, 10, 10)), gsd=0.5)
    lines = size_table(counter.scores().by_size, "model").splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "0 to 50",
        "50 to 100",
        "100 to 200",
        "200 to 400",
        "400 and more",
    ]
    assert len(lines) == 2 + len(SIZES)
    assert "50.0 (9.5-90.5)" in lines[2]
    assert lines[3].split("|")[3].strip() == "–"
