"""Check zip archives of strangers before one raster in them is read; nothing is unpacked to disk."""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from tiling.errors import (
    ArchiveUnclear,
    NotARaster,
    SceneNotFound,
    SceneTooLarge,
    SceneUnreadable,
    UnsafeReference,
)
from tiling.regular_files import open_regular

# Only these are georeferenced without a sidecar; the others come second.
_PLACED = (".tif", ".tiff", ".gtiff", ".jp2", ".j2k")
_PICTURES = (".png", ".jpg", ".jpeg")
MAX_MEMBERS = 10_000
# Reaching a block of a packed member means to unpack everything before it.
MAX_UNPACKED_BYTES = 4 * 2**30
# A member that is larger than the first and compressed more than the second is a bomb.
SUSPICIOUS_BYTES, MAX_RATIO = 64 * 2**20, 200
# Methods that GDAL supports.
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_LISTED = 10
# The list of members is read into memory; 10,000 names need less.
MAX_LIST_BYTES = 16 * 2**20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def raster_in(shown: str, archive: Path, inner: str | None) -> str:
    """Return the name of the raster to read from ``archive``: ``inner``, or the only one.

    PNG and JPEG count only if there is nothing else: they are often previews.

    Raises:
        ArchiveUnclear: it holds no raster or several; the message lists them.
        NotARaster: the archive cannot be read.
        SceneNotFound: it has no member ``inner``.
        UnsafeReference: a member has an unsafe name, or the one to read is there twice.
        SceneTooLarge: more than 10,000 members, or a member that unpacks to too much.
    """
    with open_zip(shown, archive) as file:
        members = [member for member in file.infolist() if not member.is_dir()]
    if len(members) > MAX_MEMBERS:
        raise SceneTooLarge(
            f"{shown}: {len(members)} members are more than {MAX_MEMBERS}; unpack the archive"
        )
    for member in members:
        _check_name(shown, member.filename)
    if inner is None:
        rasters = _rasters(members)
        if len(rasters) != 1:
            number = f"{len(rasters)} rasters" if rasters else "no raster"
            raise ArchiveUnclear(f"{shown}: the archive holds {number}; {_offer(rasters)}")
        inner = rasters[0]
    _check_name(shown, inner)
    matches = [member for member in members if member.filename == inner]
    if not matches:
        raise SceneNotFound(f"{shown}: the archive has no such member; {_offer(_rasters(members))}")
    if len(matches) > 1:
        raise UnsafeReference(f"{shown}: the archive has this member {len(matches)} times; pack it again")
    _check_member(shown, matches[0])
    return inner


@contextmanager
def open_member(shown: str, archive: Path, member: str) -> Iterator[IO[bytes]]:
    """Open a member for reading."""
    with open_zip(shown, archive) as file, file.open(member) as content:
        yield content


@contextmanager
def open_zip(shown: str, archive: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive whose list of members takes at most 16 MiB.

    Raises:
        SceneTooLarge, SceneUnreadable, NotARaster: it is longer, or the archive cannot be read.
    """
    try:
        with (
            _ShortReads(io.FileIO(archive, opener=open_regular)) as content,
            zipfile.ZipFile(content) as file,
        ):
            yield file
    except _ListTooLong as error:
        raise SceneTooLarge(f"{shown}: the archive has too many members; unpack what you need") from error
    except OSError as error:
        raise SceneUnreadable(
            f"{shown}: it cannot be opened ({error.strerror}); check its permissions"
        ) from error
    except _DAMAGE as error:
        raise NotARaster(f"{shown}: this zip archive is damaged; get an undamaged copy") from error


class _ListTooLong(Exception):
    """The list of members is too long."""


class _ShortReads(io.BufferedReader):
    """A file that allows no large reads: only Python's read of the list of members is one."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_LIST_BYTES:
            raise _ListTooLong
        return super().read(size)


def _check_name(shown: str, name: str) -> None:
    outside = name.startswith("/") or ".." in PurePosixPath(name).parts or re.match(r"[A-Za-z]:", name)
    if outside or "\\" in name or not name.isprintable():
        raise UnsafeReference(
            f"{shown}: the archive has a member with the unsafe name {name!r}; unpack what you need"
        )


def _check_member(shown: str, member: zipfile.ZipInfo) -> None:
    packed = member.compress_type != zipfile.ZIP_STORED
    ratio = member.file_size / max(1, member.compress_size)
    if member.flag_bits & 1:
        raise NotARaster(f"{shown}: it is encrypted; unpack it with its password")
    if member.compress_type not in _METHODS:
        raise NotARaster(f"{shown}: its compression is not supported; unpack it")
    bomb = member.file_size > SUSPICIOUS_BYTES and ratio > MAX_RATIO
    if packed and (bomb or member.file_size > MAX_UNPACKED_BYTES):
        raise SceneTooLarge(
            f"{shown}: {member.compress_size} bytes unpack to {member.file_size}; unpack it if you trust it"
        )


def _rasters(members: list[zipfile.ZipInfo]) -> list[str]:
    """Return the names of members that look like rasters, each once, without those that macOS adds."""
    names = sorted(
        name
        for name in {member.filename for member in members}
        if not any(part == "__MACOSX" or part.startswith("._") for part in PurePosixPath(name).parts)
    )
    for endings in (_PLACED, _PICTURES):
        matches = [name for name in names if name.lower().endswith(endings)]
        if matches:
            return matches
    return []


def _offer(rasters: list[str]) -> str:
    if not rasters:
        return "unpack it, or give an archive with a GeoTIFF or JPEG 2000 in it"
    more = f" and {len(rasters) - _LISTED} more" if len(rasters) > _LISTED else ""
    return f"name one as ARCHIVE.zip/NAME: {', '.join(rasters[:_LISTED])}{more}"
