from __future__ import annotations

import numpy as np
import pytest

from workflows.scene.crops import MARGIN, SMALLEST_ZOOM, SOFT, SURROUNDINGS, ZOOM, view_of, zoom_side

SIZE = 128
BEFORE = np.random.default_rng(1).integers(0, 100, (3, SIZE, SIZE)).astype(np.uint8)
AFTER = BEFORE + 100


def marked(rows, cols):
    mask = np.zeros((SIZE, SIZE), bool)
    mask[slice(*rows), slice(*cols)] = True
    return mask


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
    row = after[0, 50].astype(int) - BEFORE[0, 50]
    near, far = 29 + int(SURROUNDINGS), 29 + int(SURROUNDINGS + SOFT)
    assert (row[: near + 1] == 100).all()
    assert (np.diff(row[near : far + 1]) < 0).all() and 0 < row[(near + far) // 2] < 100
    assert (row[far:] == 0).all()


def test_others_hides_the_other_change_and_nothing_else():
    after = view_of("others", BEFORE, AFTER, OWN, OTHER).after
    row = after[0, 60].astype(int) - BEFORE[0, 60]
    assert (row[100 - int(MARGIN) : 120] == 0).all()
    assert (row[: 100 - int(MARGIN + SOFT)] == 100).all()
    assert (np.diff(row[100 - int(MARGIN + SOFT) : 100 - int(MARGIN) + 1]) < 0).all()


def test_changes_that_touch_are_parted_softly_at_the_border():
    beside = marked((40, 60), (30, 60))
    after = view_of("others", BEFORE, AFTER, OWN, beside).after
    row = after[0, 50].astype(int) - BEFORE[0, 50]
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
