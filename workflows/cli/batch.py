"""The command ``rscc batch``, and its summaries: what a run did, and what a dry run expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workflows.cli.options import (
    DETECTION,
    READING,
    BySizeModelOption,
    DetectorOption,
    DeviceOption,
    argument,
    option,
    read_text,
    switch,
    takes_options,
)
from workflows.cli.terminal import Terminal, area_text
from workflows.option_fields import read_shard
from workflows.options import SceneOptions
from workflows.printable import counted, printable_lines
from workflows.progress import duration

if TYPE_CHECKING:
    from workflows.archive.estimate import Estimate
    from workflows.archive.run import ArchiveSummary
    from workflows.archive.workers.engine import Engine
    from workflows.archive.workers.tasks import ModelSource

MAX_WORKERS = 4096
INCOMPLETE = 3
"""Exit code: some pairs failed, or kept an outdated report because people marked it."""
_OF_TABLE = ("date_before", "date_after")  # the table of pairs has them
REASONS = 5
"""Reasons of failures, and warnings, that are listed; ``rscc status`` lists all."""


@takes_options(SceneOptions, *(name for name in READING if name not in _OF_TABLE), "allow_hosts", *DETECTION)
def batch(
    context: typer.Context,
    pairs: Annotated[Path, argument("PAIRS", "Table of pairs, as rscc pairs writes it")],
    output: Annotated[
        Path,
        option("Folder of the archive, new or to continue", "ARCHIVE", "--out", "-o", panel="Output"),
    ],
    options: SceneOptions,
    model: BySizeModelOption = None,
    detector: DetectorOption = None,
    device: DeviceOption = "auto",
    workers: Annotated[
        int | None,
        option("Worker processes; default: one per GPU, else per core", "N", min=1, max=MAX_WORKERS),
    ] = None,
    scheduler: Annotated[
        str | None, option("Dask scheduler of a cluster, such as tcp://HOST:8786", "ADDRESS")
    ] = None,
    shard: Annotated[
        str | None, option("Process only this share of the pairs, for job arrays", "I/N")
    ] = None,
    retries: Annotated[int, option("Retries per pair", "N", min=0, max=1000)] = 1,
    retry_failed: Annotated[bool, switch("--retry-failed", "Retry pairs that failed before")] = False,
    overwrite: Annotated[
        bool, switch("--overwrite", "Replace outdated reports that people marked", "Output")
    ] = False,
    html: Annotated[
        bool,
        switch("--html", "Also write a web page of each pair, and ARCHIVE/archive.html of all", "Output"),
    ] = False,
    keep_maps: Annotated[
        bool, switch("--keep-maps", "Keep the maps of each pair in its folder, for rscc monitor", "Output")
    ] = False,
    dry_run: Annotated[
        bool, switch("--dry-run", "Only print the work to do, with time and disk space")
    ] = False,
    *,
    terminal: Terminal,
) -> None:
    """Process the table PAIRS into ARCHIVE: a report for each pair, and one layer of all changes.

    The same command resumes an interrupted run. Finished pairs are not processed again.
    """
    from rscc.model_folder import check_whole
    from workflows.archive.archive import ArchiveOptions
    from workflows.archive.folder import ArchiveFolder
    from workflows.archive.plan import model_for
    from workflows.archive.run import run_archive
    from workflows.archive.workers.tasks import ModelSource, local_devices
    from workflows.errors import OptionInvalid
    from workflows.pairs.table import read_pairs
    from workflows.progress import threads_each

    expected = "the number of a shard and their count, such as 3/16"
    part = (1, 1) if shard is None else read_text("--shard", shard, read_shard, expected)
    work = ArchiveOptions(
        retry_failed=retry_failed,
        overwrite=overwrite,
        shard=part,
        pages=html,
        keep_maps=keep_maps,
    )
    if ArchiveFolder(output).writes(pairs):
        raise OptionInvalid(f"{pairs}: the run would replace it; keep the table outside of the archive")
    rows = read_pairs(pairs, warn=terminal.warn)
    if model is None:
        model, options, other_sizes = model_for(rows, ArchiveFolder(output), options)
        terminal.warn(*filter(None, [other_sizes]))
    card = context.obj.load_card(model)
    check_whole(card, model)
    if detector is not None:
        from rscc.models.torchgeo_detector import load_torchgeo

        card = load_torchgeo(detector, card).card
    if scheduler and workers:
        raise OptionInvalid("--workers starts local workers, --scheduler uses a cluster's; give only one")
    source = ModelSource(model, device, context.obj.captioner_factory, detector)
    if not (dry_run or scheduler) and device not in ("auto", "cpu"):
        from rscc.devices import pick_device

        pick_device(device, hold=False)  # raises where this machine lacks it, before anything is written

    with terminal.progress() as update:
        if dry_run:
            from workflows.archive.estimate import estimate_archive

            count = 1 if scheduler else len(local_devices(device, workers))
            threads, load = (1, None) if scheduler else (threads_each(count), source.captioner)
            estimate = estimate_archive(
                rows, output, card, options, work, workers=count, threads=threads, load=load, progress=update
            )
            terminal.result(estimate_text(estimate), {"archive": str(output), **estimate.as_dict()})
            return
        result = run_archive(
            rows,
            output,
            card,
            partial(_engine, source, workers, scheduler, retries, options.memory or 0),
            options,
            work,
            progress=update,
            notice=terminal.notice,
            warn=terminal.warn,
        )
    terminal.result(archive_summary(result, output), {"archive": str(output), **asdict(result)})
    if result.failed or result.kept:
        raise typer.Exit(INCOMPLETE)


def _engine(
    source: ModelSource, workers: int | None, scheduler: str | None, retries: int, memory: int
) -> Engine:
    """Make the engine; Dask is imported only where pairs are to be processed."""
    from workflows.archive.workers.engine import Engine

    return Engine(source, workers=workers, scheduler=scheduler, retries=retries, memory=memory)


def archive_summary(result: ArchiveSummary, output: Path) -> str:
    """Return a few lines about a run over the archive, or the shard, in ``output``."""
    before = f" ({result.skipped_as_done:,} of them before)" if result.skipped_as_done else ""
    lines = [
        f"{result.done:,} of {result.pairs:,} pairs done{before} in {result.seconds:.1f} s",
        f"changes {result.changes:,}, {area_text(result.area_m2)}",
    ]
    if result.failed:
        lines.append(f"failed  {result.failed:,} (list: rscc status {output} --failed)")
        lines += [f"        {reason.count:,}: {reason.line}" for reason in result.reasons[:REASONS]]
    if result.warnings:
        kinds = counted(len(result.warnings), "kind")
        lines.append(f"warned  {kinds} of warnings (list: rscc status {output} --warnings)")
        lines += [f"        {warning.count:,}: {warning.line}" for warning in result.warnings[:REASONS]]
    if result.kept:
        lines.append(kept_line(result.kept))
    if result.left:
        lines.append(f"layers  written when the {result.left:,} pairs of other shards are finished")
    else:
        lines.append(f"layers  {output / 'changes.gpkg'} (open it in QGIS), changes.parquet, summary.csv")
    if result.page:
        lines.append(f"page    {result.page} (open it in a browser)")
    return printable_lines(lines)


def kept_line(pairs: Sequence[str]) -> str:
    """Return the line about outdated reports that were kept because people marked them."""
    first = pairs[0] if len(pairs) == 1 else f"{pairs[0]} and others"
    return f"kept    {len(pairs):,} outdated reports with marks: {first} (--overwrite replaces them)"


def estimate_text(result: Estimate) -> str:
    """Return a few lines about what a run over an archive would do, and its cost."""
    planned = result.planned
    details = [
        (planned.new, "new"),
        (planned.changed, "with changed inputs or settings"),
        (planned.removed, "with a removed or damaged report"),
    ]
    lines = [
        f"pairs   {planned.total:,}: {planned.done:,} done, {planned.failed:,} failed, "
        f"{planned.pending:,} to do" + _listed(details)
    ]
    if planned.kept:
        lines.append(kept_line(planned.kept))
    unknown = [(result.remote, "on servers, of unknown size"), (result.missing, "missing")]
    lines.append(f"scenes  {size_text(result.input_bytes)} to read" + _listed(unknown))
    if result.looked_at < planned.pending:
        lines.append(
            f"sample  extrapolated from the headers of {result.looked_at:,} of the {planned.pending:,} pairs"
        )
    for reason in result.reasons:
        lines.append(f"refused {reason.count:,} of {result.looked_at:,}: {reason.line}")
    lines += [f"tiles   {result.tiles:,}", f"time    {_time_words(result)}"]
    lines.append(f"disk    about {size_text(result.disk_bytes)}, {size_text(result.free_bytes)} are free")
    return printable_lines(lines)


def _listed(counts: Sequence[tuple[int, str]]) -> str:
    return "".join(f", {count:,} {what}" for count, what in counts if count)


def _time_words(result: Estimate) -> str:
    if result.worker_seconds is None or result.seconds is None:
        return "unknown until 20 pairs are done"
    alone, together = duration(result.worker_seconds), duration(result.seconds)
    source = "the pairs that are done" if result.speed == "archive" else "this machine, measured on one tile"
    return f"{alone} of one worker, {together} with {result.workers:,} (at the speed of {source})"


def size_text(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
