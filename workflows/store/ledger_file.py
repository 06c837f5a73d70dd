"""The file of a ledger: made, checked and opened, and what SQLite says of it turned into one clear line.

That line is a LedgerForeign where the file is damaged, no ledger, or of another version, and a LedgerUnusable
where the system refuses.
"""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from tiling import is_odd, plain_only
from workflows.errors import ArchiveMissing, LedgerForeign, LedgerUnusable
from workflows.store.lock import LOCK, is_at_work

LEDGER = "ledger.sqlite"
# "rscc" in ASCII: how SQLite and the command `file` know whose file this is.
APPLICATION = 0x72736363
# To be raised when the tables change.
SCHEMA = 3
# How long to wait for another process; with a write-ahead log only a copying program can be in the way.
BUSY_SECONDS = 10.0
_BESIDE = ("-journal", "-wal", "-shm")

# What a ledger may ask of SQLite at most, as somebody else may have written it: the bytes of a row, and what
# its own tables could make of a query.
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 2**28,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
TABLES = """
CREATE TABLE pairs (
    pair TEXT PRIMARY KEY, number INTEGER NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL,
    date_before TEXT, date_after TEXT, site TEXT, footprint BLOB, key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'running', 'done', 'failed', 'dropped')),
    attempts INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0, worker TEXT, started REAL,
    finished REAL, seconds REAL, changes INTEGER, area_m2 REAL, tiles INTEGER,
    warnings TEXT NOT NULL DEFAULT '[]', kind TEXT CHECK (kind IN ('refused', 'failed', 'crashed')),
    error TEXT, line TEXT,
    was TEXT  -- the state that a dropped pair comes back in
) WITHOUT ROWID;
CREATE INDEX pairs_in_order ON pairs (number, pair);
CREATE INDEX pairs_by_state ON pairs (state, number, pair);
CREATE TABLE parts (
    pair TEXT NOT NULL, number INTEGER NOT NULL, row_start INTEGER NOT NULL, row_end INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (pair, number)
) WITHOUT ROWID;
CREATE TABLE files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, whole INTEGER NOT NULL,
    digest BLOB NOT NULL, sources TEXT
) WITHOUT ROWID;
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started REAL NOT NULL, ended REAL
);
"""


def ledger_path(folder: str | Path) -> Path:
    """Return where the ledger of the archive ``folder`` lies."""
    return Path(folder) / LEDGER


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open a ledger for the one process that writes it; it is made if it is not there."""
    _check_plain(path)
    is_new = not path.exists()
    with explained(path):
        if not is_new:
            _check_start(path)
        connection = _connect(path)
        try:
            _make_tables(connection)
            _check_version(path, connection)
            # Before the log is there, whose shared memory nobody on another machine must trust.
            host_file(path).write_text(socket.gethostname(), encoding="utf-8")
            # Committed work outlives the process at once; a power failure may take the last commits, whole.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
    return connection


def close_written(path: Path, connection: sqlite3.Connection) -> None:
    """Close a ledger that was written, and leave one plain file that can be copied and read anywhere."""
    with suppress(sqlite3.Error):
        # Refused while somebody reads; the write-ahead log then stays until the next time.
        connection.execute("PRAGMA busy_timeout = 200")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    with suppress(OSError):
        host_file(path).unlink(missing_ok=True)


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a ledger for looking at it, whether or not somebody writes it, or was killed while writing.

    Raises:
        ArchiveMissing: there is none.
        LedgerUnusable: also where a process on another machine writes it.
    """
    _check_plain(path)
    if not path.exists():
        raise no_archive(path.parent)
    with explained(path):
        _check_start(path)
        _check_host(path)
        connection = _connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            _check_version(path, connection)
        except BaseException:
            connection.close()
            raise
    return connection


def in_memory(path: Path) -> sqlite3.Connection:
    """Return a copy in memory of a ledger, an empty one if there is none; to try out on."""
    connection = _connect(":memory:")
    if path.exists():
        with closing(open_for_reading(path)) as source, explained(path):
            source.backup(connection)
    else:
        _make_tables(connection)
    return connection


