"""Open and describe one raster; it is hostile until its driver, size, blocks and references are checked.

Everything here reads headers only: no pixel is decoded.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import DatasetReader
from shapely.geometry import Polygon

from tiling.archives import head_of
from tiling.errors import (
    NotARaster,
    SceneIsFolder,
    SceneNotFound,
    SceneTooLarge,
    SceneUnreadable,
    UnsafeReference,
)
from tiling.location import Location, locate
from tiling.placement import outline, placement
from tiling.remote import network_error, not_a_raster, reading_options
from tiling.vrt import checked_sources, looks_like_vrt

# What a file must start with for a driver to be tried; a VRT is a text and looked at in full.
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_STARTS = {
    "GTiff": _TIFF_STARTS,
    "JP2OpenJPEG": (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
}
_NAMES = {"GTiff": "GeoTIFF", "JP2OpenJPEG": "JPEG 2000 file"}
FORMATS = "GeoTIFF, COG, JPEG 2000, PNG, JPEG or VRT"
_HEAD = 1024
MAX_PIXELS = 10**11
MAX_BANDS = 256
MAX_BLOCK_BYTES = 2**29


@dataclass(frozen=True)
class SceneInfo:
    """What the header of a raster says.

    Attributes:
        path: the scene as it was named, without secrets; for messages and records.
        source: what is opened; it may hold secrets.
        driver: GDAL's name of the format.
        crs: coordinate reference system (rasterio); that of the ground control points if there are any.
        transform: column and row to map coordinates; it may rotate, shear or flip. Of a scene that is placed
            by ground control points the affine transform nearest to them.
        width, height: in pixels.
        count: number of bands.
        dtype: type of the pixels; of bands of different types the one that holds them all.
        nodata: value that stands for no data, or None.
        gsd: ground sampling distance in metres at the centre; the geometric mean of width and height.
        tags: the metadata of the file.
        dtypes: type of each band.
        colors: what each band shows: "red", "alpha", "undefined", ...
        masked_by: how the file says which pixels have data: "nothing", "nodata", "mask" or "alpha".
        gcps: ground control points, if they and no transform place the scene; longitudes do not jump.
        descriptions: name of each band, None where the file gives none.
        palette: red, green, blue and alpha by pixel value, of an image of one band of such values (and
            perhaps an alpha band).
        scales, offsets: of each band; the quantity is value * scale + offset. 1 and 0 where nothing is said.
    """

    path: str
    source: str = field(repr=False)
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
    gcps: tuple[GroundControlPoint, ...]
    descriptions: tuple[str | None, ...]
    palette: tuple[tuple[int, int, int, int], ...] | None = field(repr=False)
    scales: tuple[float, ...]
    offsets: tuple[float, ...]

    @property
    def north_up(self) -> bool:
        """Whether columns run from west to east and rows from north to south, all straight."""
        own = self.transform
        return not self.gcps and own.b == own.d == 0 and own.a > 0 and own.e < 0

    @cached_property
    def footprint(self) -> Polygon:
        """The outline of the image in map coordinates; it bends only where control points place it."""
        return outline(self.transform, self.gcps, self.width, self.height)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east and north edge of the footprint in map coordinates."""
        west, south, east, north = self.footprint.bounds
        return west, south, east, north


def describe(path: str | Path) -> SceneInfo:
    """Return what the header of a raster says, once everything that makes a scene is found there.

    Raises:
        TilingError: the file is missing, a folder, not an allowed raster, beyond the limits, refers to
            something outside its folder, or has no CRS or no georeferencing.
    """
    location = locate(path)
    with _checked(location) as file:
        return _described(location, file)


@contextmanager
def open_scene(path: str | Path | SceneInfo) -> Iterator[DatasetReader]:
    """Open a raster for reading after the checks that need no georeferencing.

    Raises:
        TilingError: see :func:`describe`.
    """
    with _checked(_location(path)) as file:
        yield file


def _location(scene: str | Path | SceneInfo) -> Location:
    if isinstance(scene, SceneInfo):
        return replace(locate(scene.source), shown=scene.path)
    return locate(scene)


@contextmanager
def _checked(location: Location) -> Iterator[DatasetReader]:
    shown = location.shown
    with safe_environment(location.source), _opened(location) as file:
        _check_limits(shown, file)
        if "OVERVIEW_FILE" in file.tags(ns="OVERVIEWS"):
            raise UnsafeReference(f"{shown}: it names a file of overviews; remove that entry with gdal_edit")
        yield file


def safe_environment(source: str = "") -> rasterio.Env:
    """Return the GDAL options to read strangers' files under; they end with the ``with`` block.

    ``source`` is what GDAL opens there, see :class:`SceneInfo`. On a server and in an archive it will not
    look for masks, overviews and the like beside it: those of plain files are checked, those are not.
    """
    return rasterio.Env(GDAL_VRT_ENABLE_PYTHON="NO", GDAL_NUM_THREADS="1", **reading_options(source))


@contextmanager
def _opened(location: Location) -> Iterator[DatasetReader]:
    """Open a scene with the driver that its first bytes call for, after the checks of what it refers to."""
    if location.local is None:
        file = _open_remote(location.shown, location.source)
    elif location.member is not None:
        file = _open_member(location.shown, location.local, location.member, location.source)
    else:
        file = _open_file(location.shown, Path(location.source))
    with file:
        yield file


def _open_remote(shown: str, source: str) -> DatasetReader:
    for driver in _STARTS:
        try:
            return _open(source, driver)
        except (RasterioError, ValueError) as error:
            failure = network_error(shown, error)
            if failure is not None:
                raise failure from error
    raise not_a_raster(shown)


