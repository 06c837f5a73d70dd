"""The working grid: the one pixel grid that both dates are brought onto."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from affine import Affine
from rasterio.crs import CRS
from shapely.geometry import Polygon, box

from tiling.errors import BoundsInvalid, NoOverlap, ResolutionInvalid, SceneTooLarge
from tiling.geodesy import ground_sampling, near, on_map, transformer, utm_crs
from tiling.scene import MAX_PIXELS, SceneInfo

WGS84 = "EPSG:4326"
# Outlines are cut into this many edges a side before they are reprojected, because they bend.
EDGES = 256
# A scene's own resolution is kept when the wanted one is this near.
SAME_GSD = 0.01
# Pixels of which less than this lies on common ground are left out at the edge.
SLIVER_PX = 0.05

Bounds = tuple[float, float, float, float]


@dataclass(frozen=True)
class Grid:
    """A north-up pixel grid on the map.

    Attributes:
        crs: projected coordinate reference system (rasterio).
        transform: column and row to map coordinates.
        width, height: in pixels.
        gsd: metres on the ground per pixel.
    """

    crs: Any
    transform: Affine
    width: int
    height: int
    gsd: float


def plan_grid(before: SceneInfo, after: SceneInfo, gsd: float | None, bounds: Bounds | None) -> Grid:
    """Return the grid of the scene before, cut to the ground that both scenes (and ``bounds``) show.

    A scene in degrees gets a grid in its UTM zone. The resolution is that of the scene before unless ``gsd``
    (metres) differs from it by more than one percent.

    Raises:
        TilingError: nothing in common, bounds or resolution out of range, or more pixels than the limit.
    """
    if gsd is not None and not (math.isfinite(gsd) and gsd > 0):
        raise ResolutionInvalid(
            f"the resolution must be above 0 metres per pixel, got {gsd}; give such a number"
        )
    crs = before.crs if before.crs.is_projected else _utm_of(before)
    ground = _common_ground(before, after, bounds, crs)
    wanted = gsd if gsd is not None and abs(gsd / before.gsd - 1) > SAME_GSD else None
    if crs is before.crs:
        cell, origin, limit = _cell_of(before, wanted), (before.transform.c, before.transform.f), before
    else:
        side = wanted or before.gsd
        west, _, _, north = ground.bounds
        cell, origin, limit = (side, side), (_snap(west, side), _snap(north, side)), None
    first_col, end_col = _span(ground.bounds[0] - origin[0], ground.bounds[2] - origin[0], cell[0])
    first_row, end_row = _span(origin[1] - ground.bounds[3], origin[1] - ground.bounds[1], cell[1])
    if limit is not None:
        first_col, first_row = max(0, first_col), max(0, first_row)
    width, height = end_col - first_col, end_row - first_row
    if width * height > MAX_PIXELS:
        raise SceneTooLarge(
            f"{before.path}: {width} x {height} pixels at {wanted or before.gsd:.3g} m are more than "
            f"{MAX_PIXELS:.0e}; give a smaller box or a coarser resolution"
        )
    x, y = origin[0] + first_col * cell[0], origin[1] - first_row * cell[1]
    transform = Affine(cell[0], 0.0, x, 0.0, -cell[1], y)
    return Grid(crs, transform, width, height, wanted or before.gsd)


def _common_ground(before: SceneInfo, after: SceneInfo, bounds: Bounds | None, crs: Any) -> Polygon:
    """Return the part of the map, in ``crs``, that both scenes and the box cover."""
    own = _dense(box(*before.bounds))
    start = own if crs is before.crs else _to(own, before.crs, crs)
    ground = _cut(start, crs, box(*after.bounds), after.crs)
    if ground.area == 0:
        raise NoOverlap(
            f"{after.path}: it shows no ground of {before.path} ({_place(after)} against {_place(before)}); "
            "give two scenes of one place"
        )
    if bounds is not None:
        ground = _cut(ground, crs, _checked_box(bounds), WGS84)
        if ground.area == 0:
            west, south, east, north = bounds
            raise NoOverlap(
                f"{before.path}: the box {west:g},{south:g},{east:g},{north:g} shows no ground of both "
                f"scenes ({_place(before)}); give west,south,east,north in degrees inside it"
            )
    return ground


def _checked_box(bounds: Bounds) -> Polygon:
    west, south, east, north = bounds
    text = ",".join(f"{value:g}" for value in bounds)
    if not all(math.isfinite(value) for value in bounds):
        raise BoundsInvalid(
            f"the box {text} has a value that is no number; give west,south,east,north in degrees"
        )
    if not -90 <= south < north <= 90:
        raise BoundsInvalid(
            f"the box {text} has south {south:g}, north {north:g}; give south < north in -90..90"
        )
    # West of the antimeridian to east of it, as in RFC 7946; a wider box is a slip of order.
    wide = (east - west) % 360 if west > east else east - west
    if not (-180 <= west <= 180 and -180 <= east <= 180) or wide == 0 or (west > east and wide > 180):
        raise BoundsInvalid(f"the box {text} has west {west:g}, east {east:g}; give west < east in -180..180")
    return box(west, south, west + wide, north)


def _cut(ground: Polygon, crs: Any, area: Polygon, area_crs: Any) -> Polygon:
    """Return the part of ``ground`` that lies in ``area``, in the CRS of ``ground``.

    The ground goes to the CRS of the area and back, because the ground is small: a whole-Earth area has
    corners that many a projection does not know.
    """
    if area_crs == crs:
        return ground.intersection(area)
    moved = _to(ground, crs, area_crs, near_lon=area.centroid.x)
    if not np.isfinite(shapely.get_coordinates(moved)).all():
        return Polygon()
    part = shapely.make_valid(moved).intersection(area)
    return ground if part.equals(moved) else _to(_dense(part), area_crs, crs)


def _to(geometry: Any, source: Any, target: Any, near_lon: float | None = None) -> Any:
    move = transformer(source, target)
    geographic = move.target_crs is not None and move.target_crs.is_geographic

    def moved(xy: np.ndarray) -> np.ndarray:
        x, y = move.transform(xy[:, 0], xy[:, 1])
        if geographic and near_lon is not None:
            x = near(x, near_lon)
        return np.column_stack([x, y])

    return shapely.transform(geometry, moved)


def _dense(geometry: Any) -> Any:
    west, south, east, north = geometry.bounds if not geometry.is_empty else (0, 0, 1, 1)
    return shapely.segmentize(geometry, max(east - west, north - south) / EDGES)


def _utm_of(info: SceneInfo) -> Any:
    centre = on_map(info.transform, info.width / 2, info.height / 2)
    lon, lat = transformer(info.crs, WGS84).transform(*centre)
    return CRS.from_string(utm_crs(lon, lat))


def _cell_of(before: SceneInfo, gsd: float | None) -> tuple[float, float]:
    """Return the width and height of a working pixel in map units."""
    width, height = before.transform.a, -before.transform.e
    if gsd is None:
        return width, height
    metres = ground_sampling(before.crs, before.transform, before.width, before.height)
    return width * gsd / metres[0], height * gsd / metres[1]


def _span(low: float, high: float, cell: float) -> tuple[int, int]:
    """Return the first pixel and the one past the last of a stretch of ground; at least one pixel."""
    first = math.floor(low / cell + SLIVER_PX)
    return first, max(first + 1, math.ceil(high / cell - SLIVER_PX))


def _snap(value: float, cell: float) -> float:
    return round(value / cell) * cell


def _place(info: SceneInfo) -> str:
    centre = on_map(info.transform, info.width / 2, info.height / 2)
    lon, lat = transformer(info.crs, WGS84).transform(*centre)
    return f"around {lon:.4f},{lat:.4f}"
