"""Open one raster after all checks: it is hostile until its driver, size, blocks and references are known.

Only headers are read; no pixel is decoded.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import rasterio
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader

from tiling.access import Access
from tiling.errors import (
    NotARaster,
    SceneDamaged,
    SceneIsFolder,
    SceneNotFound,
    SceneUnreadable,
    UnsafeReference,
)
from tiling.gdal import georeferencing_optional, network_error, safe_environment
from tiling.limits import check_header, check_substance, check_texts
from tiling.location import Location, locate
from tiling.regular_files import open_regular
from tiling.remote_bytes import open_bytes
from tiling.sidecars import MASK, Sidecars
from tiling.vrt_checks import checked_vrt, looks_like_vrt
from tiling.vrt_writing import pinned
from tiling.zip_archives import open_member

# First bytes of a file for which a driver is tried; a VRT is checked as a text.
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_STARTS = {
    "GTiff": _TIFF_STARTS,
    "JP2OpenJPEG": (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
}
_NAMES = {"GTiff": "GeoTIFF", "JP2OpenJPEG": "JPEG 2000 file"}
_HEAD = 1024
# Formats with texts of a CRS, which GDAL would read.
_WITH_TEXTS = ("GTiff", "JP2OpenJPEG")


class _Opened(NamedTuple):
    """An open raster, the local files that hold its pixels, and its masks and overviews."""

    dataset: DatasetReader
    parts: list[Path]
    beside: list[Path]


@contextmanager
def open_checked(location: Location, access: Access) -> Iterator[DatasetReader]:
    """Open a raster after all checks but that of its georeferencing.

    Raises:
        TilingError: the file is missing, a folder, not an allowed raster, beyond the limits, on a forbidden
            server, or refers to something outside its folder.
    """
    access.check(location)
    with safe_environment(location.source), _checked(location) as file:
        yield file


def open_local(path: Path) -> DatasetReader:
    """Open a plain file after the checks of :func:`open_checked`, with its errors; the caller closes it.

    The environment of GDAL ends with the call, so it may be called in any order with others.
    """
    location = locate(path)
    with safe_environment(location.source):
        return _checked(location)


def _checked(location: Location) -> DatasetReader:
    dataset, parts, beside = _opened(location)
    try:
        check_header(location.shown, dataset)
        if location.local is not None:
            _check_mask(location.shown, dataset, beside)
            check_substance(location.shown, dataset, parts)
    except BaseException:
        dataset.close()
        raise
    return dataset


def _opened(location: Location) -> _Opened:
    shown, source = location.shown, location.source
    if location.local is None:
        return _Opened(_open_remote(shown, source), [], [])
    if location.member is not None:
        with open_member(shown, location.local, location.member) as file:
            head = file.read(_HEAD)
            if looks_like_vrt(head):
                raise UnsafeReference(f"{shown}: a VRT in an archive is not read; unpack it with its sources")
            driver = _driver(shown, head)
            file.seek(0)
            check_texts(shown, driver, file)
        return _Opened(_open_as(shown, source, driver), [location.local], [])
    path, sidecars = Path(source), Sidecars()
    head = _head(shown, path)
    if looks_like_vrt(head):
        return _open_vrt(shown, path, sidecars)
    beside = _check_sidecars(shown, path, sidecars)
    return _Opened(_open_as(shown, path, _driver(shown, head)), [path], beside)


def _open_remote(shown: str, source: str) -> DatasetReader:
    # First the formats that hold no CRS, which also tell whether the server answers.
    for driver in ("PNG", "JPEG", "GTiff", "JP2OpenJPEG"):
        try:
            if driver in _WITH_TEXTS:
                with open_bytes(source) as file:
                    if not file.read(_HEAD).startswith(_STARTS[driver]):
                        continue
                    file.seek(0)
                    check_texts(shown, driver, file)
            return _open(source, driver)
        except (RasterioError, ValueError) as error:
            failure = network_error(shown, error)
            if failure is not None:
                raise failure from error
    raise NotARaster(
        f"{shown}: the server sends no raster that can be read in parts; give a GeoTIFF (best a COG), "
        "JPEG 2000, PNG or JPEG, or download it"
    )


def _open_vrt(shown: str, path: Path, sidecars: Sidecars) -> _Opened:
    """Open the checked text of a VRT: GDAL sees neither the file nor, by itself, its sidecars."""
    vrt = checked_vrt(shown, path)
    names = {source: _check_source(shown, source, sidecars, vrt.bands[source]) for source in vrt.sources}
    beside = _check_sidecars(shown, path, sidecars)
    mask = next((pinned(shown, str(file), "GTiff") for file in beside if file.suffix.lower() == MASK), None)
    return _Opened(_open_as(shown, vrt.text(names, mask), "VRT"), [path, *vrt.sources], beside)


def _open_as(shown: str, source: str | Path, driver: str) -> DatasetReader:
    if isinstance(source, Path):
        with open(source, "rb", opener=open_regular) as file:
            check_texts(shown, driver, file)
    try:
        return _open(source, driver)
    except (RasterioError, ValueError) as error:
        name = _NAMES.get(driver, driver)
        raise NotARaster(f"{shown}: this {name} cannot be opened; get an undamaged copy") from error


def _open(source: str | Path, driver: str) -> DatasetReader:
    # A plain file comes as an absolute Path, so GDAL takes it for no address and no subdataset.
    with georeferencing_optional:
        return rasterio.open(source, driver=driver)


def _head(shown: str, path: Path) -> bytes:
    if os.path.isdir(path):
        raise SceneIsFolder(f"{shown}: this is a folder; name the raster file in it")
    if not os.path.exists(path):
        raise SceneNotFound(f"{shown}: there is no such file; check the path")
    try:
        with open(path, "rb", opener=open_regular) as file:
            return file.read(_HEAD)
    except OSError as error:
        reason = error.strerror
        raise SceneUnreadable(f"{shown}: it cannot be opened ({reason}); check its permissions") from error


def _driver(shown: str, head: bytes) -> str:
    for driver, starts in _STARTS.items():
        if head.startswith(starts):
            return driver
    raise NotARaster(f"{shown}: not a supported raster; convert it to a GeoTIFF, JPEG 2000, PNG, JPEG or VRT")


def _check_source(shown: str, source: Path, sidecars: Sidecars, bands: int) -> str:
    """Check a source of a VRT with at least ``bands`` bands; return its name for GDAL, with its driver."""
    if not os.path.isfile(source):
        raise SceneNotFound(f"{shown}: {source.name} of the VRT is missing; put it back or rebuild the VRT")
    head = _head(str(source), source)
    if looks_like_vrt(head):
        raise UnsafeReference(f"{shown}: the VRT names another VRT, {source.name}; build it from rasters")
    _check_sidecars(str(source), source, sidecars)
    driver = _driver(str(source), head)
    with _open_as(str(source), source, driver) as file:
        check_header(str(source), file)
        if bands > file.count:  # GDAL would crash on the mask of a missing band
            raise SceneDamaged(
                f"{shown}: the VRT asks for band {bands} of {source.name}, which has {file.count}; rebuild it"
            )
    return pinned(shown, str(source), driver)


def _check_sidecars(shown: str, path: Path, sidecars: Sidecars) -> list[Path]:
    """Return masks and overviews beside a raster; only TIFFs, since GDAL opens them with any driver."""
    found = sidecars.rasters(shown, path)
    for beside in found:
        if not _head(shown, beside).startswith(_TIFF_STARTS):
            raise UnsafeReference(f"{shown}: the file {beside.name} beside it is not a TIFF; remove it")
        # Overviews may have a mask, a mask may have overviews.
        _check_sidecars(shown, beside, sidecars)
        with _open_as(str(beside), beside, "GTiff") as file:
            check_header(str(beside), file)
    return found


def _check_mask(shown: str, file: DatasetReader, beside: Iterable[Path]) -> None:
    """Refuse a mask file of another size: GDAL would align it at the corner."""
    for path in beside:
        if path.suffix.lower() == MASK and masked_by(file) == "mask":
            with _open_as(str(path), path, "GTiff") as mask:
                size, own = ("{1} x {0}".format(*raster.shape) for raster in (mask, file))
            if size != own:
                raise SceneDamaged(f"{shown}: the mask {path.name} has {size} pixels, not {own}; remove it")


def masked_by(file: DatasetReader) -> str:
    """Return what marks pixels without data: "nodata", "alpha", "mask" or "nothing"."""
    flags = file.mask_flag_enums[0]
    if MaskFlags.nodata in flags:
        return "nodata"  # an alpha band may come in addition
    if MaskFlags.alpha in flags:
        return "alpha"
    if MaskFlags.per_dataset in flags:
        return "mask"
    return "alpha" if ColorInterp.alpha in file.colorinterp else "nothing"
