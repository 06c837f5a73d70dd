"""One date moved and relit to go with the other; real scenes."""

import numpy as np
import pytest
from painted_ground import moved
from rasters import ORIGIN, lonlat, north_up, read_pair, whole, write_dates
from scipy import ndimage

from tiling import ScenePair, Window
from tiling.registration import Registration
from tiling.spectral import BandValues


def town(seed=0):
    """Pixels (3, 420, 520) uint8 with detail of a few pixels, 20..235."""
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=(3, 420, 520)), (0, 1.5, 1.5))
    return (128 + 30 * noise / noise.std()).clip(20, 235).astype(np.uint8)


def displaced(image, cols, rows):
    return moved(image.astype(float), cols, rows).clip(0, 255).round().astype(np.uint8)


@pytest.mark.slow
def test_a_shift_is_told_and_with_align_taken_back(tmp_path):
    image = town()
    dates = write_dates(tmp_path, image, np.roll(image, (-2, 3), (1, 2)))
    with ScenePair.open(*dates) as pair:
        shift = pair.registration
        assert (shift.cols, shift.rows) == pytest.approx((3, -2), abs=0.1)
        assert shift.applied is None and shift.metres == pytest.approx(1.8, abs=0.05)
        (note,) = pair.notes
        assert "after.tif" in note and "3.6 pixels (1.8 m)" in note
        assert np.abs(whole(pair)[0].astype(int) - whole(pair)[1]).mean() > 20
    with ScenePair.open(*dates, align=True) as pair:
        assert pair.registration.applied == (-3, 2) and pair.layers[1].shift == (-3, 2)
        assert np.hypot(*pair.registration.left) < 0.1 and not pair.notes
        assert (pair.registration.cols, pair.registration.rows) == pytest.approx((3, -2), abs=0.1)
        first, second, valid = whole(pair)
        bands = BandValues(pair, ("1", "2", "3")).read(Window(20, 20, 300, 200))
        assert np.array_equal(bands, np.stack(pair.read(Window(20, 20, 300, 200))[:2]))
    assert valid.mean() > 0.98 and not valid[:2].any() and not valid[:, -3:].any()
    # Whole pixels are not interpolated.
    assert np.array_equal(first[:, 4:-4, 4:-4], second[:, 4:-4, 4:-4])


@pytest.mark.parametrize(("pixels", "cell", "advised"), [(3, 0.5, False), (12, 0.5, True), (3, 10.0, True)])
def test_alignment_is_advised_where_it_helps(tmp_path, pixels, cell, advised):
    image = town()
    dates = write_dates(tmp_path, image, np.roll(image, pixels, 2), transform=north_up(cell=cell))
    with ScenePair.open(*dates) as pair:
        (note,) = pair.notes
    assert ("--align" in note) == advised


@pytest.mark.slow
def test_in_the_frame_of_the_scene_after_the_scene_before_is_moved(tmp_path):
    image = town()
    shifted = displaced(image, 6.4, -3.7)
    dates = write_dates(tmp_path, image, shifted)
    with ScenePair.open(*dates, align=True) as pair:
        onto_before = pair.registration
    with ScenePair.open(*dates, align=True, frame="after") as pair:
        assert pair.registration.moved == "before" and onto_before.moved == "after"
        assert pair.registration.applied == pytest.approx(onto_before.applied, abs=0.1)
        assert pair.layers[0].shift == tuple(-part for part in pair.registration.applied)
        assert pair.layers[1].shift == (0, 0) and np.hypot(*pair.registration.left) < 0.2
        first, second, valid = whole(pair)
    inner = np.s_[:, 20:-20, 20:-20]
    assert valid[inner[1:]].all()
    assert np.array_equal(second[inner], shifted[inner]), "the scene after is as it was"
    assert np.abs(first[inner].astype(int) - second[inner]).mean() < 6


@pytest.mark.slow
def test_what_cannot_be_aligned_stays_in_its_place(tmp_path):
    paths = write_dates(tmp_path, town(1), town(2))
    with ScenePair.open(*paths, align=True) as pair:
        assert pair.layers[1].shift == (0, 0) and pair.registration.applied is None
        (note,) = pair.notes
        assert "after.tif" in note
    with ScenePair.open(*paths) as pair:
        assert not pair.notes


@pytest.mark.slow
def test_other_light_is_taken_back(tmp_path):
    image = town()
    darker = (image * np.array([0.6, 0.7, 0.8])[:, None, None] + 25).astype(np.uint8)
    darker[:, 100:200, 100:300] = 230  # built
    dates = write_dates(tmp_path, image, darker)
    with ScenePair.open(*dates) as pair:
        assert pair.normalization is None
    with ScenePair.open(*dates, normalize=True) as pair:
        first, second, _ = whole(pair)
        assert pair.normalization.gain == pytest.approx((1 / 0.6, 1 / 0.7, 1 / 0.8), rel=0.05)
    assert np.abs(first[:, 220:].astype(int) - second[:, 220:]).mean() < 3
    assert second[:, 110:190, 110:290].min() > 240
    for dtype in ("uint16", "float32"):
        images = [(part * 30.0).astype(dtype) for part in (image, darker)]
        first, second, _ = read_pair(*write_dates(tmp_path, *images), normalize=True)
        assert np.abs(first[:, 220:].astype(int) - second[:, 220:]).mean() < 4


@pytest.mark.slow
def test_a_box_has_the_pixels_of_the_whole(tmp_path):
    image = town()
    after = (displaced(image, 2.4, -1.2) * 0.7 + 20).astype(np.uint16) * 9
    paths = write_dates(tmp_path, image.astype(np.uint16) * 11, after)
    west, north = lonlat(ORIGIN[0] + 40, ORIGIN[1] - 30)
    east, south = lonlat(ORIGIN[0] + 100, ORIGIN[1] - 90)
    box = (west, south, east, north)
    everything = read_pair(*paths, align=True, normalize=True)
    with ScenePair.open(*paths, align=True, normalize=True, bounds=box) as pair:
        focus = pair.focus
        part = pair.read(focus)
    assert focus.width < 140 and focus.height < 140
    inside = focus.slices(Window(0, 0, *everything[2].shape[::-1]))
    assert all(np.array_equal(all_[..., *inside], some) for all_, some in zip(everything, part, strict=True))


def test_a_second_move_that_does_not_help_is_taken_back_to_the_first(tmp_path, monkeypatch):
    left = iter([(5.0, 0.0), (0.4, 0.0), (0.35, 0.0)])
    monkeypatch.setattr(ScenePair, "_measured", lambda pair: Registration(*next(left)))
    image = town()
    with ScenePair.open(*write_dates(tmp_path, image, image), align=True) as pair:
        assert pair.registration.applied == pair.layers[1].shift == (-5.0, 0.0)
        assert pair.registration.left == (0.4, 0.0)
