import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from shapely import affinity
from shapely.geometry import MultiPolygon, Point, Polygon, box

from tiling import Band, polygonize
from tiling.regularize import regularized

L_SHAPE = Polygon([(0, 0), (60, 0), (60, 25), (25, 25), (25, 50), (0, 50)])
T_SHAPE = Polygon([(0, 0), (60, 0), (60, 20), (40, 20), (40, 50), (20, 50), (20, 20), (0, 20)])
ANGLES = st.floats(0, 90)
SHIFTS = st.floats(0, 1)


def seen(shape, angle, shift=0.3, simplify_px=0.0):
    """The shape on the ground, turned, and what the polygonizer makes of its pixels."""
    middle = shape.envelope.centroid
    shape = affinity.translate(
        affinity.rotate(shape, angle, origin=middle), 64 - middle.x + shift, 64 - middle.y
    )
    y, x = np.mgrid[0:128, 0:128] + 0.5
    mask = shapely.contains_xy(shape, x, y)
    regions = polygonize(
        [Band(0, mask.astype(np.float32), np.ones(mask.shape, bool))], 0.5, simplify_px=simplify_px
    )
    return shape, max(regions, key=lambda region: region.area_px).pixel_polygon


def corners(polygon):
    rings = shapely.get_rings(shapely.get_parts(polygon))
    return [shapely.get_num_coordinates(ring) - 1 for ring in rings]


def iou(one, other):
    return one.intersection(other).area / one.union(other).area


def turns(polygon):
    """The cosine of every corner of an outline: 0 where the angle is right."""
    cosines = []
    for ring in shapely.get_rings(shapely.get_parts(polygon)):
        sides = np.diff(shapely.get_coordinates(ring), axis=0)
        sides /= np.linalg.norm(sides, axis=1, keepdims=True)
        cosines.append((sides * np.roll(sides, 1, axis=0)).sum(axis=1))
    return np.concatenate(cosines)


@settings(max_examples=20)
@given(
    st.sampled_from([(box(0, 0, 50, 30), [4]), (box(0, 0, 16, 10), [4]), (L_SHAPE, [6]), (T_SHAPE, [8])]),
    ANGLES,
    SHIFTS,
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([1.5, 2.0]),
)
def test_a_building_has_its_corners_back_however_it_is_turned(shape, angle, shift, simplify_px, tolerance):
    building, expected = shape
    truth, outline = seen(building, angle, shift, simplify_px)
    square = regularized(outline, tolerance)
    assert corners(square) == expected
    assert np.abs(turns(square)).max() < 1e-6
    assert square.area == pytest.approx(outline.area, rel=0.1)
    # Pixels and simplifying may move each side by half a pixel: a sixth of the small building.
    assert iou(square, truth) > (0.82 if building.area < 200 else 0.88)


def test_what_lies_along_the_pixels_is_kept_to_the_pixel():
    outline = L_SHAPE.difference(box(20, 0, 21, 1)).union(box(60, 10, 61, 11))
    square = regularized(outline, 1.5)
    assert corners(square) == [6]
    assert set(turns(square)) == {0.0}
    assert iou(square, L_SHAPE) > 0.995
    assert regularized(L_SHAPE, 1.5).equals(L_SHAPE)


def test_a_step_shorter_than_two_tolerances_is_straightened_at_the_mean_of_its_sides():
    stepped = L_SHAPE.difference(box(40, 0, 52, 2))
    # The side of 60 px lies 2 px further in along 12 of them.
    expected = Polygon([(0, 0.4), (60, 0.4), (60, 25), (25, 25), (25, 50), (0, 50)])
    assert corners(stepped) == [10] and shapely.simplify(stepped, 1.5).equals(stepped)
    assert shapely.equals_exact(regularized(stepped, 1.5).normalize(), expected.normalize(), tolerance=1e-6)
    assert corners(regularized(L_SHAPE.difference(box(40, 0, 52, 4)), 1.5)) == [10]


def test_an_outline_that_would_lose_a_tenth_of_its_area_stays():
    pole = shapely.union(box(0, 0, 36, 40), box(36, 20, 136, 22))
    assert regularized(pole, 2.0) is pole


@pytest.mark.parametrize(
    "shape",
    [
        Point(64, 64).buffer(20),
        Point(64, 64).buffer(8),
        affinity.scale(Point(64, 64).buffer(20), 1.6, 0.7),
        Polygon([(0, 0), (60, 0), (12, 45)]),
        Point(64, 64).buffer(45).difference(Point(60, 75).buffer(40)),
    ],
)
@pytest.mark.parametrize("angle", [0, 20, 45])
def test_a_pond_comes_back_unchanged(shape, angle):
    _, outline = seen(shape, angle)
    assert regularized(outline, 1.5) is outline


@pytest.mark.slow
@settings(max_examples=25)
@given(arrays(bool, st.tuples(st.integers(1, 14), st.integers(1, 14))), st.floats(0.3, 4), st.booleans())
def test_what_comes_back_is_valid_and_near_and_always_the_same(mask, tolerance, simplified):
    bands = [Band(0, mask.astype(np.float32), np.ones(mask.shape, bool))]
    for region in polygonize(bands, 0.5, simplify_px=float(simplified)):
        outline = region.pixel_polygon
        square = regularized(outline, tolerance)
        assert square.is_valid and isinstance(square, Polygon | MultiPolygon)
        assert abs(square.area / outline.area - 1) <= 0.1 + 1e-9
        assert iou(square, outline) > 0.8
        assert shapely.equals_exact(square, regularized(outline, tolerance), tolerance=0)
