"""Open and describe one raster; it is hostile until its driver, size, blocks and references are checked.

Everything here reads headers only: no pixel is decoded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from rasterio._err import CPLE_BaseError
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from shapely.geometry import Polygon

from tiling.access import ANYWHERE, Access
from tiling.archives import head_of
from tiling.errors import (
    NotARaster,
    SceneDamaged,
    SceneIsFolder,
    SceneNotFound,
    SceneUnreadable,
    UnsafeReference,
)
from tiling.limits import check_header, check_substance, check_texts
from tiling.location import Location, locate
from tiling.placement import outline, placement
from tiling.plain import plain_only
from tiling.remote import network_error, safe_environment
from tiling.sidecars import MASK, Sidecars
from tiling.ungeoreferenced import ungeoreferenced
from tiling.virtual import pinned
from tiling.vrt import checked_vrt, looks_like_vrt

# What a file must start with for a driver to be tried; a VRT is a text and looked at in full.
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_STARTS = {
    "GTiff": _TIFF_STARTS,
    "JP2OpenJPEG": (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
}
_NAMES = {"GTiff": "GeoTIFF", "JP2OpenJPEG": "JPEG 2000 file"}
_HEAD = 1024


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
        gcps: ground control points, if they and no transform place the scene, and tell more than the
            transform that lies nearest to them; longitudes do not jump.
        descriptions: name of each band, None where the file gives none.
        palette: red, green, blue and alpha by pixel value, of an image of one band of such values (and
            perhaps an alpha band).
        scales, offsets: of each band; the quantity is value * scale + offset. 1 and 0 where nothing is said.
        unused_mask: name of a mask that lies beside the file and of which GDAL takes nothing, or None.
        access: the servers that may be asked for it, each time that it is opened.
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
    unused_mask: str | None = None
    access: Access = field(default=ANYWHERE, repr=False)

    @property
    def along_axes(self) -> bool:
        """Whether the pixels run along the axes of the map, in whichever direction."""
        return self.transform.b == self.transform.d == 0 and not self.gcps

    @property
    def north_up(self) -> bool:
        """Whether columns run from west to east and rows from north to south, all straight."""
        return self.along_axes and self.transform.a > 0 and self.transform.e < 0

    @cached_property
    def footprint(self) -> Polygon:
        """The outline of the image in map coordinates; it bends only where control points place it."""
        return outline(self.transform, self.gcps, self.width, self.height)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east and north edge of the footprint in map coordinates."""
        return self.footprint.bounds


def describe(path: str | Path, access: Access = ANYWHERE) -> SceneInfo:
    """Return what the header of a raster says, once everything that makes a scene is found there.

    ``access`` tells which servers may be asked; what is returned keeps it.

    Raises:
        TilingError: the file is missing, a folder, not an allowed raster, beyond the limits, on a server that
            may not be asked, refers to something outside its folder, or has no CRS or no georeferencing.
    """
    location = locate(path)
    with _checked(location, access) as file:
        try:
            return _described(location, access, file)
        except (CPLE_BaseError, RasterioError, UnicodeDecodeError) as error:
            # At some parts of a header GDAL looks only when asked.
            raise SceneDamaged(
                f"{location.shown}: its header is damaged ({error}); get a sound copy"
            ) from error


@contextmanager
def open_scene(path: str | Path | SceneInfo, access: Access = ANYWHERE) -> Iterator[DatasetReader]:
    """Open a raster for reading after the checks that need no georeferencing; ``access`` is that of a name.

    Raises:
        TilingError: see :func:`describe`.
    """
    location = locate(path.source if isinstance(path, SceneInfo) else path)
    if isinstance(path, SceneInfo):
        location, access = replace(location, shown=path.path), path.access
    with _checked(location, access) as file:
        yield file


def name_in_vrt(info: SceneInfo, file: DatasetReader) -> str:
    """Return what a VRT of ours calls a scene that :func:`open_scene` opened as ``file``.

    Raises:
        UnsafeReference: GDAL has no way of writing with which driver it is to be opened.
    """
    # Of a VRT it is the text that was checked.
    return str(file.name) if file.driver == "VRT" else pinned(info.path, info.source, file.driver)


