"""Limits on memory, time and content for what comes from a stranger or cannot be interrupted."""

import os
import re
import sqlite3
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

# Collections in collections that shapes may have: GEOS ends the process where there are tens of thousands.
_DEEPEST = 32
_EMPTY = struct.pack("<BII", 1, 7, 0)
MOST_BYTES = 4 * 2**30
"""Memory that may be taken beyond what the process has."""
# Seconds that the queries of one database may take, and SQLite's instructions between two looks at the clock.
_SECONDS, _INSTRUCTIONS = 60.0, 100_000
# Modules of virtual tables that lead nowhere: indexes of outlines.
_INDEXES = {"rtree", "virtualspatialindex", "virtualknn", "virtualknn2", "virtualelementary"}
_QUOTED = re.compile(r"/\*.*?\*/|--[^\n]*|\"[^\"]*\"|'[^']*'|`[^`]*`|\[[^\]]*\]", re.DOTALL)
_MODULE = re.compile(r"\s*create\s+virtual\s.*?\busing\s+(\w+)", re.DOTALL)
# The limit belongs to the process: one thread reads at a time.
_READING = threading.RLock()


@contextmanager
def bounded_memory(most: int = MOST_BYTES) -> Iterator[None]:
    """Raise MemoryError in this block where it takes more than ``most`` bytes, instead of all there are.

    Columns of Parquet and pages of SQLite can be thousands of times larger than in their file. It works on
    Linux; elsewhere only the limits of the formats hold.
    """
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    with _READING:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = taken + most
        if soft == resource.RLIM_INFINITY or limit < soft:
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what ``work`` returns; after the time its thread is left to itself.

    Raises:
        TimeoutError: it takes longer than ``seconds``.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(seconds)


def check_depth(shape: str | bytes) -> None:
    """Refuse a shape, WKT or WKB, of collections within collections, at which GEOS would crash.

    Raises:
        ValueError: it is nested too deeply, or is no WKB.
    """
    if isinstance(shape, str):
        if shape.upper().count("COLLECTION") > _DEEPEST:
            raise ValueError("its collections are nested too deeply")
        return
    place, waiting = 0, [1]  # children that are still to come, at each depth
    try:
        while waiting:
            waiting[-1] -= 1
            if waiting[-1] < 0:
                waiting.pop()
                continue
            order = "<" if shape[place] == 1 else ">"
            (code,) = struct.unpack_from(f"{order}I", shape, place + 1)
            place += 9 if code & 0x20000000 else 5  # with an id of a CRS
            kind, size = (code & 0xFFFF) % 1000, 8 * (2 + _further(code))
            if kind == 1:
                place += size
                continue
            (count,) = struct.unpack_from(f"{order}I", shape, place)
            place += 4
            if kind in (2, 8):
                place += count * size
            elif kind in (3, 17):
                for _ in range(count):
                    place += 4 + size * struct.unpack_from(f"{order}I", shape, place)[0]
            else:
                waiting.append(count)
                if len(waiting) > _DEEPEST:
                    raise ValueError("its collections are nested too deeply")
    except (struct.error, IndexError) as error:
        raise ValueError("it is no WKB") from error