def no_archive(folder: Path) -> ArchiveMissing:
    """Return the error that says that ``folder`` is no archive."""
    return ArchiveMissing(f"{folder}: this is no archive of rscc batch (no {LEDGER} in it); check the path")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite or the system says of the ledger at ``path`` into an error a person can act on."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise  # a rule of the tables was broken: our mistake, not one of the file
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except UnicodeDecodeError as error:  # in what SQLite says of a damaged file
        raise damaged(path, "its text is no UTF-8") from error
    except OSError as error:
        raise _unusable(path, error.strerror or error, "see to that and go on") from error


def _explain(path: Path, error: sqlite3.Error) -> LedgerForeign | LedgerUnusable:
    text = str(error)
    remedies = {
        "full": "free some space and start the same command again",
        "locked": "another program holds it: close that one and start the same command again",
        "readonly": "it may not be written: check its permissions",
        "unable to open": "check its folder and the permissions",
        "I/O error": "check the disk and start the same command again",
        "memory": "free some memory and start the same command again",
        "closed": "start the same command again",
        "interrupted": "start the same command again",
    }
    remedy = next((remedy for words, remedy in remedies.items() if words in text), None)
    # The system's words are those above; all others are about what the file holds.
    return damaged(path, text) if remedy is None else _unusable(path, text, remedy)


def damaged(path: Path, what: str) -> LedgerForeign:
    """Return the error that says that the ledger at ``path`` holds what no run writes."""
    return LedgerForeign(f"{path}: the ledger is damaged ({what}); put back a copy, or move it away")


def _unusable(path: Path, what: object, remedy: str) -> LedgerUnusable:
    return LedgerUnusable(f"{path}: the ledger cannot be used ({what}); {remedy}")


def _check_plain(path: Path) -> None:
    """Refuse a ledger that is a pipe or the like, or has one beside it where SQLite looks for its log."""
    for file in (path, host_file(path), *(path.with_name(path.name + ending) for ending in _BESIDE)):
        if is_odd(file):
            raise LedgerForeign(f"{file}: it is a pipe, a socket or a device, not a file; remove it")


def _check_start(path: Path) -> None:
    """Refuse what is no SQLite file before SQLite is asked: it would take an empty file for its own."""
    with open(path, "rb", opener=plain_only) as file:
        head = file.read(16)
    # A coordinator that was killed while it made the file leaves nothing in it, or all in the log beside it.
    if head and head != b"SQLite format 3\0":
        raise LedgerForeign(f"{path}: this is no ledger of rscc batch; give another folder or move it away")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all that is written in this block, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk has ended it already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _make_tables(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        if _is_empty(connection) and _pragma(connection, "application_id") == 0:
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    if _is_empty(connection):
        raise no_archive(path.parent)  # its maker was killed before there was anything in it
    if _pragma(connection, "application_id") != APPLICATION:
        raise LedgerForeign(f"{path}: this is no ledger of rscc batch; give another folder or move it away")
    version = _pragma(connection, "user_version")
    if version != SCHEMA:
        made = "a newer" if version > SCHEMA else "an older"
        raise LedgerForeign(
            f"{path}: this ledger was made by {made} rscc (version {version}, this one reads {SCHEMA}); use "
            "that one, or another folder"
        )
    # A view or a trigger would run what a stranger wrote.
    if _schema(connection) != _own_schema():
        raise LedgerForeign(
            f"{path}: its tables are not those of rscc batch; put back a copy, or move it away"
        )


def _schema(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return kind and name of all tables, indexes, views and triggers."""
    return set(connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))


@cache
def _own_schema() -> set[tuple[str, str]]:
    with closing(_connect(":memory:")) as connection:
        _make_tables(connection)
        return _schema(connection)


def _is_empty(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _connect(place: str | Path, uri: bool = False) -> sqlite3.Connection:
    # Threads that look at scenes ask what is known of them, one at a time.
    connection = sqlite3.connect(
        place, uri=uri, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    for name, most in LIMITS.items():
        connection.setlimit(name, most)
    # What the tables of a stranger's file may call, and what is believed of its pages.
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def host_file(path: Path) -> Path:
    """Return the file beside a ledger that names the machine whose process writes it."""
    return path.with_name(f"{path.name}-host")


def _check_host(path: Path) -> None:
    """Refuse a ledger that another machine writes: the shared memory of its log does not reach so far."""
    try:
        host = host_file(path).read_text(encoding="utf-8")
    except OSError:
        return
    if host != socket.gethostname() and is_at_work(path.with_name(LOCK)):
        raise LedgerUnusable(f"{path}: a run on {host} writes it; ask there, or when that run has ended")
