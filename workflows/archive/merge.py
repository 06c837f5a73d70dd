"""Shards of an archive become one archive, as if one run had done all of its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from rscc.files import parsed_json
from rscc.sequences import batches
from tiling import plain_only
from workflows.archive.archive import Archive
from workflows.archive.marked import marked
from workflows.errors import ArchiveMissing, ReportsDamaged, ShardsDiffer, ShardsUnfinished
from workflows.files import write_together
from workflows.pairs.names import is_pair_id
from workflows.progress import Progress, tell
from workflows.store.folder import REPORT, ArchiveFolder, is_same
from workflows.store.ledger import Ledger
from workflows.store.ledger_plan import UNKNOWN
from workflows.store.ledger_rows import DONE, Found, LedgerRow

_PAIRS_AT_ONCE = 256
_FILES_AT_ONCE = 10_000
# Shards that a message names; of more it says how many.
_NAMED = 8

# By the number of the shard.
Shards = Mapping[int, ArchiveFolder]
Ledgers = Mapping[int, Ledger]


@dataclass(frozen=True)
class MergeSummary:
    """What shards came to.

    Attributes:
        shards: how many there are.
        pairs: of all shards; ``done`` and ``failed`` say how many of them ended how.
        changes: in all reports together; ``area_m2`` their square metres.
        removed: whether the shards were removed.
        kept: names of those done that have the report of before, as people marked it, and not their shard's.
    """

    shards: int
    pairs: int
    done: int
    failed: int
    changes: int
    area_m2: float
    removed: bool
    kept: tuple[str, ...] = ()


def merge_shards(
    path: str | Path, *, remove: bool = False, overwrite: bool = False, progress: Progress | None = None
) -> MergeSummary:
    """Build one archive anew of the shards that lie in it, all of them finished.

    The reports are shared with the shards where the file system can do that. What an earlier merge made is
    replaced, but for reports that people have marked since; a merge that was killed is repaired by the next.

    Args:
        path: the archive, with ``shards/1-of-4`` and so on in it.
        remove: remove the shards afterwards, unless a report of theirs was not taken over.
        overwrite: also replace reports that have marks of people which those of the shards lack.
        progress: told of the stages ``shards`` and ``layers``, in pairs.

    Raises:
        ArchiveMissing: there are no shards.
        ShardsUnfinished: shards are missing, or have pairs left to be done.
        ShardsDiffer: the shards are not of one run: other counts, settings or models, the same pair twice; or
            a run worked on the archive itself.
        ArchiveBusy: a run works on a shard, or on the archive.
        OutputExists: a report is damaged that has marks of people.
        ReportsDamaged: reports are missing or cannot be read; their shards do them anew.
        LedgerForeign, LedgerUnusable, OutputNotWritable: as for the archive of one run.
    """
    folder = ArchiveFolder(path)
    if folder.ledger.is_file():
        # A merge that was killed while it removed the shards has nothing else left to do.
        with folder.locked():
            folder.recover()
    with ExitStack() as stack:
        shards = _shards(folder)
        for shard in shards.values():
            stack.enter_context(shard.locked())
            shard.recover()
        record = common_record(shards)
        ledgers = {n: stack.enter_context(Ledger.reader(shard.path)) for n, shard in shards.items()}
        _check_finished(folder, ledgers)
        places = _check_pairs(shards, ledgers)
        archive = stack.enter_context(Archive.open(folder))
        if archive.ledger.sessions():
            raise ShardsDiffer(
                f"{folder.path}: a run worked on the archive itself; move {folder.shards} into a new folder "
                "and merge that"
            )
        marks = {} if overwrite else _marked(archive, shards, places)
        kept = _take_over(archive, shards, ledgers, places, marks, progress)
        if record is not None:
            write_together({folder.run: [record]})
        try:
            # The rows are those of the shards, whatever an earlier merge counted.
            archive.write_layers(progress, overwrite=overwrite, recount=True)
        except ReportsDamaged as damaged:
            for shard in shards.values():
                for pair in damaged.pairs:
                    shard.remove(pair)
            raise _to_redo(damaged.pairs, shards, places) from damaged
        removed = remove and not kept
        if removed:
            folder.remove_shards()
        counts = archive.ledger.counts()
        changes, area, _ = archive.ledger.totals()
        return MergeSummary(
            len(shards), counts.total, counts.done, counts.failed, changes, area, removed, kept
        )


def _shards(folder: ArchiveFolder) -> Shards:
    """Return the shards by number."""
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
    begun = {number: shard for (number, _), shard in there.items() if _is_begun(shard)}
    missing = [str(number) for number in range(1, counts[0] + 1) if number not in begun]
    if missing:
        alone = len(missing) == 1
        raise ShardsUnfinished(
            f"{folder.path}: {'shard' if alone else 'shards'} {named(missing)} of the {counts[0]} "
            f"{'is' if alone else 'are'} missing; run {'it' if alone else 'them'}, then merge again"
        )
    return begun


def _is_begun(shard: ArchiveFolder) -> bool:
    with suppress(ArchiveMissing):
        Ledger.reader(shard.path).close()
        return True
    return False


def _check_finished(folder: ArchiveFolder, ledgers: Ledgers) -> None:
    left = {number: ledger.counts().left for number, ledger in ledgers.items()}
    unfinished = [f"{number} ({count:,} pairs)" for number, count in left.items() if count]
    if unfinished:
        raise ShardsUnfinished(
            f"{folder.path}: pairs are left in shards {named(unfinished)}; run them again, then merge again"
        )


def _check_pairs(shards: Shards, ledgers: Ledgers) -> dict[str, int]:
    """Return the shard of every pair; refuse two with the same one, also one that its table has no more."""
    places: dict[str, int] = {}
    for number, ledger in ledgers.items():
        for (pair,) in ledger.select("SELECT pair FROM pairs", kinds=(str,)):
            if places.setdefault(pair, number) != number:
                raise ShardsDiffer(
                    f"{shards[number].path}: has the pair {pair}, which is in {shards[places[pair]].path}, "
                    "too; remove the one that is a copy"
                )
    return places


def _marked(archive: Archive, shards: Shards, places: Mapping[str, int]) -> dict[str, Found]:
    """Return which pairs have a report in the archive that people marked, and none like it in a shard."""

    def others(pairs: Sequence[str]) -> list[str]:
        return [pair for pair in pairs if not is_shared(pair)]

    def is_shared(pair: str) -> bool:
        shard = shards.get(places.get(pair, 0))
        report = archive.folder.pairs / pair / REPORT
        return shard is not None and is_same(report, shard.pair_folder(pair) / REPORT)

    there = sorted(path.name for path in archive.folder.pairs.iterdir() if is_pair_id(path.name))
    parts = archive.pool.map(others, batches(there, _PAIRS_AT_ONCE))
    return archive.marked(list(chain.from_iterable(parts)))


def _take_over(
    archive: Archive,
    shards: Shards,
    ledgers: Ledgers,
    places: Mapping[str, int],
    marks: Mapping[str, Found],
    progress: Progress | None,
) -> tuple[str, ...]:
    """Make the reports and the rows of the shards those of the archive, but for reports with marks.

    Returns the pairs of which the archive keeps a report with marks that has other changes than the shard's.
    """
    total = sum(ledger.counts().total for ledger in ledgers.values())
    earlier = {row.pair: row for row in archive.ledger.rows(DONE) if row.pair in marks}

    def is_merely_marked(row: LedgerRow, shard: ArchiveFolder) -> bool:
        before = earlier.get(row.pair)
        has_same = before is not None and (before.key, before.state) == (row.key, row.state)
        return has_same and marked(shard.pair_folder(row.pair) / REPORT) is None

    ended, done, missing, kept = 0, set(marks), [], []
    for number, ledger in ledgers.items():
        for rows in batches(ledger.rows(), _PAIRS_AT_ONCE):
            others = [row for row in rows if row.pair in marks and not is_merely_marked(row, shards[number])]
            kept += [row.pair for row in others]
            pairs = [row.pair for row in rows if row.state == DONE and row.pair not in marks]
            there = archive.pool.map(partial(_adopted, archive.folder, shards[number]), pairs)
            missing += [pair for pair, is_there in zip(pairs, there, strict=True) if not is_there]
            done.update(pairs)
            ended += len(rows)
            tell(progress, "shards", ended, total)
    if missing:
        raise _to_redo(missing, shards, places)
    for path in archive.folder.pairs.iterdir():
        if path.name not in done and (path / REPORT).exists():
            archive.folder.remove(path.name)
    archive.ledger.replace(
        _as_kept(row, earlier.get(row.pair), marks[row.pair]) if row.pair in marks else row
        for ledger in ledgers.values()
        for row in ledger.rows()
    )
    for files in batches(chain(*(ledger.files().all() for ledger in ledgers.values())), _FILES_AT_ONCE):
        archive.ledger.keep_files(dict(files))
    return tuple(kept)


def _as_kept(row: LedgerRow, earlier: LedgerRow | None, found: Found) -> LedgerRow:
    """Return the row of a pair that keeps the report of the archive; ``earlier`` is the archive's own."""
    if earlier is None:
        of_shard = replace(row, tiles=None, warnings=(), kind=None, error=None, line=None)
        earlier = replace(of_shard, key=UNKNOWN, state=DONE, changes=found.changes, area_m2=found.area_m2)
    return replace(earlier, number=row.number, site=row.site, footprint=row.footprint)


