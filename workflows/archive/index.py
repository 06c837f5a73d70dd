"""The index of an archive: one SQLite table of its pairs, a cache of what the folders say.

It is built in memory and written as one file under a temporary name, then renamed. So a file in an archive is
read as bytes: no journal beside it is ever applied, and nobody locks it. Its last 32 bytes are the SHA-256 of
those before. Lost or damaged, it is rebuilt from the folders, see :func:`workflows.archive.state.read_state`.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

from rscc.files import parsed_json, read_file
from workflows.archive.folder import WHOLE, Shard
from workflows.identity import FileHash

PENDING, DONE, FAILED = ("pending", "done", "failed")
# Bytes of a file that is read; a million pairs take less.
_LARGEST = 2**31
_VERSION = 1
_MAGIC = b"SQLite format 3\0"
_DIGEST = hashlib.sha256().digest_size
_TABLES = (
    """CREATE TABLE archive (id TEXT NOT NULL, version INTEGER NOT NULL, layers TEXT) STRICT""",
    """CREATE TABLE pairs (
    pair TEXT PRIMARY KEY, number INTEGER, before TEXT NOT NULL, after TEXT NOT NULL, date_before TEXT,
    date_after TEXT, site TEXT, footprint BLOB, wanted TEXT, state TEXT NOT NULL, key TEXT NOT NULL,
    stamp INTEGER NOT NULL, worker TEXT, finished REAL, seconds REAL, changes INTEGER, area_m2 REAL,
    tiles INTEGER, warnings TEXT NOT NULL, kind TEXT, error TEXT, line TEXT) STRICT, WITHOUT ROWID""",
    """CREATE INDEX pairs_in_order ON pairs (number)""",
    """CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    digest BLOB NOT NULL, sources TEXT) STRICT, WITHOUT ROWID""",
)


class PairState(NamedTuple):
    """One pair.

    Attributes:
        number: its place in the table of pairs, from 0; None if the table does not have it.
        before, after: its scenes as the table names them, without secrets of addresses.
        date_before, date_after, site: as in the table; None where it has none.
        footprint: the common ground in WGS84 as well-known binary, if the table has it.
        wanted: key that the pair is to have by the last plan; None: any.
        state: ``pending``, ``done`` or ``failed``.
        key: of the report or failure that exists; empty if there is none, or it is not known.
        stamp: modification time of that file in nanoseconds since 1970; 0 if there is none.
        finished: seconds since 1970; None if the pair is pending.
        changes, area_m2, tiles: changes found, their square metres, and tiles processed; None unless done.
        warnings: of the report, one line each.
        kind: of a failure: ``refused`` input, a ``failed`` run, or one that ``crashed`` its process.
        error: class of a failure, ``line`` its message.
    """

    pair: str
    number: int | None
    before: str
    after: str
    date_before: str | None = None
    date_after: str | None = None
    site: str | None = None
    footprint: bytes | None = None
    wanted: str | None = None
    state: str = PENDING
    key: str = ""
    stamp: int = 0
    worker: str | None = None
    finished: float | None = None
    seconds: float | None = None
    changes: int | None = None
    area_m2: float | None = None
    tiles: int | None = None
    warnings: tuple[str, ...] = ()
    kind: str | None = None
    error: str | None = None
    line: str | None = None


@dataclass(frozen=True)
class Counts:
    """Number of pairs by state; ``dropped`` pairs have a report and are no longer in the table."""

    pending: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0

    @property
    def total(self) -> int:
        """Number of pairs in the table."""
        return self.pending + self.done + self.failed


_COLUMNS = PairState._fields
_ALL = ", ".join(_COLUMNS)
_PLACES = ", ".join("?" * len(_COLUMNS))
_EMPTY = {name: PairState._field_defaults[name] for name in _COLUMNS[_COLUMNS.index("state") :]}


class Index:
    """The index in memory, with the hashes of files by path. One thread uses it, but for these hashes.

    Args:
        connection: a database with the tables; None makes an empty one.
    """

    def __init__(self, archive_id: str, connection: sqlite3.Connection | None = None) -> None:
        self._lock = Lock()
        self._connection = connection or _connect()
        if connection is None:
            _make_tables(self._connection)
            self._connection.execute("INSERT INTO archive VALUES (?, ?, NULL)", (archive_id, _VERSION))

    @classmethod
    def load(cls, path: Path, archive_id: str) -> Self | None:
        """Read an index; None where it is missing, damaged, or of another archive or version."""
        connection = _connect()
        try:
            stored = memoryview(read_file(path, _LARGEST))
            content, digest = stored[:-_DIGEST], stored[-_DIGEST:]
            if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(content).digest() != digest:
                return None
            connection.deserialize(content)
            # First of all: the expressions of another schema would be computed here. Then pages that are used
            # twice, and values of a wrong type, are found.
            if _schema(connection) == _own_schema() and connection.execute(
                "PRAGMA integrity_check(1)"
            ).fetchone() == ("ok",):
                found = connection.execute("SELECT id, version FROM archive LIMIT 1").fetchone()
                if found == (archive_id, _VERSION):
                    return cls(archive_id, connection)
        except (OSError, sqlite3.Error, UnicodeDecodeError, OverflowError):
            pass
        return None

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        content = self._connection.serialize()
        return content + hashlib.sha256(content).digest()

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()

    def put(self, rows: Iterable[PairState]) -> None:
        """Write whole rows, new or not."""
        self._many(f"INSERT OR REPLACE INTO pairs ({_ALL}) VALUES ({_PLACES})", map(_values, rows))

    def update(self, pair: str, **values: Any) -> None:
        """Set columns of one pair."""
        names = ", ".join(f"{name} = ?" for name in values)
        stored = [_stored(value) for value in values.values()]
        self._connection.execute(f"UPDATE pairs SET {names} WHERE pair = ?", (*stored, pair))

    def reset(self, pairs: Iterable[str]) -> None:
        """Make pairs pending, as if nothing had been found."""
        names = ", ".join(f"{name} = ?" for name in _EMPTY)
        empty = [_stored(value) for value in _EMPTY.values()]
        self._many(f"UPDATE pairs SET {names} WHERE pair = ?", ((*empty, pair) for pair in pairs))

    def forget_lost(self) -> None:
        """Remove pairs that are neither in the table nor in a folder."""
        self._connection.execute("DELETE FROM pairs WHERE number IS NULL AND state = 'pending'")

    def one(self, pair: str) -> PairState | None:
        """Return one pair."""
        found = self._connection.execute(f"SELECT {_ALL} FROM pairs WHERE pair = ?", (pair,)).fetchone()
        return None if found is None else _row(found)

    def rows(
        self, state: str | None = None, *, shard: Shard = WHOLE, warned: bool = False
    ) -> Iterator[PairState]:
        """Yield the pairs of the table in its order, one at a time in memory; ``warned``: with warnings."""
        which, values = _which(shard, state)
        which += " AND warnings <> '[]'" if warned else ""
        query = f"SELECT {_ALL} FROM pairs WHERE {which} ORDER BY number"
        return map(_row, self._connection.execute(query, values))

    def names(self, state: str, shard: Shard = WHOLE) -> list[str]:
        """Return the ids of the pairs in a state, in the order of the table."""
        which, values = _which(shard, state)
        query = f"SELECT pair FROM pairs WHERE {which} ORDER BY number"
        return [pair for (pair,) in self._connection.execute(query, values)]

    def stamps(self) -> dict[str, tuple[str, int]]:
        """Return (state, stamp) by pair."""
        rows = self._connection.execute("SELECT pair, state, stamp FROM pairs")
        return {pair: (state, stamp) for pair, state, stamp in rows}

    def counts(self, shard: Shard = WHOLE) -> Counts:
        """Return the number of pairs by state."""
        which, values = _which(shard)
        query = f"SELECT state, count(*) FROM pairs WHERE {which} GROUP BY state"
        counts = dict(self._connection.execute(query, values).fetchall())
        dropped = self._connection.execute("SELECT count(*) FROM pairs WHERE number IS NULL").fetchone()[0]
        return Counts(counts.get(PENDING, 0), counts.get(DONE, 0), counts.get(FAILED, 0), dropped)

    def totals(self, shard: Shard = WHOLE) -> tuple[int, float, int]:
        """Return the changes, their square metres and the tiles of all pairs that are done."""
        which, values = _which(shard, DONE)
        query = f"SELECT total(changes), total(area_m2), total(tiles) FROM pairs WHERE {which}"
        changes, area, tiles = self._connection.execute(query, values).fetchone()
        return int(changes), round(area, 2), int(tiles)

    def select(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        return self._connection.execute(query, values).fetchall()

    @property
    def layers(self) -> str | None:
        """Hash of the pairs that the layers were made of; None if there are no layers."""
        return self._connection.execute("SELECT layers FROM archive").fetchone()[0]

    @layers.setter
    def layers(self, digest: str) -> None:
        self._connection.execute("UPDATE archive SET layers = ?", (digest,))

    def get(self, path: str) -> FileHash | None:
        """Return the hash of one file, or None; several threads may call this."""
        query = "SELECT size, mtime_ns, digest, sources FROM files WHERE path = ?"
        with self._lock:
            found = self._connection.execute(query, (path,)).fetchone()
        if found is None:
            return None
        size, mtime_ns, digest, sources = found
        return FileHash(size, mtime_ns, digest, None if sources is None else _texts(sources))

    def __setitem__(self, path: str, found: FileHash) -> None:
        """Store the hash of one file, so that a restart does not read it again."""
        with self._lock:
            row = (path, *map(_stored, found))
            self._connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", row)

    def _many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._connection.execute("BEGIN")
        try:
            self._connection.executemany(statement, rows)
        finally:
            self._connection.execute("COMMIT")


def _which(shard: Shard, state: str | None = None) -> tuple[str, tuple[Any, ...]]:
    """Return the condition on the rows of a shard in a state, and its values."""
    which, values = "number IS NOT NULL AND number % ? = ?", (shard[1], shard[0] - 1)
    return (which, values) if state is None else (f"{which} AND state = ?", (*values, state))


_WARNINGS = _COLUMNS.index("warnings")


def _row(values: tuple[Any, ...]) -> PairState:
    return PairState._make((*values[:_WARNINGS], _texts(values[_WARNINGS]), *values[_WARNINGS + 1 :]))


def _values(row: PairState) -> tuple[Any, ...]:
    return *row[:_WARNINGS], _stored(row.warnings), *row[_WARNINGS + 1 :]


def _stored(value: Any) -> Any:
    return json.dumps(list(value), ensure_ascii=False) if isinstance(value, tuple) else value


def _texts(value: str) -> tuple[str, ...]:
    """Return a list of texts stored as JSON; anything else counts as none."""
    if value == "[]":
        return ()
    with suppress(ValueError):
        parsed = parsed_json(value)
        if isinstance(parsed, list):
            return tuple(map(str, parsed))
    return ()


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    # A stranger's file must not run code of its own through the schema.
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.text_factory = lambda text: text.decode(errors="replace")
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """Return the definitions of all tables, indexes, views and triggers."""
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name LIMIT 20").fetchall()


@cache
def _own_schema() -> list[tuple[str, ...]]:
    with closing(_connect()) as connection:
        _make_tables(connection)
        return _schema(connection)