def _further(code: int) -> int:
    """Return how many coordinates a WKB type has beyond two, by ISO or by PostGIS."""
    flags, thousands = (code >> 31 & 1) + (code >> 30 & 1), (code & 0xFFFF) // 1000
    return flags or (2 if thousands == 3 else min(thousands, 1))


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file to read, without its journal, and for a limited time.

    Raises:
        ValueError, sqlite3.Error: see :func:`database_address`, it is none, or the time is over.
    """
    with closing(sqlite3.connect(database_address(path), uri=True)) as base:
        end = time.monotonic() + _SECONDS
        base.set_progress_handler(lambda: time.monotonic() > end, _INSTRUCTIONS)
        for pragma in ("trusted_schema = OFF", "query_only = ON"):
            base.execute(f"PRAGMA {pragma}")
        yield base


def check_database(path: Path) -> set[str]:
    """Refuse a SQLite file that would yield more than its bytes, or lead elsewhere, whoever reads it.

    Returns:
        The names of its views, none of which is one of the tables that readers always ask.

    Raises:
        ValueError, sqlite3.Error: as said, or a journal lies beside it.
    """
    address, log = database_address(path), path.with_name(f"{path.name}-wal")
    if "immutable" in address and log.exists() and log.stat().st_size:
        raise ValueError(f"{log.name} beside it was left by a program that ended; open it there once")
    with open_database(path) as base:
        base.execute("PRAGMA ignore_check_constraints = ON")
        tables = base.execute("SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view')")
        views = set()
        for kind, name, sql in tables.fetchall():
            plain = _QUOTED.sub(" ", str(sql).lower())
            if re.match(r"\s*create\s+virtual\b", plain):
                module = _MODULE.match(plain)
                if module is None or module[1] not in _INDEXES:
                    raise ValueError(f"{name} is a virtual table; save the layer alone")
            elif kind == "view":
                views.add(str(name).lower())
            elif any(row[6] > 1 for row in base.execute("SELECT * FROM pragma_table_xinfo(?)", (name,))):
                raise ValueError(f"{name} has a generated column; save the layer alone")
        if any(name.startswith("gpkg_") or name in ("geometry_columns", "spatial_ref_sys") for name in views):
            raise ValueError("its tables of layers are views")
        # Pages that are shared would come out again and again.
        (found,) = base.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise ValueError(f"it is damaged ({found})")
    return views


def texts_of_crs(path: Path) -> Iterator[str]:
    """Yield the texts of the reference systems that a checked SQLite file uses.

    Raises:
        ValueError, sqlite3.Error: they cannot be read.
    """
    queries = {
        "gpkg_spatial_ref_sys": "SELECT * FROM gpkg_spatial_ref_sys",
        "spatial_ref_sys": "SELECT * FROM spatial_ref_sys WHERE srid IN (SELECT srid FROM geometry_columns)",
    }
    with open_database(path) as base:
        names = {name for (name,) in base.execute("SELECT lower(name) FROM sqlite_master")}
        for table, query in queries.items():
            for row in base.execute(query) if table in names else ():
                yield from (value for value in row if isinstance(value, str))


def check_parquet(path: Path, most: int, shapes: Sequence[str], columns: Sequence[str] | None = None) -> None:
    """Refuse a Parquet file that unpacks to more than ``most`` bytes: one word may stand for every row.

    Args:
        shapes: columns whose bytes are WKB.
        columns: that are read; None: all.

    Raises:
        ValueError: it does, or :func:`check_depth` refuses a shape.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import types

    metadata = pq.read_metadata(path)
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    # A dictionary stays one.
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for batch in file.iter_batches(1000, columns=columns):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if types.is_list(column.type):
                    column = column.flatten()
                values = column.dictionary if types.is_dictionary(column.type) else column
                if name in shapes and (types.is_binary(values.type) or types.is_large_binary(values.type)):
                    for value in values:
                        check_depth(value.as_py() or _EMPTY)
                most -= column.nbytes
                if types.is_dictionary(column.type):
                    lengths = pc.binary_length(column.dictionary).take(column.indices)
                    most -= pc.sum(lengths).as_py() or 0
            if most < 0:
                raise ValueError("it unpacks to more than is read; cut it to the scenes")


def database_address(path: Path) -> str:
    """Return the name by which SQLite reads a file without its journal.

    A journal that a program left would be applied, and may name further files. Only what a program that has
    the file open has written to its log is read, too.

    Raises:
        ValueError: there is a journal with content, or what has its name is no file.
    """
    path = path.resolve()
    logs = {end: path.with_name(f"{path.name}-{end}") for end in ("journal", "wal", "shm")}
    for log in logs.values():
        if os.path.lexists(log) and not stat.S_ISREG(log.lstat().st_mode):
            raise ValueError(f"{log.name} beside it is no file; remove it")
    if logs["journal"].exists() and logs["journal"].stat().st_size:
        raise ValueError(
            f"{logs['journal'].name} beside it was left by a program that ended; open it there once"
        )
    is_open = logs["wal"].exists() and logs["shm"].exists()
    return f"{path.as_uri()}?mode=ro" + ("" if is_open else "&immutable=1")
