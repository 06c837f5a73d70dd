"""Ground distances, areas and WGS84 coordinates; longitudes first everywhere."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import shapely
from affine import Affine
from pyproj import CRS, Geod, Transformer
from pyproj.exceptions import CRSError, ProjError
from rasterio.crs import CRS as RasterioCRS
from shapely.geometry import MultiPolygon, Polygon, box
from shapely.geometry.polygon import orient

from tiling.errors import ReprojectionFailed

Number = TypeVar("Number", float, np.ndarray)
_ELLIPSOID = Geod(ellps="WGS84")
# An edge longer than this is bent when it is reprojected: its middle would be off by centimetres.
LONGEST_EDGE_M = 1000.0
LONGEST_EDGE_DEGREES = 0.01
# A map projection within this of true scale counts as true: a UTM pixel of 0.5 m is called 0.5 m.
SCALE_TOLERANCE = 0.01


@lru_cache(maxsize=64)
def transformer(source: Any, target: Any) -> Transformer:
    """Return a transformer between two CRSs (rasterio's, pyproj's, or text), x before y, for any thread.

    Raises:
        ReprojectionFailed: PROJ knows no way between the two.
    """
    try:
        return Transformer.from_crs(_known(source), _known(target), always_xy=True)
    except (CRSError, ProjError) as error:
        reason = " ".join(str(error).split())
        raise ReprojectionFailed(f"no way from {source} to {target}: {reason}; use a common CRS") from error


def _known(crs: Any) -> CRS:
    """Return pyproj's CRS, by its code where it has one.

    rasterio and pyproj bring a PROJ each, and the text of the newer one may name datums that the older lacks.
    """
    code = crs.to_authority(100) if isinstance(crs, RasterioCRS) else None
    return CRS.from_user_input(crs if code is None else ":".join(code))


def on_map(transform: Affine, col: Number, row: Number) -> tuple[Number, Number]:
    """Return the map coordinates of places in an image; written out because releases of affine differ."""
    return (
        transform.a * col + transform.b * row + transform.c,
        transform.d * col + transform.e * row + transform.f,
    )


def ground_sampling(crs: Any, transform: Affine, width: int, height: int) -> tuple[float, float]:
    """Return the metres on the ground that a pixel at the centre of the scene is wide and high.

    Measured on the ellipsoid, so that degrees, feet and web mercator give true metres; a projection that is
    true to within one percent is taken at its word.

    Raises:
        ReprojectionFailed: the centre of the scene is no place on Earth.
    """
    col, row = width / 2, height / 2
    cols, rows = col + np.array([-0.5, 0.5, 0, 0]), row + np.array([0, 0, -0.5, 0.5])
    lon, lat = transformer(crs, "EPSG:4326").transform(*on_map(transform, cols, rows))
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        raise ReprojectionFailed(
            f"the centre of the scene ({on_map(transform, col, row)}) is no place in {crs}"
        )
    _, _, metres = _ELLIPSOID.inv(lon[::2], lat[::2], lon[1::2], lat[1::2])
    nominal = _metres_per_unit(crs)
    if nominal is not None:
        steps = math.hypot(transform.a, transform.d), math.hypot(transform.b, transform.e)
        stated = nominal * np.array(steps)
        metres = np.where(np.abs(metres / stated - 1) <= SCALE_TOLERANCE, stated, metres)
    return float(metres[0]), float(metres[1])


@lru_cache(maxsize=64)
def _metres_per_unit(crs: Any) -> float | None:
    """Return the metres of one unit of a projected CRS, None for a geographic one."""
    system = CRS.from_user_input(crs)
    return float(system.axis_info[0].unit_conversion_factor) if system.is_projected else None


def utm_crs(lon: float, lat: float) -> str:
    """Return the UTM zone of a place as "EPSG:n"; near the poles, where there is none, the polar grid."""
    if lat >= 84:
        return "EPSG:5041"
    if lat < -80:
        return "EPSG:5042"
    zone = min(60, math.floor(((lon + 180) % 360) / 6) + 1)
    return f"EPSG:{(32600 if lat >= 0 else 32700) + zone}"


def geodesic_area_m2(polygon_lonlat: Polygon | MultiPolygon) -> float:
    """Return the area on the WGS84 ellipsoid of a (multi)polygon in degrees, holes taken out; never negative.

    Edges are straight in longitude and latitude, as in GeoJSON.
    """
    area = 0.0
    for part in shapely.get_parts(polygon_lonlat):
        dense = shapely.segmentize(orient(part), LONGEST_EDGE_DEGREES)
        area += abs(_ELLIPSOID.geometry_area_perimeter(dense)[0])
    return area


def to_wgs84(geometry: Polygon | MultiPolygon, crs: Any) -> Polygon | MultiPolygon:
    """Return ``geometry`` (in ``crs``) in WGS84 longitude and latitude, as RFC 7946 wants it.

    Outer rings run counter-clockwise, holes clockwise; what crosses the antimeridian is cut there, and all
    longitudes lie in -180..180. ``geometry`` must not contain a pole or span more than 180 degrees.

    Raises:
        ReprojectionFailed: a vertex has no longitude and latitude.
    """
    metres = _metres_per_unit(crs)
    if metres is not None:
        # Not into millions of edges, whatever the coordinates are.
        geometry = shapely.segmentize(geometry, max(LONGEST_EDGE_M / metres, geometry.length / 100_000))
    moved = shapely.transform(geometry, lambda xy: _lonlat(xy, crs))
    parts = [part for part in shapely.get_parts(moved) if not part.is_empty]
    west, _, east, _ = moved.bounds
    if west < -180 or east > 180:
        whole = moved if moved.is_valid else shapely.make_valid(moved)
        turn = math.floor((moved.centroid.x + 180) / 360)
        parts = []
        for shift in (360 * (turn + step) for step in (-1, 0, 1)):
            world = box(-180 + shift, -90, 180 + shift, 90)
            cut = shapely.transform(whole.intersection(world), lambda xy, by=shift: xy - (by, 0))
            parts += [
                p for p in shapely.get_parts(shapely.get_parts(cut)) if isinstance(p, Polygon) and p.area
            ]
    oriented = [orient(part) for part in parts]
    return oriented[0] if len(oriented) == 1 else MultiPolygon(oriented)


def _lonlat(xy: np.ndarray, crs: Any) -> np.ndarray:
    """Return longitudes and latitudes that do not jump: all within half a turn of the first vertex."""
    lon, lat = transformer(crs, "EPSG:4326").transform(xy[:, 0], xy[:, 1])
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        raise ReprojectionFailed(f"a vertex of a polygon has no longitude and latitude in {crs}")
    return np.column_stack([near(lon, lon[0]), lat])


def near(lon: np.ndarray, reference: float) -> np.ndarray:
    """Return longitudes changed by full turns to lie within 180 degrees of ``reference``."""
    return lon - 360 * np.round((lon - reference) / 360)
