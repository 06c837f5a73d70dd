"""Ground distances, areas and WGS84 coordinates; longitudes first everywhere."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import shapely
from affine import Affine
from pyproj import CRS, Geod, Transformer
from pyproj.exceptions import CRSError, ProjError
from rasterio.crs import CRS as RasterioCRS
from shapely.geometry import MultiPolygon, Point, Polygon, box
from shapely.geometry.polygon import orient

from tiling.errors import ReprojectionFailed
from tiling.mending import mended, polygons_in

Number = TypeVar("Number", float, np.ndarray)
_ELLIPSOID = Geod(ellps="WGS84")
# Longer edges are split before reprojection: their middle would be off by centimetres.
LONGEST_EDGE_M = 1000.0
LONGEST_EDGE_DEGREES = 0.01
# Around a pole edges are shorter; farther from it those of a kilometre are straight enough.
_NEAR_POLE_M = 1e6
# A projection this near to true scale counts as true: a UTM pixel of 0.5 m has 0.5 m.
SCALE_TOLERANCE = 0.01


@lru_cache(maxsize=64)
def transformer(source: Any, target: Any) -> Transformer:
    """Return a transformer between two CRSs (rasterio's, pyproj's, or text), x before y, for any thread."""
    try:
        return Transformer.from_crs(_known(source), _known(target), always_xy=True)
    except (CRSError, ProjError) as error:
        reason = " ".join(str(error).split())
        raise ReprojectionFailed(
            f"no transformation from {source} to {target}: {reason}; use a common CRS"
        ) from error


def _known(crs: Any) -> CRS:
    """Return pyproj's CRS, by code if possible: the PROJ of rasterio may know datums that pyproj's lacks."""
    code = crs.to_authority(100) if isinstance(crs, RasterioCRS) else None
    return CRS.from_user_input(crs if code is None else ":".join(code))


def on_map(transform: Affine, col: Number, row: Number) -> tuple[Number, Number]:
    """Return map coordinates of pixel positions; written out since releases of affine differ."""
    return (
        transform.a * col + transform.b * row + transform.c,
        transform.d * col + transform.e * row + transform.f,
    )


def ground_sampling(crs: Any, transform: Affine, width: int, height: int) -> tuple[float, float]:
    """Return width and height in metres of the pixel at the centre of a scene.

    Measured on the ellipsoid, so degrees, feet and web mercator give true metres; the nominal size counts in
    a projection that is true to within one percent.

    Raises:
        ReprojectionFailed: the centre of the scene is not on Earth.
    """
    col, row = width / 2, height / 2
    cols, rows = col + np.array([-0.5, 0.5, 0, 0]), row + np.array([0, 0, -0.5, 0.5])
    lon, lat = transformer(crs, "EPSG:4326").transform(*on_map(transform, cols, rows))
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        raise ReprojectionFailed(f"the centre {on_map(transform, col, row)} of the scene is outside {crs}")
    _, _, metres = _ELLIPSOID.inv(lon[::2], lat[::2], lon[1::2], lat[1::2])
    nominal = _metres_per_unit(crs)
    if nominal is not None:
        steps = math.hypot(transform.a, transform.d), math.hypot(transform.b, transform.e)
        stated = nominal * np.array(steps)
        metres = np.where(np.abs(metres / stated - 1) <= SCALE_TOLERANCE, stated, metres)
    return float(metres[0]), float(metres[1])


@lru_cache(maxsize=64)
def _metres_per_unit(crs: Any) -> float | None:
    """Return the metres per unit of a projected CRS, None for a geographic one."""
    system = CRS.from_user_input(crs)
    return float(system.axis_info[0].unit_conversion_factor) if system.is_projected else None


def utm_crs(lon: float, lat: float) -> str:
    """Return the UTM zone of a position as "EPSG:n"; near the poles the polar grid."""
    if lat >= 84:
        return "EPSG:5041"
    if lat < -80:
        return "EPSG:5042"
    zone = min(60, math.floor(((lon + 180) % 360) / 6) + 1)
    return f"EPSG:{(32600 if lat >= 0 else 32700) + zone}"


def geodesic_area_m2(polygon_lonlat: Polygon | MultiPolygon) -> float:
    """Return the area in m2 on the WGS84 ellipsoid of a (multi)polygon in degrees, without holes; >= 0.

    Edges are straight in longitude and latitude, as in GeoJSON.
    """
    area = 0.0
    for part in shapely.get_parts(polygon_lonlat):
        dense = shapely.segmentize(orient(part), LONGEST_EDGE_DEGREES)
        area += abs(_ELLIPSOID.geometry_area_perimeter(dense)[0])
    return area


def to_wgs84(geometry: Polygon | MultiPolygon, crs: Any) -> Polygon | MultiPolygon:
    """Return ``geometry`` (in ``crs``) in WGS84 longitude and latitude by RFC 7946.

    Outer rings run counter-clockwise, holes clockwise; polygons are cut at the antimeridian, longitudes lie
    in -180..180. A polygon around a pole reaches from -180 to 180 and up to the pole. Without a pole
    ``geometry`` must not span more than 180 degrees.

    Raises:
        ReprojectionFailed: a vertex has no longitude and latitude.
    """
    metres = _metres_per_unit(crs)
    if metres is not None:
        # The second bound limits the number of edges.
        longest = max(_longest_edge_m(geometry, crs, metres) / metres, geometry.length / 100_000)
        geometry = shapely.segmentize(geometry, longest)
    poles = () if metres is None else _poles(crs)
    pole = next((pole for pole in poles if geometry.intersects(pole[0])), None)
    if pole is None:
        parts = _cut_at_antimeridian(shapely.transform(geometry, lambda xy: _lonlat(xy, crs)))
    else:
        quarters = _quarters(geometry, crs, *pole)
        pieces = [piece for quarter in quarters for piece in _cut_at_antimeridian(quarter)]
        # The quarters touch along meridians, but for rounding.
        parts = polygons_in(shapely.union_all(pieces, grid_size=1e-9))
    oriented = [orient(part) for part in parts]
    return oriented[0] if len(oriented) == 1 else MultiPolygon(oriented)


def _longest_edge_m(geometry: Polygon | MultiPolygon, crs: Any, metres: float) -> float:
    """Return the length of an edge whose middle is off by two centimetres; near a pole it is shorter."""
    distance = min(geometry.boundary.distance(place) * metres for place, _ in _poles(crs))
    if distance > _NEAR_POLE_M:
        return LONGEST_EDGE_M
    return max(0.4 * math.sqrt(distance), geometry.length * metres / 2000)


@lru_cache(maxsize=64)
def _poles(crs: Any) -> tuple[tuple[Point, float], ...]:
    """Return the places of the poles on a map and their latitudes; far away where a map has none."""
    to_map = transformer("EPSG:4326", crs).transform
    places = ((to_map(0.0, latitude), latitude) for latitude in (90.0, -90.0))
    return tuple((Point(xy if np.isfinite(xy).all() else (1e12, 1e12)), latitude) for xy, latitude in places)


def _cut_at_antimeridian(moved: Polygon | MultiPolygon) -> list[Polygon]:
    """Return the parts of a geometry in degrees whose longitudes may go beyond 180, within -180..180."""
    west, _, east, _ = moved.bounds
    if west >= -180 and east <= 180:
        return [part for part in shapely.get_parts(moved) if not part.is_empty]
    whole = mended(moved)
    turn = math.floor((moved.centroid.x + 180) / 360)
    parts = []
    for shift in (360 * (turn + step) for step in (-1, 0, 1)):
        world = box(-180 + shift, -90, 180 + shift, 90)
        cut = shapely.transform(whole.intersection(world), lambda xy, by=shift: xy - (by, 0))
        parts += polygons_in(cut)
    return parts


def _quarters(geometry: Polygon | MultiPolygon, crs: Any, pole: Point, latitude: float) -> Iterator[Polygon]:
    """Yield in degrees what of a geometry lies in each of four squares whose common corner is a pole.

    At the corner, which has no longitude, a polygon follows the parallel of the pole.
    """
    west, south, east, north = geometry.bounds
    reach = 1 + max(east - west, north - south)

    def ring(line: Any) -> list[tuple[float, float]]:
        places = shapely.get_coordinates(line)[:-1]
        is_pole = np.hypot(*(places - (pole.x, pole.y)).T) < 1e-6 * reach
        start = int(np.argmin(is_pole))
        places, is_pole = np.roll(places, -start, axis=0), np.roll(is_pole, -start)
        degrees = _lonlat(places, crs)
        corners: list[tuple[float, float]] = []
        for number, (lon, lat) in enumerate(degrees):
            if is_pole[number]:
                around = degrees[number - 1, 0], degrees[(number + 1) % len(degrees), 0]
                corners += [(float(one), latitude) for one in around]
            else:
                corners.append((float(lon), float(lat)))
        return corners

    for x, y in ((0.0, 0.0), (-reach, 0.0), (0.0, -reach), (-reach, -reach)):
        square = box(pole.x + x, pole.y + y, pole.x + x + reach, pole.y + y + reach)
        for part in polygons_in(geometry.intersection(square)):
            yield Polygon(ring(part.exterior), [ring(hole) for hole in part.interiors])


def _lonlat(xy: np.ndarray, crs: Any) -> np.ndarray:
    """Return longitudes, all within half a turn of the first, and latitudes."""
    lon, lat = transformer(crs, "EPSG:4326").transform(xy[:, 0], xy[:, 1])
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        raise ReprojectionFailed(f"a vertex of a polygon has no longitude and latitude in {crs}")
    return np.column_stack([near(lon, lon[0]), lat])


def near(lon: np.ndarray, reference: float) -> np.ndarray:
    """Return longitudes within 180 degrees of ``reference``, changed by full turns."""
    return lon - 360 * np.round((lon - reference) / 360)
