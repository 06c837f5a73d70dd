import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.rpc import RPC
from rasters import (
    PLACE,
    UTM,
    band,
    north_up,
    refused_file,
    source,
    textured,
    write_bands,
    write_scene,
)
from shapely.geometry import Point

from tiling import MissingCRS, MissingGeoreferencing, describe
from tiling.geodesy import on_map

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
IMAGE = textured(40, 60)
# Written out: releases of affine differ in how two transforms are multiplied.
ROTATED = Affine(0.4, 0.3, 500_000, 0.3, -0.4, 5_600_000)
SHEARED = Affine(0.5, 0.1, 500_000, 0, -0.5, 5_600_000)
SOUTH_UP = Affine(0.5, 0, 500_000, 0, 0.5, 5_600_000)
MIRRORED = Affine(-0.5, 0, 500_000, 0, -0.5, 5_600_000)


def write_with_points(path, points, crs="EPSG:4326"):
    """A raster that is placed by ground control points alone: (row, column, x, y)."""
    write_scene(path, IMAGE, transform=None, crs=None)
    with rasterio.open(path, "r+") as file:
        file.gcps = [GroundControlPoint(*point) for point in points], rasterio.CRS.from_user_input(crs)
    return path


def points_on(transform, places):
    return [(row, col, *on_map(transform, col, row)) for row, col in places]


CORNERS = ((0, 0), (0, 60), (40, 60), (40, 0))


@pytest.mark.parametrize("transform", [ROTATED, SHEARED, SOUTH_UP, MIRRORED])
def test_any_affine_transform_places_a_scene(tmp_path, transform):
    info = describe(write_scene(tmp_path / "a.tif", IMAGE, transform=transform))
    assert info.transform == transform and info.gcps == () and not info.north_up
    corners = [on_map(transform, *at) for at in ((0, 0), (60, 0), (60, 40), (0, 40))]
    assert list(info.footprint.exterior.coords)[:-1] == corners
    assert info.bounds == info.footprint.bounds
    assert info.footprint.area == pytest.approx(abs(transform.determinant) * 60 * 40)
    assert info.gsd == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("transform", [north_up(), ROTATED, SOUTH_UP])
def test_ground_control_points_place_a_scene(tmp_path, transform):
    info = describe(write_with_points(tmp_path / "a.tif", points_on(transform, CORNERS), UTM))
    assert info.crs.to_string() == UTM and len(info.gcps) == 4 and not info.north_up
    np.testing.assert_allclose(info.transform[:6], transform[:6], atol=1e-6)
    assert info.gsd == pytest.approx(0.5)
    area = abs(transform.determinant) * 60 * 40
    assert info.footprint.area == pytest.approx(area, rel=1e-6)
    assert info.footprint.centroid.distance(Point(on_map(transform, 30, 20))) < 1e-5


def test_points_that_bend_the_image_bend_its_outline(tmp_path):
    places = [(row, col) for row in (0, 20, 40) for col in (0, 20, 40, 60)]
    bent = [
        (row, col, x, y + 4 * (1 - ((col - 30) / 30) ** 2))
        for row, col, x, y in points_on(north_up(), places)
    ]
    info = describe(write_with_points(tmp_path / "a.tif", bent, UTM))
    _, _, _, north = info.bounds
    assert north == pytest.approx(5_600_004, abs=0.05), "the middle of the upper edge stands out"
    # The least-squares plane lies between.
    assert 5_600_001 < on_map(info.transform, 30, 0)[1] < 5_600_003


def test_points_on_both_sides_of_the_antimeridian_do_not_jump(tmp_path):
    west, east, south = 179.999, -179.998, 59.999
    points = [(0, 0, west, 60), (0, 60, east, 60), (40, 60, east, south), (40, 0, west, south)]
    info = describe(write_with_points(tmp_path / "a.tif", points))
    west, _, east, _ = info.bounds
    assert (west, east) == pytest.approx((179.999, 180.002), abs=1e-6)
    assert [point.x for point in info.gcps] == pytest.approx([179.999, 180.002, 180.002, 179.999])


def test_a_camera_model_alone_is_refused_with_the_remedy(tmp_path):
    model = RPC(
        height_off=100, height_scale=500, lat_off=50, lat_scale=0.1, line_off=20, line_scale=20,
        long_off=15, long_scale=0.1, samp_off=30, samp_scale=30, err_bias=None, err_rand=None,
        line_num_coeff=[0.0, 0.0, -1.0, *[0.0] * 17], line_den_coeff=[1.0, *[0.0] * 19],
        samp_num_coeff=[0.0, 1.0, *[0.0] * 18], samp_den_coeff=[1.0, *[0.0] * 19],
    )  # fmt: skip
    path = write_scene(tmp_path / "a.tif", IMAGE, transform=None, crs=None, rpcs=model)
    refused_file(MissingGeoreferencing, path, "a.tif")


@pytest.mark.parametrize(
    ("west", "north", "crs"),
    [
        (15, 1000, "EPSG:4326"),
        (15, -95, "EPSG:4326"),
        (1000, 50, "EPSG:4326"),
        (500_000, 5_600_000, "EPSG:4258"),
    ],
)
def test_degrees_that_are_no_place_on_earth_are_refused(tmp_path, west, north, crs):
    path = write_scene(tmp_path / "a.tif", IMAGE, crs=crs, transform=north_up(west, north, 1e-5))
    refused_file(MissingGeoreferencing, path, "a.tif")


def write_placed(path, place):
    """A VRT of one band of a scene beside it, with an element that says where it lies."""
    write_scene(path.with_name("one.tif"), IMAGE)
    return write_bands(path, band(1, source("one.tif")), place=place)


@pytest.mark.parametrize("number", ["nan", "inf", "1e308"])
def test_a_transform_of_no_numbers_is_refused(tmp_path, number):
    place = PLACE.replace("500000", number)
    refused_file(MissingGeoreferencing, write_placed(tmp_path / "a.vrt", place))


@pytest.mark.parametrize(
    "crs", ["EPSG:32633+5773", "EPSG:4979", "EPSG:3857", "EPSG:2263", "EPSG:3413", "EPSG:5041"]
)
def test_systems_with_heights_in_feet_and_at_the_poles_are_known(tmp_path, crs):
    at = {
        "EPSG:4979": north_up(15, 50, 1e-5),
        "EPSG:3413": north_up(1e5, 1e5),
        "EPSG:5041": north_up(2e6, 2e6),
    }
    transform = at.get(crs, north_up(1_000_000, 200_000) if crs == "EPSG:2263" else north_up())
    info = describe(write_scene(tmp_path / "a.tif", IMAGE, crs=crs, transform=transform))
    assert 0.1 < info.gsd < 1.2


@pytest.mark.parametrize("crs", ["EPSG:4978", 'LOCAL_CS["plan of a house",UNIT["metre",1]]', None])
def test_a_system_of_no_place_on_earth_is_refused(tmp_path, crs):
    path = write_scene(tmp_path / "a.tif", IMAGE, crs=crs)
    refused_file(MissingCRS, path)
