"""Files beside a raster that GDAL opens with it, found as GDAL finds them: whatever their case."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tiling.errors import SceneTooLarge, UnsafeReference
from tiling.plain import plain_only

MASK, OVERVIEWS = ".msk", ".ovr"
_AUXILIARY = ".aux"
MAX_TEXT_BYTES = 4 * 2**20
"""Of a text beside a scene: what GDAL makes of it takes time that grows with the square of its size."""
# Texts that GDAL reads with image.tif: image.tif.aux.xml, image.tfw and the like, image_metadata.txt ...
_AFTER_STEM = (
    ".imd", ".pass", ".pvl", ".rpb", ".rpc", ".til", ".txt", ".xml", "_metadata.txt", "_metadata.xml",
    "_mtl.txt", "_rpc.txt", ".tab", ".wld", ".tfw", ".tifw", ".tiffw", ".jgw", ".jpgw", ".jpw", ".jpegw",
    ".pgw", ".pngw", ".j2w", ".jp2w", ".j2kw",
)  # fmt: skip
# ... and what providers name after the product, of whatever scene.
_OF_PRODUCT = re.compile(r"(hdr|rpc|dim_).*\.(txt|xml)|.*_mtl\.txt|metadata\.dim|summary\.txt")
# What GDAL takes for an auxiliary file of ERDAS, in any case, and what a true one starts with.
_ERDAS, _ERDAS_START = b"EHFA_HEADER_TAG", b"EHFA_HEADER_TAG\0"


class Sidecars:
    """Finds what lies beside rasters; lists each folder once."""

    def __init__(self) -> None:
        self._listed = cache(_listed)

    def rasters(self, shown: str, path: Path) -> list[Path]:
        """Return the masks and overviews beside a raster.

        Raises:
            UnsafeReference: one of them, or an auxiliary file, is not what its name says, or any file that
                GDAL would read is no plain one.
            SceneTooLarge: a text that GDAL would read has more than 4 MiB.
        """
        found = self._called(path, (path.name + ending for ending in (MASK, OVERVIEWS)))
        auxiliary = self._called(path, (name + _AUXILIARY for name in (path.name, path.stem)))
        texts = self._texts(path)
        for file in (*found, *auxiliary, *texts):
            if not os.path.isfile(file):
                raise UnsafeReference(f"{shown}: {file.name} beside it is no plain file; remove it")
        for file in auxiliary:
            _check_auxiliary(shown, file)
        for file in texts:
            size = file.stat().st_size
            if size > MAX_TEXT_BYTES:
                raise SceneTooLarge(
                    f"{shown}: {file.name} beside it has {size / 2**20:.0f} MiB, more than the "
                    f"{MAX_TEXT_BYTES // 2**20} that are read of such a file; move it elsewhere"
                )
        return found

    def _texts(self, path: Path) -> list[Path]:
        """Return the files beside a raster that GDAL may take for texts about it."""
        own = [f"{path.name}.aux.xml", *(path.stem + ending for ending in _AFTER_STEM)]
        _, of_product = self._listed(path.parent)
        return [file for file in self._called(path, {*own, *of_product}) if file != path]

    def _called(self, path: Path, names: Iterable[str]) -> list[Path]:
        spellings, _ = self._listed(path.parent)
        if spellings is None:  # GDAL tries these two if it cannot list the folder
            tried = {spelt for name in names for spelt in (name, name[:-4] + name[-4:].upper())}
        else:
            tried = {spelt for name in names for spelt in spellings.get(name.lower(), ())}
        files = (path.with_name(name) for name in sorted(tried))
        return [file for file in files if os.path.exists(file) and not os.path.isdir(file)]


def _listed(folder: Path) -> tuple[dict[str, list[str]] | None, list[str]]:
    """Return the names in a folder by how they are in lower case, and those of these that are of a product.

    None and none if it cannot be listed.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return None, []
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(name.lower(), []).append(name)
    return spellings, [name for name in spellings if _OF_PRODUCT.fullmatch(name)]


def _check_auxiliary(shown: str, file: Path) -> None:
    """GDAL opens what starts like a file of ERDAS with any driver; text may follow only after a zero."""
    try:
        with open(file, "rb", opener=plain_only) as content:
            start = content.read(len(_ERDAS_START))
    except OSError:
        return  # GDAL cannot read it either
    if start.upper().startswith(_ERDAS) and start != _ERDAS_START:
        raise UnsafeReference(f"{shown}: the file {file.name} beside it is not one of ERDAS; remove it")
