import math
from dataclasses import replace

import numpy as np
import pytest
from affine import Affine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from painted_ground import PLACES, Ground, View
from pyproj import Geod
from rasters import ORIGIN, UTM, lonlat, north_up, refused_pair, write_scene

from tiling import BoundsInvalid, NoOverlap, SceneTooLarge, Window, describe
from tiling.geodesy import on_map
from tiling.working_grid import focus_window, plan_grid


@pytest.fixture
def scene(tmp_path):
    """Write an empty scene and return what its header says."""

    def make(width=90, height=60, name="scene.tif", **options):
        return describe(write_scene(tmp_path / name, np.zeros((3, height, width), np.uint8), **options))

    return make


def seen(tmp_path, place, name="view.tif", **options):
    ground, view = Ground(*place), View(**options)
    blank = np.zeros((3, view.height, view.width), np.uint8)
    return describe(view.write(tmp_path / name, ground, blank))


def place_of(grid, col, row):
    return lonlat(*on_map(grid.transform, col, row), grid.crs.to_wkt())


def box_of(grid, window):
    """West, south, east and north of pixels, a tenth of a pixel inside them."""
    corners = [
        place_of(grid, col, row)
        for col in (window.col_off + 0.1, window.col_end - 0.1)
        for row in (window.row_off + 0.1, window.row_end - 0.1)
    ]
    lons, lats = zip(*corners, strict=True)
    return min(lons), min(lats), max(lons), max(lats)


# --- the grid


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("angle", [0.0, 33.0])
def test_every_scene_gets_a_north_up_grid_in_metres_or_feet(tmp_path, place, angle):
    for number, crs in enumerate(PLACES[place]):
        info = seen(tmp_path, place, crs=crs, angle=angle, gsd=0.6, name=f"{number}.tif")
        grid = plan_grid(info, info)
        transform = grid.transform
        assert transform.a > 0 > transform.e and transform.b == transform.d == 0 and grid.crs.is_projected
        assert grid.crs == info.crs or info.crs.is_geographic
        assert grid.gsd == pytest.approx(0.6, rel=0.011)  # maps are true to one percent
        # The grid holds the whole scene and hardly more.
        west, south, east, north = info.bounds
        if not info.crs.is_geographic:
            assert transform.c <= west + 0.06 * transform.a and transform.f >= north + 0.06 * transform.e
            assert (grid.width - 2) * transform.a <= east - west <= (grid.width + 0.1) * transform.a
            assert (grid.height - 2) * -transform.e <= north - south <= (grid.height + 0.1) * -transform.e


@pytest.mark.parametrize(
    ("crs", "place", "cell"),
    [
        ("EPSG:2263", (985_000, 200_000), 2.0),  # feet
        ("EPSG:3857", (1_670_000, 8_399_738), 1.0),
        # At 60 degrees north a unit is half a metre to the east and a whole one to the north.
        ("EPSG:4087", (1_670_000, 6_679_169), 0.4),
    ],
)
def test_pixels_are_as_wide_and_as_high_as_they_were_asked_for(scene, crs, place, cell):
    info = scene(crs=crs, transform=north_up(*place, cell))
    grid = plan_grid(info, info, 1.0)
    assert grid.gsd == 1.0
    for one, other in (((40, 10), (41, 10)), ((40, 10), (40, 11))):
        _, _, metres = Geod(ellps="WGS84").inv(*place_of(grid, *one), *place_of(grid, *other))
        assert metres == pytest.approx(1.0, rel=5e-3)


@pytest.mark.parametrize(
    ("place", "crs"),
    [
        ((15.0, 50.0), UTM),
        ((-74.0, -8.4), "EPSG:32718"),
        ((180.0, -17.0), "EPSG:32701"),
        ((-45.0, 85.0), "EPSG:5041"),
    ],
)
def test_degrees_get_the_utm_zone_or_the_polar_grid(tmp_path, place, crs):
    info = seen(tmp_path, place, crs="EPSG:4326")
    assert plan_grid(info, info).crs.to_string() == crs


def test_a_scene_over_the_pole_and_one_of_the_whole_cap(scene):
    """In degrees the ground around a pole is no polygon; the cap is all longitudes north of 85 degrees."""
    pole = scene(crs="EPSG:3995", transform=north_up(-20, 15), name="pole.tif")
    cap = scene(3600, 50, crs="EPSG:4326", transform=Affine(0.1, 0, -180, 0, -0.1, 90), name="cap.tif")
    assert replace(plan_grid(pole, cap), gsd=0.5) == replace(plan_grid(pole, pole), gsd=0.5)
    south = scene(crs="EPSG:3031", transform=north_up(-20, 15), name="south.tif")
    cap = scene(3600, 50, crs="EPSG:4326", transform=Affine(0.1, 0, -180, 0, -0.1, -85), name="cap.tif")
    assert replace(plan_grid(south, cap), gsd=0.5) == replace(plan_grid(south, south), gsd=0.5)
    beside = scene(300, 50, crs="EPSG:4326", transform=Affine(0.1, 0, 90, 0, -0.1, 90), name="wedge.tif")
    # From 90 to 120 degrees east, which is up to 30 degrees above the x axis of this map.
    grid = plan_grid(pole, beside)
    assert (grid.width, grid.height) == (50, math.ceil(50 * math.tan(math.radians(30))))


