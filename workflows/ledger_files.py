"""What a ledger knows of files, so that a restart does not read them again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from workflows.identity import Stored
from workflows.ledger_file import explained

_FILE = "SELECT size, mtime_ns, whole, digest, sources FROM files WHERE path = ?"


class Files(Mapping[str, Stored]):
    """The files of a ledger, sought one by one: those of a million pairs need not be in memory.

    Several threads may ask; the ledger is not to be used for something else meanwhile.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection, self._lock = path, connection, Lock()

    def __getitem__(self, path: str) -> Stored:
        found = self.get(path)
        if found is None:
            raise KeyError(path)
        return found

    def get(self, path: str, default: Any = None) -> Any:
        """Return what was hashed of one file, or ``default``."""
        # Of every scene of every pair: an exception for each that is new would take half of the time.
        found = self._one(_FILE, path)
        if found is None:
            return default
        size, mtime_ns, whole, digest, sources = found
        return Stored(size, mtime_ns, bool(whole), digest, sources and tuple(json.loads(sources)))

    def __iter__(self) -> Iterator[str]:
        with explained(self._path), self._lock:
            paths = self._connection.execute("SELECT path FROM files ORDER BY path").fetchall()
        return (path for (path,) in paths)

    def __len__(self) -> int:
        return int(self._one("SELECT count(*) FROM files")[0])

    def _one(self, query: str, *values: str) -> Any:
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchone()
        except sqlite3.Error:
            with explained(self._path):
                raise


def keep(connection: sqlite3.Connection, files: Mapping[str, Stored]) -> None:
    """Write what was hashed of files, within a transaction."""
    connection.executemany(
        "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
        [
            (path, *file[:4], None if file.sources is None else json.dumps(file.sources))
            for path, file in files.items()
        ],
    )
