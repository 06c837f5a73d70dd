"""What became of every pair of an archive, in one SQLite file that a single coordinator writes.

A pair is ``pending``, ``running``, ``done``, ``failed``, or ``dropped`` when the table no longer has it. Each
call is one transaction: a process that is killed at any moment leaves the ledger as it was before or after
the call. A pair is marked done after its folder has its name; a kill between the two repeats that pair alone.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, fields
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from rscc.sequences import batches
from workflows.addresses import without_secrets
from workflows.store import ledger_file, ledger_plan
from workflows.store.identity import Stored
from workflows.store.ledger_file import damaged, explained, transaction
from workflows.store.ledger_rows import STATES, Counts, Found, LedgerRow, Part, Planned, Session
from workflows.store.ledger_values import KINDS, Kind, as_json, checked, texts

if TYPE_CHECKING:
    from workflows.pairs.rows import PairRow


_COLUMNS = tuple(field.name for field in fields(LedgerRow))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM pairs"
_ROW, _SESSION = ([KINDS[str(field.type)] for field in fields(kind)] for kind in (LedgerRow, Session))
_FILES = "SELECT path, size, mtime_ns, whole, digest, sources FROM files"
_FILE = (str, int, int, int, bytes, (str, type(None)))
# Rows read at once, and rows of a table taken in at once.
_CHUNK, _BATCH = 1000, 5000
_NOTHING = {
    "changes": None, "area_m2": None, "tiles": None, "warnings": "[]",
    "kind": None, "error": None, "line": None,
}  # fmt: skip


class Ledger:
    """The ledger of one archive; take it in a ``with`` block. Not to be shared between threads.

    Every method raises :class:`LedgerUnusable` when the disk is full, the file is locked or the system fails,
    and :class:`LedgerForeign` when the file is damaged, no ledger, or of another version.

    Attributes:
        path: the SQLite file.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, is_written: bool = False) -> None:
        self.path = path
        self._connection = connection
        self._is_written = is_written
        self._session: int | None = None

    @classmethod
    def open(cls, folder: str | Path) -> Ledger:
        """Open the ledger of an archive for writing, made where there is none; the archive's lock is held."""
        path = ledger_file.ledger_path(folder)
        return cls(path, ledger_file.open_for_writing(path), is_written=True)

    @classmethod
    def reader(cls, folder: str | Path) -> Ledger:
        """Open a ledger for looking at it, while a coordinator writes it or after one was killed.

        Raises:
            ArchiveMissing: there is none.
        """
        path = ledger_file.ledger_path(folder)
        return cls(path, ledger_file.open_for_reading(path))

    @classmethod
    def rehearsal(cls, folder: str | Path) -> Ledger:
        """Return a copy in memory, empty if there is no ledger: what is planned in it changes no file."""
        path = ledger_file.ledger_path(folder)
        return cls(path, ledger_file.in_memory(path))

    def close(self) -> None:
        """End the session and close the file; a closed ledger can be copied as one file."""
        if self._session is not None:
            with suppress(sqlite3.Error):
                self._connection.execute(
                    "UPDATE sessions SET ended = ? WHERE number = ?", (time.time(), self._session)
                )
            self._session = None
        if self._is_written:
            ledger_file.close_written(self.path, self._connection)
        else:
            self._connection.close()

    def plan(
        self,
        rows: Iterable[tuple[PairRow, str | None]],
        *,
        retry_failed: bool,
        keep: Callable[[list[str]], Mapping[str, Found]] = lambda pairs: {},
    ) -> Planned:
        """Bring the ledger in line with a table of pairs and their keys; begins a session.

        New pairs and those with another key become pending; done ones stay, and failed ones unless
        ``retry_failed``. Pairs that were running when the last coordinator ended are pending again, that
        attempt does not count. Pairs that the table no longer has are dropped, and come back as they were
        with the same key. ``rows`` are in the order of the table; a key of None leaves the row out but
        counts it, so that a shard knows the place of its pairs in the whole table. ``keep`` is called with
        the pairs of before that are to be done anew, and returns those of them that are to stay done as they
        are, with what is in their reports.
        """
        with self._transaction():
            ledger_plan.begin(self._connection)
        # None is open while rows come: their keys may take long, and what was read for them is kept.
        for part in batches(ledger_plan.planned_rows(rows), _BATCH):
            with self._transaction():
                ledger_plan.take_in(self._connection, part)
        with explained(self.path):
            pairs = ledger_plan.anew(self._connection)
        kept = keep(pairs)
        with self._transaction():
            ledger_plan.keep(self._connection, kept)
            reasons = ledger_plan.settle(self._connection, retry_failed)
            ((self._session,),) = self.select("SELECT max(number) FROM sessions")
        return Planned(**vars(self.counts()), **reasons, kept=tuple(kept))

    def next(self, limit: int) -> list[LedgerRow]:
        """Return the first ``limit`` pending pairs in the order of the table."""
        return self._rows(f"{_SELECT} WHERE state = 'pending' ORDER BY number, pair LIMIT ?", limit)

    def start(self, pair: str, attempt: int) -> None:
        """Say that attempt number ``attempt``, from 1, of a pair begins."""
        self._update(pair, state="running", attempts=attempt, worker=None, started=time.time())

    def done(
        self,
        pair: str,
        worker: str,
        seconds: float,
        changes: int,
        area_m2: float,
        tiles: int,
        warnings: Sequence[str] = (),
    ) -> None:
        """Say that the folder of a pair is complete and has its name."""
        kept = as_json(without_secrets(text) for text in warnings)
        result = {"changes": changes, "area_m2": area_m2, "tiles": tiles, "warnings": kept}
        self._end(pair, "done", worker, seconds, **result)

    def kept(self, pair: str, worker: str, seconds: float, found: Found) -> None:
        """Say that a pair keeps the report it has, whatever that was made with."""
        self._end(pair, "done", worker, seconds, key=ledger_plan.UNKNOWN, **found._asdict())

    def failed(self, pair: str, worker: str, seconds: float, kind: str, error: str, line: str) -> None:
        """Say that a pair failed for good; ``kind``, ``error`` and ``line`` as in :class:`LedgerRow`."""
        self._end(pair, "failed", worker, seconds, kind=kind, error=error, line=without_secrets(line))

    def again(self, pair: str, worker: str, seconds: float, kind: str, error: str, line: str) -> None:
        """Say that an attempt failed and another is to follow: the pair is pending, the attempt counts."""
        self._end(pair, "pending", worker, seconds, kind=kind, error=error, line=without_secrets(line))

    def give_back(self, pair: str) -> None:
        """Say that a running pair was abandoned: it is pending again, the attempt does not count."""
        with self._transaction():
            self._connection.execute(
                "UPDATE pairs SET state = 'pending', attempts = attempts - 1, worker = NULL, started = NULL "
                "WHERE pair = ? AND state = 'running'",
                (pair,),
            )

    def rows(self, state: str | None = None, *, warned: bool = False) -> Iterator[LedgerRow]:
        """Yield the pairs in one state, or all that the table has, in its order; a few at a time in memory.

        ``warned``: only those that warn of something.

        The ledger may be written meanwhile: a pair that was passed is not yielded again.
        """
        assert state is None or state in STATES, f"{state} is no state"
        which = "state <> 'dropped'" if state is None else f"state = '{state}'"
        which += " AND warnings <> '[]'" if warned else ""
        query = f"{_SELECT} WHERE {which} AND (number, pair) > (?, ?) ORDER BY number, pair LIMIT {_CHUNK}"
        last: tuple[int, str] = (-1, "")
        while chunk := self._rows(query, *last):
            yield from chunk
            last = (chunk[-1].number, chunk[-1].pair)

    def replace(self, rows: Iterable[LedgerRow]) -> None:
        """Make the ledger hold these pairs and no others, as when shards become one archive."""
        places = ", ".join("?" * len(_COLUMNS))
        with self._transaction():
            for table in ("parts", "pairs"):
                self._connection.execute(f"DELETE FROM {table}")
            self._connection.executemany(
                f"INSERT INTO pairs ({', '.join(_COLUMNS)}) VALUES ({places})", map(_values, rows)
            )

    def has_report(self, pair: str, key: str) -> bool:
        """Whether the folder of a pair has the report that was made with a key."""
        query = "SELECT 1 FROM pairs WHERE pair = ? AND key = ? AND 'done' IN (state, was)"
        return bool(self.select(query, pair, key))

    def counts(self) -> Counts:
        """Return how many pairs are in which state."""
        counts = dict(self.select("SELECT state, count(*) FROM pairs GROUP BY state"))
        for state in counts:
            if state not in STATES:
                raise damaged(self.path, f"pairs of it are {str(state)[:40]!r}")
        return Counts(**counts)

    def totals(self) -> tuple[int, float, int]:
        """Return the changes, their square metres and the tiles of all pairs that are done."""
        query = "SELECT total(changes), total(area_m2), total(tiles) FROM pairs WHERE state = 'done'"
        ((changes, area, tiles),) = self.select(query, kinds=(float, float, float))
        return int(changes), round(area, 2), int(tiles)

    def recount(self, pair: str, found: Found) -> None:
        """Say what is in the report of a pair since somebody edited it."""
        self._update(pair, **found._asdict())

    def split(self, pair: str, rows: Sequence[tuple[int, int]]) -> None:
        """Say that a pair is done in parts of these rows of tiles; parts that are done stay so if they are
        the same as before, and no rows make it whole again.
        """
        if [(part.row_start, part.row_end) for part in self.parts(pair)] == [tuple(part) for part in rows]:
            return
        with self._transaction():
            self._connection.execute("DELETE FROM parts WHERE pair = ?", (pair,))
            self._connection.executemany(
                "INSERT INTO parts (pair, number, row_start, row_end) VALUES (?, ?, ?, ?)",
                [(pair, number, *part) for number, part in enumerate(rows)],
            )

    def part_done(self, pair: str, number: int) -> None:
        """Say that the rows of part ``number``, from 0, are finished."""
        with self._transaction():
            self._connection.execute(
                "UPDATE parts SET done = 1 WHERE pair = ? AND number = ?", (pair, number)
            )

    def parts(self, pair: str) -> list[Part]:
        """Return the parts of a pair from its first rows on; none if it is not split."""
        query = "SELECT number, row_start, row_end, done FROM parts WHERE pair = ? ORDER BY number"
        parts = self.select(query, pair, kinds=(int,) * 4)
        return [Part(number, start, end, bool(done)) for number, start, end, done in parts]

    def files(self) -> Files:
        """Return what was hashed of files, by absolute path, and of scenes."""
        return Files(self.path, self._connection)

    def keep_files(self, files: Mapping[str, Stored]) -> None:
        """Keep what was hashed of files, so that a restart does not read them again."""
        rows = [
            (path, *file[:4], None if file.sources is None else as_json(file.sources))
            for path, file in files.items()
        ]
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", rows)

    def sessions(self) -> list[Session]:
        """Return when coordinators worked, the first first."""
        query = "SELECT host, pid, started, ended FROM sessions ORDER BY number"
        return [Session(*values) for values in self.select(query, kinds=_SESSION)]

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let everything that is asked within this block be of one moment."""
        with explained(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, pair: str, state: str, worker: str, seconds: float, **values: Any) -> None:
        # Nothing of an earlier end stays: neither what was found nor what went wrong.
        ended = {**_NOTHING, "state": state, "worker": worker, "seconds": round(seconds, 3), **values}
        self._update(pair, finished=time.time(), **ended)

    def _update(self, pair: str, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        with explained(self.path):
            update = f"UPDATE pairs SET {names} WHERE pair = ?"
            count = self._connection.execute(update, (*values.values(), pair)).rowcount
        assert count == 1, f"{pair} is not in the ledger"

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with explained(self.path), transaction(self._connection):
            yield

    def select(self, query: str, *values: Any, kinds: Sequence[Kind] = ()) -> list[tuple[Any, ...]]:
        """Return what a query of one's own finds, as ``status`` needs sums over all pairs.

        ``kinds`` are what its columns must be, see :func:`workflows.store.ledger_values.checked`.
        """
        with explained(self.path):
            rows = self._connection.execute(query, values).fetchall()
        return list(checked(self.path, kinds, rows)) if kinds else rows

    def _rows(self, query: str, *values: Any) -> list[LedgerRow]:
        rows = []
        for row in self.select(query, *values, kinds=_ROW):
            plain = list(row)
            plain[_WARNINGS] = texts(self.path, plain[_WARNINGS])
            rows.append(LedgerRow(*plain))
        return rows


_WARNINGS = _COLUMNS.index("warnings")


def _values(row: LedgerRow) -> tuple[Any, ...]:
    return tuple(as_json(value) if isinstance(value, tuple) else value for value in astuple(row))


class Files:
    """The files of a ledger, sought one by one: those of a million pairs need not be in memory.

    Several threads may ask; the ledger is not to be used for something else meanwhile.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection, self._lock = path, connection, Lock()

    def get(self, path: str) -> Stored | None:
        """Return what was hashed of one file; None where nothing was."""
        try:
            with self._lock:
                found = self._connection.execute(f"{_FILES} WHERE path = ?", (path,)).fetchone()
        except (sqlite3.Error, UnicodeDecodeError):
            with explained(self._path):
                raise
        return None if found is None else self._stored(found)[1]

    def all(self) -> Iterator[tuple[str, Stored]]:
        """Yield all, by path; a few at a time in memory."""
        with explained(self._path):
            for found in self._connection.execute(f"{_FILES} ORDER BY path"):
                yield self._stored(found)

    def _stored(self, row: tuple[Any, ...]) -> tuple[str, Stored]:
        ((path, size, mtime_ns, whole, digest, sources),) = checked(self._path, _FILE, [row])
        return path, Stored(
            size, mtime_ns, bool(whole), digest, None if sources is None else texts(self._path, sources)
        )
