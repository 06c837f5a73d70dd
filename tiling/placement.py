"""Where on the map the pixels of a raster lie: by an affine transform, or by ground control points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from affine import Affine
from pyproj import CRS
from rasterio.control import GroundControlPoint
from rasterio.io import DatasetReader
from rasterio.transform import GCPTransformer
from shapely.geometry import Polygon

from tiling.errors import MissingCRS, MissingGeoreferencing, ReprojectionFailed
from tiling.geodesy import ground_sampling, near, on_map

# Edges that a side of an image is cut into, where ground control points bend it.
EDGES = 64
# So many points GDAL draws a curve with squared terms through.
SQUARED_FROM = 6
# Points count as lying on a line (or on a curve that leaves the terms open) when they leave it by less.
LEAST_PART = 1e-3
# Longitudes may go on beyond the antimeridian, as far as once around the Earth from its middle.
_LONGITUDE, _LATITUDE = 540.0, 90.0
# No pixel and no place on Earth is so far from where counting begins.
_ENDLESS = 1e12
# Metres: no picture of the ground has pixels as small as a micrometre.
_LEAST_GSD = 1e-6
# Drivers of plain pictures, which need no place on the map to be explained.
_PICTURES = ("PNG", "JPEG")


@dataclass(frozen=True)
class Placement:
    """Where a raster lies; see :class:`tiling.scene.SceneInfo`."""

    crs: Any
    transform: Affine
    gcps: tuple[GroundControlPoint, ...]
    gsd: float


def placement(shown: str, file: DatasetReader) -> Placement:
    """Return where an open raster lies.

    Raises:
        MissingGeoreferencing: it does not say, or it says something that cannot be.
        MissingCRS: its coordinates are in no known system.
    """
    transform, crs, gcps = file.transform, file.crs, ()
    if transform.is_identity:
        points, points_crs = file.gcps
        if not points:
            raise _unplaced(shown, file)
        crs, gcps = points_crs, tuple(points)
        places = [(point.col, point.row, point.x, point.y) for point in points]
        if not (np.abs(np.array(places, float)) < _ENDLESS).all():
            raise MissingGeoreferencing(
                f"{shown}: its ground control points are not all numbers that can be; correct them with "
                "gdal_edit.py"
            )
    # A plan of a building has a system that is neither projected nor geographic.
    if not crs or not ((system := CRS.from_user_input(crs)).is_projected or system.is_geographic):
        # Only a GeoTIFF can be edited itself; what is said of others lies beside them.
        edit = "gdal_edit.py" if file.driver == "GTiff" else "gdal_edit.py -ro"
        what = (
            "its coordinate reference system is none of a map"
            if crs
            else "it has no coordinate reference system"
        )
        raise MissingCRS(f"{shown}: {what}; set it with {edit} -a_srs EPSG:...")
    if gcps:
        gcps = _on_one_turn(gcps) if crs.is_geographic else gcps
        transform = fitted(gcps)
    what = "ground control points do not span an area" if gcps else "pixels have no area on the map"
    no_area = MissingGeoreferencing(f"{shown}: its {what}; correct its georeferencing with gdal_edit.py")
    if not np.isfinite(transform[:6]).all() or transform.determinant == 0:
        raise no_area
    if gcps and not _bends_well(gcps, file.width, file.height):
        gcps = ()
    _check_degrees(shown, crs, outline(transform, gcps, file.width, file.height))
    try:
        width, height = ground_sampling(crs, transform, file.width, file.height)
    except ReprojectionFailed as error:
        raise MissingGeoreferencing(
            f"{shown}: {error}; correct its georeferencing with gdal_edit.py"
        ) from error
    gsd = float(np.sqrt(width * height))
    if not gsd > _LEAST_GSD:
        raise no_area
    return Placement(crs, transform, gcps, gsd)


def fitted(gcps: Sequence[GroundControlPoint]) -> Affine:
    """Return the affine transform from columns and rows that lies nearest to ground control points.

    Its determinant is 0 if there are fewer than three or they lie on a line.
    """
    pixels = np.array([(point.col, point.row) for point in gcps], float)
    ground = np.array([(point.x, point.y) for point in gcps], float)
    # Around their centres, or the large numbers of map coordinates would eat the digits that matter.
    centre, middle = pixels.mean(axis=0), ground.mean(axis=0)
    if not _determined(_scaled(pixels)):
        return Affine(0, 0, middle[0], 0, 0, middle[1])
    matrix = np.linalg.lstsq(pixels - centre, ground - middle, rcond=None)[0]
    (a, d), (b, e) = matrix.tolist()
    x, y = (middle - centre @ matrix).tolist()
    return Affine(a, b, x, d, e, y)


def _bends_well(gcps: Sequence[GroundControlPoint], width: int, height: int) -> bool:
    """Return whether the curve that GDAL draws through control points is determined by them and no loop.

    From six points on it has quadratic terms, for which two rows of points, say, are not enough.
    """
    if len(gcps) >= SQUARED_FROM:
        c, r = _scaled(np.array([(point.col, point.row) for point in gcps], float)).T
        if not _determined(np.column_stack([np.ones_like(c), c, r, c * c, c * r, r * r])):
            return False
    edge = outline(Affine.identity(), gcps, width, height)
    return bool(np.isfinite(edge.bounds).all() and edge.is_valid)


def _scaled(pixels: np.ndarray) -> np.ndarray:
    """Return places (n, 2) around their centre, the farthest in each direction at 1."""
    around = pixels - pixels.mean(axis=0)
    return around / np.maximum(np.abs(around).max(axis=0), 1e-9)


def _determined(terms: np.ndarray) -> bool:
    """Return whether an equation per row determines the factor of every column."""
    if len(terms) < max(terms.shape[1], 3):
        return False
    sizes = np.linalg.svd(terms, compute_uv=False)
    return bool(sizes[-1] > LEAST_PART * sizes[0])


def outline(transform: Affine, gcps: Sequence[GroundControlPoint], width: int, height: int) -> Polygon:
    """Return the edge of an image on the map; with control points along the curve that GDAL warps by."""
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    if not gcps:
        return Polygon([on_map(transform, *corner) for corner in corners])
    steps = np.linspace(0, 1, EDGES, endpoint=False)[:, None]
    places = np.concatenate(
        [
            (1 - steps) * start + steps * end
            for start, end in zip(np.array(corners), np.array([*corners[1:], corners[0]]), strict=True)
        ]
    )
    with GCPTransformer(list(gcps)) as curve:
        x, y = curve.xy(places[:, 1], places[:, 0], offset="ul")
    return Polygon(np.column_stack([x, y]))


def _unplaced(shown: str, file: DatasetReader) -> MissingGeoreferencing:
    if file.rpcs is not None:
        return MissingGeoreferencing(
            f"{shown}: only a camera model (RPC) says where its pixels lie, which needs heights of the "
            "ground; bring it onto a map with gdalwarp -rpc -to RPC_DEM=..."
        )
    return MissingGeoreferencing(
        f"{shown}: it does not say where its pixels lie; set that with gdal_translate -a_ullr -a_srs "
        "or with ground control points (-gcp)"
        + ("; rscc explain looks at two pictures without it" if file.driver in _PICTURES else "")
    )


def _on_one_turn(gcps: Sequence[GroundControlPoint]) -> tuple[GroundControlPoint, ...]:
    """Return points in degrees whose longitudes do not jump at the antimeridian."""
    x = near(np.array([point.x for point in gcps], float), gcps[0].x)
    return tuple(
        GroundControlPoint(point.row, point.col, float(lon), point.y, point.z, point.id, point.info)
        for point, lon in zip(gcps, x, strict=True)
    )


def _check_degrees(shown: str, crs: Any, place: Polygon) -> None:
    """Refuse longitudes and latitudes that are none: they are metres, or a file was written wrongly."""
    if not crs.is_geographic:
        return
    axes = CRS.from_user_input(crs).axis_info
    degree = np.radians(1) / axes[0].unit_conversion_factor if axes else 1.0
    west, south, east, north = np.array(place.bounds) / degree
    # Scenes of the whole Earth lie half a pixel over its edge.
    slack = min(1.0, (north - south) / 4)
    if max(-west, east) > _LONGITUDE or max(-south, north) > _LATITUDE + slack:
        raise MissingGeoreferencing(
            f"{shown}: its corners at longitude {west:g} to {east:g}, latitude {south:g} to {north:g} are no "
            "place on Earth; correct its georeferencing or its CRS with gdal_edit.py"
        )
