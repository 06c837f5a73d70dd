import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import Transformer
from rasterio.crs import CRS
from shapely import affinity
from shapely.geometry import MultiPolygon, Polygon, box

from tiling import geodesic_area_m2, to_wgs84
from tiling.geodesy import transformer, utm_crs


@settings(max_examples=20, deadline=None)
@given(st.floats(-170, 170), st.floats(-75, 75), st.floats(20, 3000))
def test_a_square_in_utm_has_its_area_and_turns_counter_clockwise(lon, lat, side):
    crs = utm_crs(lon, lat)
    x, y = Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(lon, lat)
    moved = to_wgs84(box(x - side / 2, y - side / 2, x + side / 2, y + side / 2), crs)
    assert geodesic_area_m2(moved) == pytest.approx(side**2, rel=3e-3)
    assert moved.exterior.is_ccw and moved.is_valid
    assert (moved.centroid.x, moved.centroid.y) == pytest.approx((lon, lat), abs=1e-4)


@pytest.mark.parametrize(
    ("lon", "lat", "code"),
    [
        (9, 0, 32632),
        (9, -0.1, 32732),
        (-180, 5, 32601),
        (180, 5, 32601),
        (179.9, 5, 32660),
        (0, 84, 5041),
        (0, -81, 5042),
    ],
)
def test_a_place_has_the_zone_of_its_hemisphere(lon, lat, code):
    assert utm_crs(lon, lat) == f"EPSG:{code}"


def test_holes_are_taken_out_and_turn_clockwise():
    x, y = 500_000, 5_600_000
    ring = box(x, y, x + 100, y + 100).difference(box(x + 20, y + 20, x + 60, y + 60))
    moved = to_wgs84(ring, "EPSG:32633")
    assert moved.exterior.is_ccw and not moved.interiors[0].is_ccw
    assert geodesic_area_m2(moved) == pytest.approx(100**2 - 40**2, rel=1e-3)
    backwards = Polygon(moved.exterior.coords[::-1], [ring.coords[::-1] for ring in moved.interiors])
    assert geodesic_area_m2(backwards) == pytest.approx(geodesic_area_m2(moved))


@pytest.mark.parametrize("north", [1.0, 45.0, 60.0, 90.0])
def test_edges_along_a_parallel_are_followed_and_not_cut_short(north):
    """A quarter of the zone from the equator to a parallel, whose area has a closed form."""
    a, b = 6_378_137.0, 6_356_752.314245  # the axes of WGS84
    e, sine = math.sqrt(1 - (b / a) ** 2), math.sin(math.radians(north))
    zone = math.pi * b**2 * (sine / (1 - (e * sine) ** 2) + math.atanh(e * sine) / e)
    assert geodesic_area_m2(box(0, 0, 90, north)) == pytest.approx(zone / 4, rel=2e-8)


@pytest.mark.parametrize(
    ("crs", "lat"), [("EPSG:32601", 60.0), ("EPSG:32660", 10.0), ("EPSG:32701", -17.0), ("EPSG:3832", -17.0)]
)
def test_what_crosses_the_antimeridian_is_cut_there(crs, lat):
    x, y = Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(180.0, lat)
    whole = box(x - 300, y - 100, x + 500, y + 100).difference(box(x + 100, y - 10, x + 200, y + 10))
    moved = to_wgs84(whole, crs)
    assert isinstance(moved, MultiPolygon) and len(moved.geoms) == 2 and moved.is_valid
    assert all(part.bounds[0] >= -180 and part.bounds[2] <= 180 for part in moved.geoms)
    assert sorted(round(abs(part.bounds[0])) for part in moved.geoms) == [180, 180]
    assert all(part.exterior.is_ccw for part in moved.geoms)
    assert all(part.bounds[2] - part.bounds[0] < 1 for part in moved.geoms)
    assert geodesic_area_m2(moved) == pytest.approx(whole.area, rel=5e-3 if crs != "EPSG:3832" else 0.2)


@pytest.mark.parametrize("codes", [(3067, 2393), (5110, 27393)])
def test_grids_whose_datums_only_one_proj_can_name_are_brought_together(codes):
    lon, lat = (25.1, 60.1) if codes[0] == 3067 else (10.5, 59.9)
    crss = [CRS.from_epsg(code) for code in codes]
    places = [transformer("EPSG:4326", f"EPSG:{code}").transform(lon, lat) for code in codes]
    assert transformer(*crss).transform(*places[0]) == pytest.approx(places[1], abs=2)


@pytest.mark.parametrize(
    ("crs", "pole"),
    [
        ("EPSG:3995", (0, 0)),
        ("EPSG:3031", (3, -4)),
        ("EPSG:5041", (2_000_000, 2_000_000)),
        ("EPSG:3575", (1, 1)),
    ],
)
@pytest.mark.parametrize("offset", [(0, 0), (15, 15), (15, 0), (40, 3)])
def test_a_polygon_around_beside_or_at_a_pole_keeps_its_area(crs, pole, offset):
    """The scale of the map is measured on the same square, four kilometres from the pole."""
    x, y = (place + step for place, step in zip(pole, offset, strict=True))
    square = box(x - 15, y - 15, x + 15, y + 15).difference(box(x + 5, y + 6, x + 7, y + 8))
    expected = geodesic_area_m2(to_wgs84(affinity.translate(square, 4000, 0), crs))
    found = to_wgs84(square, crs)
    assert found.is_valid and geodesic_area_m2(found) == pytest.approx(expected, rel=0.01)
    west, south, east, north = found.bounds
    assert west >= -180 and east <= 180 and south >= -90 and north <= 90
    if offset == (0, 0):
        assert (west, east) == (-180, 180) and 90 in (-south, north)
