"""Sidecars: files beside a raster that GDAL opens with it, in any case of their names."""

import os
import re
import time
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from tiling.crs_texts import check_crs_bytes, check_crs_of_xml
from tiling.errors import SceneTooLarge, UnsafeReference
from tiling.regular_files import open_regular

MASK, OVERVIEWS = ".msk", ".ovr"
_AUXILIARY, _PAM = ".aux", ".aux.xml"
AFTER_NAME = (_PAM, _AUXILIARY, MASK, OVERVIEWS)
"""What GDAL reads with image.tif: image.tif.aux.xml, image.tif.msk and the like, perhaps several in a row."""
MAX_TEXT_BYTES = 4 * 2**20
"""Largest text beside a scene: GDAL's time grows with the square of its size."""
AFTER_STEM = (
    ".imd", ".pass", ".pvl", ".rpb", ".rpc", ".til", ".txt", ".xml", "_metadata.txt", "_metadata.xml",
    "_mtl.txt", "_rpc.txt", ".tab", ".wld", ".tfw", ".tifw", ".tiffw", ".jgw", ".jpgw", ".jpw", ".jpegw",
    ".pgw", ".pngw", ".j2w", ".jp2w", ".j2kw",
)  # fmt: skip
"""Texts that it reads, too: image.tfw and the like, image_metadata.txt."""
# ... and names of products, of whatever scene.
_OF_PRODUCT = re.compile(r"(hdr|rpc|dim_).*\.(txt|xml)|.*_mtl\.txt|metadata\.dim|summary\.txt")
# Start of an ERDAS file for GDAL, in any case, and of a real one.
_ERDAS, _ERDAS_START = b"EHFA_HEADER_TAG", b"EHFA_HEADER_TAG\0"
_MAX_ERDAS_BYTES = 64 * 2**20


_Listing = tuple[dict[str, list[str]] | None, list[str]]
_SETTLED_NS = 10 * 10**9
"""Nanoseconds after its last change from which a folder's listing is kept."""


class Sidecars:
    """Finds sidecars of rasters; lists each folder once."""

    def __init__(self) -> None:
        self._listed = cache(_listed)

    def rasters(self, shown: str, path: Path) -> list[Path]:
        """Return the masks and overviews beside a raster.

        Raises:
            UnsafeReference: a sidecar is no regular file, not what its name says, or has a CRS that names a
                file.
            SceneTooLarge: a text has more than 4 MiB.
        """
        found = self._called(path, (path.name + ending for ending in (MASK, OVERVIEWS)))
        auxiliary = self._called(path, (name + _AUXILIARY for name in (path.name, path.stem)))
        texts = self._texts(path)
        for file in (*found, *auxiliary, *texts):
            if not os.path.isfile(file):
                raise UnsafeReference(f"{shown}: {file.name} beside it is no regular file; remove it")
        for file in auxiliary:
            _check_auxiliary(shown, file)
        for file in texts:
            size = file.stat().st_size
            if size > MAX_TEXT_BYTES:
                raise SceneTooLarge(
                    f"{shown}: {file.name} beside it has {size / 2**20:.0f} MiB, more than "
                    f"{MAX_TEXT_BYTES // 2**20}; move it elsewhere"
                )
            if file.name.lower().endswith(_PAM):
                check_crs_of_xml(shown, file)
        return found

    def _texts(self, path: Path) -> list[Path]:
        """Return the texts about a raster that GDAL may read."""
        own = [path.name + _PAM, *(path.stem + ending for ending in AFTER_STEM)]
        _, of_product = self._listed(path.parent)
        return [file for file in self._called(path, {*own, *of_product}) if file != path]

    def _called(self, path: Path, names: Iterable[str]) -> list[Path]:
        spellings, _ = self._listed(path.parent)
        if spellings is None:  # GDAL tries two spellings if it cannot list the folder
            tried = {spelt for name in names for spelt in (name, name[:-4] + name[-4:].upper())}
        else:
            tried = {spelt for name in names for spelt in spellings.get(name.lower(), ())}
        files = (path.with_name(name) for name in sorted(tried))
        return [file for file in files if os.path.exists(file) and not os.path.isdir(file)]


def _listed(folder: Path) -> _Listing:
    """Return the names in a folder by lower case (None if it cannot be listed), and those of products.

    A folder that has been as it is for a while is listed once: listing it for each of its scenes would take
    time that grows with the square of their number.
    """
    try:
        changed = os.stat(folder).st_mtime_ns
        if time.time_ns() - changed < _SETTLED_NS:  # times of changes are coarse
            return _names_in(folder)
        return _settled(folder, changed)
    except OSError:
        return None, []


@lru_cache(maxsize=8)
def _settled(folder: Path, changed: int) -> _Listing:
    """Return the names in a folder that was last changed at a time."""
    return _names_in(folder)


def _names_in(folder: Path) -> _Listing:
    names = os.listdir(folder)
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(name.lower(), []).append(name)
    return spellings, [name for name in spellings if _OF_PRODUCT.fullmatch(name)]


def _check_auxiliary(shown: str, file: Path) -> None:
    """Check an ERDAS file: GDAL opens what starts like one with any driver, so a zero must follow."""
    try:
        with open(file, "rb", opener=open_regular) as content:
            start = content.read(len(_ERDAS_START))
            rest = content.read(_MAX_ERDAS_BYTES)
    except OSError:
        return  # GDAL cannot read it either
    if start.upper().startswith(_ERDAS) and start != _ERDAS_START:
        raise UnsafeReference(f"{shown}: the file {file.name} beside it is not one of ERDAS; remove it")
    if start == _ERDAS_START:
        if len(rest) == _MAX_ERDAS_BYTES:
            raise SceneTooLarge(f"{shown}: {file.name} beside it has more than 64 MiB; move it elsewhere")
        check_crs_bytes(f"{shown}: {file.name} beside it", rest)
