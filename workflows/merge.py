"""Shards of an archive become one archive, as if one run had done all of its pairs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from workflows import ledger_file
from workflows.archive_folder import REPORT, ArchiveFolder
from workflows.errors import ArchiveMissing, ReportsDamaged, ShardsDiffer
from workflows.layers import write_layers
from workflows.ledger import Ledger
from workflows.ledger_rows import DONE, FAILED, PENDING, RUNNING, LedgerRow
from workflows.merge_checks import Ledgers, Shards, check_own, common_record, newer_here, places
from workflows.output import write_together
from workflows.progress import Progress, batches, tell

# The disk takes what several wait for in one go.
WRITERS = 16
_PAIRS_AT_ONCE = 256
_FILES_AT_ONCE = 10_000


@dataclass(frozen=True)
class MergeSummary:
    """What shards came to.

    Attributes:
        shards: how many there are to be.
        missing: numbers of those that were not begun.
        unfinished: pairs that are left to be done, by the number of their shard; shards that have some.
        pairs: known to the shards, and to the archive from earlier merges.
        done, failed, left: how many of the pairs are done, failed, and are still to be done.
        changes: in all reports together; ``area_m2`` their square metres.
        removed: whether the shards were removed.
    """

    shards: int
    missing: tuple[int, ...]
    unfinished: Mapping[int, int]
    pairs: int
    done: int
    failed: int
    left: int
    changes: int
    area_m2: float
    removed: bool

    @property
    def is_complete(self) -> bool:
        """Whether no shard is missing and none has anything left to do."""
        return not self.missing and not self.left

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def merge_shards(path: str | Path, *, remove: bool = False, progress: Progress | None = None) -> MergeSummary:
    """Make one archive of the shards that lie in it; to be repeated when more of them is done.

    The reports are shared with the shards where the file system can do that. What was merged before and is in
    no shard any more stays, and so does what a run over the archive itself did after the shards had ended.

    Args:
        path: the archive, with ``shards/1-of-4`` and so on in it.
        remove: remove the shards afterwards, if all are there and finished.
        progress: told of the stages ``shards`` and ``layers``, in pairs.

    Raises:
        ArchiveMissing: there are no shards.
        ShardsDiffer: the shards are not of one run: other counts, settings or models, the same pair twice; or
            what stays in the archive is of another run than they.
        ArchiveBusy: a run works on a shard, or on the archive.
        ReportsDamaged: reports cannot be read; they were removed, so that their shards do them again.
        LedgerForeign, LedgerUnusable, OutputNotWritable: as for the archive of one run.
    """
    folder = ArchiveFolder(path)
    if folder.ledger.is_file():
        # A merge that was killed while it removed the shards has nothing else left to do.
        with folder.locked():
            folder.recover()
    count, shards = _shards(folder)
    with folder.locked():
        folder.create()
        folder.recover()
        with ExitStack() as stack:
            for shard in shards.values():
                stack.enter_context(shard.locked())
                shard.recover()
            record = common_record(shards)
            ledgers = {
                number: stack.enter_context(Ledger.reader(shard.path)) for number, shard in shards.items()
            }
            known = places(shards, ledgers)
            with Ledger.open(folder.path, create=True) as ledger:
                newer = newer_here(ledgers, ledger)
                check_own(folder, record, ledger, known, newer)
                stay = {pair for pair, state in newer.items() if state == FAILED or _has_report(folder, pair)}
                unfinished = _take_over(folder, shards, ledgers, ledger, known, stay, progress)
                if record is not None:
                    write_together({folder.run: [record]})
                try:
                    write_layers(folder, ledger.rows(), progress)
                except ReportsDamaged as damaged:
                    for pair in damaged.pairs:
                        for holder in (folder, *(() if pair in stay else shards.values())):
                            holder.remove(pair)
                    raise
                found = _summary(count, shards, unfinished, ledger)
        if remove and found.is_complete:
            folder.remove_shards()
            found = replace(found, removed=True)
        folder.tidy()
    return found


def _shards(folder: ArchiveFolder) -> tuple[int, Shards]:
    """Return how many shards there are to be, and those that were begun, by number."""
    for path in folder.oddly_named_shards():
        raise ShardsDiffer(
            f"{path}: no shard has this name; name it as rscc batch --shard does, such as 1-of-4"
        )
    there = folder.shard_folders()
    if not there:
        raise ArchiveMissing(
            f"{folder.path}: there are no shards in it; rscc batch --shard 1/4 and so on makes them"
        )
    counts = sorted({count for _, count in there})
    if len(counts) > 1:
        raise ShardsDiffer(
            f"{folder.shards}: shards of {counts[0]} and shards of {counts[1]} lie together; remove those "
            "that are not wanted"
        )
    return counts[0], {number: shard for (number, _), shard in there.items() if _is_begun(shard)}


def _is_begun(shard: ArchiveFolder) -> bool:
    try:
        Ledger.reader(shard.path).close()
    except ArchiveMissing:
        return False
    return True


def _has_report(folder: ArchiveFolder, pair: str) -> bool:
    return (folder.pair_folder(pair) / REPORT).is_file()


def _take_over(
    folder: ArchiveFolder,
    shards: Shards,
    ledgers: Ledgers,
    ledger: Ledger,
    known: Mapping[str, int],
    stay: set[str],
    progress: Progress | None,
) -> dict[int, int]:
    """Bring the reports and rows of the shards into the archive; return how many pairs each has left.

    Args:
        known: pairs that the shards know.
        stay: those of them that are left as the archive has them.
    """
    total = sum(found.counts().total for found in ledgers.values())
    lost: set[str] = set()
    unfinished = {}
    # What was merged before of shards that are no longer there; it must be read before it is replaced.
    others = [row for row in ledger.rows() if row.pair not in known or row.pair in stay]
    aside = [row for row in _aside(ledger) if row.pair not in known]
    done = 0
    for number, found in ledgers.items():
        before, shard = len(lost), shards[number]
        kept = [row for row in _aside(found) if row.pair not in stay and row.is_there(shard)]
        aside += kept
        held = {row.pair for row in kept if row.has_report}
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(partial(_adopted, folder, shard), held))
            for rows in batches(found.rows(), _PAIRS_AT_ONCE):
                taken = [row for row in rows if row.pair not in stay]
                there = writers.map(partial(_installed, folder, shard, held), taken)
                lost.update(row.pair for row, is_there in zip(taken, there, strict=True) if not is_there)
                done += len(rows)
                tell(progress, "shards", done, total)
        left = found.select("SELECT pair FROM pairs WHERE state IN ('pending', 'running')")
        unfinished[number] = sum(pair not in stay for (pair,) in left) + len(lost) - before
    ledger.replace(_merged(others, ledgers, lost, stay))
    _put_aside(ledger, aside)
    for found in ledgers.values():
        for files in batches(found.files().items(), _FILES_AT_ONCE):
            ledger.keep_files(dict(files))
    return {number: left for number, left in unfinished.items() if left}


def _merged(others: list[LedgerRow], ledgers: Ledgers, lost: set[str], stay: set[str]) -> Iterator[LedgerRow]:
    """Yield the rows of the archive; what a killed run left running, or has no report, is to be done."""
    yield from others
    for found in ledgers.values():
        for row in found.rows():
            if row.pair not in stay:
                yield _afresh(row) if row.state == RUNNING or row.pair in lost else row


@dataclass(frozen=True)
class _Aside:
    """A row of a ledger that is of no pair in its table, or of a report with another key.

    Attributes:
        table: ``pairs`` or ``kept``; ``values`` are those of all its columns.
        has_report: whether it tells of a report.
    """

    table: str
    pair: str
    values: tuple[Any, ...]
    has_report: bool

    def is_there(self, folder: ArchiveFolder) -> bool:
        """Whether the report, if it tells of one, lies in ``folder``."""
        return not self.has_report or folder.pair_folder(self.pair).is_dir()


def _aside(ledger: Ledger) -> list[_Aside]:
    """Return what comes back with another table or other options: dropped pairs, and reports of before."""
    dropped = ledger.select("SELECT pair, was, * FROM pairs WHERE state = 'dropped' AND was <> 'pending'")
    kept = ledger.select("SELECT pair, * FROM kept")
    return [_Aside("pairs", pair, tuple(values), was == DONE) for pair, was, *values in dropped] + [
        _Aside("kept", pair, tuple(values), True) for pair, *values in kept
    ]


def _put_aside(ledger: Ledger, rows: list[_Aside]) -> None:
    """Write rows of :func:`_aside` into a ledger that has none of their pairs yet."""
    if not rows:
        return
    with (
        ledger_file.explained(ledger.path),
        closing(ledger_file.open_for_writing(ledger.path, create=False)) as connection,
    ):
        connection.execute("BEGIN IMMEDIATE")
        for row in rows:
            places = ", ".join("?" * len(row.values))
            connection.execute(f"INSERT INTO {row.table} VALUES ({places})", row.values)
        connection.execute("COMMIT")


def _afresh(row: LedgerRow) -> LedgerRow:
    return replace(
        row,
        state=PENDING,
        worker=None,
        started=None,
        finished=None,
        seconds=None,
        changes=None,
        area_m2=None,
        tiles=None,
        warnings=(),
    )


def _installed(folder: ArchiveFolder, shard: ArchiveFolder, held: set[str], row: LedgerRow) -> bool:
    """Bring the report of a pair into the archive; False if it is done and has none.

    A pair that failed keeps a report of before if it is among ``held``.
    """
    if row.state == DONE and _adopted(folder, shard, row.pair):
        return True
    if row.state == DONE or (row.state == FAILED and row.pair not in held):
        folder.remove(row.pair)
    return row.state != DONE


def _adopted(folder: ArchiveFolder, shard: ArchiveFolder, pair: str) -> bool:
    """Share the folder of a pair with its shard; False if there is none."""
    source = shard.pair_folder(pair)
    if not source.is_dir():
        return False
    if not _same(source, folder.pair_folder(pair)):
        folder.adopt(pair, source)
    return True


def _same(source: Path, target: Path) -> bool:
    """Whether ``target`` was taken over from ``source``: the same files, or copies with the same times."""
    try:
        ours = {entry.name: entry.stat() for entry in os.scandir(target)}
        theirs = {entry.name: entry.stat() for entry in os.scandir(source)}
    except OSError:
        return False
    return ours.keys() == theirs.keys() and all(
        os.path.samestat(ours[name], stat)
        or (ours[name].st_size, ours[name].st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
        for name, stat in theirs.items()
    )


def _summary(count: int, shards: Shards, unfinished: dict[int, int], ledger: Ledger) -> MergeSummary:
    counts = ledger.counts()
    changes, area = ledger.select("SELECT sum(changes), sum(area_m2) FROM pairs WHERE state = 'done'")[0]
    return MergeSummary(
        shards=count,
        missing=tuple(number for number in range(1, count + 1) if number not in shards),
        unfinished=unfinished,
        pairs=counts.total,
        done=counts.done,
        failed=counts.failed,
        left=counts.left,
        changes=changes or 0,
        area_m2=round(area or 0.0, 2),
        removed=False,
    )