def _open_member(shown: str, archive: Path, member: str, source: str) -> DatasetReader:
    head = head_of(shown, archive, member, _HEAD)
    if looks_like_vrt(head):
        raise UnsafeReference(f"{shown}: a VRT is not read from an archive; unpack it with its sources")
    return _open_as(shown, source, _driver(shown, head))


def _open_file(shown: str, path: Path) -> DatasetReader:
    head = _head(shown, path)
    is_vrt = looks_like_vrt(head)
    if is_vrt:
        for source in checked_sources(shown, path):
            _check_source(shown, source)
    _check_sidecars(shown, path)
    return _open_as(shown, path, "VRT" if is_vrt else _driver(shown, head))


def _open_as(shown: str, source: str | Path, driver: str) -> DatasetReader:
    try:
        return _open(source, driver)
    except (RasterioError, ValueError) as error:
        raise NotARaster(
            f"{shown}: it starts like a {_NAMES.get(driver, driver)} but cannot be opened; get a sound copy"
        ) from error


def _open(source: str | Path, driver: str) -> DatasetReader:
    # A plain file comes as an absolute Path: so it is never read as an address or a subdataset.
    with warnings.catch_warnings():
        # Missing georeferencing is an error of ours later; here it would only be noise.
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        return rasterio.open(source, driver=driver)


def _head(shown: str, path: Path) -> bytes:
    if os.path.isdir(path):
        raise SceneIsFolder(f"{shown}: this is a folder; name the raster file in it")
    if not os.path.isfile(path):
        raise SceneNotFound(f"{shown}: there is no such file; check the path")
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise SceneUnreadable(
            f"{shown}: it cannot be opened ({error.strerror}); check its permissions"
        ) from error


def _driver(shown: str, head: bytes) -> str:
    for driver, starts in _STARTS.items():
        if head.startswith(starts):
            return driver
    raise NotARaster(f"{shown}: this is not a raster that can be read; give a {FORMATS} or convert it to one")


def _check_source(shown: str, source: Path) -> None:
    if not source.is_file():
        raise SceneNotFound(
            f"{shown}: the VRT names {source.name}, which is not there; put it back or rebuild the VRT"
        )
    head = _head(str(source), source)
    if looks_like_vrt(head):
        raise UnsafeReference(
            f"{shown}: the VRT names another VRT, {source.name}; build it from rasters directly"
        )
    _check_sidecars(str(source), source)
    with _open_as(str(source), source, _driver(str(source), head)) as file:
        _check_limits(str(source), file)


def _check_sidecars(shown: str, path: Path) -> None:
    """Masks and overviews beside a raster are opened by GDAL with any driver; let only TIFFs be there."""
    for suffix in (".msk", ".MSK", ".ovr", ".OVR"):
        beside = path.with_name(path.name + suffix)
        if os.path.isfile(beside):
            if not _head(shown, beside).startswith(_TIFF_STARTS):
                raise UnsafeReference(f"{shown}: the file {beside.name} beside it is not a TIFF; remove it")
            # Overviews may have a mask, a mask overviews.
            _check_sidecars(shown, beside)


def _check_limits(shown: str, file: DatasetReader) -> None:
    if file.width * file.height > MAX_PIXELS:
        raise SceneTooLarge(
            f"{shown}: {file.width} x {file.height} pixels are more than {MAX_PIXELS:.0e}; cut it"
        )
    if file.count > MAX_BANDS:
        raise SceneTooLarge(
            f"{shown}: {file.count} bands are more than {MAX_BANDS}; keep three with gdal_translate -b"
        )
    together = file.count if file.interleaving is not None and file.interleaving.name == "pixel" else 1
    for (rows, cols), dtype in zip(file.block_shapes, file.dtypes, strict=True):
        size = rows * cols * _item_size(dtype) * together
        if size > MAX_BLOCK_BYTES:
            raise SceneTooLarge(
                f"{shown}: its blocks of {cols} x {rows} pixels take {size / 2**20:.0f} MiB, more than "
                f"{MAX_BLOCK_BYTES // 2**20}; tile it with gdal_translate -of COG"
            )


def _item_size(dtype: str) -> int:
    return 4 if dtype == "complex_int16" else np.dtype(dtype).itemsize


def _described(location: Location, file: DatasetReader) -> SceneInfo:
    place = placement(location.shown, file)
    real = [np.dtype(dtype) for dtype in file.dtypes if dtype != "complex_int16"]
    return SceneInfo(
        path=location.shown,
        source=location.source,
        driver=file.driver,
        crs=place.crs,
        transform=place.transform,
        width=file.width,
        height=file.height,
        count=file.count,
        dtype=str(np.result_type(*real)) if real else "complex_int16",
        nodata=file.nodata,
        gsd=place.gsd,
        tags=dict(file.tags()),
        dtypes=tuple(file.dtypes),
        colors=tuple(color.name for color in file.colorinterp),
        masked_by=_masked_by(file),
        gcps=place.gcps,
        descriptions=tuple(file.descriptions),
        palette=_palette(file),
        scales=tuple(float(scale) for scale in file.scales),
        offsets=tuple(float(offset) for offset in file.offsets),
    )


def _palette(file: DatasetReader) -> tuple[tuple[int, int, int, int], ...] | None:
    first, *others = file.colorinterp
    if first != ColorInterp.palette or any(color != ColorInterp.alpha for color in others):
        return None
    table = file.colormap(1)
    return tuple(table[value] for value in range(len(table)))


def _masked_by(file: DatasetReader) -> str:
    """Say which of its masks GDAL takes; an alpha band only if no nodata value is set."""
    flags = file.mask_flag_enums[0]
    if MaskFlags.nodata in flags:
        return "nodata"
    if MaskFlags.alpha in flags:
        return "alpha"
    return "mask" if MaskFlags.per_dataset in flags else "nothing"