def files_of(scene: SceneInfo) -> set[str]:
    """Return the files on this machine that a scene is read from, but for the archive it lies in.

    Raises:
        TilingError: see :func:`describe`.
    """
    with open_scene(scene) as file:
        names = {name for name in file.files if os.path.isfile(name)}
        if file.driver == "VRT":
            path = Path(scene.source)
            beside = Sidecars().rasters(scene.path, path)
            names.update(str(name) for name in (path, *beside, *checked_vrt(scene.path, path).sources))
    return names


@contextmanager
def _checked(location: Location, access: Access) -> Iterator[DatasetReader]:
    access.check(location)
    with safe_environment(location.source):
        opened, parts, beside = _opened(location)
        with opened as file:
            check_header(location.shown, file)
            if location.local is not None:
                _check_mask(location.shown, file, beside)
                check_substance(location.shown, file, parts)
            yield file


def _opened(location: Location) -> tuple[DatasetReader, list[Path], list[Path]]:
    """Open a scene with the driver that its first bytes call for, after the checks of what it refers to.

    Returns with it the files of this machine that its pixels are read from, and its masks and overviews.
    """
    shown, source = location.shown, location.source
    if location.local is None:
        return _open_remote(shown, source), [], []
    if location.member is not None:
        head = head_of(shown, location.local, location.member, _HEAD)
        if looks_like_vrt(head):
            raise UnsafeReference(f"{shown}: a VRT is not read from an archive; unpack it with its sources")
        return _open_as(shown, source, _driver(shown, head)), [location.local], []
    path, sidecars = Path(source), Sidecars()
    head = _head(shown, path)
    if looks_like_vrt(head):
        return _open_vrt(shown, path, sidecars)
    beside = _check_sidecars(shown, path, sidecars)
    return _open_as(shown, path, _driver(shown, head)), [path], beside


def _open_remote(shown: str, source: str) -> DatasetReader:
    for driver in _STARTS:
        try:
            return _open(source, driver)
        except (RasterioError, ValueError) as error:
            failure = network_error(shown, error)
            if failure is not None:
                raise failure from error
    raise NotARaster(
        f"{shown}: what the server sends is not a raster that can be read in parts; give a GeoTIFF (a COG is "
        "quickest), JPEG 2000, PNG or JPEG, or download it"
    )


def _open_vrt(shown: str, path: Path, sidecars: Sidecars) -> tuple[DatasetReader, list[Path], list[Path]]:
    """Open a VRT as it was checked: GDAL sees neither the file nor, by itself, what lies beside it."""
    vrt = checked_vrt(shown, path)
    names = {source: _check_source(shown, source, sidecars, vrt.bands[source]) for source in vrt.sources}
    beside = _check_sidecars(shown, path, sidecars)
    mask = next((pinned(shown, str(file), "GTiff") for file in beside if file.suffix.lower() == MASK), None)
    return _open_as(shown, vrt.text(names, mask), "VRT"), [path, *vrt.sources], beside


def _open_as(shown: str, source: str | Path, driver: str) -> DatasetReader:
    if driver == "GTiff" and isinstance(source, Path):
        check_texts(shown, source)
    try:
        return _open(source, driver)
    except (RasterioError, ValueError) as error:
        raise NotARaster(
            f"{shown}: it starts like a {_NAMES.get(driver, driver)} but cannot be opened; get a sound copy"
        ) from error


def _open(source: str | Path, driver: str) -> DatasetReader:
    # A plain file comes as an absolute Path: so it is never read as an address or a subdataset.
    with ungeoreferenced:
        return rasterio.open(source, driver=driver)


def _head(shown: str, path: Path) -> bytes:
    if os.path.isdir(path):
        raise SceneIsFolder(f"{shown}: this is a folder; name the raster file in it")
    if not os.path.exists(path):
        raise SceneNotFound(f"{shown}: there is no such file; check the path")
    try:
        with open(path, "rb", opener=plain_only) as file:
            return file.read(_HEAD)
    except OSError as error:
        raise SceneUnreadable(
            f"{shown}: it cannot be opened ({error.strerror}); check its permissions"
        ) from error


def _driver(shown: str, head: bytes) -> str:
    for driver, starts in _STARTS.items():
        if head.startswith(starts):
            return driver
    raise NotARaster(
        f"{shown}: this is not a raster that can be read; give a GeoTIFF, COG, JPEG 2000, PNG, JPEG or VRT "
        "or convert it to one"
    )


