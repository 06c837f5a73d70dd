from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shapely import unary_union
from shapely.geometry import Polygon, box

from rscc.structures import Caption
from workflows.scene.evidence import SURROUNDINGS
from workflows.scene.words.crops import (
    MOST_ALTERNATIVES,
    MOST_CROPS,
    SOFT,
    CropPlanner,
    best_caption,
    masked,
)

CROPS = CropPlanner(300, 200, 64)


def corners(window):
    return window.col_off, window.row_off, window.col_end, window.row_end


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
    assert best_caption(crops) == replace(best, alternatives=alternatives)


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


OWN = marked((40, 60), (10, 30))


def test_a_masked_crop_leaves_only_the_surroundings_of_the_change():
    after = masked(BEFORE, AFTER, OWN)
    row = brightening(after, 50)
    near, far = 29 + int(SURROUNDINGS), 29 + int(SURROUNDINGS + SOFT)
    assert (row[: near + 1] == 100).all()
    assert (np.diff(row[near : far + 1]) < 0).all() and 0 < row[(near + far) // 2] < 100
    assert (row[far:] == 0).all()
    np.testing.assert_array_equal(masked(BEFORE, AFTER, np.zeros((SIZE, SIZE), bool)), AFTER)
