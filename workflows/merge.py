"""Shards of an archive become one archive, as if one run had done all of its pairs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from workflows.archive_folder import ArchiveFolder
from workflows.errors import ArchiveMissing, ReportsDamaged, ShardsDiffer
from workflows.layers import write_layers
from workflows.ledger import Ledger
from workflows.ledger_rows import DONE, FAILED, PENDING, RUNNING, LedgerRow
from workflows.output import write_together
from workflows.progress import Progress, batches, tell

Shards = Mapping[int, ArchiveFolder]
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
    no shard any more stays.

    Args:
        path: the archive, with ``shards/1-of-4`` and so on in it.
        remove: remove the shards afterwards, if all are there and finished.
        progress: told of the stages ``shards`` and ``layers``, in pairs.

    Raises:
        ArchiveMissing: there are no shards.
        ShardsDiffer: the shards are not of one run: other counts, settings or models.
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
            record = _common_record(shards)
            ledgers = {
                number: stack.enter_context(Ledger.reader(shard.path)) for number, shard in shards.items()
            }
            with Ledger.open(folder.path, create=True) as ledger:
                unfinished = _take_over(folder, shards, ledgers, ledger, progress)
                if record is not None:
                    write_together({folder.run: [record]})
                try:
                    write_layers(folder, ledger.rows(), progress)
                except ReportsDamaged as damaged:
                    for pair in damaged.pairs:
                        for holder in (*shards.values(), folder):
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


def _common_record(shards: Shards) -> str | None:
    """Return the text of the run record that the shards share; None if none had anything to do."""
    first: tuple[ArchiveFolder, str, dict[str, Any]] | None = None
    for shard in shards.values():
        try:
            text = shard.run.read_text(encoding="utf-8")
            record = json.loads(text)
            decisive = {
                "another model": record["model"],
                "other options": record["settings"],
                "another version of rscc": record["versions"]["rscc"],
            }
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ShardsDiffer(f"{shard.run}: is damaged or cannot be read; run the shard again") from error
        first = first or (shard, text, decisive)
        for what, value in decisive.items():
            if value != first[2][what]:
                raise ShardsDiffer(
                    f"{shard.path}: was made with {what} than {first[0].path}; run one of the two again like "
                    "the other, or remove it"
                )
    return None if first is None else first[1]


def _take_over(
    folder: ArchiveFolder,
    shards: Shards,
    ledgers: Mapping[int, Ledger],
    ledger: Ledger,
    progress: Progress | None,
) -> dict[int, int]:
    """Bring the reports and rows of the shards into the archive; return how many pairs each has left."""
    total = sum(found.counts().total for found in ledgers.values())
    known: set[str] = set()
    lost: set[str] = set()
    unfinished = {}
    done = 0
    for number, found in ledgers.items():
        known.update(pair for (pair,) in found.select("SELECT pair FROM pairs"))
        before = len(lost)
        with ThreadPoolExecutor(WRITERS) as writers:
            for rows in batches(found.rows(), _PAIRS_AT_ONCE):
                there = writers.map(partial(_installed, folder, shards[number]), rows)
                lost.update(row.pair for row, is_there in zip(rows, there, strict=True) if not is_there)
                done += len(rows)
                tell(progress, "shards", done, total)
        unfinished[number] = found.counts().left + len(lost) - before
    # What was merged before of shards that are no longer there; it must be read before it is replaced.
    others = [row for row in ledger.rows() if row.pair not in known]
    ledger.replace(_merged(others, ledgers, lost))
    for found in ledgers.values():
        for files in batches(found.files().items(), _FILES_AT_ONCE):
            ledger.keep_files(dict(files))
    return {number: left for number, left in unfinished.items() if left}


def _merged(others: list[LedgerRow], ledgers: Mapping[int, Ledger], lost: set[str]) -> Iterator[LedgerRow]:
    """Yield the rows of the archive; what a killed run left running, or has no report, is to be done."""
    yield from others
    for found in ledgers.values():
        for row in found.rows():
            yield _afresh(row) if row.state == RUNNING or row.pair in lost else row


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


def _installed(folder: ArchiveFolder, shard: ArchiveFolder, row: LedgerRow) -> bool:
    """Bring the report of a pair into the archive; False if it is done and has none."""
    if row.state == FAILED:
        folder.remove(row.pair)
    if row.state != DONE:
        return True
    source = shard.pair_folder(row.pair)
    if not source.is_dir():
        folder.remove(row.pair)
        return False
    if not _same(source, folder.pair_folder(row.pair)):
        folder.adopt(row.pair, source)
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
