"""What a ledger tells of its pairs: one row each, how many are in which state, and when somebody worked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

PENDING, RUNNING, DONE, FAILED, DROPPED = STATES = ("pending", "running", "done", "failed", "dropped")


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One pair.

    Attributes:
        pair: its id.
        number: its place in the table of pairs, from 0; the table may have rows that the ledger does not.
        before, after: its scenes as the table names them, without what an address holds of secrets: take the
            addresses to open from the table.
        date_before, date_after: dates that the table gives; None where it gives none.
        site: the site that the table gives, or None.
        footprint: the common ground in WGS84 as well-known binary, if the table gives it.
        key: hash of everything that has an influence on the report; empty where that is not known.
        state: one of :data:`STATES`.
        attempts: how many times it was begun since it last became pending for good; an attempt that ended
            with the coordinator does not count.
        lost: how many attempts ended with a coordinator.
        worker: who did it last; None while it is not known.
        started, finished: seconds since 1970 (UTC) of the last attempt; None before.
        seconds: how long the worker took over the last attempt that ended.
        changes: number of changes found, ``area_m2`` the sum of their square metres, ``tiles`` the tiles that
            were looked at; None until it is done.
        warnings: one line each.
        kind: of the last failure: ``refused`` input, a ``failed`` run, or one that ``crashed`` its process;
            None if there is none.
        error: the class of that failure, ``line`` what it said.
    """

    pair: str
    number: int
    before: str
    after: str
    date_before: str | None
    date_after: str | None
    site: str | None
    footprint: bytes | None
    key: str
    state: str
    attempts: int
    lost: int
    worker: str | None
    started: float | None
    finished: float | None
    seconds: float | None
    changes: int | None
    area_m2: float | None
    tiles: int | None
    warnings: tuple[str, ...]
    kind: str | None
    error: str | None
    line: str | None


class Found(NamedTuple):
    """What is in the report of a pair: how many changes, and their square metres."""

    changes: int
    area_m2: float


@dataclass(frozen=True)
class Counts:
    """How many pairs are in which state."""

    pending: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0

    @property
    def left(self) -> int:
        """How many are still to be finished."""
        return self.pending + self.running

    @property
    def total(self) -> int:
        """How many the table has."""
        return self.left + self.done + self.failed


@dataclass(frozen=True)
class Planned(Counts):
    """How many pairs are in which state after a plan, and why those that are pending again are so.

    Attributes:
        new: pairs that the ledger did not know.
        changed: their scenes, dates or settings are others than those that they were done with.
        retried: they failed, and were asked for again.
        lost: they were being worked on when the last coordinator ended.
        removed: they were done, and somebody removed their reports or cut them off.
        kept: names of pairs that are done as they were, though their scenes, dates or settings are others.
    """

    new: int = 0
    changed: int = 0
    retried: int = 0
    lost: int = 0
    removed: int = 0
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of tiles, from ``row_start`` up to and without ``row_end``, of a pair that was split."""

    number: int
    row_start: int
    row_end: int
    done: bool


@dataclass(frozen=True, slots=True)
class Session:
    """The time that one coordinator worked.

    Attributes:
        host, pid: where it ran.
        started, ended: seconds since 1970 (UTC); ``ended`` is None while it runs and after it was killed.
    """

    host: str
    pid: int
    started: float
    ended: float | None
