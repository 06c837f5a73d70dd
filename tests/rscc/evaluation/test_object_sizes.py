"""How many true objects are found, by their size."""

import numpy as np
import pytest

from rscc.evaluation.score_rows import MaskCounter


def boxes(*places: tuple[int, int, int, int]) -> np.ndarray:
    """Mark rectangles (row, column, height, width) in a mask."""
    mask = np.zeros((64, 64), bool)
    for row, column, height, width in places:
        mask[row : row + height, column : column + width] = True
    return mask


def found(predicted: np.ndarray, truth: np.ndarray, gsd: float = 0.5) -> dict[int, tuple[int, int]]:
    counter = MaskCounter()
    counter.add(predicted, truth, gsd=gsd)
    return {size.least: (size.objects, size.found) for size in counter.scores().by_size}


def test_objects_are_found_by_half_of_their_pixels_and_counted_by_their_ground_area() -> None:
    # At 0.5 m: 10 x 10 px are 25 m2, 10 x 20 px 50 m2, 20 x 30 px 150 m2.
    truth = boxes((2, 2, 10, 10), (2, 20, 10, 20), (30, 30, 20, 30))
    predicted = boxes((2, 2, 10, 5), (2, 20, 10, 9), (30, 30, 20, 16))
    assert found(predicted, truth) == {0: (1, 1), 50: (1, 0), 100: (1, 1), 200: (0, 0), 400: (0, 0)}
    # The same pixels at 1 m are four times as much ground.
    four_times = {0: (0, 0), 50: (0, 0), 100: (1, 1), 200: (1, 1), 400: (1, 1)}
    assert found(truth, truth, gsd=1.0) == four_times


@pytest.mark.parametrize("place", [(0, 5), (5, 0), (54, 5), (5, 54)])
def test_objects_that_the_border_cuts_are_left_out(place) -> None:
    truth = boxes((*place, 10, 10), (25, 25, 10, 10))
    assert found(np.zeros_like(truth), truth)[0] == (1, 0)
