import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from shapely.geometry import box

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
@settings(max_examples=40)
@given(scenes(), st.sampled_from([0, 2, 5]), st.sampled_from([0, 1.0, 2.5]))
def test_bands_give_exactly_the_polygons_of_the_whole(scene, smallest, tolerance):
    probability, valid, seams = scene
    options = {"min_area_px": smallest, "simplify_px": tolerance}
    one = polygonize(cut(probability, valid), THRESHOLD, **options)
    many = polygonize(cut(probability, valid, seams), THRESHOLD, **options)
    assert the_same(one, many)


@settings(max_examples=20)
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


@settings(max_examples=20)
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


@settings(max_examples=20)
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


def test_filtering_comes_after_merging():
    mask = np.zeros((8, 8), np.float32)
    mask[2:6, 3] = 0.9
    assert len(polygonize(cut(mask, seams=[4]), THRESHOLD, min_area_px=4)) == 1
    assert polygonize(cut(mask, seams=[4]), THRESHOLD, min_area_px=4.5) == []


def test_simplifying_comes_after_merging_and_straightens_stairs():
    mask = np.tri(40, dtype=np.float32)
    [region] = polygonize(cut(mask, seams=[13, 26]), THRESHOLD, simplify_px=1.0)
    assert len(region.pixel_polygon.exterior.coords) <= 6
    assert region.pixel_polygon.area == pytest.approx(mask.sum(), rel=0.06)


def peak_of(noise, bands, **options):
    polygonizer = Polygonizer(THRESHOLD, **options)
    valid = np.ones(noise.shape, bool)
    tracemalloc.start()
    for number in range(bands):
        polygonizer.add(Band(number * len(noise), noise, valid))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_a_band_of_a_wide_scene_takes_little_memory():
    """Noise with small regions only, 24,000 pixels wide, in bands as high as those of tiles."""
    noise = (np.random.default_rng(0).random((32, 24_000)) < 0.2).astype(np.float32)
    low = peak_of(noise, 3, min_area_px=30)
    assert low < 60_000_000
    assert peak_of(noise, 8, min_area_px=30) < low + 2_000_000
