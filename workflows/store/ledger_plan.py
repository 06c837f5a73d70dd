"""Bring a ledger in line with a table of pairs: what is new, what changed, what is left of the last run."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from workflows.addresses import public_path

if TYPE_CHECKING:
    from workflows.pairs.rows import PairRow
    from workflows.store.ledger_rows import Found

# What the table says of a pair; a change of these alone touches no report.
DESCRIPTION = ("number", "before", "after", "date_before", "date_after", "site", "footprint")
_DESCRIPTION = ", ".join(DESCRIPTION)
# What an earlier attempt left in a row.
_AFRESH = (
    "state = 'pending', was = NULL, attempts = 0, lost = 0, worker = NULL, started = NULL, finished = NULL, "
    "seconds = NULL, changes = NULL, area_m2 = NULL, tiles = NULL, warnings = '[]', kind = NULL, "
    "error = NULL, line = NULL"
)
_SAME = "(SELECT planned.pair FROM planned JOIN pairs USING (pair) WHERE planned.key = pairs.key)"
_OTHER = "(SELECT planned.pair FROM planned JOIN pairs USING (pair) WHERE planned.key <> pairs.key)"
_DESCRIBED_OTHERWISE = f"""(
    SELECT planned.pair FROM planned JOIN pairs USING (pair)
    WHERE {" OR ".join(f"planned.{name} IS NOT pairs.{name}" for name in DESCRIPTION)}
)"""
# Of a pair that is kept: what its report was made of. No pair has the key of one that is not known.
_MADE_OF = "key, before, after, date_before, date_after"
UNKNOWN = ""
_RETRIED = "state = 'failed' AND pair IN (SELECT pair FROM planned)"


def begin(connection: sqlite3.Connection) -> None:
    """Make room to write a table of pairs aside."""
    connection.execute("DROP TABLE IF EXISTS temp.planned")
    columns = f"pair TEXT PRIMARY KEY, {_DESCRIPTION}, key TEXT NOT NULL"
    connection.execute(f"CREATE TEMP TABLE planned ({columns}) WITHOUT ROWID")


def take_in(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Write a part of a table, as :func:`planned_rows` gives it, aside; the pairs are untouched."""
    connection.executemany("INSERT INTO planned VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def anew(connection: sqlite3.Connection) -> list[str]:
    """Return the pairs that the ledger knows and the table taken in makes or leaves to be done."""
    query = (
        "SELECT planned.pair FROM planned JOIN pairs USING (pair) WHERE planned.key <> pairs.key "
        "OR 'pending' IN (state, was) OR 'running' IN (state, was) ORDER BY planned.number"
    )
    return [pair for (pair,) in connection.execute(query)]


def keep(connection: sqlite3.Connection, kept: Mapping[str, Found]) -> None:
    """Let pairs of the table taken in be done as they are, with the reports that they have."""
    for pair, found in kept.items():
        connection.execute(
            # SQLite takes the last of several values for a column.
            f"UPDATE pairs SET {_AFRESH}, state = 'done', key = ?, changes = ?, area_m2 = ? "
            "WHERE pair = ? AND 'done' NOT IN (state, coalesce(was, ''))",
            (UNKNOWN, *found, pair),
        )
        connection.execute(
            f"UPDATE planned SET ({_MADE_OF}) = (SELECT {_MADE_OF} FROM pairs "
            "WHERE pairs.pair = planned.pair) WHERE pair = ?",
            (pair,),
        )


def settle(connection: sqlite3.Connection, retry_failed: bool) -> dict[str, int]:
    """Bring the pairs in line with the table taken in; counts by why they are pending again."""

    def change(statement: str) -> int:
        return connection.execute(statement).rowcount

    counts = {
        "lost": change(
            "UPDATE pairs SET state = 'pending', lost = lost + 1, worker = NULL, "
            "started = NULL WHERE state = 'running'"
        )
    }
    # Every run has tries of its own.
    change("UPDATE pairs SET attempts = 0 WHERE state = 'pending'")
    change(
        "UPDATE pairs SET was = state, state = 'dropped' "
        "WHERE state <> 'dropped' AND pair NOT IN (SELECT pair FROM planned)"
    )
    change(f"UPDATE pairs SET state = was, was = NULL WHERE state = 'dropped' AND pair IN {_SAME}")
    change(f"DELETE FROM parts WHERE pair IN {_OTHER}")
    counts["changed"] = change(
        f"UPDATE pairs SET {_AFRESH}, key = (SELECT key FROM planned WHERE planned.pair = pairs.pair) "
        f"WHERE pair IN {_OTHER}"
    )
    counts["retried"] = 0
    if retry_failed:
        change(f"DELETE FROM parts WHERE pair IN (SELECT pair FROM pairs WHERE {_RETRIED})")
        counts["retried"] = change(f"UPDATE pairs SET {_AFRESH} WHERE {_RETRIED}")
    change(
        f"UPDATE pairs SET ({_DESCRIPTION}) = (SELECT {_DESCRIPTION} FROM planned "
        f"WHERE planned.pair = pairs.pair) WHERE pair IN {_DESCRIBED_OTHERWISE}"
    )
    counts["new"] = change(
        f"INSERT INTO pairs (pair, {_DESCRIPTION}, key, state) "
        f"SELECT pair, {_DESCRIPTION}, key, 'pending' FROM planned WHERE pair NOT IN (SELECT pair FROM pairs)"
    )
    change("DROP TABLE temp.planned")
    connection.execute(
        "INSERT INTO sessions (host, pid, started) VALUES (?, ?, ?)",
        (socket.gethostname(), os.getpid(), time.time()),
    )
    return counts


def planned_rows(rows: Iterable[tuple[PairRow, str | None]]) -> Iterator[tuple[Any, ...]]:
    """Yield what a ledger keeps of pairs and their keys; those with the key None only count."""
    for number, (row, key) in enumerate(rows):
        if key is not None:
            scenes = public_path(row.before), public_path(row.after)
            footprint = None if row.footprint is None else row.footprint.wkb
            yield row.pair, number, *scenes, row.date_before, row.date_after, row.site, footprint, key
