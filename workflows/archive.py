"""Many pairs of scenes into one archive: begun, gone on with after whatever ended it, and finished."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rscc.interrupts import patient_interrupts
from workflows.archive_folder import REPORT, ArchiveFolder
from workflows.dispatch import Dispatch, DispatchOptions
from workflows.errors import ArchiveMissing, NotAnArchive, OptionInvalid, ReportsDamaged, ShardsDiffer
from workflows.failures import Reason, grouped
from workflows.identity import SceneIdentities, keyed, settings_key
from workflows.layers import write_layers
from workflows.ledger import Ledger
from workflows.options import SceneOptions
from workflows.output import write_together
from workflows.pair_table import PairRow
from workflows.progress import Progress, batches, tell
from workflows.record import model_record, settings_record, versions

if TYPE_CHECKING:
    from rscc.weights import ModelCard
    from workflows.engine import Engine
    from workflows.ledger_rows import Planned
    from workflows.tasks import ModelSource

Shard = tuple[int, int]
# Reports looked for at once, and how many each time: on a network every look takes its time.
_LOOKERS, _LOOKED_FOR = 16, 1000


@dataclass(frozen=True)
class ArchiveSummary:
    """What a run over an archive came to.

    Attributes:
        pairs: in the table, or in the shard's part of it.
        done: pairs of these that have a report now.
        failed: pairs of these that have none.
        skipped_as_done: pairs that were done when the run began.
        changes: in all reports together; ``area_m2`` their square metres.
        seconds: that the run took.
        reasons: why pairs failed, the most frequent first.
    """

    pairs: int
    done: int
    failed: int
    skipped_as_done: int
    changes: int
    area_m2: float
    seconds: float
    reasons: tuple[Reason, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def run_archive(
    rows: Sequence[PairRow],
    folder: str | Path,
    card: ModelCard,
    source: ModelSource,
    engine_factory: Callable[[ModelSource], Engine],
    options: SceneOptions | None = None,
    *,
    retries: int = 1,
    retry_failed: bool = False,
    full_hash: bool = False,
    shard: Shard | None = None,
    split_above: int | None = None,
    give_up_after: int = 25,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
) -> ArchiveSummary:
    """Work through what is left of an archive; a pair that is done is not looked at again.

    What an earlier run left, however it ended, is gone on with. The first Ctrl-C lets the running pairs be
    finished, the next one abandons them; either ends in KeyboardInterrupt, as does one before or after the
    work on the pairs.

    Args:
        rows: the pairs.
        folder: the archive; it is made if it is not there.
        card: of the model.
        source: how a worker comes by the model.
        engine_factory: called with ``source``, if there is anything to do; gives the engine.
        options: how every pair is worked through; dates come from the rows, a tile cache is the archive's.
        retries: how often a pair is tried again after it failed or crashed.
        retry_failed: take up what failed in earlier runs, too.
        full_hash: know scenes by all their bytes instead of by size, time and header.
        shard: (number from 1, count): only this share of the pairs, into an archive within the folder.
        split_above: tiles from which a pair is cut into parts that several workers do; None: never.
        give_up_after: so many pairs in a row whose scenes cannot be had end the run; 0: never.
        progress: told of the stages ``scenes``, ``pairs`` and ``layers``.
        notice: called with lines for a person: what is to be done, that Ctrl-C came.

    Raises:
        NotAnArchive, OutputFolderMissing, OutputNotWritable: the folder cannot be used.
        ArchiveBusy: another run works on it.
        LedgerForeign, LedgerUnusable: the ledger is damaged, or the system refused it.
        ScenesUnreachable: storage or server seem to be away.
        ShardsDiffer: shards have done pairs that the archive has not; they are to be merged first.
        ReportsDamaged: somebody changes reports while it runs; their pairs are to be done again.
        SchedulerLost, WorkersUnable, RsccError: see :class:`workflows.engine.Engine`.
    """
    options, say, clock = options or SceneOptions(), notice or (lambda line: None), time.monotonic()
    archive = archive_of(folder, shard)
    if shard is None:
        _check_merged(archive)
    archive.create()
    with ExitStack() as stack:
        stack.enter_context(archive.locked())
        stack.callback(archive.tidy)
        archive.recover()
        with Ledger.open(archive.path, create=True) as ledger:
            gone: list[str] = []
            found = with_keys(
                rows, ledger, options, card, shard=shard, full_hash=full_hash, progress=progress, gone=gone
            )
            planned = ledger.plan(found, retry_failed=retry_failed)
            if gone:
                say(_gone_line(gone))
            lost = _without_report(ledger, archive)
            pairs = {row.pair: row for row in rows}
            failing = DispatchOptions(retries, split_above, give_up_after)

            def work() -> None:
                counts = ledger.counts()
                with engine_factory(source) as engine:
                    _write_record(archive, card, options, engine.name)
                    dispatch = Dispatch(ledger, pairs, archive, engine, options, failing)
                    dispatch.tells(progress, say, counts.done + counts.failed, counts.total)
                    interrupted = _dispatch(dispatch)
                if interrupted:
                    raise KeyboardInterrupt

            if planned.left + lost:
                say(_plan_line(planned, lost))
                work()
            else:
                _correct_record(archive, card, options)
            damaged = _write_layers(archive, ledger, progress)
            if damaged:
                say(_damaged_line(damaged))
                work()
                _write_layers(archive, ledger, progress, once_more=False)
            skipped = planned.done - lost - len(damaged)
            return _summary(ledger, skipped, time.monotonic() - clock)


def shard_of(pair: str, count: int) -> int:
    """Return which of ``count`` shards, from 1, has a pair: by its id alone, so that others may be added."""
    return int.from_bytes(hashlib.sha256(pair.casefold().encode()).digest()[:8]) % count + 1


def with_keys(
    rows: Sequence[PairRow],
    ledger: Ledger,
    options: SceneOptions,
    card: ModelCard,
    *,
    shard: Shard | None = None,
    full_hash: bool = False,
    progress: Progress | None = None,
    gone: list[str] | None = None,
) -> Iterator[tuple[PairRow, str | None]]:
    """Yield every pair with the hash of all that has an influence on its report; None for other shards'.

    The names of pairs that stay done though their scenes are no longer there are added to ``gone``.
    """

    def stays(pair: str, key: str) -> bool:
        is_done = ledger.has_report(pair, key)
        if is_done and gone is not None:
            gone.append(pair)
        return is_done

    mine = [shard is None or shard_of(row.pair, shard[1]) == shard[0] for row in rows]
    scenes = SceneIdentities(ledger.files(), full=full_hash)
    own = (row for row, is_mine in zip(rows, mine, strict=True) if is_mine)
    found = keyed(own, scenes, settings_key(options, card), ledger.keep_files, stays)
    for number, (row, is_mine) in enumerate(zip(rows, mine, strict=True), start=1):
        yield next(found) if is_mine else (row, None)
        if number % 100 == 0:
            tell(progress, "scenes", number, len(rows))
    # It ends by keeping what it read last.
    yield from found


def archive_of(folder: str | Path, shard: Shard | None = None) -> ArchiveFolder:
    """Return the archive in ``folder``, or that of a shard within it; nothing is made.

    Raises:
        OptionInvalid: no such shard can be.
        NotAnArchive: something else is in the folder.
        OutputNotWritable: the system refused to tell.
    """
    whole = ArchiveFolder(folder)
    if whole.is_foreign():
        raise NotAnArchive(f"{folder}: is not empty and no archive of rscc; give a new or an empty folder")
    if shard is None:
        return whole
    number, count = shard
    if not 1 <= number <= count:
        raise OptionInvalid(f"shard is {number}/{count}; it must be a number from 1 / how many there are")
    return whole.shard(number, count)


def _dispatch(work: Dispatch) -> bool:
    """Run until everything is done, or until Ctrl-C came and what was running is finished; tell of Ctrl-C."""
    with patient_interrupts() as asked:
        work.run(asked)
    return asked()


def _check_merged(archive: ArchiveFolder) -> None:
    """Refuse to do again what shards have done and the archive has not taken over.

    What they did before the last run over the archive began was there to be merged then.
    """
    own, begun = _finished(archive)
    unmerged = 0
    for shard in archive.shard_folders().values():
        done, _ = _finished(shard)
        unmerged += sum(end > max(begun, own.get(pair, 0.0)) for pair, end in done.items())
    if unmerged:
        pairs = "1 pair is" if unmerged == 1 else f"{unmerged:,} pairs are"
        raise ShardsDiffer(
            f"{archive.shards}: {pairs} done in shards and not in the archive; run rscc merge {archive.path} "
            "first, or remove the shards that are not wanted, then run the same command again"
        )


def _finished(archive: ArchiveFolder) -> tuple[dict[str, float], float]:
    """Return when each pair of an archive was done, and when the last run over it began; 0 without any."""
    try:
        with Ledger.reader(archive.path) as ledger:
            done = ledger.select("SELECT pair, finished FROM pairs WHERE 'done' IN (state, was)")
            return dict(done), max((session.started for session in ledger.sessions()), default=0.0)
    except ArchiveMissing:
        return {}, 0.0


def _without_report(ledger: Ledger, archive: ArchiveFolder) -> int:
    """Take up again what is done and has no report, as somebody removed it. Returns how many these are."""

    def lacking(pairs: Sequence[str]) -> list[str]:
        return [pair for pair in pairs if not _is_filled(f"{archive.pairs}/{pair}/{REPORT}")]

    done = ledger.select("SELECT pair FROM pairs WHERE state = 'done' ORDER BY number")
    with ThreadPoolExecutor(_LOOKERS) as lookers:
        parts = lookers.map(lacking, batches((pair for (pair,) in done), _LOOKED_FOR))
        missing = [pair for part in parts for pair in part]
    _take_up(ledger, missing)
    return len(missing)


def _is_filled(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # it is there, and whoever reads it says what is wrong


def _take_up(ledger: Ledger, pairs: Iterable[str]) -> None:
    """Let pairs that are done be done again."""
    for pair in pairs:
        ledger.start(pair, attempt=1)
        ledger.give_back(pair)


def _write_layers(
    archive: ArchiveFolder, ledger: Ledger, progress: Progress | None, *, once_more: bool = True
) -> list[str]:
    """Write what describes the whole archive, and remove what is not needed any more.

    Returns pairs whose reports are damaged, which are taken up again; then nothing is written.
    """
    try:
        write_layers(archive, ledger.rows(), progress)
    except ReportsDamaged as damaged:
        _take_up(ledger, damaged.pairs)
        if not once_more:
            raise
        return damaged.pairs
    # No pair is left that could go on with its finished tiles; the table may have lost some that had.
    shutil.rmtree(archive.work / "tiles", ignore_errors=True)
    return []


def _damaged_line(pairs: Sequence[str]) -> str:
    reports = "1 report is" if len(pairs) == 1 else f"{len(pairs):,} reports are"
    first = "" if len(pairs) == 1 else "the first: "
    return f"{reports} missing or damaged ({first}{pairs[0]}); made again"


def _plan_line(planned: Planned, missing: int) -> str:
    """Say in one line what a run begins with."""
    reasons = {
        "changed inputs or settings": planned.changed,
        "failed before": planned.retried,
        "were running when an earlier run ended": planned.lost,
        "report removed": missing,
    }
    why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
    done, left = planned.done - missing, planned.left + missing
    pairs = f"{planned.total:,} pair{'' if planned.total == 1 else 's'}"
    line = f"{pairs}: {done:,} done already, {left:,} to do" + (f" ({why})" if why else "")
    return line + (
        f", {planned.failed:,} failed before (--retry-failed takes them up)" if planned.failed else ""
    )


def _gone_line(pairs: Sequence[str]) -> str:
    """Say in one line which reports have outlived their scenes."""
    count = "1 pair that is" if len(pairs) == 1 else f"{len(pairs):,} pairs that are"
    first = "" if len(pairs) == 1 else "the first: "
    return (
        f"warning: the scenes of {count} done are not there any more, or cannot be read "
        f"({first}{pairs[0]}); the reports stay"
    )


def _write_record(archive: ArchiveFolder, card: ModelCard, options: SceneOptions, engine: str) -> None:
    record = {
        "model": model_record(card),
        "settings": settings_record(options, card),
        "versions": versions(),
        "engine": engine,
    }
    write_together({archive.run: [json.dumps(record, ensure_ascii=False, indent=1) + "\n"]})


def _correct_record(archive: ArchiveFolder, card: ModelCard, options: SceneOptions) -> None:
    """Let the run record tell of the reports that are there, where a run with other options came between."""
    try:
        record = json.loads(archive.run.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if not isinstance(record, dict):
        return
    right = {"model": model_record(card), "settings": settings_record(options, card)}
    text = json.dumps(record | right, ensure_ascii=False, indent=1)
    if json.loads(text) != record:
        write_together({archive.run: [text + "\n"]})


def _summary(ledger: Ledger, skipped: int, seconds: float) -> ArchiveSummary:
    counts = ledger.counts()
    ((changes, area),) = ledger.select(
        "SELECT total(changes), total(area_m2) FROM pairs WHERE state = 'done'"
    )
    return ArchiveSummary(
        pairs=counts.total,
        done=counts.done,
        failed=counts.failed,
        skipped_as_done=skipped,
        changes=int(changes),
        area_m2=round(area, 2),
        seconds=round(seconds, 2),
        reasons=tuple(grouped(ledger.rows("failed"))),
    )
