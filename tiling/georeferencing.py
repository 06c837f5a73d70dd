"""Read the position of a raster on the map: an affine transform, or ground control points (GCPs)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from affine import Affine
from pyproj import CRS
from rasterio.control import GroundControlPoint
from rasterio.io import DatasetReader
from rasterio.transform import GCPTransformer, from_gcps
from shapely.geometry import Polygon

from tiling.errors import MissingCRS, MissingGeoreferencing, ReprojectionFailed
from tiling.geodesy import ground_sampling, near, on_map

# Edges per side of an outline that GCPs bend.
EDGES = 64
# From so many points on GDAL fits quadratic terms.
SQUARED_FROM = 6
# Points nearer than this to a line (or a curve that leaves terms undetermined) lie on it.
LEAST_PART = 1e-3
# Longitudes may continue beyond the antimeridian, up to once around the Earth.
_LONGITUDE, _LATITUDE = 540.0, 90.0
# No pixel and no map coordinate is that large.
_ENDLESS = 1e12
# In metres.
_LEAST_GSD = 1e-6
# Drivers of images that `rscc explain` takes without georeferencing.
_PICTURES = ("PNG", "JPEG")


@dataclass(frozen=True)
class Georeferencing:
    """Position of a raster; see :class:`tiling.scene.SceneInfo`."""

    crs: Any
    transform: Affine
    gcps: tuple[GroundControlPoint, ...]
    gsd: float


def read_georeferencing(shown: str, file: DatasetReader) -> Georeferencing:
    """Return the position of an open raster.

    Raises:
        MissingGeoreferencing: there is none, or an impossible one.
        MissingCRS: there is no CRS, or none of a map.
    """
    transform, crs, gcps = file.transform, file.crs, ()
    if transform.is_identity:
        points, points_crs = file.gcps
        if not points:
            raise _unplaced(shown, file)
        crs, gcps = points_crs, tuple(points)
        places = [(point.col, point.row, point.x, point.y) for point in points]
        if not (np.abs(np.array(places, float)) < _ENDLESS).all():
            raise MissingGeoreferencing(f"{shown}: its GCPs are out of range; correct them with gdal_edit.py")
    # The plan of a building has a CRS that is neither projected nor geographic.
    if not crs or not ((system := CRS.from_user_input(crs)).is_projected or system.is_geographic):
        # Only a GeoTIFF can be edited itself; other formats get a sidecar.
        edit = "gdal_edit.py" if file.driver == "GTiff" else "gdal_edit.py -ro"
        what = "its CRS is none of a map" if crs else "it has no CRS"
        raise MissingCRS(f"{shown}: {what}; set it with {edit} -a_srs EPSG:...")
    if gcps:
        gcps = _on_one_turn(gcps) if crs.is_geographic else gcps
        transform = fitted(gcps)
    what = "GCPs do not span an area" if gcps else "pixels have no area on the map"
    no_area = MissingGeoreferencing(f"{shown}: its {what}; correct its georeferencing with gdal_edit.py")
    if not np.isfinite(transform[:6]).all() or transform.determinant == 0:
        raise no_area
    if gcps and not _bends_well(gcps, file.width, file.height):
        gcps = ()
    _check_degrees(shown, crs, outline(transform, gcps, file.width, file.height))
    try:
        width, height = ground_sampling(crs, transform, file.width, file.height)
    except ReprojectionFailed as error:
        remedy = "correct its georeferencing with gdal_edit.py"
        raise MissingGeoreferencing(f"{shown}: {error}; {remedy}") from error
    gsd = float(np.sqrt(width * height))
    if not gsd > _LEAST_GSD:
        raise no_area
    return Georeferencing(crs, transform, gcps, gsd)


def fitted(gcps: Sequence[GroundControlPoint]) -> Affine:
    """Return the affine transform of columns and rows that is nearest to GCPs (least squares).

    Its determinant is 0 for fewer than three points, or points on a line.
    """
    if not _determined(_scaled(np.array([(point.col, point.row) for point in gcps], float))):
        return Affine(0, 0, 0, 0, 0, 0)
    return from_gcps(gcps)


def _bends_well(gcps: Sequence[GroundControlPoint], width: int, height: int) -> bool:
    """Return whether GCPs determine the curve that GDAL fits, and it has no loop.

    Two rows of points, for example, do not determine its quadratic terms.
    """
    if len(gcps) >= SQUARED_FROM:
        c, r = _scaled(np.array([(point.col, point.row) for point in gcps], float)).T
        if not _determined(np.column_stack([np.ones_like(c), c, r, c * c, c * r, r * r])):
            return False
    edge = outline(Affine.identity(), gcps, width, height)
    return bool(np.isfinite(edge.bounds).all() and edge.is_valid)


def _scaled(pixels: np.ndarray) -> np.ndarray:
    """Return positions (n, 2) relative to their centre, scaled to at most 1."""
    around = pixels - pixels.mean(axis=0)
    return around / np.maximum(np.abs(around).max(axis=0), 1e-9)


def _determined(terms: np.ndarray) -> bool:
    """Return whether the equations (rows) determine the factors of all columns."""
    if len(terms) < max(terms.shape[1], 3):
        return False
    sizes = np.linalg.svd(terms, compute_uv=False)
    return bool(sizes[-1] > LEAST_PART * sizes[0])


def outline(transform: Affine, gcps: Sequence[GroundControlPoint], width: int, height: int) -> Polygon:
    """Return the outline of an image on the map; with GCPs along the curve that GDAL fits."""
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
            f"{shown}: it has only a camera model (RPC), which needs an elevation model; rectify it with "
            "gdalwarp -rpc -to RPC_DEM=..."
        )
    return MissingGeoreferencing(
        f"{shown}: it is not georeferenced; set that with gdal_translate -a_ullr -a_srs, or -gcp"
        + ("; rscc explain needs none for two images" if file.driver in _PICTURES else "")
    )


def _on_one_turn(gcps: Sequence[GroundControlPoint]) -> tuple[GroundControlPoint, ...]:
    """Return GCPs in degrees whose longitudes do not jump at the antimeridian."""
    x = near(np.array([point.x for point in gcps], float), gcps[0].x)
    return tuple(
        GroundControlPoint(point.row, point.col, float(lon), point.y, point.z, point.id, point.info)
        for point, lon in zip(gcps, x, strict=True)
    )


def _check_degrees(shown: str, crs: Any, footprint: Polygon) -> None:
    """Refuse impossible longitudes and latitudes: metres, or a file that was written wrongly."""
    if not crs.is_geographic:
        return
    axes = CRS.from_user_input(crs).axis_info
    degree = np.radians(1) / axes[0].unit_conversion_factor if axes else 1.0
    west, south, east, north = np.array(footprint.bounds) / degree
    # Scenes of the whole Earth may extend half a pixel beyond.
    slack = min(1.0, (north - south) / 4)
    if max(-west, east) > _LONGITUDE or max(-south, north) > _LATITUDE + slack:
        raise MissingGeoreferencing(
            f"{shown}: longitude {west:g} to {east:g}, latitude {south:g} to {north:g} is not on Earth; "
            "correct its georeferencing or its CRS with gdal_edit.py"
        )
