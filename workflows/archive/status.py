"""The progress of an archive: counts from its folders, speed and workers from files that its runs write."""

import json
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rscc.errors import ConfigInvalid
from rscc.settings import build
from workflows.archive.claim import Claim
from workflows.archive.folder import ArchiveFolder, Shard
from workflows.archive.index import Counts
from workflows.archive.state import read_json, read_state

# Seconds of work that the present speed is computed from, and the pairs below which it is not used.
RECENT, ENOUGH = 600.0, 5
# Running pairs that are named.
SHOWN = 10
# Seconds between two writes of the progress of a run.
_EVERY = 2.0
# Files of runs that are read, the newest ones: years of daily runs.
_MOST_RUNS = 10_000


class RunProgress:
    """Writes the progress of a run into ``runs/``, from which ``rscc status`` reads it."""

    def __init__(self, claim: Claim, shard: Shard) -> None:
        self._claim, self._shard = claim, shard
        self._started = time.time()
        self._path = claim.folder.runs / f"{int(self._started * 1000)}-{shard[0]}-of-{shard[1]}.json"
        self._pairs = 0
        self._recent: deque[tuple[float, str, str]] = deque()
        self._written = 0.0

    def ended(self, pair: str, worker: str) -> None:
        """Count a pair that was done or failed for good."""
        self._pairs += 1
        self._recent.append((time.time(), worker, pair))

    def write(self, running: Mapping[str, float], *, force: bool = False) -> None:
        """Write the progress, at most every two seconds unless ``force``; ``running`` are start times."""
        now = time.time()
        if now - self._written < _EVERY and not force:
            return
        self._written = now
        while self._recent and self._recent[0][0] < now - RECENT:
            self._recent.popleft()
        counts = Counter(worker for _, worker, _ in self._recent)
        last = {worker: pair for _, worker, pair in self._recent}
        oldest = sorted(running.items(), key=lambda item: item[1])
        run = Run(
            host=socket.gethostname(),
            pid=os.getpid(),
            shard=self._shard,
            started=self._started,
            updated=now,
            pairs=self._pairs,
            recent=len(self._recent),
            workers=tuple(Worker(name, count, last[name]) for name, count in counts.most_common()),
            running=tuple(Running(*item) for item in oldest[:SHOWN]),
            running_count=len(running),
        )
        self._claim.write(self._path, json.dumps(asdict(run)).encode())


@dataclass(frozen=True)
class Running:
    """A pair that a worker has, and since when, in seconds since 1970."""

    pair: str
    since: float


@dataclass(frozen=True)
class Worker:
    """A worker, the pairs that it ended in the last minutes of work, and the last of them."""

    name: str
    pairs: int
    last: str


@dataclass(frozen=True)
class Run:
    """The progress of one run.

    Attributes:
        host, pid: its process.
        shard: (number, count); (1, 1) works on all pairs.
        started, updated: begin and last sign of life, in seconds since 1970.
        pairs: that it ended, ``recent`` those of the last ten minutes of work.
        workers: that ended pairs in this time.
        running: pairs that workers have, the longest first, at most 10; ``running_count`` is their number.
    """

    host: str
    pid: int
    shard: Shard
    started: float
    updated: float
    pairs: int
    recent: int
    workers: tuple[Worker, ...]
    running: tuple[Running, ...]
    running_count: int


@dataclass(frozen=True)
class Status:
    """The progress of an archive.

    Attributes:
        warned: pairs that are done and have warnings.
        changes: found, ``area_m2`` the sum of their square metres, ``tiles`` the tiles processed.
        at_work: number of runs that work on it now.
        worked: seconds in which runs worked on it so far.
        per_hour: pairs ended per hour in that time; None before the first one.
        per_hour_now: the same in the last ten minutes of work.
        seconds_left: expected for the rest; None where nothing is known.
        running: pairs that workers have, the longest first, at most 10; ``running_count`` is their number.
        workers: that ended pairs in the last ten minutes of work, the busiest first.
    """

    counts: Counts
    warned: int = 0
    changes: int = 0
    area_m2: float = 0.0
    tiles: int = 0
    at_work: int = 0
    runs: tuple[Run, ...] = ()
    worked: float = 0.0
    per_hour: float | None = None
    per_hour_now: float | None = None
    seconds_left: float | None = None
    running: tuple[Running, ...] = ()
    running_count: int = 0
    workers: tuple[Worker, ...] = ()


def archive_status(path: str | Path) -> Status:
    """Return the progress of an archive, also while runs work on it."""
    folder = ArchiveFolder(path)
    with read_state(path) as state:
        counts = state.index.counts()
        changes, area, tiles = state.index.totals()
        warned = sum(1 for _ in state.index.rows("done", warned=True))
    claimed, all_runs = folder.claimed(), _runs(folder)
    # The newest run of each shard that is claimed.
    live = list({run.shard: run for run in all_runs if run.shard in claimed}.values())
    latest = live or all_runs[-1:]
    worked = _union((run.started, run.updated) for run in all_runs)
    overall = _per_hour(sum(run.pairs for run in all_runs), worked)
    rates = [_per_hour(run.recent, min(RECENT, run.updated - run.started)) or 0.0 for run in latest]
    now = round(sum(rates), 1) or None
    believed = now if sum(run.recent for run in latest) >= ENOUGH else overall
    seconds_left = round(3600 * counts.pending / believed) if believed else None
    return Status(
        counts=counts,
        warned=warned,
        changes=changes,
        area_m2=area,
        tiles=tiles,
        at_work=len(claimed),
        runs=tuple(live),
        worked=round(worked, 1),
        per_hour=overall,
        per_hour_now=now,
        seconds_left=seconds_left if counts.pending else 0,
        running=tuple(
            sorted((one for run in live for one in run.running), key=lambda one: one.since)[:SHOWN]
        ),
        running_count=sum(run.running_count for run in live),
        workers=tuple(sorted((one for run in latest for one in run.workers), key=lambda one: -one.pairs)),
    )


def _runs(folder: ArchiveFolder) -> list[Run]:
    """Return the progress of every run, the oldest first; damaged files are left out."""
    paths = sorted(folder.runs.glob("*.json"))[-_MOST_RUNS:] if folder.runs.is_dir() else []
    runs = []
    for path in paths:
        with suppress(ConfigInvalid, TypeError):
            runs.append(build(Run, read_json(path), "run"))
    return sorted(runs, key=lambda run: run.started)


def _union(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of spans of time."""
    total, end = 0.0, float("-inf")
    for start, until in sorted(spans):
        total += max(0.0, until - max(start, end))
        end = max(end, until)
    return total


def _per_hour(count: int, seconds: float) -> float | None:
    return round(3600 * count / seconds, 1) if count and seconds > 0 else None
