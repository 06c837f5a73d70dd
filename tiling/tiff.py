"""The text that a TIFF says of itself: GDAL reads all of it when it opens the file, however long it is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tiling.errors import SceneTooLarge
from tiling.plain import plain_only
from tiling.sidecars import MAX_TEXT_BYTES

# The tag that GDAL keeps metadata under, as XML.
_METADATA = 42112
# Directories that are looked at: the picture, its mask, its overviews and theirs.
_MOST_DIRECTORIES, _MOST_ENTRIES = 100, 65_535


def check_texts(shown: str, path: Path) -> None:
    """Refuse a TIFF on this machine with more metadata than is read of a text beside a scene.

    Raises:
        SceneTooLarge: as said.
    """
    # Of what is damaged GDAL says so; what was seen until then counts.
    with suppress(OSError, OverflowError, struct.error), open(path, "rb", opener=plain_only) as file:
        for tag, count in _entries(file):
            if tag == _METADATA and count > MAX_TEXT_BYTES:
                raise SceneTooLarge(
                    f"{shown}: its metadata take {count / 2**20:,.0f} MiB, more than the "
                    f"{MAX_TEXT_BYTES // 2**20} that are read; remove them with gdal_edit -unsetmd"
                )


def _entries(file: BinaryIO) -> Iterator[tuple[int, int]]:
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