def _adopted(folder: ArchiveFolder, shard: ArchiveFolder, pair: str) -> bool:
    """Share the folder of a pair with its shard; False if there is none."""
    with suppress(FileNotFoundError):
        folder.adopt(pair, shard.pair_folder(pair))
        return True
    return False


def _to_redo(pairs: list[str], shards: Shards, places: Mapping[str, int]) -> ReportsDamaged:
    """Return the error that says in which shards pairs are to be done anew."""
    numbers = [str(number) for number in sorted({places[pair] for pair in pairs})]
    first = shards[places[pairs[0]]].pair_folder(pairs[0]) / REPORT
    remedy = f"run shards {named(numbers)} again to make it anew, then merge again"
    return ReportsDamaged(first, pairs, remedy)


def named(items: list[str]) -> str:
    """Name the first of many, and say how many more there are."""
    rest = len(items) - _NAMED
    return ", ".join(items[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def common_record(shards: Shards) -> str | None:
    """Return the text of the run record that the shards share; None if none had anything to do.

    Raises:
        ShardsDiffer: they do not share one, or one is damaged.
    """
    first: tuple[ArchiveFolder, str, Mapping[str, Any]] | None = None
    for shard in shards.values():
        try:
            with open(shard.run, encoding="utf-8", opener=plain_only) as file:
                text = file.read()
            decisive = _decisive(parsed_json(text))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ShardsDiffer(f"{shard.run}: is damaged or cannot be read; run the shard again") from error
        first = first or (shard, text, decisive)
        what = next((what for what, value in decisive.items() if value != first[2][what]), None)
        if what is not None:
            raise ShardsDiffer(
                f"{shard.path}: was made with {what} than {first[0].path}; run one of the two again like "
                "the other, or remove it"
            )
    return None if first is None else first[1]


def _decisive(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "another model": record["model"],
        "other options": record["settings"],
        "another version of rscc": record["versions"]["rscc"],
        "another table of pairs": record.get("table"),
    }
