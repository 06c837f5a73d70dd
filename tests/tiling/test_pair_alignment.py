"""One date moved and relit to go with the other; real scenes."""

from itertools import product

import numpy as np
import pytest
from displaced_images import moved
from opened_scenes import lonlat, read_pair, whole
from rasters import ORIGIN, write_dates
from scipy import ndimage

from tiling import ScenePair, Window
from tiling.registration import Registration

NAIP = "naip_4709963/m_4709963_se_14_1_"


def town(seed=0):
    """Pixels (3, 420, 520) uint8 with detail of a few pixels, 20..235."""
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=(3, 420, 520)), (0, 1.5, 1.5))
    return (128 + 30 * noise / noise.std()).clip(20, 235).astype(np.uint8)


def displaced(image, cols, rows):
    return moved(image.astype(float), cols, rows).clip(0, 255).round().astype(np.uint8)


def test_a_shift_is_told_and_with_align_taken_back(tmp_path):
    image = town()
    dates = write_dates(tmp_path, image, np.roll(image, (-2, 3), (1, 2)))
    with ScenePair.open(*dates) as pair:
        shift = pair.registration
        assert (shift.cols, shift.rows) == pytest.approx((3, -2), abs=0.1)
        assert shift.applied is None and shift.metres == pytest.approx(1.8, abs=0.05)
        (note,) = pair.notes
        assert "after.tif" in note and "3.6 pixels (1.8 m)" in note and "--align" in note
        assert np.abs(whole(pair)[0].astype(int) - whole(pair)[1]).mean() > 20
    with ScenePair.open(*dates, align=True) as pair:
        assert pair.registration.applied == (-3, 2) and pair.layers[1].shift == (-3, 2)
        assert np.hypot(*pair.registration.left) < 0.1 and not pair.notes
        assert (pair.registration.cols, pair.registration.rows) == pytest.approx((3, -2), abs=0.1)
        first, second, valid = whole(pair)
    assert valid.mean() > 0.98 and not valid[:2].any() and not valid[:, -3:].any()
    # Whole pixels are not interpolated.
    assert np.array_equal(first[:, 4:-4, 4:-4], second[:, 4:-4, 4:-4])


@pytest.mark.parametrize("by", [(0.45, -0.4), (1.5, 0.5), (-9.3, 12.6)])
def test_parts_of_pixels_are_taken_back(tmp_path, by):
    image = town()
    with ScenePair.open(*write_dates(tmp_path, image, displaced(image, *by)), align=True) as pair:
        assert np.hypot(*pair.registration.left) < 0.2
        first, second, valid = whole(pair)
    inner = np.s_[:, 20:-20, 20:-20]
    assert valid[inner[1:]].all()
    assert np.abs(first[inner].astype(int) - second[inner]).mean() < 6


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


def test_where_nothing_is_moved_the_frame_changes_nothing(tmp_path):
    with ScenePair.open(*write_dates(tmp_path, town(), town()), align=True, frame="after") as pair:
        assert [layer.shift for layer in pair.layers] == [(0, 0), (0, 0)]
        assert pair.registration.moved is None


def test_what_cannot_be_aligned_stays_in_its_place(tmp_path):
    paths = write_dates(tmp_path, town(1), town(2))
    with ScenePair.open(*paths, align=True) as pair:
        assert pair.layers[1].shift == (0, 0) and pair.registration.applied is None
        (note,) = pair.notes
        assert "after.tif" in note and "cannot be told" in note
    with ScenePair.open(*paths) as pair:
        assert not pair.notes


def test_a_shift_that_does_not_get_smaller_is_not_applied(tmp_path, scenes, monkeypatch):
    wrong = Registration(5.0, 0.0, 2.5, 9, 5, 5, 0.1)
    monkeypatch.setattr("tiling.pair.measure", lambda *_: wrong)
    with ScenePair.open(*scenes[:2], align=True) as pair:
        assert pair.registration == wrong and pair.layers[1].shift == (0, 0)
        assert "5.0 pixels" in pair.notes[0] and "could not be corrected" in pair.notes[0]
        assert np.array_equal(whole(pair)[1], scenes[3])


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


def test_light_that_cannot_be_compared_is_left_alone(tmp_path):
    with ScenePair.open(*write_dates(tmp_path, town(1), town(2)), normalize=True) as pair:
        assert pair.normalization is None and "after.tif" in pair.notes[0] and "light" in pair.notes[0]
        assert np.array_equal(whole(pair)[1], town(seed=2))


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


@pytest.mark.real
@pytest.mark.parametrize(
    ("before", "after", "crs", "gsd", "valid"),
    [
        ("joplin_tornado/before", "joplin_tornado/after", "EPSG:26915", 0.6, 0.95),
        ("levir_test_1/before", "levir_test_1/after", "EPSG:32614", 0.55, 0.95),
        (f"{NAIP}20090818", f"{NAIP}20140720", "EPSG:26914", 5, 0.99),
        ("oscd_beirut/20150820", "oscd_beirut/20171003", "EPSG:32636", 10, 0.9),
        ("pucallpa_landsat/1985", "pucallpa_landsat/2020", "EPSG:32718", 89, 0.98),
    ],
)
def test_real_scenes_open_at_their_own_resolution(shared_data, before, after, crs, gsd, valid):
    folder = shared_data / "data" / "scenes"
    with ScenePair.open(folder / f"{before}.tif", folder / f"{after}.tif") as pair:
        first, second, seen = whole(pair)
    assert pair.grid.crs.to_string() == crs and pair.grid.gsd == pytest.approx(gsd, rel=0.02)
    assert seen.mean() > valid
    assert first[:, seen].std() > 15 and second[:, seen].std() > 15
    assert np.abs(first[:, seen].mean() - second[:, seen].mean()) < 60


@pytest.mark.real
def test_the_two_dates_of_joplin_lie_on_each_other(shared_data):
    """The roads did not move: shifting one date against the other only makes the edges agree less."""
    folder = shared_data / "data" / "scenes" / "joplin_tornado"
    before, after, valid = read_pair(folder / "before.tif", folder / "after.tif")
    assert valid.shape == pytest.approx((565, 881), abs=3)

    def edges(image):
        grey = image.mean(0)
        return np.hypot(*np.gradient(grey)).clip(0, 40)

    # The road along the south is hardly covered by debris.
    rows, cols = slice(460, 545), slice(40, 840)
    one, other = edges(before), edges(after)
    assert valid[rows, cols].mean() > 0.95
    scores = {
        (dy, dx): np.corrcoef(one[rows, cols].ravel(), np.roll(other, (dy, dx), (0, 1))[rows, cols].ravel())[
            0, 1
        ]
        for dy, dx in product(range(-12, 13, 2), range(-12, 13, 2))
    }
    best = max(scores, key=scores.get)
    assert max(map(abs, best)) <= 6, f"shifted by {best} pixels of 0.6 m"