def _check_source(shown: str, source: Path, sidecars: Sidecars, bands: int) -> str:
    """Check a source of a VRT, of which it wants so many bands at least.

    Returns the name by which GDAL opens it with the driver of the check.
    """
    if not os.path.isfile(source):
        raise SceneNotFound(
            f"{shown}: the VRT names {source.name}, which is not there; put it back or rebuild the VRT"
        )
    head = _head(str(source), source)
    if looks_like_vrt(head):
        raise UnsafeReference(
            f"{shown}: the VRT names another VRT, {source.name}; build it from rasters directly"
        )
    _check_sidecars(str(source), source, sidecars)
    driver = _driver(str(source), head)
    with _open_as(str(source), source, driver) as file:
        check_header(str(source), file)
        if bands > file.count:  # GDAL would not survive a wish for the mask of a band that is not there
            raise SceneDamaged(
                f"{shown}: the VRT asks for band {bands} of {source.name}, which has {file.count}; rebuild it"
            )
    return pinned(shown, str(source), driver)


def _check_sidecars(shown: str, path: Path, sidecars: Sidecars) -> list[Path]:
    """Return masks and overviews beside a raster; GDAL opens them with any driver, so let them be TIFFs."""
    found = sidecars.rasters(shown, path)
    for beside in found:
        if not _head(shown, beside).startswith(_TIFF_STARTS):
            raise UnsafeReference(f"{shown}: the file {beside.name} beside it is not a TIFF; remove it")
        # Overviews may have a mask, a mask overviews.
        _check_sidecars(shown, beside, sidecars)
        with _open_as(str(beside), beside, "GTiff") as file:
            check_header(str(beside), file)
    return found


def _check_mask(shown: str, file: DatasetReader, beside: Iterable[Path]) -> None:
    """Refuse a mask beside a file that has another size: GDAL would lay it at the corner."""
    for one in beside:
        if one.suffix.lower() == MASK and _masked_by(file) == "mask":
            with _open_as(str(one), one, "GTiff") as mask:
                size, own = ("{1} x {0}".format(*raster.shape) for raster in (mask, file))
            if size != own:
                raise SceneDamaged(f"{shown}: the mask {one.name} has {size} pixels, not {own}; remove it")


def _described(location: Location, access: Access, file: DatasetReader) -> SceneInfo:
    place = placement(location.shown, file)
    real = [np.dtype(dtype) for dtype in file.dtypes if dtype != "complex_int16"]
    return SceneInfo(
        **vars(place),
        path=location.shown,
        source=location.source,
        driver=file.driver,
        width=file.width,
        height=file.height,
        count=file.count,
        dtype=str(np.result_type(*real)) if real else "complex_int16",
        nodata=file.nodata,
        tags=dict(file.tags()),
        dtypes=tuple(file.dtypes),
        colors=tuple(color.name for color in file.colorinterp),
        masked_by=_masked_by(file),
        descriptions=_descriptions(file),
        palette=_palette(file),
        scales=tuple(float(scale) for scale in file.scales),
        offsets=tuple(float(offset) for offset in file.offsets),
        unused_mask=_unused_mask(file),
        access=access,
    )


def _descriptions(file: DatasetReader) -> tuple[str | None, ...]:
    try:
        return tuple(file.descriptions)
    except UnicodeDecodeError:
        return (None,) * file.count  # names in another encoding than UTF-8 say nothing


def _palette(file: DatasetReader) -> tuple[tuple[int, int, int, int], ...] | None:
    first, *others = file.colorinterp
    if first != ColorInterp.palette or any(color != ColorInterp.alpha for color in others):
        return None
    try:
        table = file.colormap(1)
    except ValueError:
        return None  # there is none: what is called a palette is grey
    return tuple(table[value] for value in range(len(table)))


def _masked_by(file: DatasetReader) -> str:
    """Say by what the pixels without data are known; an alpha band may come to a nodata value."""
    flags = file.mask_flag_enums[0]
    if MaskFlags.nodata in flags:
        return "nodata"
    if MaskFlags.alpha in flags:
        return "alpha"
    if MaskFlags.per_dataset in flags:
        return "mask"
    return "alpha" if ColorInterp.alpha in file.colorinterp else "nothing"


def _unused_mask(file: DatasetReader) -> str | None:
    """Return the name of a mask beside a file, if no band says that it has it or one of its own."""
    if any(set(flags) <= {MaskFlags.per_dataset} for flags in file.mask_flag_enums):
        return None
    beside = f"{file.name}{MASK}".lower()
    return next((Path(name).name for name in file.files if name.lower() == beside), None)
