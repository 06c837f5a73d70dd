"""Limits on what a raster may be, checked before a pixel of it is decoded."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader

from tiling.errors import SceneDamaged, SceneTooLarge, UnsafeReference
from tiling.plain import plain_only
from tiling.sidecars import MAX_TEXT_BYTES

MAX_PIXELS = 10**11
MAX_BANDS = 256
MAX_BLOCK_BYTES = 2**29
# The work is to be bounded by what somebody sent, not by what he wrote into a header: a scene of more pixels
# than the first may not decode to more than so many times its bytes. Who has a real scene does not meet this:
# the best that deflate can do is a thousandfold, and a sparse GeoTIFF in tiles of 512 pixels that has data in
# a thousandth of its area comes to about 4,000.
FREE_PIXELS, MAX_RATIO = 10**8, 10_000
# The tag under which GDAL keeps metadata in a TIFF, as XML; it reads all of it at once.
_METADATA = 42112
# Directories that are looked at: the picture, its mask, its overviews and theirs.
_MOST_DIRECTORIES, _MOST_ENTRIES = 100, 65_535


def check_header(shown: str, file: DatasetReader) -> None:
    """Refuse an open raster that is too large, has a mask that cannot be used, or names a file of overviews.

    Raises:
        SceneTooLarge, SceneDamaged, UnsafeReference: as said.
    """
    if file.width * file.height > MAX_PIXELS:
        raise SceneTooLarge(
            f"{shown}: {file.width} x {file.height} pixels are more than {MAX_PIXELS:.0e}; cut it"
        )
    if file.count > MAX_BANDS:
        raise SceneTooLarge(
            f"{shown}: {file.count} bands are more than {MAX_BANDS}; keep three with gdal_translate -b"
        )
    try:
        interleaving = file.interleaving
    except ValueError as error:
        raise SceneDamaged(
            f"{shown}: it says that its bands lie in a way that is none ({error}); rewrite it with "
            "gdal_translate"
        ) from error
    together = file.count if interleaving is not None and interleaving.name == "pixel" else 1
    for (rows, cols), dtype in zip(file.block_shapes, file.dtypes, strict=True):
        size = rows * cols * _pixel_bytes(dtype) * together
        if size > MAX_BLOCK_BYTES:
            raise SceneTooLarge(
                f"{shown}: its blocks of {cols} x {rows} pixels take {size / 2**20:.0f} MiB, more than "
                f"{MAX_BLOCK_BYTES // 2**20}; tile it with gdal_translate -of COG"
            )
    try:
        # What goes wrong in the first is raised by what is asked next.
        _ = file.mask_flag_enums, file.colorinterp
    except (CPLE_BaseError, RasterioError) as error:
        raise SceneDamaged(
            f"{shown}: its mask is damaged; remove it, or get a sound copy of the file"
        ) from error
    # GDAL does not mind upper and lower case.
    if any(key.upper() == "OVERVIEW_FILE" for key in file.tags(ns="OVERVIEWS")):
        raise UnsafeReference(f"{shown}: it names a file of overviews; remove that entry with gdal_edit.py")


def check_substance(shown: str, file: DatasetReader, parts: Iterable[Path]) -> None:
    """Refuse a large raster of which hardly anything is in the files that it is read from.

    Raises:
        SceneTooLarge: as said.
    """
    if file.width * file.height <= FREE_PIXELS:
        return
    present = sum(part.stat().st_size for part in parts)
    decoded = file.width * file.height * sum(map(_pixel_bytes, file.dtypes))
    if decoded > MAX_RATIO * present:
        raise SceneTooLarge(
            f"{shown}: {file.width} x {file.height} pixels out of {present:,} bytes: nearly all of it is "
            "empty; cut it to where it shows something with gdal_translate -projwin"
        )


def check_texts(shown: str, path: Path) -> None:
    """Refuse a TIFF on this machine with more metadata than is read of a text beside a scene.

    Raises:
        SceneTooLarge: as said.
    """
    # Of what is damaged GDAL says so; what was seen until then counts.
    with suppress(OSError, OverflowError, struct.error), open(path, "rb", opener=plain_only) as file:
        for tag, count in _tiff_entries(file):
            if tag == _METADATA and count > MAX_TEXT_BYTES:
                raise SceneTooLarge(
                    f"{shown}: its metadata take {count / 2**20:,.0f} MiB, more than the "
                    f"{MAX_TEXT_BYTES // 2**20} that are read; remove them with gdal_edit.py -unsetmd"
                )


def _tiff_entries(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield the tag of each entry of each directory, and how many values it has; as far as they go."""
    head = file.read(16)
    order = "<" if head.startswith(b"II") else ">"
    (version,) = struct.unpack_from(f"{order}H", head, 2)
    # Of offsets and counts, of the number of entries, and an entry: tag, type, count, value.
    number, entries, entry = ("Q", "Q", "HHQ8x") if version == 43 else ("I", "H", "HHI4x")
    (offset,) = struct.unpack_from(order + number, head, 8 if version == 43 else 4)
    for _ in range(_MOST_DIRECTORIES):
        if offset == 0:
            return
        file.seek(offset)
        (there,) = struct.unpack(order + entries, file.read(struct.calcsize(order + entries)))
        size = struct.calcsize(order + entry)
        table = file.read(min(there, _MOST_ENTRIES) * size)
        for tag, _, count in struct.iter_unpack(order + entry, table[: len(table) // size * size]):
            yield tag, count
        (offset,) = struct.unpack(order + number, file.read(struct.calcsize(order + number)))


def _pixel_bytes(dtype: str) -> int:
    return 4 if dtype == "complex_int16" else np.dtype(dtype).itemsize
