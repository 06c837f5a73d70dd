"""Finished rows of one large scene on disk, so that a killed run goes on where it was.

A folder of its own, named by everything that has an influence on the rows, holds one compressed file for each
band. A file appears complete or not at all, and holds only what outlines are traced from: the probability of
the changed pixels. The lock of the folder is the system's, so it ends with the process that holds it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock, Timeout

from tiling import Band
from workflows.errors import TileCacheBusy, TileCacheUnusable

LOCK = "lock"
# To be raised when what the files hold changes.
FORMAT = 1


class TileCache:
    """The finished bands of one run; take it in a ``with`` block, which holds the lock.

    Args:
        folder: where the folders of all runs lie; made if it is not there.
        identity: plain values that name the run: inputs, settings, model, versions.
        threshold: probability from which a pixel is changed.

    Attributes:
        path: the folder of this run.
        resumed_tiles: how many tiles did not have to be computed again.
    """

    def __init__(self, folder: str | Path, identity: Mapping[str, Any], threshold: float) -> None:
        text = json.dumps([FORMAT, threshold, identity], sort_keys=True)
        self.folder = Path(folder)
        self.path = self.folder / hashlib.sha256(text.encode()).hexdigest()[:32]
        self.threshold = threshold
        self.resumed_tiles = 0
        self._lock = FileLock(self.path / LOCK, timeout=0)

    def batch_size(self, planned: int) -> int:
        """Return how many tiles the first run of this folder gave the model at once, by default ``planned``.

        It has an influence on the last bits of what a network computes, so it stays.

        Raises:
            TileCacheUnusable: the system refused.
        """
        target = self.path / "batch_size.json"
        try:
            if not target.exists():
                self._write(target, lambda file: file.write(json.dumps(planned).encode()))
            return int(json.loads(target.read_text()))
        except OSError as error:
            raise self._unusable(error) from error

    def bands(self, row_off: int) -> Iterator[tuple[Band, dict[str, int]]]:
        """Yield the finished bands from row ``row_off`` on without a gap, each with the counts up to its end.

        Probabilities below the threshold are 0 and not valid. A file that cannot be read ends the bands.
        """
        while True:
            try:
                with np.load(self._file(row_off), allow_pickle=False) as stored:
                    probability = stored["probability"]
                    col_off, *counts = stored["numbers"].tolist()
                    names = stored["names"].tolist()
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                return
            yield Band(row_off, probability, probability > 0, col_off), dict(zip(names, counts, strict=True))
            row_off += len(probability)

    def add(self, band: Band, counts: Mapping[str, int]) -> None:
        """Keep a finished band and the ``counts`` up to its end.

        Raises:
            TileCacheUnusable: the system refused.
        """
        changed = band.valid & (band.probability >= self.threshold)
        probability = np.where(changed, band.probability, np.float32(0))
        numbers, names = np.array([band.col_off, *counts.values()], np.int64), np.array(list(counts))
        try:
            self._write(
                self._file(band.row_off),
                lambda file: np.savez_compressed(file, probability=probability, numbers=numbers, names=names),
            )
        except OSError as error:
            raise self._unusable(error) from error

    def remove(self) -> None:
        """Take the finished bands away, after the report was written; not if another run has them."""
        try:
            with self._lock:
                shutil.rmtree(self.path, ignore_errors=True)
        except (Timeout, OSError):
            return

    def __enter__(self) -> TileCache:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise TileCacheBusy(
                f"{self.folder}: another run works on the same scenes with this tile cache; wait for it, or "
                "give another folder"
            ) from None
        except OSError as error:
            raise self._unusable(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _file(self, row_off: int) -> Path:
        return self.path / f"row_{row_off:08d}.npz"

    def _write(self, target: Path, write: Callable[[BinaryIO], object]) -> None:
        """Make a file that appears complete or not at all."""
        temporary = target.with_suffix(".tmp")
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)

    def _unusable(self, error: OSError) -> TileCacheUnusable:
        reason = error.strerror or str(error)
        return TileCacheUnusable(
            f"{self.folder}: finished tiles cannot be kept there ({reason}); give another"
        )
