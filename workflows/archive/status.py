"""How far an archive is: read from its ledger, while a coordinator works or after one was killed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from workflows.store.failures import Reason, grouped, grouped_warnings
from workflows.store.folder import ArchiveFolder
from workflows.store.ledger import Ledger
from workflows.store.ledger_file import no_archive
from workflows.store.ledger_rows import Counts, Session
from workflows.store.lock import is_at_work

# Seconds of work that the present speed is taken from, and how many pairs it takes to believe in it.
RECENT, ENOUGH = 600.0, 5
# Running pairs and workers that are told of by name.
SHOWN = 10
_TIME = (float, int, type(None))
_ENDED = "state IN ('done', 'failed') AND finished IS NOT NULL"


@dataclass(frozen=True)
class Running:
    """A pair that a worker has: which attempt it is, and since when, in seconds since 1970."""

    pair: str
    attempt: int
    since: float


@dataclass(frozen=True)
class Worker:
    """A worker that ended pairs in the last minutes of work, how many, and the last of them."""

    name: str
    pairs: int
    last: str


@dataclass(frozen=True)
class Status:
    """How far an archive, or one shard of it, is.

    Attributes:
        counts: pairs by state.
        warned: pairs that are done and warn of something.
        changes: changes found, ``area_m2`` the sum of their square metres, ``tiles`` the tiles looked at.
        at_work: how many runs hold a lock: 1 or 0, of shards perhaps more.
        coordinators: those of them that are past planning.
        worked: seconds that coordinators worked on it so far, all together.
        per_hour: pairs ended in an hour, in all that time; None before the first one.
        per_hour_now: the same in the last ten minutes of work.
        seconds_left: how long what is left is expected to take; None when nothing tells.
        running: pairs being worked on, the longest first, at most 10.
        workers: who ended pairs in the last ten minutes of work, the busiest first.
        shards: of each shard, (name, status); empty without shards.
        shards_missing: names of shards that have not begun: how many pairs they have is not known.
    """

    counts: Counts
    warned: int = 0
    changes: int = 0
    area_m2: float = 0.0
    tiles: int = 0
    at_work: int = 0
    coordinators: tuple[Session, ...] = ()
    worked: float = 0.0
    per_hour: float | None = None
    per_hour_now: float | None = None
    seconds_left: float | None = None
    running: tuple[Running, ...] = ()
    workers: tuple[Worker, ...] = ()
    shards: tuple[tuple[str, Status], ...] = ()
    shards_missing: tuple[str, ...] = ()


def archive_status(folder: str | Path) -> Status:
    """Return how far the archive ``folder`` is; the sum of its shards, while it has some.

    Raises:
        ArchiveMissing: there is no archive.
        LedgerForeign, LedgerUnusable: see :class:`workflows.store.ledger.Ledger`.
    """
    archive, shards = _archives(folder)
    if archive is not None:
        return _status(archive)
    begun = {shard.path.name: _status(shard) for shard in shards if shard.ledger.exists()}
    whole = _sum(list(begun.values()))
    return replace(whole, shards=tuple(begun.items()), shards_missing=shards_missing(folder))


def shards_missing(folder: str | Path) -> tuple[str, ...]:
    """Return the names of the shards of the archive ``folder`` that have not begun; none without shards.

    Raises:
        ArchiveMissing: there is no archive.
    """
    _, shards = _archives(folder)
    if not shards:
        return ()
    begun = {shard.path.name for shard in shards if shard.ledger.exists()}
    count = shards[0].path.name.partition("-of-")[2]
    names = (f"{number}-of-{count}" for number in range(1, int(count) + 1))
    return tuple(name for name in names if name not in begun)


def failure_reasons(folder: str | Path) -> list[Reason]:
    """Return why pairs of the archive ``folder`` failed, grouped; of all shards together.

    Raises:
        ArchiveMissing, LedgerForeign, LedgerUnusable: see :func:`archive_status`.
    """
    return grouped(row for ledger in _ledgers(folder) for row in ledger.rows("failed"))


def warning_reasons(folder: str | Path) -> list[Reason]:
    """Return what pairs of the archive ``folder`` that are done warn of, grouped; of all shards together.

    Raises:
        ArchiveMissing, LedgerForeign, LedgerUnusable: see :func:`archive_status`.
    """
    return grouped_warnings(row for ledger in _ledgers(folder) for row in ledger.rows("done", warned=True))


def archives_in(folder: str | Path) -> list[ArchiveFolder]:
    """Return the archive ``folder``, or its shards that have begun while it has some.

    Raises:
        ArchiveMissing: there is no archive.
    """
    archive, shards = _archives(folder)
    return [shard for shard in shards if shard.ledger.exists()] if archive is None else [archive]


def _archives(folder: str | Path) -> tuple[ArchiveFolder | None, list[ArchiveFolder]]:
    """Return the archive itself, or None and its shards if it has some."""
    archive = ArchiveFolder(folder)
    folders = archive.shard_folders()
    if folders:
        count = max(count for _, count in folders)
        # Those of another number of shards were copied here; merging says so.
        return None, [shard for (_, its_count), shard in folders.items() if its_count == count]
    if not archive.ledger.exists():
        raise no_archive(archive.path)
    return archive, []


def _ledgers(folder: str | Path) -> Iterator[Ledger]:
    for archive in archives_in(folder):
        with Ledger.reader(archive.path) as ledger:
            yield ledger


def _status(archive: ArchiveFolder) -> Status:
    at_work = is_at_work(archive.lock)
    with Ledger.reader(archive.path) as ledger, ledger.at_once():
        counts, sessions = ledger.counts(), ledger.sessions()
        changes, area, tiles = ledger.totals()
        warned = ledger.select("SELECT count(*) FROM pairs WHERE state = 'done' AND warnings <> '[]'")[0][0]
        # Pairs of a merged archive that its shards did were ended before it was worked on.
        first = sessions[0].started if sessions else 0.0
        ended, last = ledger.select(
            f"SELECT total(finished >= ?), max(finished) FROM pairs WHERE {_ENDED}",
            first,
            kinds=(float, _TIME),
        )[0]
        end = time.time() if at_work else last or 0.0
        spans = _spans(ledger, sessions, end, at_work)
        begin = max(end - RECENT, spans[-1][0] if spans else 0.0)
        workers = ledger.select(
            f"SELECT worker, count(*), pair, max(finished) FROM pairs WHERE {_ENDED} AND finished >= ? "
            "AND worker IS NOT NULL GROUP BY worker ORDER BY count(*) DESC, worker",
            begin,
            kinds=(str, int, str, _TIME),
        )
        running = ledger.select(
            "SELECT pair, attempts, started FROM pairs WHERE state = 'running' ORDER BY started LIMIT ?",
            SHOWN,
            kinds=(str, int, _TIME[:2]),
        )
    worked = sum(until - since for since, until in spans)
    recently = sum(count for _, count, _, _ in workers)
    overall, now = _per_hour(ended, worked), _per_hour(recently, end - begin)
    believed = now if recently >= ENOUGH else overall
    return Status(
        counts=counts,
        warned=warned,
        changes=changes,
        area_m2=area,
        tiles=tiles,
        at_work=int(at_work),
        coordinators=tuple(sessions[-1:]) if at_work and sessions and sessions[-1].ended is None else (),
        worked=round(worked, 1),
        per_hour=overall,
        per_hour_now=now,
        seconds_left=round(3600 * counts.left / believed) if believed else None if counts.left else 0,
        running=tuple(Running(*values) for values in running),
        workers=tuple(Worker(name, count, pair) for name, count, pair, _ in workers),
    )


def _spans(
    ledger: Ledger, sessions: Sequence[Session], now: float, at_work: bool
) -> list[tuple[float, float]]:
    """Return from when to when coordinators worked; one that was killed until the last pair that it ended."""
    spans = []
    for number, session in enumerate(sessions, start=1):
        is_last, until = number == len(sessions), session.ended
        if until is None and is_last and at_work:
            until = now
        if until is None:
            before = float("inf") if is_last else sessions[number].started
            query = "SELECT max(finished) FROM pairs WHERE finished < ?"
            until = ledger.select(query, before, kinds=(_TIME,))[0][0] or 0.0
        spans.append((session.started, max(until, session.started)))
    return spans


def _per_hour(count: float, seconds: float) -> float | None:
    return round(3600 * count / seconds, 1) if count and seconds > 0 else None


def _sum(parts: Sequence[Status]) -> Status:
    """Add shards up, which work beside each other: the slowest says how long it takes."""

    def total(name: str, among: Sequence[Status] = parts) -> Any:
        values = [getattr(part, name) for part in among if getattr(part, name) is not None]
        return sum(values) if values else None

    # Those that ended long ago are not how fast it goes now.
    working = [part for part in parts if part.at_work] or parts
    unfinished = [part for part in parts if part.counts.left]
    lefts = [part.seconds_left for part in unfinished if part.seconds_left is not None]
    running = (pair for part in parts for pair in part.running)
    workers = (worker for part in working for worker in part.workers)
    return Status(
        counts=Counts(*map(sum, zip(*(astuple(part.counts) for part in parts), strict=True))),
        warned=total("warned") or 0,
        changes=total("changes") or 0,
        area_m2=round(total("area_m2") or 0.0, 2),
        tiles=total("tiles") or 0,
        at_work=total("at_work") or 0,
        coordinators=tuple(session for part in parts for session in part.coordinators),
        worked=round(total("worked") or 0.0, 1),
        per_hour=total("per_hour"),
        per_hour_now=total("per_hour_now", working),
        seconds_left=max(lefts, default=None if unfinished else 0),
        running=tuple(sorted(running, key=attrgetter("since"))[:SHOWN]),
        workers=tuple(sorted(workers, key=attrgetter("pairs"))[::-1]),
    )
