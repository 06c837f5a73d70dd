import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import shapely
from affine import Affine
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from shapely.geometry import MultiPolygon, Polygon, box

from tiling import Band, Window, polygonize, polygons
from tiling.polygons import Polygonizer

THRESHOLD = 0.5
NOISE = np.random.default_rng(0).random((30, 25)).astype(np.float32)


def cut(probability, valid=None, seams=(), col_off=0, row_off=0):
    """The bands of a scene between the rows of ``seams``."""
    valid = np.ones(probability.shape, bool) if valid is None else valid
    edges = [0, *seams, len(probability)]
    return [
        Band(top + row_off, probability[top:low], valid[top:low], col_off) for top, low in pairwise(edges)
    ]


def the_same(one, many):
    """Whether two lists have the same regions to the last bit, in the same order."""
    return len(one) == len(many) and all(
        shapely.equals_exact(first.pixel_polygon, second.pixel_polygon, tolerance=0)
        and first.mean_probability == second.mean_probability
        and first.area_px == second.area_px
        for first, second in zip(one, many, strict=True)
    )


def of_mask(text):
    """A picture of # (changed) and . as probabilities 0.75 and 0.25."""
    rows = text.split()
    return np.array([[0.75 if char == "#" else 0.25 for char in row] for row in rows], np.float32)


@st.composite
def scenes(draw):
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    probability = draw(arrays(np.float32, shape, elements=st.sampled_from([0.1, 0.4999, 0.5, 0.7, 0.8, 1.0])))
    valid = draw(arrays(bool, shape, elements=st.sampled_from([True, True, True, False])))
    seams = sorted(draw(st.sets(st.integers(1, shape[0] - 1)))) if shape[0] > 1 else []
    return probability, valid, seams


@pytest.mark.slow
@settings(max_examples=200)
@given(scenes(), st.sampled_from([0, 2, 5]), st.sampled_from([0, 1.0, 2.5]))
def test_bands_give_exactly_the_polygons_of_the_whole(scene, smallest, tolerance):
    probability, valid, seams = scene
    options = {"min_area_px": smallest, "simplify_px": tolerance}
    one = polygonize(cut(probability, valid), THRESHOLD, **options)
    many = polygonize(cut(probability, valid, seams), THRESHOLD, **options)
    assert the_same(one, many)


@settings(max_examples=100)
@given(scenes(), st.sampled_from([1, 20]), st.sampled_from([1, 10]))
@example((of_mask("##. #.# #.# #.#"), np.ones((4, 3), bool), []), 1, 1)
@example((NOISE, np.ones(NOISE.shape, bool), [7, 20]), 1, 1)
@example((NOISE, np.ones(NOISE.shape, bool), []), 20, 10)
def test_how_much_is_worked_on_at_once_does_not_matter(scene, slice_px, corners):
    probability, valid, seams = scene
    options = {"min_area_px": 2}
    one = polygonize(cut(probability, valid), THRESHOLD, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polygons, "SLICE_PX", slice_px)
        patch.setattr(polygons, "MOST_CORNERS", corners)
        many = polygonize(cut(probability, valid, seams), THRESHOLD, **options)
    assert the_same(one, many)


@settings(max_examples=100)
@given(scenes(), st.sampled_from([0, 1.0]), st.data())
def test_an_area_has_the_regions_of_the_whole_that_lie_in_it(scene, tolerance, data):
    probability, valid, _ = scene
    height, width = probability.shape
    row, col = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    area = Window(col, row, data.draw(st.integers(1, width - col)), data.draw(st.integers(1, height - row)))
    options = {"simplify_px": tolerance}
    everything = polygonize(cut(probability, valid), THRESHOLD, **options)
    part = area.slices(Window(0, 0, width, height))
    bands = cut(probability[part], valid[part], col_off=col, row_off=row)
    inner = polygonize(bands, THRESHOLD, **options)
    inside = box(area.col_off, area.row_off, area.col_end, area.row_end)
    whole_inside = [region for region in everything if inside.covers(region.pixel_polygon)]
    # What the edge of the area does not touch is there twice; what it touches may be a part only.
    assert the_same(
        [region for region in inner if not region.pixel_polygon.intersects(inside.exterior)],
        [region for region in whole_inside if not region.pixel_polygon.intersects(inside.exterior)],
    )


