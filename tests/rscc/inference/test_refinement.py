from __future__ import annotations

import numpy as np
import pytest
from bright_objects import BrightObjects
from tiny_sam import tiny_sam

from rscc.inference.refinement import refine_masks
from rscc.models.shared.segmenters import SamSegmenter

SIZE = (48, 64)


def rectangle(top, left, height, width):
    mask = np.zeros(SIZE, bool)
    mask[top : top + height, left : left + width] = True
    return mask


def image(*bright):
    pixels = np.full((3, *SIZE), 50, np.uint8)
    for mask in bright:
        pixels[:, mask] = 200
    return pixels


HOUSE = rectangle(10, 20, 12, 16)
ROUGH = rectangle(11, 18, 12, 16)


@pytest.mark.parametrize("date", ["before", "after"])
def test_the_outline_is_that_of_the_object_on_the_date_that_shows_it(date):
    images = {"before": image(), "after": image(), date: image(HOUSE)}
    (found,) = refine_masks(BrightObjects(), images["before"], images["after"], [ROUGH])
    assert found is not None and found.date == date
    np.testing.assert_array_equal(found.mask, HOUSE)
    assert found.agreement == pytest.approx((HOUSE & ROUGH).sum() / (HOUSE | ROUGH).sum())


def test_agreement_at_the_limit_itself_is_enough():
    agreement = float((HOUSE & ROUGH).sum() / (HOUSE | ROUGH).sum())
    for least, taken in ((agreement, True), (np.nextafter(agreement, 1), False)):
        (refined,) = refine_masks(BrightObjects(), image(), image(HOUSE), [ROUGH], least=least)
        assert (refined is not None) == taken


def test_of_both_dates_the_one_that_agrees_better_is_taken():
    small = rectangle(12, 22, 8, 8)
    assert refine_masks(BrightObjects(), image(HOUSE), image(small), [ROUGH])[0].date == "before"
    assert refine_masks(BrightObjects(), image(small), image(HOUSE), [ROUGH])[0].date == "after"
    assert refine_masks(BrightObjects(), image(HOUSE), image(HOUSE), [ROUGH])[0].date == "after"


def test_a_mask_that_agrees_too_little_is_not_taken():
    block = rectangle(6, 14, 24, 30)
    segmenter = BrightObjects(reach=20)
    share = ROUGH.sum() / (block | ROUGH).sum()
    assert share < 0.5
    assert refine_masks(segmenter, image(), image(block), [ROUGH]) == [None]
    assert refine_masks(segmenter, image(), image(block), [ROUGH], least=share - 0.01)[0] is not None
    assert refine_masks(segmenter, image(), image(), [ROUGH], least=0.0) == [None]


@pytest.mark.parametrize(("rows", "taken"), [(15, True), (17, False)])
def test_without_a_word_six_tenths_are_to_agree(rows, taken):
    wider = rectangle(25 - rows, 16, rows, 20)
    agreement = ROUGH.sum() / (wider | ROUGH).sum()
    assert (agreement > 0.6) == taken and abs(agreement - 0.6) < 0.05
    (refined,) = refine_masks(BrightObjects(reach=20), image(), image(wider), [ROUGH])
    assert (refined is not None) == taken


def test_only_the_piece_that_covers_the_change_is_kept():
    (found,) = refine_masks(BrightObjects(reach=30), image(), image(HOUSE, rectangle(30, 2, 10, 40)), [ROUGH])
    np.testing.assert_array_equal(found.mask, HOUSE)


def test_the_prompt_is_the_box_and_its_deepest_point():
    bent = rectangle(5, 5, 30, 6) | rectangle(29, 5, 6, 40)
    segmenter = BrightObjects()
    refine_masks(segmenter, image(bent), image(), [HOUSE, bent])
    assert len(segmenter.prompts) == 2
    for boxes, points in segmenter.prompts:
        assert boxes.dtype == points.dtype == np.float32
        np.testing.assert_array_equal(boxes, [[20, 10, 36, 22], [5, 5, 45, 35]])
        for mask, (x, y) in zip((HOUSE, bent), points, strict=True):
            assert mask[int(y), int(x)]
    # Deepest where both arms of the angle meet, not at the middle of the box, which lies outside.
    x, y = segmenter.prompts[0][1][1]
    assert x < 11 and y > 29


def test_a_change_at_the_edge_of_the_image_has_its_point_inside():
    edge = rectangle(0, 0, 20, 4)
    segmenter = BrightObjects()
    refine_masks(segmenter, image(edge), image(), [edge])
    x, y = segmenter.prompts[0][1][0]
    assert 1 <= x <= 3 and 1 <= y <= 19


def test_nothing_asks_for_nothing():
    segmenter = BrightObjects()
    assert refine_masks(segmenter, image(), image(), []) == []
    assert segmenter.prompts == []


@pytest.mark.slow
def test_a_real_segmenter_without_training_is_asked_and_seldom_believed():
    segmenter = SamSegmenter(sam=tiny_sam())
    rng = np.random.default_rng(0)
    dates = rng.integers(0, 256, (2, 3, *SIZE)).astype(np.uint8)
    found = refine_masks(segmenter, *dates, [HOUSE, ROUGH], least=0.01)
    assert len(found) == 2
    for one in found:
        assert one is None or (one.mask.shape == SIZE and one.agreement >= 0.01)
