"""Bring a ledger in line with a table of pairs: what is new, what changed, what is left of the last run."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from workflows.identity import public_location

if TYPE_CHECKING:
    from workflows.pair_table import PairRow

# What the table says of a pair; a change of these alone touches no report.
TOLD = ("number", "before", "after", "date_before", "date_after", "site", "footprint")
_TOLD = ", ".join(TOLD)
# What an earlier attempt left in a row.
_AFRESH = (
    "state = 'pending', was = NULL, attempts = 0, lost = 0, worker = NULL, started = NULL, finished = NULL, "
    "seconds = NULL, changes = NULL, area_m2 = NULL, tiles = NULL, warnings = '[]', kind = NULL, "
    "error = NULL, line = NULL"
)
# What is known of a report.
_FOUND = "worker, started, finished, seconds, attempts, lost, changes, area_m2, tiles, warnings"
_PLANNED = f"""
CREATE TEMP TABLE planned (
    pair TEXT PRIMARY KEY, {_TOLD}, key TEXT NOT NULL
) WITHOUT ROWID
"""
_SAME = "(SELECT planned.pair FROM planned JOIN pairs USING (pair) WHERE planned.key = pairs.key)"
_OTHER = "(SELECT planned.pair FROM planned JOIN pairs USING (pair) WHERE planned.key <> pairs.key)"
_TOLD_OTHERWISE = f"""(
    SELECT planned.pair FROM planned JOIN pairs USING (pair)
    WHERE {" OR ".join(f"planned.{name} IS NOT pairs.{name}" for name in TOLD)}
)"""
_KEPT = "(SELECT kept.pair FROM kept JOIN pairs USING (pair) WHERE kept.key = pairs.key)"
_AGAIN = "state = 'failed' AND pair IN (SELECT pair FROM planned)"


def begin(connection: sqlite3.Connection) -> None:
    """Make room to write a table of pairs aside."""
    connection.execute("DROP TABLE IF EXISTS temp.planned")
    connection.execute(_PLANNED)


def take_in(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Write a part of a table, as :func:`told` gives it, aside; the pairs are untouched."""
    places = ", ".join("?" * (len(TOLD) + 2))
    connection.executemany(f"INSERT INTO planned VALUES ({places})", rows)


def settle(connection: sqlite3.Connection, retry_failed: bool) -> dict[str, int]:
    """Bring the pairs in line with the table taken in; counts by why they are pending again."""

    def change(statement: str) -> int:
        return connection.execute(statement).rowcount

    found = {
        "lost": change(
            "UPDATE pairs SET state = 'pending', attempts = attempts - 1, lost = lost + 1, worker = NULL, "
            "started = NULL WHERE state = 'running'"
        )
    }
    change(
        "UPDATE pairs SET was = state, state = 'dropped' "
        "WHERE state <> 'dropped' AND pair NOT IN (SELECT pair FROM planned)"
    )
    change(f"UPDATE pairs SET state = was, was = NULL WHERE state = 'dropped' AND pair IN {_SAME}")
    change(f"DELETE FROM parts WHERE pair IN {_OTHER}")
    # A report stays until another takes its place: with the options of before it is the pair's own again.
    change(
        f"INSERT OR REPLACE INTO kept (pair, key, {_FOUND}) SELECT pair, key, {_FOUND} FROM pairs "
        f"WHERE 'done' IN (state, was) AND pair IN {_OTHER}"
    )
    found["changed"] = change(
        f"UPDATE pairs SET {_AFRESH}, key = (SELECT key FROM planned WHERE planned.pair = pairs.pair) "
        f"WHERE pair IN {_OTHER}"
    )
    found["changed"] -= change(
        f"UPDATE pairs SET state = 'done', ({_FOUND}) = (SELECT {_FOUND} FROM kept "
        f"WHERE kept.pair = pairs.pair) WHERE state = 'pending' AND pair IN {_KEPT}"
    )
    change(f"DELETE FROM kept WHERE pair IN {_KEPT}")
    found["retried"] = 0
    if retry_failed:
        change(f"DELETE FROM parts WHERE pair IN (SELECT pair FROM pairs WHERE {_AGAIN})")
        found["retried"] = change(f"UPDATE pairs SET {_AFRESH} WHERE {_AGAIN}")
    change(
        f"UPDATE pairs SET ({_TOLD}) = (SELECT {_TOLD} FROM planned WHERE planned.pair = pairs.pair) "
        f"WHERE pair IN {_TOLD_OTHERWISE}"
    )
    found["new"] = change(
        f"INSERT INTO pairs (pair, {_TOLD}, key, state) SELECT pair, {_TOLD}, key, 'pending' FROM planned "
        "WHERE pair NOT IN (SELECT pair FROM pairs)"
    )
    change("DROP TABLE temp.planned")
    connection.execute(
        "INSERT INTO sessions (host, pid, started) VALUES (?, ?, ?)",
        (socket.gethostname(), os.getpid(), time.time()),
    )
    return found


def told(rows: Iterable[tuple[PairRow, str | None]]) -> Iterator[tuple[Any, ...]]:
    """Yield what a ledger keeps of pairs and their keys; those with the key None only count."""
    for number, (row, key) in enumerate(rows):
        if key is None:
            continue
        yield (
            row.pair,
            number,
            public_location(row.before),
            public_location(row.after),
            row.date_before,
            row.date_after,
            row.site,
            None if row.footprint is None else row.footprint.wkb,
            key,
        )
