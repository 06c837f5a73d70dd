from __future__ import annotations

import json

import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import LinearRing, Polygon, box

from workflows.report.geojson import collection_bbox, geometry_member, rounded

# Offsets near the size of the rounding, where plain rounding makes rings touch and cross.
tiny = st.floats(-3e-6, 3e-6, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(tiny, tiny), min_size=4, max_size=12))
def test_rounded_rings_are_valid_and_keep_the_right_hand_rule(points):
    hull = shapely.make_valid(Polygon([(12 + x, 47 + y) for x, y in points]))
    for part in shapely.get_parts(hull):
        if not isinstance(part, Polygon) or part.is_empty:
            continue
        result = rounded(part)
        written = shapely.from_geojson(json.dumps(geometry_member(result)))
        assert written.is_valid
        for polygon in shapely.get_parts(written):
            assert LinearRing(polygon.exterior).is_ccw
            assert not any(LinearRing(hole).is_ccw for hole in polygon.interiors)
            again = geometry_member(rounded(polygon))
            assert again == geometry_member(rounded(shapely.from_geojson(json.dumps(again))))
            for x, y in polygon.exterior.coords:
                assert round(x, 7) == x and round(y, 7) == y


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ([], None),
        ([(10, 40, 11, 41)], [10, 40, 11, 41]),
        ([(10, 40, 11, 41), (12, 39, 13, 40)], [10, 39, 13, 41]),
        ([(-1, 0, 1, 1), (-3, 0, -2, 1)], [-3, 0, 1, 1]),
        ([(179, -17, 180, -16), (-180, -17, -179.5, -16)], [179, -17, -179.5, -16]),
        ([(179, 0, 180, 1), (-180, 0, -179, 1), (178, 0, 178.5, 1)], [178, 0, -179, 1]),
        ([(-180, 0, -100, 1), (-170, 0, -160, 1), (170, 0, 180, 1)], [170, 0, -100, 1]),  # one in another
        ([(-180, -5, 180, 5)], [-180, -5, 180, 5]),
        # One within another, alone and beside the gap of boxes that meet at 180 degrees.
        ([(10, 0, 50, 1), (20, 0, 30, 1)], [10, 0, 50, 1]),
        ([(100, 0, 180, 1), (-180, 0, -100, 1), (-170, 0, -169, 1)], [100, 0, -100, 1]),
    ],
)
def test_bbox(boxes, expected):
    assert collection_bbox([box(*bounds) for bounds in boxes]) == expected
