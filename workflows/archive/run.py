"""Many pairs of scenes into one archive: begun, resumed after whatever ended it, and finished."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rscc.files import parsed_json
from tiling import plain_only
from workflows.archive.archive import DAMAGED, Archive
from workflows.archive.dispatch import Dispatch
from workflows.archive.interrupts import patient_interrupts
from workflows.archive.plan import ArchiveOptions, archive_of, with_keys
from workflows.errors import ReportsDamaged
from workflows.files import write_together
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.progress import Progress
from workflows.report.record import model_record, settings_record, versions
from workflows.store.failures import Reason, grouped, grouped_warnings
from workflows.store.folder import ArchiveFolder
from workflows.texts import counted

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard
    from workflows.engines.engine import Engine
    from workflows.engines.tasks import ModelSource
    from workflows.store.ledger_rows import Planned


@dataclass(frozen=True)
class ArchiveSummary:
    """What a run over an archive came to.

    Attributes:
        pairs: in the table, or in the shard's part of it.
        done: pairs of these that have a report now.
        failed: pairs of these that have none.
        kept: names of those done that have the report of other scenes, dates or options, as people marked it.
        skipped_as_done: pairs that were done when the run began.
        changes: in all reports together; ``area_m2`` their square metres.
        seconds: that the run took.
        reasons: why pairs failed, the most frequent first; ``warnings``: what those done warn of, likewise.
    """

    pairs: int
    done: int
    failed: int
    skipped_as_done: int
    changes: int
    area_m2: float
    seconds: float
    reasons: tuple[Reason, ...] = ()
    kept: tuple[str, ...] = ()
    warnings: tuple[Reason, ...] = ()


def run_archive(
    rows: Sequence[PairRow],
    folder: str | Path,
    card: ModelCard,
    source: ModelSource,
    engine_factory: Callable[[ModelSource], Engine],
    scene: SceneOptions,
    options: ArchiveOptions,
    *,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> ArchiveSummary:
    """Work through what is left of an archive; a pair that is done is not looked at again.

    The run resumes what an earlier one left, however that ended. The first Ctrl-C lets the running pairs be
    finished, the next one abandons them; either ends in KeyboardInterrupt, as does one before or after the
    work on the pairs.

    Args:
        rows: the pairs.
        folder: the archive; it is made if it is not there.
        card: of the model.
        source: how a worker comes by the model.
        engine_factory: called with ``source``, if there is anything to do; gives the engine.
        scene: how every pair is worked through; dates come from the rows, a tile cache is the archive's.
            Addresses of the rows may lead to the public network and to its ``allow_hosts``.
        options: which pairs are taken up, and how failures are met.
        progress: told of the stages ``scenes``, ``pairs`` and ``layers``.
        notice: called with lines for a person: what is to be done, that Ctrl-C came.
        warn: called with what somebody should look at, though the run goes on.

    Raises:
        NotAnArchive, OutputFolderMissing, OutputNotWritable: the folder cannot be used.
        ArchiveBusy: another run works on it.
        OutputExists: a report is damaged that has marks of people.
        LedgerForeign, LedgerUnusable: the ledger is damaged, or the system refused it.
        ScenesUnreachable: storage or server seem to be away.
        ShardsDiffer: there are shards, and this is none of them; or the other way round.
        ReportsDamaged: somebody changes reports while it runs; their pairs are to be done again.
        SchedulerLost, WorkersUnable, RsccError: see :class:`workflows.engines.engine.Engine`.
    """
    scene = scene.for_others()
    say, clock = notice or (lambda line: None), time.monotonic()
    with Archive.open(archive_of(folder, options.shard)) as archive:
        missing: list[str] = []
        keyed = with_keys(rows, archive.ledger, scene, card, options, progress=progress, missing=missing)
        planned = archive.plan(keyed, retry_failed=options.retry_failed, overwrite=options.overwrite)
        if missing and warn is not None:
            warn(_without_scenes_line(missing))

        kept = [*planned.kept]

        def work() -> None:
            with engine_factory(source) as engine, patient_interrupts() as interrupted:
                _write_record(archive.folder, card, scene, rows, engine.name)
                dispatch = Dispatch(archive, rows, engine, scene, options, progress, say)
                dispatch.run(interrupted)
            kept.extend(dispatch.kept)
            if interrupted():
                raise KeyboardInterrupt

        if planned.left:
            say(_plan_line(planned))
            work()
        else:
            _write_record(archive.folder, card, scene, rows)
        skipped = planned.done
        try:
            archive.write_layers(progress, overwrite=options.overwrite)
        except ReportsDamaged as damaged:
            (warn or say)(_damaged_line(damaged.pairs))
            skipped -= len(damaged.pairs)
            work()
            archive.write_layers(progress, overwrite=options.overwrite)
        counts = archive.ledger.counts()
        changes, area, _ = archive.ledger.totals()
        return ArchiveSummary(
            pairs=counts.total,
            done=counts.done,
            failed=counts.failed,
            skipped_as_done=skipped,
            changes=changes,
            area_m2=area,
            seconds=round(time.monotonic() - clock, 2),
            reasons=tuple(grouped(archive.ledger.rows("failed"))),
            kept=tuple(kept),
            warnings=tuple(grouped_warnings(archive.ledger.rows("done", warned=True))),
        )


def _damaged_line(pairs: Sequence[str]) -> str:
    reports = "1 report is" if len(pairs) == 1 else f"{len(pairs):,} reports are"
    return f"{reports} damaged ({_first(pairs)}) and made again; what was there is beside it as {DAMAGED}"


def _first(pairs: Sequence[str]) -> str:
    return pairs[0] if len(pairs) == 1 else f"the first: {pairs[0]}"


def _plan_line(planned: Planned) -> str:
    """Say in one line what a run begins with."""
    reasons = {
        "changed inputs or settings": planned.changed,
        "failed before": planned.retried,
        "were running when an earlier run ended": planned.lost,
        "report removed or cut off": planned.removed,
    }
    why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
    failed = f", {planned.failed:,} failed before (--retry-failed takes them up)" if planned.failed else ""
    kept = f", {len(planned.kept):,} left as people marked them (--overwrite)" if planned.kept else ""
    return (
        f"{counted(planned.total, 'pair')}: {planned.done:,} done already, {planned.left:,} to do"
        + (f" ({why})" if why else "")
        + failed
        + kept
    )


def _without_scenes_line(pairs: Sequence[str]) -> str:
    """Say in one line which reports have outlived their scenes."""
    count = "1 pair that is" if len(pairs) == 1 else f"{len(pairs):,} pairs that are"
    return (
        f"the scenes of {count} done are not there any more, or cannot be read "
        f"({_first(pairs)}); the reports stay"
    )


def _hash_of_names(rows: Sequence[PairRow]) -> str:
    names = sha256()
    for row in rows:
        names.update(f"{row.pair}\n".encode())
    return names.hexdigest()


def _write_record(
    folder: ArchiveFolder,
    card: ModelCard,
    scene: SceneOptions,
    rows: Sequence[PairRow],
    engine: str | None = None,
) -> None:
    """Write how the reports are made; without an engine, correct what a run with other options wrote."""
    record: dict[str, Any] = {
        "model": model_record(card),
        "settings": settings_record(scene, card),
        "table": {"pairs": len(rows), "sha256": _hash_of_names(rows)},
    }
    if engine is not None:
        record |= {"versions": versions(), "engine": engine}
    else:
        try:
            with open(folder.run, encoding="utf-8", opener=plain_only) as file:
                earlier = parsed_json(file.read())
            record = earlier | record
        except (OSError, ValueError, TypeError):
            return
        if json.loads(json.dumps(record)) == earlier:
            return
    write_together({folder.run: [json.dumps(record, ensure_ascii=False, indent=1) + "\n"]})
