from __future__ import annotations

import numpy as np
import pytest
from shapely import unary_union
from shapely.geometry import MultiPolygon, Polygon, box

from rscc.structures import Caption
from tiling import Window
from workflows.scene.crops import (
    MARGIN,
    MOST_ALTERNATIVES,
    MOST_CROPS,
    SMALLEST_ZOOM,
    SOFT,
    SURROUNDINGS,
    ZOOM,
    CropPlanner,
    best_caption,
    burnt,
    centred,
    clipped,
    view_of,
    zoom_side,
)

CROPS = CropPlanner(300, 200, 64)


def corners(window):
    return window.col_off, window.row_off, window.col_end, window.row_end


@pytest.mark.parametrize(
    ("low", "high", "extent", "start"),
    [(100, 110, 300, 73), (0, 4, 300, 0), (290, 300, 300, 236), (100, 111, 300, 74), (3, 9, 40, 0)],
)
def test_centred(low, high, extent, start):
    assert centred(low, high, 64, extent) == start


@pytest.mark.parametrize(("col", "row"), [(0, 0), (236, 0), (290, 190), (299, 199), (100, 90), (0, 150)])
def test_a_small_region_lies_inside_its_one_crop_and_the_crop_inside_the_scene(col, row):
    region = box(col, row, min(col + 10, 300), min(row + 10, 200))
    [(window, weight)] = CROPS.crops(region)
    assert weight == region.area
    assert (window.width, window.height) == (64, 64)
    assert box(*corners(window)).covers(region)
    assert box(0, 0, 300, 200).covers(box(*corners(window)))


def test_a_large_region_is_halved_until_each_part_lies_inside_a_crop_centred_on_it():
    [(window, _)] = CROPS.crops(box(30, 20, 94, 84))
    assert corners(window) == (30, 20, 94, 84), "as large as a crop, it gets one"
    region = Polygon([(5, 5), (250, 5), (250, 20), (30, 20), (30, 150), (5, 150)])
    crops = CROPS.crops(region)
    assert len(crops) > 1
    assert all((window.width, window.height) == (64, 64) for window, _ in crops)
    assert unary_union([box(*corners(window)) for window, _ in crops]).covers(region)
    assert sum(weight for _, weight in crops) == pytest.approx(region.area)
    weights = [weight for _, weight in crops]
    assert weights == sorted(weights, reverse=True) and weights[-1] > 0
    assert len(CropPlanner(900, 800, 64).crops(box(0, 0, 900, 800))) == MOST_CROPS


def test_two_regions_that_fit_into_a_crop_together_get_one_and_else_one_each():
    near = MultiPolygon([box(100, 50, 110, 60), box(130, 70, 140, 80)])
    assert CROPS.crops(near) == [(Window(88, 33, 64, 64), 200)]
    far = MultiPolygon([box(100, 50, 110, 60), box(190, 70, 200, 90)])
    assert CROPS.crops(far) == [(Window(163, 48, 64, 64), 200), (Window(73, 23, 64, 64), 100)]


def test_what_only_touches_a_box_is_not_in_it():
    square = box(0, 0, 10, 10)
    assert clipped(square, (10, 0, 20, 10)).is_empty
    assert clipped(square, (50, 50, 60, 60)).is_empty
    assert clipped(MultiPolygon([square, box(20, 0, 30, 10)]), (5, 0, 20, 10)).equals(box(5, 0, 10, 10))


def test_pixels_of_an_outline_are_those_it_touches():
    window = Window(10, 20, 6, 5)
    mask = burnt([MultiPolygon([box(8, 18, 12, 21), box(14.2, 23.1, 14.8, 23.9)])], window)
    expected = np.zeros((5, 6), bool)
    expected[0, :2] = expected[3, 4] = True
    np.testing.assert_array_equal(mask, expected)
    assert not burnt([box(0, 0, 5, 5)], window).any()
    assert burnt([], window).shape == (5, 6)


ROAD = Caption("a road", 0.5, True, ("a street",))
HOUSE = Caption("a house", 0.9, True, ("a villa", "a road"))
TREE = Caption("a tree", 0.6, True)
SURE_ROAD = Caption("a road", 0.9, True, ("a street",))
PLAIN_HOUSE, VILLA = Caption("a house", 0.5, True), Caption("a house", 0.4, True, ("a villa",))
TEXTS = [Caption(f"text {n % 9}", 0.5, True) for n in range(20)]
FEW = tuple(f"text {n}" for n in range(1, MOST_ALTERNATIVES + 1))