@settings(max_examples=120)
@given(scenes())
@example((of_mask(".#. #.# .#."), np.ones((3, 3), bool), [1, 2]))
@example((of_mask("##### #.### ##.## #####"), np.ones((4, 5), bool), [2]))
@example((of_mask("#### #..# #.## ##.#"), np.ones((4, 4), bool), [3]))
@example((of_mask("#### #..# ##.# #.##"), np.ones((4, 4), bool), [3]))
def test_polygons_are_valid_and_cover_exactly_the_changed_pixels(scene):
    probability, valid, seams = scene
    regions = polygonize(cut(probability, valid, seams), THRESHOLD)
    changed = (probability >= THRESHOLD) & valid
    pixels = [box(col, row, col + 1, row + 1) for row, col in np.argwhere(changed)]
    assert all(region.pixel_polygon.is_valid for region in regions)
    assert shapely.union_all([region.pixel_polygon for region in regions]).equals(shapely.union_all(pixels))
    for region in regions:
        inside = shapely.covers(region.pixel_polygon, pixels)
        assert region.area_px == inside.sum() == region.pixel_polygon.area
        mean = probability[changed][inside].astype(float).mean()
        assert region.mean_probability == pytest.approx(mean, abs=1e-7)


def test_pixels_that_share_a_corner_touch():
    [region] = polygonize(cut(of_mask("#. .#"), seams=[1]), THRESHOLD)
    assert isinstance(region.pixel_polygon, MultiPolygon) and region.area_px == 2


def test_holes_are_kept_also_when_simplified():
    mask = np.full((20, 30), 0.9, np.float32)
    mask[5:12, 8:20] = 0
    [region] = polygonize(cut(mask, seams=[3, 7, 11]), THRESHOLD, simplify_px=2.0)
    assert isinstance(region.pixel_polygon, Polygon)
    assert region.pixel_polygon.equals(box(0, 0, 30, 20).difference(box(8, 5, 20, 12)))


def test_regions_that_meet_only_in_a_later_band_become_one():
    mask = of_mask("#...# #...# #####")
    [region] = polygonize(cut(mask, seams=[1, 2]), THRESHOLD)
    assert region.area_px == 9 and region.pixel_polygon.area == 9


def test_filtering_comes_after_merging():
    mask = np.zeros((8, 8), np.float32)
    mask[2:6, 3] = 0.9
    assert len(polygonize(cut(mask, seams=[4]), THRESHOLD, min_area_px=4)) == 1
    assert polygonize(cut(mask, seams=[4]), THRESHOLD, min_area_px=4.5) == []


@given(scenes(), st.sampled_from([1, 2, 4.5]))
def test_small_regions_may_be_dropped_early(scene, smallest):
    probability, valid, seams = scene
    early = Polygonizer(THRESHOLD, smallest)
    late = Polygonizer(THRESHOLD)
    for band in cut(probability, valid, seams):
        early.add(band)
        late.add(band)
    assert the_same(early.finish(), [region for region in late.finish() if region.area_px >= smallest])


def test_finishing_twice_gives_the_same():
    polygonizer = Polygonizer(THRESHOLD)
    for band in cut(of_mask("##.. ##.# ...# ####"), seams=[2]):
        polygonizer.add(band)
    one = polygonizer.finish()
    assert len(one) == 2 and the_same(one, polygonizer.finish())


def test_simplifying_comes_after_merging_and_straightens_stairs():
    mask = np.tri(40, dtype=np.float32)
    [region] = polygonize(cut(mask, seams=[13, 26]), THRESHOLD, simplify_px=1.0)
    assert len(region.pixel_polygon.exterior.coords) <= 6
    assert region.pixel_polygon.area == pytest.approx(mask.sum(), rel=0.06)


def test_the_map_is_reached_by_one_affine_step():
    transform = Affine(0.3, 0.0, 500_000.1, 0.0, -0.3, 5_600_000.7)
    [region] = polygonize(cut(of_mask("... .## .##"), seams=[2]), THRESHOLD, transform=transform)
    assert region.pixel_polygon.bounds == (1, 1, 3, 3)
    assert set(region.polygon.exterior.coords) == {
        (0.3 * col + 500_000.1, -0.3 * row + 5_600_000.7) for col, row in region.pixel_polygon.exterior.coords
    }


