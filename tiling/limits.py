"""Limits on rasters, checked before a pixel is decoded."""

import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader

from tiling.crs_texts import check_crs_bytes
from tiling.errors import SceneDamaged, SceneTooLarge, UnsafeReference
from tiling.sidecars import MAX_TEXT_BYTES

MAX_PIXELS = 10**11
MAX_BANDS = 256
MAX_BLOCK_BYTES = 2**29
# A scene of more pixels than the first may not decode to more than so many times its bytes: the file bounds
# the work, not its header. Deflate reaches 1,000; a sparse GeoTIFF with data in a thousandth of it 4,000.
FREE_PIXELS, MAX_RATIO = 10**8, 10_000
# Tags of a TIFF: metadata of GDAL as XML, which it reads all at once, and the texts of the CRS.
_METADATA = 42112
_GEO_TEXTS = 34737
_MAX_BOX_BYTES = 16 * 2**20
# Boxes of a JPEG 2000 that hold boxes.
_WITH_BOXES, _DEEPEST_BOX = (b"asoc", b"jp2h", b"res ", b"uinf", b"jpch", b"jplh"), 16
# Directories (image, mask, overviews) and entries that are read.
_MOST_DIRECTORIES, _MOST_ENTRIES = 100, 65_535


def check_header(shown: str, file: DatasetReader) -> None:
    """Refuse an open raster that is too large, has an unusable mask, or names a file of overviews."""
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
            f"{shown}: its interleaving is invalid ({error}); rewrite it with gdal_translate"
        ) from error
    together = file.count if interleaving is not None and interleaving.name == "pixel" else 1
    for (rows, cols), dtype in zip(file.block_shapes, file.dtypes, strict=True):
        size = rows * cols * _pixel_bytes(dtype) * together
        if size > MAX_BLOCK_BYTES:
            raise SceneTooLarge(
                f"{shown}: blocks of {cols} x {rows} pixels take {size / 2**20:.0f} MiB, more than "
                f"{MAX_BLOCK_BYTES // 2**20}; tile it with gdal_translate -of COG"
            )
    try:
        # An error in the first is raised by the second.
        _ = file.mask_flag_enums, file.colorinterp
    except (CPLE_BaseError, RasterioError) as error:
        raise SceneDamaged(f"{shown}: its mask is damaged; remove it, or get an undamaged copy") from error
    # GDAL ignores case.
    if any(key.upper() == "OVERVIEW_FILE" for key in file.tags(ns="OVERVIEWS")):
        raise UnsafeReference(f"{shown}: it names a file of overviews; remove the entry with gdal_edit.py")


def check_substance(shown: str, file: DatasetReader, parts: Iterable[Path]) -> None:
    """Refuse a large raster whose files (``parts``) hold hardly any of its pixels."""
    if file.width * file.height <= FREE_PIXELS:
        return
    present = sum(part.stat().st_size for part in parts)
    decoded = file.width * file.height * sum(map(_pixel_bytes, file.dtypes))
    if decoded > MAX_RATIO * present:
        raise SceneTooLarge(
            f"{shown}: {file.width} x {file.height} pixels in {present:,} bytes are nearly all empty; cut it "
            "with gdal_translate -projwin"
        )


def check_texts(shown: str, driver: str, file: IO[bytes]) -> None:
    """Refuse a TIFF or JPEG 2000 with too much metadata, or with a CRS text that names a file.

    Args:
        driver: GDAL's name of the format; others hold no such text.
        file: the content, from the start.
    """
    # GDAL reports damage; what was read until then counts.
    with suppress(OSError, ValueError, OverflowError, EOFError, struct.error, zlib.error, zipfile.BadZipFile):
        if driver == "GTiff":
            _check_tiff(shown, file)
        elif driver == "JP2OpenJPEG":
            _check_jpeg2000(shown, file)


def _check_tiff(shown: str, file: IO[bytes]) -> None:
    for tag, count, offset in _tiff_entries(file):
        if tag in (_METADATA, _GEO_TEXTS) and count > MAX_TEXT_BYTES:
            raise SceneTooLarge(
                f"{shown}: its metadata take {count / 2**20:,.0f} MiB, more than the "
                f"{MAX_TEXT_BYTES // 2**20} that are read; remove them with gdal_edit.py -unsetmd"
            )
        if tag == _GEO_TEXTS:
            after = file.tell()
            file.seek(offset)
            check_crs_bytes(shown, file.read(count))
            file.seek(after)


def _check_jpeg2000(shown: str, file: IO[bytes]) -> None:
    """Check the boxes before and after the pixels: they hold GML or a GeoTIFF without pixels."""
    position = 0
    for _ in range(_MOST_DIRECTORIES):
        file.seek(position)
        size, kind = struct.unpack(">I4s", file.read(8))
        if position == 0 and kind != b"jP  ":
            return  # pixels alone
        if size == 1:
            (size,) = struct.unpack(">Q", file.read(8))
        if kind != b"jp2c":
            left = size - (file.tell() - position) if size else _MAX_BOX_BYTES
            content = file.read(min(max(left, 0), _MAX_BOX_BYTES))
            if len(content) == _MAX_BOX_BYTES:
                raise SceneTooLarge(f"{shown}: it has a box of more than 16 MiB of text; remove it")
            check_crs_bytes(shown, content)
            if kind in _WITH_BOXES:
                _check_boxes(shown, content)
        if size < 8:
            return
        position += size
    raise SceneTooLarge(f"{shown}: it has more than {_MOST_DIRECTORIES} boxes; remove some")


def _check_boxes(shown: str, content: bytes, depth: int = 0) -> None:
    """Refuse boxes within a box that end before they begin or beyond it: GDAL would read one for ever."""
    position = 0
    while position < len(content):
        size = int.from_bytes(content[position : position + 4], "big")
        if not 8 <= size <= len(content) - position or depth > _DEEPEST_BOX:
            raise SceneDamaged(f"{shown}: a box within it has a wrong length; get an undamaged copy")
        if content[position + 4 : position + 8] in _WITH_BOXES:
            _check_boxes(shown, content[position + 8 : position + size], depth + 1)
        position += size


def _tiff_entries(file: IO[bytes]) -> Iterator[tuple[int, int, int]]:
    """Yield tag, number of values and offset of each entry of each directory, as far as they can be read."""
    head = file.read(16)
    order = "<" if head.startswith(b"II") else ">"
    (version,) = struct.unpack_from(f"{order}H", head, 2)
    # Of offsets and counts, of the number of entries, and an entry: tag, type, count, value.
    number, entries, entry = ("Q", "Q", "HHQQ") if version == 43 else ("I", "H", "HHII")
    (offset,) = struct.unpack_from(order + number, head, 8 if version == 43 else 4)
    for _ in range(_MOST_DIRECTORIES):
        if offset == 0:
            return
        file.seek(offset)
        (there,) = struct.unpack(order + entries, file.read(struct.calcsize(order + entries)))
        size = struct.calcsize(order + entry)
        table = file.read(min(there, _MOST_ENTRIES) * size)
        for tag, _, count, value in struct.iter_unpack(order + entry, table[: len(table) // size * size]):
            yield tag, count, value
        (offset,) = struct.unpack(order + number, file.read(struct.calcsize(order + number)))


def _pixel_bytes(dtype: str) -> int:
    return 4 if dtype == "complex_int16" else np.dtype(dtype).itemsize
