"""Process a table of pairs into an archive: start, or resume what any earlier run left."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rscc.model_card import ModelCard
from workflows.archive.archive import DAMAGED, Archive, ArchiveOptions
from workflows.archive.dispatch import Dispatch
from workflows.archive.folder import WHOLE, ArchiveFolder
from workflows.archive.plan import Planned, keyed_rows, settings_key
from workflows.archive.reasons import Reason, failure_reasons, warning_reasons
from workflows.archive.state import read_json
from workflows.errors import ReportsDamaged
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.printable import counted
from workflows.progress import Progress
from workflows.report.record import model_record, settings_record, versions

if TYPE_CHECKING:
    from workflows.archive.workers.engine import Engine


@dataclass(frozen=True)
class ArchiveSummary:
    """The result of a run over an archive, or over a shard of it.

    Attributes:
        pairs: in the table, or in the shard.
        done: pairs that have a report now.
        skipped_as_done: pairs that were done when the run began.
        changes: in all reports; ``area_m2`` their square metres.
        reasons: why pairs failed, the most frequent first; ``warnings`` of those done, likewise.
        kept: ids of pairs with an outdated report that people have marked.
        left: pairs of other shards that are still to be done; the layers are written when there are none.
        page: of the archive; None: pages were not asked for, or pairs are left.
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
    left: int = 0
    page: str | None = None


def run_archive(
    rows: Sequence[PairRow],
    folder: str | Path,
    card: ModelCard,
    engine_factory: Callable[[], Engine],
    scene: SceneOptions,
    options: ArchiveOptions,
    *,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> ArchiveSummary:
    """Do the pairs of an archive that are not done yet.

    The first Ctrl-C lets the running pairs finish, the second abandons them; both end in KeyboardInterrupt.

    Args:
        folder: the archive; it is made if it does not exist.
        engine_factory: makes the engine, called if there is anything to do.
        scene: how every pair is read; dates come from the rows. Addresses of the rows may lead to the public
            network and to its ``allow_hosts``.
        progress: called with the stages ``scenes``, ``pairs`` and ``layers``.
        notice: called with lines for a person.
        warn: called with lines that somebody should act upon.

    Raises:
        FolderOccupied, OutputFolderMissing, OutputNotWritable: the folder cannot be used.
        ArchiveBusy: another run works on it.
        OutputExists: a damaged report has marks of people.
        ScenesUnreachable: storage or server seem to be away.
        ReportsDamaged: reports change while the run works; it can be started again.
        SchedulerLost, WorkersUnable, VersionsDiffer: see :class:`workflows.archive.workers.engine.Engine`.
    """
    scene, shard = scene.for_others(), options.shard
    say, clock = notice or (lambda line: None), time.monotonic()
    with Archive.open(ArchiveFolder(folder), options) as archive:
        missing: list[str] = []
        settings = settings_key(scene, card)
        keyed = keyed_rows(rows, archive.index, settings, shard, progress=progress, missing=missing)
        planned = archive.plan(keyed)
        for pair in archive.state.damaged:
            archive.set_aside(pair)
        if missing and warn is not None:
            reports = counted(len(missing), "finished pair")
            warn(f"scenes of {reports} are missing or unreadable ({_first(missing)}); the reports stay")
        archive.save()
        kept = [*planned.kept]

        def work() -> None:
            with engine_factory() as engine, patient_interrupts() as interrupted:
                _write_record(archive, card, scene, rows, engine.name)
                dispatch = Dispatch(archive, rows, engine, scene, progress, say)
                dispatch.run(interrupted)
            kept.extend(dispatch.kept)
            if interrupted():
                raise KeyboardInterrupt

        if planned.pending:
            say(_plan_line(planned))
            work()
        else:
            _write_record(archive, card, scene, rows)
        skipped = planned.done
        if shard != WHOLE:
            archive.state.scan(archive.pool)
        left = archive.index.counts().pending
        if not left:
            try:
                archive.write_layers(progress)
            except ReportsDamaged as damaged:
                reports = (
                    f"{counted(len(damaged.pairs), 'damaged report')} made again ({_first(damaged.pairs)})"
                )
                (warn or say)(f"{reports}; the damaged file is kept as {DAMAGED}")
                skipped -= len(damaged.pairs)
                work()
                archive.write_layers(progress)
        page = None
        if options.pages and not left:
            # With libraries for pictures, which other runs do not need.
            from workflows.archive.layers.pages import write_pages

            without = write_pages(archive, scene, progress)
            if without and warn is not None:
                warn(f"{counted(len(without), 'pair')} without a page: scenes unreadable ({_first(without)})")
            page = str(archive.folder.page)
        counts = archive.index.counts(shard)
        changes, area, _ = archive.index.totals(shard)
        return ArchiveSummary(
            pairs=counts.total,
            done=counts.done,
            failed=counts.failed,
            skipped_as_done=skipped,
            changes=changes,
            area_m2=area,
            seconds=round(time.monotonic() - clock, 2),
            reasons=tuple(failure_reasons(archive.index.rows("failed", shard=shard))),
            kept=tuple(kept),
            warnings=tuple(warning_reasons(archive.index.rows("done", shard=shard, warned=True))),
            left=left,
            page=page,
        )


@contextmanager
def patient_interrupts() -> Iterator[Callable[[], bool]]:
    """In this block the first Ctrl-C is only noted; the next one interrupts as usual.

    Yields a function that returns whether Ctrl-C came. In a thread, which gets no signals, and where Ctrl-C
    is ignored, nothing changes.
    """
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.signal(signal.SIGINT, earlier)

    earlier = signal.getsignal(signal.SIGINT)
    try:
        if callable(earlier):
            signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread
        earlier = None
    try:
        yield lambda: came
    finally:
        if callable(earlier):
            signal.signal(signal.SIGINT, earlier)


def _plan_line(planned: Planned) -> str:
    reasons = {
        "changed inputs or settings": planned.changed,
        "failed before": planned.retried,
        "report removed or damaged": planned.removed,
    }
    why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
    line = f"{counted(planned.total, 'pair')}: {planned.done:,} done already, {planned.pending:,} to do"
    line += f" ({why})" if why else ""
    if planned.failed:
        line += f", {planned.failed:,} failed before (--retry-failed does them again)"
    if planned.kept:
        line += f", {len(planned.kept):,} kept with marks of people (--overwrite)"
    return line


def _first(pairs: Sequence[str]) -> str:
    return pairs[0] if len(pairs) == 1 else f"the first: {pairs[0]}"


def _write_record(
    archive: Archive,
    card: ModelCard,
    scene: SceneOptions,
    rows: Sequence[PairRow],
    engine: str | None = None,
) -> None:
    """Write how the reports are made; without an engine, only correct an existing record."""
    names = sha256("".join(f"{row.pair}\n" for row in rows).encode()).hexdigest()
    record: dict[str, Any] = {
        "model": model_record(card),
        "settings": settings_record(scene, card),
        "table": {"pairs": len(rows), "sha256": names},
    }
    earlier = read_json(archive.folder.record)
    if engine is None and not earlier:
        return
    record = earlier | record if engine is None else record | {"versions": versions(), "engine": engine}
    record = json.loads(json.dumps(record))
    if record != earlier:
        text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
        archive.claim.write(archive.folder.record, text.encode())
