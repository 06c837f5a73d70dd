"""Open and describe one raster; it is hostile until its driver, size, blocks and references are checked.

Everything here reads headers only: no pixel is decoded.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from rasterio.enums import MaskFlags
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import DatasetReader

from tiling.errors import (
    MissingCRS,
    MissingGeoreferencing,
    NotARaster,
    ReprojectionFailed,
    RotatedGrid,
    SceneIsFolder,
    SceneNotFound,
    SceneTooLarge,
    SceneUnreadable,
    UnsafeReference,
)
from tiling.geodesy import ground_sampling, is_earthly, on_map
from tiling.vrt import checked_sources, looks_like_vrt

# What a file must start with for a driver to be tried; a VRT is a text and looked at in full.
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_STARTS = {
    "GTiff": _TIFF_STARTS,
    "JP2OpenJPEG": (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
}
FORMATS = "GeoTIFF, COG, JPEG 2000, PNG, JPEG or VRT"
MAX_PIXELS = 10**11
MAX_BANDS = 256
MAX_BLOCK_BYTES = 2**29


@dataclass(frozen=True)
class SceneInfo:
    """What the header of a raster says.

    Attributes:
        path: the file as it was named.
        driver: GDAL's name of the format.
        crs: coordinate reference system (rasterio).
        transform: column and row to map coordinates; no rotation, rows from north to south.
        width, height: in pixels.
        count: number of bands.
        dtype: type of the pixels; of bands of different types the one that holds them all.
        nodata: value that stands for no data, or None.
        gsd: ground sampling distance in metres at the centre; the geometric mean of width and height.
        tags: the metadata of the file.
        dtypes: type of each band.
        colors: what each band shows: "red", "alpha", "undefined", ...
        masked_by: how the file says which pixels have data: "nothing", "nodata", "mask" or "alpha".
    """

    path: Path
    driver: str
    crs: Any
    transform: Affine
    width: int
    height: int
    count: int
    dtype: str
    nodata: float | None
    gsd: float
    tags: Mapping[str, str]
    dtypes: tuple[str, ...]
    colors: tuple[str, ...]
    masked_by: str

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east and north edge in map coordinates."""
        west, north = on_map(self.transform, 0, 0)
        east, south = on_map(self.transform, self.width, self.height)
        return west, south, east, north


def describe(path: str | Path) -> SceneInfo:
    """Return what the header of a raster says, once everything that makes a scene is found there.

    Raises:
        TilingError: the file is missing, a folder, not an allowed raster, beyond the limits, refers to
            something outside its folder, or has no CRS, no georeferencing or a rotated grid.
    """
    with open_scene(path) as file:
        return _described(Path(path), file)


@contextmanager
def open_scene(path: str | Path) -> Iterator[DatasetReader]:
    """Open a raster for reading after the checks that need no georeferencing.

    Raises:
        TilingError: see :func:`describe`.
    """
    path = Path(path)
    head = _head(path)
    is_vrt = looks_like_vrt(head)
    with safe_environment():
        if is_vrt:
            for source in checked_sources(path):
                _check_source(path, source)
        _check_sidecars(path)
        with _opened(path, "VRT" if is_vrt else _driver(path, head)) as file:
            _check_limits(path, file)
            if "OVERVIEW_FILE" in file.tags(ns="OVERVIEWS"):
                raise UnsafeReference(
                    f"{path}: it names a file of overviews; remove that entry with gdal_edit"
                )
            yield file


def safe_environment() -> rasterio.Env:
    """Return the GDAL options to read strangers' files under; they end with the ``with`` block."""
    return rasterio.Env(GDAL_VRT_ENABLE_PYTHON="NO", GDAL_NUM_THREADS="1")


def _head(path: Path) -> bytes:
    if path.is_dir():
        raise SceneIsFolder(f"{path}: this is a folder; name the raster file in it")
    if not path.is_file():
        raise SceneNotFound(f"{path}: there is no such file; check the path")
    try:
        with path.open("rb") as file:
            return file.read(1024)
    except OSError as error:
        raise SceneUnreadable(
            f"{path}: it cannot be opened ({error.strerror}); check its permissions"
        ) from error


@contextmanager
def _opened(path: Path, driver: str) -> Iterator[DatasetReader]:
    try:
        with warnings.catch_warnings():
            # Missing georeferencing is an error of ours later; here it would only be noise.
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            # A Path, and absolute: so it is never read as an address or a subdataset.
            file = rasterio.open(Path(os.path.abspath(path)), driver=driver)
    except (RasterioError, ValueError) as error:
        raise NotARaster(_not_a_raster(path)) from error
    with file:
        yield file


