"""What a pair of scenes is known by, so that a restart repeats nothing and what changed is done again.

A scene on this machine is known by its name, size, time of change and its first and last bytes, by those of
the files beside it that GDAL reads with it and, of a VRT, by those of its sources; the folder it lies in has
no influence. What it was known by is remembered, for reports outlive their scenes. A scene on a server is
known by its address alone, without user, password and signature: a new one must get a new name there, or the
archive a new folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol
from xml.etree import ElementTree

import rscc
from rscc.sequences import batches
from tiling import MAX_TEXT_BYTES, TilingError, checked_vrt, is_address, looks_like_vrt, plain_only
from workflows.addresses import unsigned
from workflows.report.record import decisive, hash_of, settings_record

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard
    from workflows.options import SceneOptions
    from workflows.pairs.rows import PairRow

# Bytes at either end of a file that say whether it is the same. TIFFs have their directories at one of them.
END_BYTES = 2**16
_CHUNK = 2**22
# How many pairs are looked at, and freshly read files kept, at once while an archive is looked through.
_AT_ONCE, _KEPT = 100, 2000
# Files that GDAL reads with image.tif: image.tif.msk.ovr and the like, perhaps several endings in a row ...
_AUXILIARY = ".aux.xml"
_AFTER_NAME = (_AUXILIARY, ".msk", ".ovr")
# ... and image.tfw and the like.
_AFTER_STEM = (
    ".aux", ".imd", ".j2w", ".jgw", ".jp2w", ".jpegw", ".jpgw", ".pgw", ".pngw", ".prj", ".rpb", ".tab",
    ".tfw", ".tiffw", ".tifw", ".wld", "_rpc.txt",
)  # fmt: skip
# Threads, and seconds that a scene takes from which they are worth while.
THREADS, SLOW = 16, 5e-4
_ZIP = "/vsizip/"
# Scenes among files that were hashed: no path of a file begins so.
_SCENE = "scene "
# What is told of a file that cannot be read now, and of what is none.
_UNREADABLE, _NO_FILE = _ODD = ("unreadable", "no file")


class Stored(NamedTuple):
    """What was hashed of one file: valid while its size and time of change stay.

    Attributes:
        size: in bytes; ``mtime_ns`` is the time of the last change in nanoseconds since 1970.
        whole: whether all bytes were hashed, not only the first and the last.
        digest: the hash.
        sources: files that a VRT is made of; None for another file.
    """

    size: int
    mtime_ns: int
    whole: bool
    digest: bytes
    sources: tuple[str, ...] | None


class Known(Protocol):
    """What was hashed before."""

    def get(self, path: str, /) -> Stored | None:
        """Return what was hashed of one file; None where nothing was."""
        ...


class SceneIdentities:
    """Hashes of scenes; a scene that was asked for once is not looked at again.

    Args:
        known: what was hashed before, by absolute path; read again is only what has another size or time.
        full: hash all bytes and leave the time of change out, instead of the time and both ends.

    Attributes:
        fresh: what was read since the last :meth:`keep`, by absolute path.
        seen: scenes that were there since then, and were not before or were others; as ``fresh`` has files.
    """

    def __init__(self, known: Known, full: bool) -> None:
        self.known = known
        self.full = full
        self.fresh: dict[str, Stored] = {}
        self.seen: dict[str, Stored] = {}
        self._digests: dict[str, str] = {}
        self._missing: set[str] = set()
        self._beside: dict[str, dict[str, list[str]]] = {}
        self._is_slow, self._stopped = False, False

    def look_at(self, locations: Iterable[str]) -> None:
        """Look at scenes that will be asked for: several at once where each takes its time.

        That is so where files are new, large, or on a network; where all is near, threads only cost.
        """
        unseen = [location for location in dict.fromkeys(locations) if location not in self._digests]
        if not unseen:
            return
        begin = perf_counter()
        if self._is_slow:
            self._look_at_once(unseen)
        else:
            for location in unseen:
                self.of(location)
        each = (perf_counter() - begin) / len(unseen)
        self._is_slow = each > SLOW / (THREADS if self._is_slow else 1)

    def of(self, location: str) -> str:
        """Return 32 hexadecimal digits for a scene, named as :func:`tiling.location.locate` takes it.

        One that is not there, or cannot be read, has an identity too: the run over it says what is wrong, and
        it is another one once the file is there.
        """
        digest = self._digests.get(location)
        if digest is None:
            facts, is_there = self._scene(location)
            digest = _hash(facts)
            if not is_there:
                self._missing.add(location)
            elif not is_address(location):
                self._remember(location, digest)
            self._digests[location] = digest
        return digest

    def are_there(self, *locations: str) -> bool:
        """Whether scenes that were asked for are all there and can be read."""
        return self._missing.isdisjoint(locations)

    def on_disk(self, location: str) -> str | None:
        """Return the identity of a scene; None where it is on a server, not there, or cannot be read."""
        digest = self.of(location)
        return None if is_address(location) or not self.are_there(location) else digest

    def last(self, location: str) -> str | None:
        """Return the identity that a scene had when it was last there; None if that is not known."""
        digest = self.of(location)
        if self.are_there(location):
            return digest
        name = _remembered_as(location)
        stored = self.seen.get(name) or self.known.get(name)
        return stored.digest.hex() if stored is not None and stored.whole == self.full else None

    def keep(self, into: Callable[[Mapping[str, Stored]], None]) -> None:
        """Hand what was freshly read over, as to :meth:`workflows.store.ledger.Ledger.keep_files`."""
        if self.fresh or self.seen:
            into({**self.fresh, **self.seen})
            self.fresh, self.seen = {}, {}

    def _remember(self, location: str, digest: str) -> None:
        name, stored = _remembered_as(location), Stored(0, 0, self.full, bytes.fromhex(digest), None)
        if self.known.get(name) != stored:
            self.seen[name] = stored

    def _look_at_once(self, locations: Sequence[str]) -> None:
        local = [_absolute(location) for location in locations if not is_address(location)]
        folders = list(dict.fromkeys(map(os.path.dirname, local)).keys() - self._beside.keys())
        pool = ThreadPoolExecutor(THREADS)
        try:
            self._beside.update(zip(folders, pool.map(_list_beside, folders), strict=True))
            list(pool.map(self.of, locations))
        except BaseException:
            self._stopped = True  # Ctrl-C: a file of many gigabytes is not read to its end
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _scene(self, location: str) -> tuple[str, bool]:
        """Return what a scene is known by, and whether all of it is there; a remote one is taken to be."""
        if is_address(location):
            return f"remote {unsigned(location)}", True
        if location.startswith(_ZIP):
            inner = location[len(_ZIP) :]
            return self._member("".join(inner[1:].rpartition("}")[::2]) if inner.startswith("{") else inner)
        path = _absolute(location)
        folder, _, name = path.rpartition(os.sep)
        facts, sources = self._look(path)
        if facts is None and ".zip" in path.lower():
            return self._member(path)
        if facts is None:
            return f"missing {path}", False
        parts, is_there = [name, facts, *self._around(folder, name)], _is_there(facts)
        for source in sources or ():
            # One that is a VRT itself will be refused by the reader, and is not followed.
            source_facts = self._look(source)[0]
            is_there &= _is_there(source_facts)
            around = self._around(*os.path.split(source))
            parts += [os.path.relpath(source, folder), str(source_facts), *around]
        return "\n".join(parts), is_there

    def _member(self, path: str) -> tuple[str, bool]:
        """Tell a scene in a zip archive as :meth:`_scene` does: GDAL looks for nothing beside it."""
        whole = Path(path)
        archive = next((part for part in (whole, *whole.parents) if part.is_file()), None)
        facts = None if archive is None else self._look(os.path.abspath(archive))[0]
        if archive is None or facts is None:
            return f"missing {path}", False
        return f"{whole.relative_to(archive.parent).as_posix()} {facts}", _is_there(facts)

    def _around(self, folder: str, name: str) -> list[str]:
        """Tell the files that GDAL reads with one, in order; a folder is listed once."""
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
        """Return what one file is known by, and what it is made of; None for the first if there is none."""
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None, None
        except OSError:
            return f"{_UNREADABLE} {path}", None
        if not stat.S_ISREG(status.st_mode):
            return f"{_NO_FILE} {path}", None
        stored = self.fresh.get(path) or self.known.get(path)
        if stored is None or stored[:3] != (status.st_size, status.st_mtime_ns, self.full):
            try:
                stored = self._read(path, status)
            except OSError:
                return f"{_UNREADABLE} {path} {status.st_size} {status.st_mtime_ns}", None
            self.fresh[path] = stored
        if path.lower().endswith(_AUXILIARY):
            return stored.digest.hex(), None
        time = "" if self.full else stored.mtime_ns
        return f"{stored.size} {time} {stored.digest.hex()}", stored.sources

    def _read(self, path: str, status: os.stat_result) -> Stored:
        # One that is larger is refused by the reader.
        if path.lower().endswith(_AUXILIARY) and status.st_size <= MAX_TEXT_BYTES:
            with open(path, "rb", opener=plain_only) as file:
                content = _without_statistics(file.read())
            digested = content and hashlib.sha256(content).digest()
            return Stored(status.st_size, status.st_mtime_ns, self.full, digested, None)
        with open(path, "rb", opener=plain_only) as file:
            head = file.read(END_BYTES)
            digest = hashlib.sha256(head)
            if self.full:
                while (block := file.read(_CHUNK)) and not self._stopped:
                    digest.update(block)
            elif status.st_size > END_BYTES:
                file.seek(max(END_BYTES, status.st_size - END_BYTES))
                digest.update(file.read(END_BYTES))
        sources = _sources(path) if looks_like_vrt(head) else None
        return Stored(status.st_size, status.st_mtime_ns, self.full, digest.digest(), sources)


def keyed(
    rows: Iterable[PairRow],
    identities: SceneIdentities,
    settings: str,
    keep: Callable[[Mapping[str, Stored]], None],
    has_report: Callable[[str, str], bool] = lambda pair, key: False,
) -> Iterator[tuple[PairRow, str]]:
    """Yield each pair with its key, and hand what was read of files to ``keep`` from time to time.

    A pair whose scenes are no longer there has the key of when they were last, if ``has_report``, asked with
    the pair's name and that key, says that it was done with it; else one with which it is to be done.
    """
    for part in batches(rows, _AT_ONCE):
        identities.look_at(scene for row in part for scene in (row.before, row.after))
        if max(len(identities.fresh), len(identities.seen)) >= _KEPT:
            identities.keep(keep)
        for row in part:
            key, last = pair_key(row, identities, settings), None
            if not identities.are_there(row.before, row.after):
                before, after = identities.last(row.before), identities.last(row.after)
                last = before and after and _key(row, before, after, settings)
            yield row, last if last and has_report(row.pair, last) else key
    identities.keep(keep)


def pair_key(row: PairRow, identities: SceneIdentities, settings: str) -> str:
    """Return the hash of all that has an influence on the report of a pair; see :func:`settings_key`."""
    return _key(row, identities.of(row.before), identities.of(row.after), settings)


def settings_key(options: SceneOptions, card: ModelCard) -> str:
    """Return the hash of what else has an influence on reports: settings, model, and the version of rscc.

    The device has none on purpose, though it moves the last bits: another machine may resume an archive.
    """
    told = {
        "settings": settings_record(options, card),
        "overlap": options.overlap_for(card),
        "dates": list(options.written("dates").values()),
        "segmenter": _segmenter_files(options.refine),
        "model": decisive(card),
        "rscc": rscc.__version__,
    }
    return hash_of(told)


def _key(row: PairRow, before: str, after: str, settings: str) -> str:
    return _hash(f"{before} {after} {row.date_before} {row.date_after} {settings}")


def _is_there(facts: str | None) -> bool:
    return facts is not None and not facts.startswith(_ODD)


def _remembered_as(location: str) -> str:
    return _SCENE + (location if location.startswith(_ZIP) else _absolute(location))


def _absolute(location: str) -> str:
    # Tables of pairs give absolute paths: most need no more than a look.
    plain = location[:1] == "/" == os.sep and "/." not in location and "//" not in location
    return location if plain else os.path.abspath(location)


def _sources(path: str) -> tuple[str, ...]:
    """Return what a VRT is made of; nothing of one that the reader will refuse."""
    try:
        return tuple(str(source) for source in checked_vrt(path, Path(path)).sources)
    except (TilingError, OSError):
        return ()


def _without_statistics(content: bytes) -> bytes:
    """Return what an auxiliary file of GDAL says but for what a viewer writes there; empty: nothing else.

    Statistics and histograms of a scene have no influence on what is read of it.
    """
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
        while owner.endswith(_AFTER_NAME):
            owner = owner.removesuffix(next(ending for ending in _AFTER_NAME if owner.endswith(ending)))
        if owner != lower:
            beside.setdefault(owner, []).append(name)
        elif lower.endswith(_AFTER_STEM):
            ending = next(ending for ending in _AFTER_STEM if lower.endswith(ending))
            beside.setdefault(f"{lower.removesuffix(ending)}|", []).append(name)
    return beside


def _segmenter_files(name: str | None) -> list[list[str | int]]:
    """Return names, sizes and times of the files of a segmenter; their bytes are many."""
    place = Path((name or "").partition(":")[2] or "-")
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    stats = [(file.name, file.stat()) for file in files if file.is_file()]
    return [[name, status.st_size, status.st_mtime_ns] for name, status in stats]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