def test_a_pixel_at_the_threshold_is_changed_and_an_invalid_one_never():
    probability = np.array([[0.5, np.nextafter(np.float32(0.5), np.float32(0)), 1.0]], np.float32)
    [region] = polygonize(cut(probability, np.array([[True, True, False]])), 0.5)
    assert region.area_px == 1
    assert polygonize(cut(probability, np.zeros((1, 3), bool)), 0.0) == []


def test_regions_run_from_top_to_bottom_then_from_left_to_right():
    mask = of_mask("....# #.#.. ..... #.#..")
    regions = polygonize(cut(mask, seams=[1, 3]), THRESHOLD)
    assert [region.pixel_polygon.bounds[:2] for region in regions] == [(4, 0), (0, 1), (2, 1), (0, 3), (2, 3)]


def test_bands_come_without_gaps():
    polygonizer = Polygonizer(THRESHOLD)
    band = np.zeros((4, 5), np.float32)
    polygonizer.add(Band(0, band, band > 1))
    with pytest.raises(ValueError, match="expected row 4"):
        polygonizer.add(Band(5, band, band > 1))
    with pytest.raises(ValueError, match="column 0"):
        polygonizer.add(Band(4, band, band > 1, col_off=1))
    with pytest.raises(ValueError, match="width 5"):
        polygonizer.add(Band(4, band[:, :3], band[:, :3] > 1))


def test_nothing_changed_gives_no_regions():
    assert polygonize(cut(np.zeros((6, 7), np.float32), seams=[2]), THRESHOLD, simplify_px=1) == []
    assert Polygonizer(THRESHOLD).finish() == []


@pytest.mark.parametrize("threshold", [0.4, 0.5, 0.6])
def test_a_noisy_map_has_the_same_regions_in_bands(threshold):
    noise = np.random.default_rng(0).random((500, 500)).astype(np.float32)
    one = polygonize(cut(noise), threshold)
    many = polygonize(cut(noise, seams=range(64, 500, 64)), threshold)
    assert max(region.area_px for region in one) > 10_000
    assert the_same(one, many)


def test_a_noisy_region_is_not_simplified():
    noise = np.random.default_rng(0).random((250, 250)).astype(np.float32)
    one = polygonize(cut(noise), 0.35, min_area_px=1000, simplify_px=1.0)
    assert [region.pixel_polygon.area for region in one] == [region.area_px for region in one]
    assert all(region.pixel_polygon.is_valid for region in one)


def peak_of(noise, bands, **options):
    polygonizer = Polygonizer(THRESHOLD, **options)
    valid = np.ones(noise.shape, bool)
    tracemalloc.start()
    for number in range(bands):
        polygonizer.add(Band(number * len(noise), noise, valid))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_a_band_of_a_wide_scene_takes_little_memory():
    """Noise with small regions only, 24,000 pixels wide, in bands as high as those of tiles."""
    noise = (np.random.default_rng(0).random((32, 24_000)) < 0.2).astype(np.float32)
    low = peak_of(noise, 3, min_area_px=30)
    assert low < 60_000_000
    assert peak_of(noise, 8, min_area_px=30) < low + 2_000_000


@pytest.mark.slow
def test_corners_are_settled_a_few_times_however_many_there_are(monkeypatch):
    """What is still open is gone through each time: with every band that takes the square of the rows."""
    settled, settle = [], Polygonizer._settle
    monkeypatch.setattr(Polygonizer, "_settle", lambda self: settled.append(len(settled)) or settle(self))
    monkeypatch.setattr(polygons, "MOST_CORNERS", polygons.MOST_CORNERS // 4)
    comb = np.zeros((4, 1000), np.float32)
    comb[:, ::2] = 1
    comb[::2, :] = 1
    polygonizer = Polygonizer(THRESHOLD)
    for number in range(200):
        polygonizer.add(Band(4 * number, comb, comb >= 0))
    [region] = polygonizer.finish()
    assert region.area_px == 200 * (comb > 0).sum()
    assert len(settled) < 12