def _driver(path: Path, head: bytes) -> str:
    for driver, starts in _STARTS.items():
        if head.startswith(starts):
            return driver
    raise NotARaster(_not_a_raster(path))


def _not_a_raster(path: Path) -> str:
    return f"{path}: this is not a raster that can be read; give a {FORMATS} or convert it to one"


def _check_source(path: Path, source: Path) -> None:
    if not source.is_file():
        raise SceneNotFound(
            f"{path}: the VRT names {source.name}, which is not there; put it back or rebuild the VRT"
        )
    head = _head(source)
    if looks_like_vrt(head):
        raise UnsafeReference(
            f"{path}: the VRT names another VRT, {source.name}; build it from rasters directly"
        )
    _check_sidecars(source)
    with _opened(source, _driver(source, head)) as file:
        _check_limits(source, file)


def _check_sidecars(path: Path) -> None:
    """Masks and overviews beside a raster are opened by GDAL with any driver; let only TIFFs be there."""
    for suffix in (".msk", ".MSK", ".ovr", ".OVR"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and not _head(beside).startswith(_TIFF_STARTS):
            raise UnsafeReference(f"{path}: the file {beside.name} beside it is not a TIFF; remove it")


def _check_limits(path: Path, file: DatasetReader) -> None:
    if file.width * file.height > MAX_PIXELS:
        raise SceneTooLarge(
            f"{path}: {file.width} x {file.height} pixels are more than {MAX_PIXELS:.0e}; cut it"
        )
    if file.count > MAX_BANDS:
        raise SceneTooLarge(
            f"{path}: {file.count} bands are more than {MAX_BANDS}; keep three with gdal_translate -b"
        )
    together = file.count if file.interleaving is not None and file.interleaving.name == "pixel" else 1
    for (rows, cols), dtype in zip(file.block_shapes, file.dtypes, strict=True):
        size = rows * cols * _item_size(dtype) * together
        if size > MAX_BLOCK_BYTES:
            raise SceneTooLarge(
                f"{path}: its blocks of {cols} x {rows} pixels take {size / 2**20:.0f} MiB, more than "
                f"{MAX_BLOCK_BYTES // 2**20}; tile it with gdal_translate -of COG"
            )


def _item_size(dtype: str) -> int:
    return 4 if dtype == "complex_int16" else np.dtype(dtype).itemsize


def _described(path: Path, file: DatasetReader) -> SceneInfo:
    transform = file.transform
    if transform.is_identity or transform.determinant == 0:
        raise MissingGeoreferencing(
            f"{path}: it does not say where its pixels lie; set that with gdal_translate -a_ullr -a_srs "
            "or, if it has ground control points, with gdalwarp"
        )
    if not file.crs or not is_earthly(file.crs):
        raise MissingCRS(
            f"{path}: it has no coordinate reference system; set it with gdal_edit -a_srs EPSG:..."
        )
    if transform.b != 0 or transform.d != 0 or transform.a < 0 or transform.e > 0:
        raise RotatedGrid(f"{path}: its grid is rotated or flipped; bring it north-up with gdalwarp")
    try:
        width, height = ground_sampling(file.crs, transform, file.width, file.height)
    except ReprojectionFailed as error:
        raise MissingGeoreferencing(f"{path}: {error}; correct its georeferencing with gdal_edit") from error
    real = [np.dtype(dtype) for dtype in file.dtypes if dtype != "complex_int16"]
    return SceneInfo(
        path=path,
        driver=file.driver,
        crs=file.crs,
        transform=transform,
        width=file.width,
        height=file.height,
        count=file.count,
        dtype=str(np.result_type(*real)) if real else "complex_int16",
        nodata=file.nodata,
        gsd=float(np.sqrt(width * height)),
        tags=dict(file.tags()),
        dtypes=tuple(file.dtypes),
        colors=tuple(color.name for color in file.colorinterp),
        masked_by=_masked_by(file),
    )


def _masked_by(file: DatasetReader) -> str:
    """Say which of its masks GDAL takes; an alpha band only if no nodata value is set."""
    flags = file.mask_flag_enums[0]
    if MaskFlags.nodata in flags:
        return "nodata"
    if MaskFlags.alpha in flags:
        return "alpha"
    return "mask" if MaskFlags.per_dataset in flags else "nothing"
