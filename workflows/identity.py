"""What a scene is known by, so that a restart repeats nothing and a changed scene is processed again.

A scene on this machine is known by its name, size, modification time and first and last bytes, by those of
the files beside it that GDAL reads with it and, for a VRT, by those of its sources; its folder does not
count. A scene on a server is known by its address alone, without user, password and signature.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, Protocol
from xml.etree import ElementTree

from tiling import (
    AFTER_NAME,
    AFTER_STEM,
    MAX_TEXT_BYTES,
    TilingError,
    checked_vrt,
    is_address,
    looks_like_vrt,
    open_regular,
)
from workflows.addresses import unsigned

# Bytes hashed at either end of a file. TIFFs have their directories at one of them.
END_BYTES = 2**16
_CHUNK = 2**22
_HUGE = 2**32
_AUXILIARY = ".aux.xml"
# a.aux and a.prj may belong to a.tif, too.
_AFTER_STEM = (*AFTER_STEM, ".aux", ".prj")
# Threads, and the seconds per scene above which they pay off.
THREADS, SLOW = 16, 5e-4
_ZIP = "/vsizip/"
_UNREADABLE, _NO_FILE = _ODD = ("unreadable", "no file")


class FileHash(NamedTuple):
    """The hash of one file: valid while its size and modification time stay.

    Attributes:
        size: in bytes; ``mtime_ns`` is the modification time in nanoseconds since 1970.
        sources: files that a VRT is made of; None for another file.
    """

    size: int
    mtime_ns: int
    digest: bytes
    sources: tuple[str, ...] | None


class Hashes(Protocol):
    """File hashes by absolute path, also of earlier runs."""

    def get(self, path: str, /) -> FileHash | None:
        """Return the hash of one file, or None."""

    def __setitem__(self, path: str, found: FileHash, /) -> None:
        """Store the hash of one file."""


class SceneIdentities:
    """Hashes of scenes; each scene is looked at once.

    Args:
        hashes: only a file with another size or time than here is read again.
        full: hash all bytes and ignore the modification time.
    """

    def __init__(self, hashes: Hashes, full: bool) -> None:
        self.hashes = hashes
        self.full = full
        self._found: dict[str, tuple[str, bool]] = {}
        self._beside: dict[str, dict[str, list[str]]] = {}
        self._is_slow, self._stopped = False, False

    def look_at(self, locations: Iterable[str]) -> None:
        """Hash scenes ahead of use, in threads where a scene takes long: large, new, or on a network."""
        unseen = [location for location in dict.fromkeys(locations) if location not in self._found]
        if not unseen:
            return
        begin = perf_counter()
        if self._is_slow:
            self._look_in_threads(unseen)
        else:
            for location in unseen:
                self.of(location)
        each = (perf_counter() - begin) / len(unseen)
        self._is_slow = each > SLOW / (THREADS if self._is_slow else 1)

    def of(self, location: str) -> str:
        """Return 32 hexadecimal digits for a scene, named as :func:`tiling.location.locate` takes it.

        A missing or unreadable scene has an identity too, which changes once the file is there.
        """
        if location not in self._found:
            facts, is_there = self._scene(location)
            self._found[location] = short_hash(facts), is_there
        return self._found[location][0]

    def are_there(self, *locations: str) -> bool:
        """Return whether scenes that :meth:`of` has hashed all exist and can be read."""
        return all(self._found[location][1] for location in locations)

    def on_disk(self, location: str) -> str | None:
        """Return the identity of a scene; None where it is on a server, missing or unreadable."""
        digest = self.of(location)
        return None if is_address(location) or not self.are_there(location) else digest

    def stop(self) -> None:
        """End what other threads hash, such as a file of many gigabytes; their results are of no use."""
        self._stopped = True

    def _look_in_threads(self, locations: Sequence[str]) -> None:
        local = [os.path.abspath(location) for location in locations if not is_address(location)]
        folders = list(dict.fromkeys(map(os.path.dirname, local)).keys() - self._beside.keys())
        pool = ThreadPoolExecutor(THREADS)
        try:
            self._beside.update(zip(folders, pool.map(_list_beside, folders), strict=True))
            list(pool.map(self.of, locations))
        finally:
            pool.shutdown(cancel_futures=True)

    def _scene(self, location: str) -> tuple[str, bool]:
        """Return what a scene is known by, and whether all of it exists; a remote scene does."""
        if is_address(location):
            return f"remote {unsigned(location)}", True
        if location.startswith(_ZIP):
            inner = location[len(_ZIP) :]
            return self._member("".join(inner[1:].rpartition("}")[::2]) if inner.startswith("{") else inner)
        path = os.path.abspath(location)
        folder, _, name = path.rpartition(os.sep)
        facts, sources = self._look(path)
        if facts is None and ".zip" in path.lower():
            return self._member(path)
        if facts is None:
            return f"missing {path}", False
        parts, is_there = [name, facts, *self._around(folder, name)], _is_there(facts)
        for source in sources or ():
            # A source that is itself a VRT is refused by the reader, so it is not followed.
            source_facts = self._look(source)[0]
            is_there &= _is_there(source_facts)
            around = self._around(*os.path.split(source))
            parts += [os.path.relpath(source, folder), str(source_facts), *around]
        return "\n".join(parts), is_there

    def _member(self, path: str) -> tuple[str, bool]:
        """Do what :meth:`_scene` does for a scene in a zip archive; GDAL looks for nothing beside it."""
        whole = Path(path)
        archive = next((part for part in (whole, *whole.parents) if part.is_file()), None)
        facts = None if archive is None else self._look(os.path.abspath(archive))[0]
        if archive is None or facts is None:
            return f"missing {path}", False
        return f"{whole.relative_to(archive.parent).as_posix()} {facts}", _is_there(facts)

    def _around(self, folder: str, name: str) -> list[str]:
        """Describe the files that GDAL reads with one, in order; each folder is listed once."""
        listed = self._beside.get(folder)
        if listed is None:
            listed = self._beside[folder] = _list_beside(folder)
        if not listed:
            return []
        lower = name.lower()
        stem = f"{os.path.splitext(lower)[0]}|"
        beside = sorted({*listed.get(lower, ()), *listed.get(stem, ())})
        looked = ((other, self._look(os.path.join(folder, other))[0]) for other in beside)
        return [f"{other} {facts}" for other, facts in looked if facts]

    def _look(self, path: str) -> tuple[str | None, tuple[str, ...] | None]:
        """Return what one file is known by, and its sources; the first is None if the file is missing."""
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None, None
        except OSError:
            return f"{_UNREADABLE} {path}", None
        if not stat.S_ISREG(status.st_mode):
            return f"{_NO_FILE} {path}", None
        if self.full and _is_hollow(status):
            return f"{_UNREADABLE} {path}", None
        stored = self.hashes.get(path)
        if stored is None or stored[:2] != (status.st_size, status.st_mtime_ns):
            try:
                stored = self._read(path, status)
            except OSError:
                return f"{_UNREADABLE} {path} {status.st_size} {status.st_mtime_ns}", None
            self.hashes[path] = stored
        if path.lower().endswith(_AUXILIARY):
            return stored.digest.hex(), None
        time = "" if self.full else stored.mtime_ns
        return f"{stored.size} {time} {stored.digest.hex()}", stored.sources

    def _read(self, path: str, status: os.stat_result) -> FileHash:
        # The reader refuses a larger auxiliary file.
        if path.lower().endswith(_AUXILIARY) and status.st_size <= MAX_TEXT_BYTES:
            with open(path, "rb", opener=open_regular) as file:
                content = _without_statistics(file.read())
            digested = content and hashlib.sha256(content).digest()
            return FileHash(status.st_size, status.st_mtime_ns, digested, None)
        with open(path, "rb", opener=open_regular) as file:
            head = file.read(END_BYTES)
            digest = hashlib.sha256(head)
            if self.full:
                while (block := file.read(_CHUNK)) and not self._stopped:
                    digest.update(block)
            elif status.st_size > END_BYTES:
                file.seek(max(END_BYTES, status.st_size - END_BYTES))
                digest.update(file.read(END_BYTES))
        sources = _sources(path) if looks_like_vrt(head) else None
        return FileHash(status.st_size, status.st_mtime_ns, digest.digest(), sources)


def _is_hollow(status: os.stat_result) -> bool:
    """Return whether a huge file has hardly any bytes on the disk: all its zeros would be hashed."""
    return status.st_size > _HUGE and getattr(status, "st_blocks", status.st_size) * 512 < status.st_size / 64


def short_hash(text: str) -> str:
    """Return 32 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _is_there(facts: str | None) -> bool:
    return facts is not None and not facts.startswith(_ODD)