def test_a_grid_beyond_the_limit(scene):
    refused_pair(SceneTooLarge, scene(), scene(), "scene.tif", gsd=1e-05)


# --- the anchor


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cut=st.tuples(st.integers(0, 30), st.integers(0, 20)),
    place=st.tuples(st.sampled_from([0.0, 0.25, 0.1, 0.15, 1 / 3]), st.sampled_from([0.0, 0.25, -0.1])),
    gsd=st.sampled_from([None, 0.6, 1.4]),
    crs=st.sampled_from([UTM, "EPSG:32733"]),
)
def test_what_is_cut_off_is_added_to_the_anchor(scene, cut, place, gsd, crs):
    x, y = ORIGIN[0] + place[0], ORIGIN[1] + place[1]
    whole = scene(crs=crs, transform=north_up(x, y))
    rest = scene(90 - cut[0], 60 - cut[1], crs=crs, transform=north_up(x + cut[0] * 0.5, y - cut[1] * 0.5))
    one, other = plan_grid(whole, whole, gsd), plan_grid(rest, rest, gsd)
    moved = other.anchor[0] - one.anchor[0], other.anchor[1] - one.anchor[1]
    if gsd is None:
        assert moved == cut
    assert on_map(one.transform, *moved) == pytest.approx((other.transform.c, other.transform.f), abs=1e-6)
    assert one.transform.a == other.transform.a


# --- the focus


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_box_around_pixels_is_these_pixels(scene, data):
    info = scene(400, 300)
    grid = plan_grid(info, info, data.draw(st.sampled_from([None, 0.8])))
    col, row = data.draw(st.integers(0, grid.width - 1)), data.draw(st.integers(0, grid.height - 1))
    window = Window(
        col, row, data.draw(st.integers(1, grid.width - col)), data.draw(st.integers(1, grid.height - row))
    )
    focus = focus_window(grid, box_of(grid, window), info)
    # A box in degrees lies aslant on the map, by less than a pixel here.
    assert focus.intersection(window) == window
    assert focus.width <= window.width + 2 and focus.height <= window.height + 2


@pytest.mark.parametrize("crs", ["EPSG:32701", "EPSG:32760", "EPSG:4326", "EPSG:3832"])
def test_a_box_across_the_antimeridian(tmp_path, crs):
    info = seen(tmp_path, (180.0, -17.0), crs=crs)
    grid = plan_grid(info, info)
    focus = focus_window(grid, (179.9999, -17.1, -179.9999, -16.9), info)
    # 0.0002 degrees are 21.3 m; the zones lean a little there.
    assert focus.height == grid.height and focus.width * grid.gsd == pytest.approx(21.3, abs=3)
    east = focus_window(grid, (-180, -17.1, -179.9, -16.9), info)
    west = focus_window(grid, (179.9, -17.1, 180, -16.9), info)
    assert west.col_off == 0 and east.col_end == grid.width and abs(west.col_end - east.col_off) <= 4


def test_a_box_around_the_pole(scene):
    pole = scene(crs="EPSG:3995", transform=north_up(-20, 15))
    grid = plan_grid(pole, pole)
    assert focus_window(grid, (-180, 89, 180, 90), pole) == Window(0, 0, 90, 60)
    # The quarter between Greenwich (down on this map) and 90 degrees east (to the right).
    assert focus_window(grid, (0, 89, 90, 90), pole) == Window(40, 30, 50, 30)


@pytest.mark.parametrize("bounds", [(100, 10, 101, 11), (-164, -51, -163, -50), (15.01, 50.5, 15.02, 50.6)])
def test_a_box_elsewhere(scene, bounds):
    refused_pair(NoOverlap, scene(), scene(), bounds=bounds)


@pytest.mark.parametrize(
    "bounds",
    [
        (15.1, 50, 14.9, 51),
        (14, 51, 15, 50),
        (14, 50, 14, 51),
        (14, 50, 15, 50),
        (-190, 1, 0, 2),
        (1, 2, 3, 95),
        (1, -95, 3, 2),
        (math.nan, 1, 2, 3),
    ],
)
def test_an_impossible_box(scene, bounds):
    refused_pair(BoundsInvalid, scene(), scene(), bounds=bounds)
