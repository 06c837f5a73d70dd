from __future__ import annotations

import pytest
from shapely.geometry import Polygon, box

from rscc.structures import Caption
from tiling import TileGrid
from workflows.crops import MOST_ALTERNATIVES, MOST_CROPS, CropPlanner, best_caption, centred

GRID = TileGrid(300, 200, tile=64, overlap=16)


def corners(window):
    return window.col_off, window.row_off, window.col_off + window.width, window.row_off + window.height


@pytest.mark.parametrize(
    ("low", "high", "extent", "start"),
    [(100, 110, 300, 73), (0, 4, 300, 0), (290, 300, 300, 236), (100, 111, 300, 74), (3, 9, 40, 0)],
)
def test_centred(low, high, extent, start):
    assert centred(low, high, 64, extent) == start


@pytest.mark.parametrize("place", [(0, 0), (236, 0), (290, 190), (299, 199), (100, 90), (0, 150)])
def test_a_small_region_lies_inside_its_one_crop_and_the_crop_inside_the_scene(place):
    col, row = place
    region = box(col, row, min(col + 10, 300), min(row + 10, 200))
    [(window, weight)] = CropPlanner(GRID).crops(region)
    assert weight == region.area
    assert (window.width, window.height) == (64, 64)
    assert box(*corners(window)).covers(region)
    assert box(0, 0, 300, 200).covers(box(*corners(window)))


def test_a_region_as_large_as_a_crop_gets_one_crop():
    [(window, _)] = CropPlanner(GRID).crops(box(30, 20, 94, 84))
    assert corners(window) == (30, 20, 94, 84)


def test_a_large_region_gets_the_tiles_it_lies_on_and_all_its_pixels_once():
    region = Polygon([(5, 5), (250, 5), (250, 20), (30, 20), (30, 150), (5, 150)])
    crops = CropPlanner(GRID).crops(region)
    windows = {corners(tile.window) for tile in GRID}
    assert len(crops) > 1
    assert {corners(window) for window, _ in crops} <= windows
    assert sum(weight for _, weight in crops) == pytest.approx(region.area)
    weights = [weight for _, weight in crops]
    assert weights == sorted(weights, reverse=True) and weights[-1] > 0


def test_a_huge_region_gets_a_bounded_number_of_crops():
    grid = TileGrid(900, 800, tile=64, overlap=16)
    assert len(CropPlanner(grid).crops(box(0, 0, 900, 800))) == MOST_CROPS


def test_the_caption_of_the_greatest_overlap_times_score_wins():
    road, house, tree = (
        Caption("a road", 0.5, True, ("a street",)),
        Caption("a house", 0.9, True, ("a villa", "a road")),
        Caption("a tree", 0.6, True),
    )
    best, alternatives = best_caption([(road, 100.0), (house, 50.0), (tree, 90.0)])
    assert best is tree
    assert alternatives == ("a road", "a house")
    best, alternatives = best_caption([(road, 100.0), (house, 60.0), (tree, 80.0)])
    assert best is house
    assert alternatives == ("a road", "a tree", "a villa")


def test_alternatives_are_few_and_never_the_caption_itself():
    crops = [(Caption(f"text {n % 9}", 0.5, True), 100.0 - n) for n in range(20)]
    best, alternatives = best_caption(crops)
    assert best.text == "text 0"
    assert alternatives == tuple(f"text {n}" for n in range(1, MOST_ALTERNATIVES + 1))