def _sources(path: str) -> tuple[str, ...]:
    """Return what a VRT is made of; nothing for one that the reader will refuse."""
    try:
        return tuple(str(source) for source in checked_vrt(path, Path(path)).sources)
    except (TilingError, OSError):
        return ()


def _without_statistics(content: bytes) -> bytes:
    """Return an auxiliary file of GDAL without what viewers write into it; empty if nothing else is in it."""
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError):
        return content
    for band in root.iter("PAMRasterBand"):
        for histograms in band.findall("Histograms"):
            band.remove(histograms)
        for metadata in band.findall("Metadata"):
            for item in metadata.findall("MDI"):
                if item.get("key", "").startswith("STATISTICS_"):
                    metadata.remove(item)
            if not len(metadata):
                band.remove(metadata)
    for element in root.iter():
        element.text, element.tail = (element.text or "").strip(), None
    empty = all(element.tag in ("PAMDataset", "PAMRasterBand") for element in root.iter())
    try:
        return b"" if empty else ElementTree.tostring(root)
    except RecursionError:  # nested without end
        return content


def _list_beside(folder: str) -> dict[str, list[str]]:
    """Return the files of a folder that belong to others, by the other's name or by its stem and a bar."""
    beside: dict[str, list[str]] = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return beside
    for name in names:
        owner = lower = name.lower()
        while owner.endswith(AFTER_NAME):
            owner = owner.removesuffix(next(ending for ending in AFTER_NAME if owner.endswith(ending)))
        if owner != lower:
            beside.setdefault(owner, []).append(name)
        # a_metadata.txt may belong to a.tif or a_metadata.tif, and a.aux to a.tif or a file named a.
        if lower.endswith(_AFTER_STEM):
            for ending in filter(lower.endswith, _AFTER_STEM):
                beside.setdefault(f"{lower.removesuffix(ending)}|", []).append(name)
    return beside
