"""Outlines that cross themselves: GEOS alone would mend some of them for hours."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from shapely import MultiPolygon, Polygon, box

from tiling import mended


def random_corners(count, *, grid=None):
    generator = np.random.default_rng(0)
    return Polygon(generator.random((count, 2)) if grid is None else generator.integers(0, grid, (count, 2)))


def loops(count):
    """Squares along one ring, each around all before, with two sides on each other."""
    return Polygon([corner for n in range(1, count) for corner in ((0, 0), (n, 0), (n, n), (0, n))])


def shifted(count):
    return MultiPolygon([box(x, x, x + 1, x + 1) for x in np.linspace(0, 0.5, count)])


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "outline", [random_corners(5000), random_corners(5000, grid=10), loops(3000), shifted(1000)]
)
def test_an_outline_that_crosses_itself_without_end_is_refused(outline):
    with pytest.raises(ValueError, match="crosses"):
        mended(outline)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("outline", [random_corners(90), loops(25), shifted(100)])
def test_an_outline_that_crosses_itself_often_is_mended_at_once(outline):
    assert mended(outline).is_valid and mended(outline).area > 0


def test_neighbours_are_joined_and_one_crossing_is_mended_as_ever():
    squares = MultiPolygon([box(x, y, x + 1, y + 1) for x in range(9) for y in range(9)])
    assert mended(squares).area == 81
    bow = Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])
    assert mended(bow).equals_exact(shapely.make_valid(bow))
    assert mended(box(0, 0, 1, 1)) == box(0, 0, 1, 1) and mended(None) is None
