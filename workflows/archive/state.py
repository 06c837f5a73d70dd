"""Read the state of an archive from its folders, with the index as a cache."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from rscc.files import parsed_json, read_file
from rscc.sequences import batches
from workflows.archive.folder import ITEM, REPORT, ArchiveFolder
from workflows.archive.index import DONE, FAILED, PENDING, Index, PairState
from workflows.archive.reports import Found, is_marked, read_found
from workflows.pairs.names import is_pair_id
from workflows.report.record import text_in, value_in

# Threads that wait for the disk: it takes several writes at once, and on a network every look takes time.
THREADS = 16
# Reports that one thread looks at each time.
_AT_ONCE = 1000


@dataclass
class State:
    """What the folders of an archive hold.

    Attributes:
        index: brought up to date in memory; the file is as it was.
        removed: pairs that were done and whose reports are gone or damaged.
        damaged: those of them whose reports are damaged.
        edited: pairs whose STAC items no longer agree with their reports.
    """

    folder: ArchiveFolder
    index: Index
    removed: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)

    def scan(self, pool: ThreadPoolExecutor) -> None:
        """Bring the index up to date: only files with another time than in the index are read."""
        known = self.index.stamps()
        stamps = dict(_stamps(self.folder, pool))
        changed = [pair for pair, stamp in stamps.items() if stamp != known.get(pair, ("", 0))[1]]
        for pair, found, item in pool.map(self._read, changed):
            self._take_report(pair, stamps[pair], found, item)
        failures = dict(_failures(self.folder))
        for pair in failures.keys() - stamps.keys():
            if known.get(pair) != (FAILED, failures[pair]):
                self._take_failure(pair, failures[pair])
        there = stamps | failures
        gone = [
            pair
            for pair, (state, stamp) in known.items()
            if (stamp or state != PENDING) and pair not in there
        ]
        self.removed += [pair for pair in gone if known[pair][0] == DONE]
        self.index.reset(gone)

    def _read(self, pair: str) -> tuple[str, Found | None, Mapping[str, Any]]:
        return pair, read_found(self.folder.report(pair)), _read_item(self.folder, pair)

    def _take_report(self, pair: str, stamp: int, found: Found | None, item: Mapping[str, Any]) -> None:
        row = self.index.one(pair) or PairState(pair, None, item["before"], item["after"])
        if found is None and not is_marked(self.folder.report(pair), edited=False):
            self.removed.append(pair)
            self.damaged.append(pair)
            self.index.reset([pair])
            return
        # A damaged report with marks stays, with what was in it before.
        found = found or Found(row.changes or 0, row.area_m2 or 0.0, row.tiles, row.seconds, row.warnings)
        if (found.changes, found.area_m2) != (item["changes"], item["area_m2"]):
            self.edited.append(pair)
        known = (
            {} if row.stamp and row.state == DONE else {"seconds": found.seconds, "finished": item["time"]}
        )
        fresh = row._replace(
            state=DONE if row.wanted in (None, item["key"]) else PENDING,
            key=item["key"],
            stamp=stamp,
            changes=found.changes,
            area_m2=found.area_m2,
            tiles=found.tiles,
            warnings=found.warnings,
            kind=None,
            error=None,
            line=None,
            **known,
        )
        self.index.put([fresh])

    def _take_failure(self, pair: str, stamp: int) -> None:
        failure = read_json(self.folder.failure(pair))
        texts: dict[str, Any] = {
            name: str(failure.get(name) or "") for name in ("key", "kind", "error", "line", "worker")
        }
        numbers: dict[str, Any] = {name: _number(failure.get(name)) for name in ("seconds", "finished")}
        row = self.index.one(pair) or PairState(
            pair, None, str(failure.get("before") or ""), str(failure.get("after") or "")
        )
        state = FAILED if row.wanted in (None, texts["key"]) else PENDING
        nothing: dict[str, Any] = {"changes": None, "area_m2": None, "tiles": None, "warnings": ()}
        self.index.put([row._replace(state=state, stamp=stamp, **nothing, **texts, **numbers)])


@contextmanager
def read_state(path: str | Path) -> Iterator[State]:
    """Read the state of an archive, also while runs work on it; nothing is written."""
    folder = ArchiveFolder(path)
    archive_id = folder.archive_id()
    with ThreadPoolExecutor(THREADS) as pool:
        state = load_state(folder, archive_id, pool)
    try:
        yield state
    finally:
        state.index.close()


def load_state(folder: ArchiveFolder, archive_id: str, pool: ThreadPoolExecutor) -> State:
    """Return the state of an archive; a missing or damaged index is rebuilt from the folders."""
    index = Index.load(folder.index, archive_id)
    state = State(folder, index or Index(archive_id))
    state.scan(pool)
    if index is None:
        # Without a table the pairs have the order of their ids.
        for number, (pair,) in enumerate(state.index.select("SELECT pair FROM pairs ORDER BY pair")):
            state.index.update(pair, number=number)
    return state


def _stamps(folder: ArchiveFolder, pool: ThreadPoolExecutor) -> Iterator[tuple[str, int]]:
    """Yield the pairs that have a report, and its time."""

    def look(pairs: Sequence[str]) -> list[tuple[str, int]]:
        return [(pair, stamp_of(f"{folder.pairs}/{pair}/{REPORT}")) for pair in pairs]

    with suppress(FileNotFoundError), os.scandir(folder.pairs) as entries:
        pairs = [
            entry.name for entry in entries if is_pair_id(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
        looked = chain.from_iterable(pool.map(look, batches(pairs, _AT_ONCE)))
        yield from ((pair, stamp) for pair, stamp in looked if stamp)


def _failures(folder: ArchiveFolder) -> Iterator[tuple[str, int]]:
    """Yield the pairs that have a failure, and its time."""
    with suppress(FileNotFoundError), os.scandir(folder.failed) as entries:
        for entry in entries:
            pair, _, ending = entry.name.rpartition(".")
            if ending == "json" and is_pair_id(pair) and (stamp := stamp_of(entry.path)):
                yield pair, stamp


def stamp_of(path: str) -> int:
    """Return the modification time of a plain file in nanoseconds since 1970; 0 where there is none."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return 0
    return max(1, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else 0


def _read_item(folder: ArchiveFolder, pair: str) -> dict[str, Any]:
    """Return what the STAC item of a pair says: ``key``, scenes, counts and its time; empty if damaged."""
    path = folder.pair_folder(pair) / ITEM
    item = read_json(path)
    texts = {name: text_in(item, "properties", f"rscc:{name}") or "" for name in ("key", "before", "after")}
    numbers = {name: value_in(item, "properties", f"rscc:{name}") for name in ("changes", "area_m2")}
    return {**texts, **numbers, "time": stamp_of(f"{path}") / 1e9 or None}


def read_json(path: Path, most: int = 2**20) -> dict[str, Any]:
    """Return the object in a JSON file of at most ``most`` bytes; empty if it is missing or damaged."""
    try:
        content = parsed_json(read_file(path, most))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 2**62 else None
