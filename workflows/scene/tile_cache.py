"""Finished rows of one large scene on disk, so that a killed run resumes.

A folder of its own, named by everything that has an influence on the rows, holds one compressed file for the
rows that each row of tiles finishes. A file appears complete or not at all, and holds only what outlines are
traced from: the probability of the changed pixels. Two whole runs do not share a folder; the lock is the
system's, so it ends with the process that holds it. Parts of one scene may fill a folder at the same time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from filelock import FileLock, Timeout

from rscc.files import atomic_write, parsed_json
from tiling import Band, Window, plain_only
from workflows.errors import TileCacheBusy, TileCacheUnusable

LOCK = "lock"
NUMBERS = "numbers.json"
# Held for a moment only: seconds after which who holds it must hang.
SETUP_LOCK, PATIENCE = "setup", 60
# To be raised when what the files hold changes.
FORMAT = 3
# What the fact heads answer in a tile, (answers, h, w), by its window.
Maps = dict[Window, np.ndarray]


class TileCache:
    """The finished bands of one scene; take it in a ``with`` block, which holds the lock of a whole run.

    Args:
        folder: where the folders of all runs lie; made if it is not there.
        identity: plain values that name the run: inputs, settings, model, versions.
        threshold: probability from which a pixel is changed.
        shared: take no lock: others fill the folder too, with other rows or with the same.

    Attributes:
        path: the folder of this run.
        resumed_tiles: how many tiles did not have to be computed again.
    """

    def __init__(
        self, folder: str | Path, identity: Mapping[str, Any], threshold: float, *, shared: bool = False
    ) -> None:
        text = json.dumps([FORMAT, threshold, identity], sort_keys=True)
        self.folder = Path(folder)
        self.path = self.folder / hashlib.sha256(text.encode()).hexdigest()[:32]
        self.threshold = threshold
        self.shared = shared
        self.resumed_tiles = 0
        self._kept: set[Window] = set()
        self._lock = FileLock(self.path / LOCK, timeout=0)

    def batch_size(self, planned: int) -> int:
        """Return how many tiles the first run of this folder gave the model at once, by default ``planned``.

        It has an influence on the last bits of what a network computes, so it stays.

        Raises:
            TileCacheUnusable: the system refused, or the file that says it is damaged.
        """
        target = self.path / "batch_size.json"
        try:
            with FileLock(self.path / SETUP_LOCK, timeout=PATIENCE):
                if not target.exists():
                    with self._complete(target) as file:
                        file.write(json.dumps(planned).encode())
                with open(target, encoding="utf-8", opener=plain_only) as written:
                    return int(parsed_json(written.read()))
        except Timeout:
            raise TileCacheBusy(
                f"{self.folder}: another run that works on the same scenes with this tile cache hangs; end "
                "it, or give another folder"
            ) from None
        except (OSError, ValueError, TypeError) as error:
            raise self._unusable(error) from error

    def has(self, row_off: int) -> bool:
        """Return whether the rows that begin at ``row_off`` are finished and their file can be read."""
        try:
            with open(self._file(row_off), "rb", opener=plain_only) as file, zipfile.ZipFile(file) as stored:
                # Nothing but the names in the file is without a checksum of its own.
                numbers = _numbers(stored)
                members = {*map(_member, numbers["rows"]), *map(_facts, numbers["maps"])}
                return {*stored.namelist()} == {*members, NUMBERS} and stored.testzip() is None
        except (OSError, EOFError, LookupError, TypeError, ValueError, RuntimeError, BadZipFile, zlib.error):
            return False  # whatever a damaged file makes of the reader

    @contextmanager
    def finished(self, row_off: int) -> Iterator[tuple[Iterator[Band], dict[str, int], Maps]]:
        """Give the finished rows that begin at ``row_off``: bands, counts and fact maps, see :meth:`keep`.

        Probabilities below the threshold are 0 and not valid.
        """
        with zipfile.ZipFile(self._file(row_off)) as stored:
            numbers = _numbers(stored)
            maps = {Window(*window): _array(stored, _facts(window)) for window in numbers["maps"]}
            self._kept.update(maps)
            yield _bands(stored, numbers), numbers["counts"], maps

    def keep(self, bands: Iterable[Band], counts: Mapping[str, int], maps: Maps) -> Iterator[Band]:
        """Yield ``bands``, which a row of tiles finishes, and keep them.

        With them the ``counts`` of its tiles are kept, and of the ``maps`` of facts, by the window of their
        tile, those that are not kept yet. They are kept when the last band was taken; one band is in memory
        at a time.

        Raises:
            TileCacheUnusable: the system refused.
        """
        bands = iter(bands)
        first = next(bands, None)
        if first is None:
            return
        target = self._file(first.row_off)
        with self._complete(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as stored:
            rows = []
            for band in chain([first], bands):
                yield band
                changed = band.valid & (band.probability >= self.threshold)
                with stored.open(_member(band.row_off), "w") as member:
                    kept = np.where(changed, band.probability, np.float32(0))
                    np.lib.format.write_array(member, kept, allow_pickle=False)
                rows.append(band.row_off)
            new = {astuple(window): window for window in maps.keys() - self._kept}
            for name, window in new.items():
                with stored.open(_facts(name), "w") as member:
                    np.lib.format.write_array(member, maps[window], allow_pickle=False)
            numbers = {"col_off": first.col_off, "rows": rows, "counts": dict(counts), "maps": [*new]}
            stored.writestr(NUMBERS, json.dumps(numbers))
        self._kept.update(new.values())

    def remove(self) -> None:
        """Take the finished bands away, after the report was written; not if another run has them."""
        with suppress(Timeout, OSError), self._lock:
            shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> TileCache:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self.shared:
                self._lock.acquire()
        except Timeout:
            raise TileCacheBusy(
                f"{self.folder}: another run works on the same scenes with this tile cache; wait for it, or "
                "give another folder"
            ) from None
        except OSError as error:
            raise self._unusable(error) from error
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another process without the lock, which is taken there when it is needed."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = FileLock(self.path / LOCK, timeout=0)

    def _file(self, row_off: int) -> Path:
        return self.path / f"row_{row_off:08d}.zip"

    @contextmanager
    def _complete(self, target: Path) -> Iterator[BinaryIO]:
        """Give a file to write that has its name only once it is complete."""
        try:
            with atomic_write(target) as (draft,), draft.open("xb") as file:
                yield file
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> TileCacheUnusable:
        reason = getattr(error, "strerror", None) or error
        return TileCacheUnusable(
            f"{self.folder}: finished tiles cannot be kept there ({reason}); give another"
        )


def _member(row_off: int) -> str:
    return f"row_{row_off:08d}.npy"


def _facts(window: Sequence[int]) -> str:
    return "facts_{}_{}_{}_{}.npy".format(*window)


def _array(stored: zipfile.ZipFile, name: str) -> np.ndarray:
    with stored.open(name) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _numbers(stored: zipfile.ZipFile) -> dict[str, Any]:
    """Return what a file says besides the bands: their ``rows`` and ``col_off``, ``counts``, ``maps``."""
    numbers: dict[str, Any] = json.loads(stored.read(NUMBERS))
    return numbers


def _bands(stored: zipfile.ZipFile, numbers: Mapping[str, Any]) -> Iterator[Band]:
    for row_off in numbers["rows"]:
        probability = _array(stored, _member(row_off))
        yield Band(row_off, probability, probability > 0, numbers["col_off"])