@pytest.mark.parametrize(
    ("crops", "best", "alternatives"),
    [
        ([(ROAD, 100.0), (HOUSE, 50.0), (TREE, 90.0)], TREE, ("a road", "a house")),
        ([(ROAD, 100.0), (HOUSE, 60.0), (TREE, 80.0)], HOUSE, ("a road", "a tree", "a villa")),
        ([(SURE_ROAD, 50.0), (PLAIN_HOUSE, 60.0), (VILLA, 80.0)], VILLA, ("a road", "a villa")),
        ([(text, 100.0 - n) for n, text in enumerate(TEXTS)], TEXTS[0], FEW),
    ],
    ids=["overlap", "score", "the same counts together", "few alternatives"],
)
def test_the_caption_of_the_greatest_overlap_times_score_wins(crops, best, alternatives):
    chosen, others = best_caption(crops)
    assert chosen is best
    assert others == alternatives


SIZE = 128
BEFORE = np.random.default_rng(1).integers(0, 100, (3, SIZE, SIZE)).astype(np.uint8)
AFTER = BEFORE + 100


def marked(rows, cols):
    mask = np.zeros((SIZE, SIZE), bool)
    mask[slice(*rows), slice(*cols)] = True
    return mask


def brightening(after, row):
    """By how much a row of pixels is brighter than before."""
    return after[0, row].astype(int) - BEFORE[0, row]


OWN, OTHER = marked((40, 60), (10, 30)), marked((50, 80), (100, 120))
NOTHING = np.zeros((SIZE, SIZE), bool)


@pytest.mark.parametrize("way", ["mask", "others", "weight"])
def test_before_and_a_change_without_a_pixel_are_shown_as_they_are_and_the_change_itself_in_full(way):
    view = view_of(way, BEFORE, AFTER, NOTHING, OTHER)
    assert view.focus is None
    np.testing.assert_array_equal(view.before, BEFORE)
    np.testing.assert_array_equal(view.after, AFTER)
    view = view_of(way, BEFORE, AFTER, OWN, OTHER)
    np.testing.assert_array_equal(view.before, BEFORE)
    np.testing.assert_array_equal(view.after[:, OWN], AFTER[:, OWN])
    assert view.focus is None or (view.focus[OWN] == 1).all()


def test_mask_leaves_only_the_surroundings():
    after = view_of("mask", BEFORE, AFTER, OWN, OTHER).after
    row = brightening(after, 50)
    near, far = 29 + int(SURROUNDINGS), 29 + int(SURROUNDINGS + SOFT)
    assert (row[: near + 1] == 100).all()
    assert (np.diff(row[near : far + 1]) < 0).all() and 0 < row[(near + far) // 2] < 100
    assert (row[far:] == 0).all()


def test_others_hides_the_other_change_and_nothing_else():
    after = view_of("others", BEFORE, AFTER, OWN, OTHER).after
    row = brightening(after, 60)
    assert (row[100 - int(MARGIN) : 120] == 0).all()
    assert (row[: 100 - int(MARGIN + SOFT)] == 100).all()
    assert (np.diff(row[100 - int(MARGIN + SOFT) : 100 - int(MARGIN) + 1]) < 0).all()


def test_changes_that_touch_are_parted_softly_at_the_border():
    beside = marked((40, 60), (30, 60))
    after = view_of("others", BEFORE, AFTER, OWN, beside).after
    row = brightening(after, 50)
    assert (row[10:30] == 100).all()
    assert (np.diff(row[29 : 29 + int(SOFT)]) < 0).all()
    assert (row[30 + int(SOFT) : 60] == 0).all()


def test_weight_says_where_to_look_and_leaves_the_images():
    view = view_of("weight", BEFORE, AFTER, OWN, OTHER)
    np.testing.assert_array_equal(view.after, AFTER)
    assert view.focus is not None and view.focus.dtype == np.float32
    assert (view.focus[OTHER] == 0).all()
    masked = view_of("mask", BEFORE, AFTER, OWN, OTHER).after[0].astype(int) - BEFORE[0]
    np.testing.assert_allclose(100 * view.focus, masked, atol=0.51)


def test_the_zoom_has_room_around_the_change_and_ends_at_the_tile():
    assert zoom_side(100, 60, 256) == 100 * ZOOM
    assert zoom_side(5, 9, 256) == SMALLEST_ZOOM
    assert zoom_side(10, 250, 256) == 256
    assert zoom_side(5, 5, 32) == 32
