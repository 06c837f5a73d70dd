"""The working grid: the pixel grid onto which both dates are read."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
import shapely.affinity
from affine import Affine
from rasterio.crs import CRS
from shapely.geometry import MultiPolygon, Polygon, box

from tiling.errors import BoundsInvalid, NoOverlap, ReprojectionFailed, SceneTooLarge
from tiling.geodesy import ground_sampling, near, on_map, to_wgs84, transformer, utm_crs
from tiling.grid import Window
from tiling.limits import MAX_PIXELS
from tiling.scene import SceneInfo

WGS84 = "EPSG:4326"
# Edges per side of an outline before it is reprojected, since it bends.
EDGES = 256
# The scene keeps its resolution if the requested one is this near.
SAME_GSD = 0.01
# Edge pixels with less than this share of common ground are left out.
SLIVER_PX = 0.05
# Fraction of a pixel that is rounded up. Not a half: grids offset by half a pixel are common, and rounding
# errors would decide.
ROUND_UP_AT = 0.618

Bounds = tuple[float, float, float, float]


@dataclass(frozen=True)
class Grid:
    """A north-up pixel grid on the map.

    Attributes:
        crs: projected coordinate reference system (rasterio).
        transform: column and row to map coordinates.
        gsd: metres on the ground per pixel.
        anchor: column and row of the first pixel on an endless lattice of such pixels over the map, which
            identify a pixel in all grids of that lattice.
    """

    crs: Any
    transform: Affine
    width: int
    height: int
    gsd: float
    anchor: tuple[int, int] = (0, 0)

    def ground(self, window: Window) -> Polygon:
        """Return the outline of some pixels on the map."""
        left, top, right, bottom = window.bounds
        (west, north), (east, south) = (
            on_map(self.transform, left, top),
            on_map(self.transform, right, bottom),
        )
        return box(west, south, east, north)

    def degrees(self, window: Window) -> Polygon | MultiPolygon | None:
        """Return the outline of some pixels in WGS84; None around a pole or where there are no degrees."""
        ground = self.ground(window)
        if pole_in(ground, self.crs):
            return None
        try:
            return to_wgs84(ground, self.crs)
        except ReprojectionFailed:
            return None


@dataclass(frozen=True)
class Frame:
    """The working grid of two scenes, and the requested pixels of it.

    Attributes:
        site: the pixels around all ground with data; None where that is not known.
    """

    grid: Grid
    focus: Window
    site: Window | None = None


@dataclass(frozen=True)
class _Lattice:
    """A lattice of pixels over the map: their size, the north-west corner of one, metres on the ground."""

    cell: tuple[float, float]
    origin: tuple[float, float]
    gsd: float

    def span(self, area: Polygon) -> Window:
        """Return the pixels that an area touches, counted from the origin; at least one."""
        west, south, east, north = area.bounds
        col, width = _span(west - self.origin[0], east - self.origin[0], self.cell[0])
        row, height = _span(self.origin[1] - north, self.origin[1] - south, self.cell[1])
        return Window(col, row, width, height)


def plan_frame(
    before: SceneInfo,
    after: SceneInfo,
    *,
    gsd: float | None = None,
    bounds: Bounds | None = None,
    lattice: SceneInfo | None = None,
) -> Frame:
    """Return the grid of :func:`plan_grid` with the box of :func:`focus_window`, by default all of it."""
    grid = plan_grid(before, after, gsd, lattice)
    whole = Window(0, 0, grid.width, grid.height)
    return Frame(grid, whole if bounds is None else focus_window(grid, bounds, before))


def plan_grid(
    before: SceneInfo, after: SceneInfo, gsd: float | None = None, lattice: SceneInfo | None = None
) -> Grid:
    """Return the grid of the scene before, cut to the ground that both scenes show.

    With ``lattice`` it is the grid of that scene, so that many pairs of one place have the same pixels.

    A scene along the axes of a projected map keeps its pixels; one in degrees gets a grid in its UTM zone, a
    rotated one a north-up grid in its CRS. The resolution is that of the scene before unless ``gsd`` (metres)
    differs by more than one percent. New pixels lie on a lattice from the origin of the map.
    """
    base = lattice or before
    crs = base.crs if base.crs.is_projected else CRS.from_string(utm_crs(*_centre(base)))
    ground = common_ground(before, after, crs)
    requested = gsd if gsd is not None and abs(gsd / base.gsd - 1) > SAME_GSD else None
    keeps = crs is base.crs and requested is None and base.along_axes
    if keeps:  # as if it were north-up
        cell, (west, _, _, north) = (abs(base.transform.a), abs(base.transform.e)), base.bounds
        pixels = _Lattice(cell, (west, north), base.gsd)
    else:
        pixels = _map_lattice(base, requested)
    span = pixels.span(ground)
    if span.width * span.height > MAX_PIXELS:
        raise SceneTooLarge(
            f"{before.path}: {span.width} x {span.height} pixels at {pixels.gsd:.3g} m are more than "
            f"{MAX_PIXELS:.0e}; give a coarser resolution"
        )
    (width, height), (west, north) = pixels.cell, pixels.origin
    x, y = west + span.col_off * width, north - span.row_off * height
    transform = Affine(width, 0.0, x, 0.0, -height, y)
    anchor = _whole(x / width), _whole(-y / height)
    return Grid(crs, transform, span.width, span.height, pixels.gsd, anchor)


def focus_window(grid: Grid, bounds: Bounds, before: SceneInfo) -> Window:
    """Return the pixels of the grid that a box of west, south, east, north in degrees touches."""
    whole = Window(0, 0, grid.width, grid.height)
    ground = _cut(_dense(grid.ground(whole)), grid.crs, _checked_box(bounds), WGS84)
    if ground.area == 0:
        text = ",".join(f"{value:g}" for value in bounds)
        raise NoOverlap(
            f"{before.path}: the box {text} is outside the common ground ({_around(before)}); give "
            "west,south,east,north in degrees inside it"
        )
    to_map = grid.transform
    touched = _Lattice((to_map.a, -to_map.e), (to_map.c, to_map.f), grid.gsd).span(ground)
    return touched.intersection(whole)


def _map_lattice(before: SceneInfo, gsd: float | None) -> _Lattice:
    """Return pixels of ``gsd`` metres, or of the size of the scene's, counted from the map's origin.

    Sizes at the centre of the scene are rounded to four digits, so that a cut scene gets the same pixels.
    """
    metres = gsd or float(f"{before.gsd:.4g}")
    if not before.crs.is_projected:
        return _Lattice((metres, metres), (0.0, 0.0), metres)
    transform = before.transform
    if before.along_axes:
        sizes = ground_sampling(before.crs, transform, before.width, before.height)
        units = abs(transform.a) / sizes[0], abs(transform.e) / sizes[1]
    else:
        units = (math.sqrt(abs(transform.determinant)) / before.gsd,) * 2
    return _Lattice(
        (float(f"{units[0]:.4g}") * metres, float(f"{units[1]:.4g}") * metres), (0.0, 0.0), metres
    )


def common_ground(before: SceneInfo, after: SceneInfo, crs: Any) -> Polygon:
    """Return the part of the map, in ``crs``, that both scenes cover."""
    outline = _dense(before.footprint)
    start = outline if crs == before.crs else _to(outline, before.crs, crs)
    ground = _cut(start, crs, after.footprint, after.crs)
    if ground.area == 0:
        raise NoOverlap(
            f"{after.path}: no overlap with {before.path} ({_around(after)}, {_around(before)}); give two "
            "scenes of one place"
        )
    return ground


def _checked_box(bounds: Bounds) -> Polygon:
    west, south, east, north = bounds
    text = ",".join(f"{value:g}" for value in bounds)
    if not -90 <= south < north <= 90:
        raise BoundsInvalid(
            f"the box {text} has south {south:g}, north {north:g}; give south < north in -90..90"
        )
    # Across the antimeridian, as in RFC 7946; a wider box has its values in the wrong order.
    wide = (east - west) % 360 if west > east else east - west
    if not (-180 <= west <= 180 and -180 <= east <= 180) or wide == 0 or (west > east and wide > 180):
        raise BoundsInvalid(f"the box {text} has west {west:g}, east {east:g}; give west < east in -180..180")
    return box(west, south, west + wide, north)


def _cut(ground: Polygon, crs: Any, area: Polygon, area_crs: Any) -> Polygon:
    """Return the part of ``ground`` that lies in ``area``, in the CRS of ``ground``.

    The ground is moved to the CRS of the area and back, since it is small: many projections do not know the
    corners of a whole-Earth area. Around a pole, or if the ground has such corners, the area is moved.
    """
    if area_crs == crs:
        return ground.intersection(area)
    geographic = _is_geographic(area_crs)
    pole = pole_in(ground, crs, area_crs) if geographic else 0
    if pole:
        half = box(-1080, 0, 1080, 90) if pole > 0 else box(-1080, -90, 1080, 0)
        return _brought(ground, crs, area.intersection(half), area_crs)
    moved = _to(ground, crs, area_crs)
    if not np.isfinite(shapely.get_coordinates(moved)).all():
        return _brought(ground, crs, area, area_crs)
    if geographic:
        area = shapely.union_all([shapely.affinity.translate(area, turn) for turn in (-360, 0, 360)])
    part = shapely.make_valid(moved).intersection(area)
    return ground if part.equals(moved) else _to(_dense(part), area_crs, crs)


def _brought(ground: Polygon, crs: Any, area: Polygon, area_crs: Any) -> Polygon:
    """Return the part of ``ground`` in ``area`` moved to ``crs``; empty if that is impossible."""
    moved = _to(_dense(area), area_crs, crs)
    if not np.isfinite(shapely.get_coordinates(moved)).all():
        return Polygon()
    return ground.intersection(shapely.make_valid(moved))


def pole_in(ground: Polygon, crs: Any, geographic_crs: Any = WGS84) -> int:
    """Return 1 if the ground contains the north pole, -1 for the south pole, else 0."""
    for sign in (1, -1):
        pole = transformer(geographic_crs, crs).transform(0.0, 90.0 * sign)
        if np.isfinite(pole).all() and ground.intersects(shapely.Point(pole)):
            return sign
    return 0


def _to(geometry: Any, source: Any, target: Any) -> Any:
    """Reproject; longitudes continue beyond 180 instead of jumping."""
    move, geographic = transformer(source, target), _is_geographic(target)
    middle = geometry.centroid
    if geographic and not middle.is_empty:
        reference = move.transform(middle.x, middle.y)[0]

    def moved(xy: np.ndarray) -> np.ndarray:
        x, y = move.transform(xy[:, 0], xy[:, 1])
        if geographic and math.isfinite(reference):
            x = near(x, reference)
        return np.column_stack([x, y])

    return shapely.transform(geometry, moved)


def _is_geographic(crs: Any) -> bool:
    return bool(CRS.from_user_input(crs).is_geographic)


def _dense(geometry: Any) -> Any:
    west, south, east, north = geometry.bounds if not geometry.is_empty else (0, 0, 1, 1)
    return shapely.segmentize(geometry, max(east - west, north - south) / EDGES)


def _centre(info: SceneInfo) -> tuple[float, float]:
    """Return longitude and latitude of the centre."""
    centre = on_map(info.transform, info.width / 2, info.height / 2)
    return transformer(info.crs, WGS84).transform(*centre)


def _span(low: float, high: float, cell: float) -> tuple[int, int]:
    """Return the first pixel of an interval and the number of its pixels; at least one."""
    first = math.floor(low / cell + SLIVER_PX)
    return first, max(1, math.ceil(high / cell - SLIVER_PX) - first)


def _whole(position: float) -> int:
    return math.floor(position + 1 - ROUND_UP_AT)


def _around(info: SceneInfo) -> str:
    return "around {:.4f},{:.4f}".format(*_centre(info))
