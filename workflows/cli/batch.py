"""The command ``rscc batch``; registered in the cli."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rscc.errors import extra
from rscc.shipped import DEFAULT_MODEL
from workflows.cli.options import (
    FINDING,
    READING,
    Debug,
    DeviceOption,
    JsonOption,
    ModelOption,
    ProgressForm,
    ProgressOption,
    QuietOption,
    takes_options,
)
from workflows.cli.terminal import area_words
from workflows.options import SceneOptions
from workflows.progress import duration
from workflows.texts import counted, shown_lines

if TYPE_CHECKING:
    from workflows.archive.estimate import Estimate
    from workflows.archive.run import ArchiveSummary
    from workflows.engines.engine import Engine
    from workflows.engines.tasks import ModelSource


# Pairs or tiles, and processes of one machine.
MOST, MOST_WORKERS = 10**9, 4096
# The run went through, but some pairs failed, or have the report of before as people marked it.
NOT_ALL = 3
# Reasons of failures that are told; rscc status has them all.
REASONS = 5


@takes_options(
    SceneOptions,
    model=(*READING, "allow_hosts", *FINDING),
    device=("force",),
)
def batch(
    context: typer.Context,
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="Table of pairs, as rscc pairs writes it.")],
    output: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="ARCHIVE", help="Folder of the archive: a new one, or one to go on with."
        ),
    ],
    options: SceneOptions,
    model: ModelOption = DEFAULT_MODEL,
    device: DeviceOption = "auto",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_WORKERS, help="Worker processes; default: one per GPU, else one per core."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Dask scheduler of an existing cluster, such as tcp://HOST:8786."
        ),
    ] = None,
    gpu_workers: Annotated[
        bool, typer.Option("--gpu-workers", help="Only Dask workers that have the resource GPU.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Only this share of the pairs, as of a job array; see rscc merge."),
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, max=1000, help="How often a pair is tried again that failed or crashed.")
    ] = 1,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also take up the pairs that failed in earlier runs.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also do pairs anew whose reports people have marked.")
    ] = False,
    give_up_after: Annotated[
        int,
        typer.Option(
            min=0,
            max=MOST,
            metavar="N",
            help="Stop when the scenes of so many pairs in a row cannot be had; 0: never.",
        ),
    ] = 25,
    split_above: Annotated[
        int,
        typer.Option(
            min=0,
            max=MOST,
            metavar="TILES",
            help="Cut pairs with more tiles than this among the workers; 0: none.",
        ),
    ] = 1024,
    isolate: Annotated[
        bool,
        typer.Option(
            "--isolate/--no-isolate",
            help="Limit what a worker of this machine may take for a pair: memory, processor time, files.",
        ),
    ] = True,
    full_hash: Annotated[
        bool,
        typer.Option("--full-hash", help="Know scenes by all their bytes, not by size, time and header."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what there is to do, and what it would take.")
    ] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Work through the table PAIRS into ARCHIVE: a report for every pair, and one layer of all changes.

    The same command resumes it, whatever ended it, and repeats nothing.
    """
    from rscc.model_folder import check_whole
    from workflows.archive.plan import ArchiveOptions, archive_of
    from workflows.archive.run import run_archive
    from workflows.cli.terminal import show_notice, show_result, show_warnings, shown_progress
    from workflows.engines.processes import local_devices, threads_each
    from workflows.engines.tasks import ModelSource
    from workflows.pairs.table import read_pairs

    work = ArchiveOptions(
        retries=retries,
        retry_failed=retry_failed,
        overwrite=overwrite,
        full_hash=full_hash,
        shard=read_shard(shard),
        split_above=split_above or None,
        give_up_after=give_up_after,
    )

    def warn(line: str) -> None:
        show_warnings([line], progress)

    rows = read_pairs(pairs, warn=warn)
    card = context.obj.load_card(model)
    check_whole(card, model)
    start = _engine_factory(scheduler, workers, gpu_workers, isolate)
    if not (dry_run or scheduler):
        _try_out(device, options.refine)
    with shown_progress(progress, quiet) as update:
        if dry_run:
            count = 1 if scheduler else len(local_devices(device, workers))
            from workflows.archive.estimate import estimate_archive

            expected = estimate_archive(
                rows,
                output,
                card,
                options,
                work,
                workers=count,
                threads=1 if scheduler else threads_each(count),
                progress=update,
            )
            facts = {"archive": str(output), **expected.as_dict()}
            show_result(estimate_text(expected), facts, progress, quiet=quiet, as_json=as_json)
            return
        result = run_archive(
            rows,
            output,
            card,
            ModelSource(model, device, context.obj.captioner_factory),
            start,
            options,
            work,
            progress=update,
            notice=None if quiet else partial(show_notice, form=progress),
            warn=warn,
        )
    facts = {"archive": str(output), **asdict(result)}
    made = archive_of(output, work.shard).path
    show_result(archive_summary(result, made), facts, progress, quiet=quiet, as_json=as_json)
    if result.failed or result.kept:
        raise typer.Exit(NOT_ALL)


def read_shard(text: str | None) -> tuple[int, int] | None:
    """Parse ``3/16``: the third of sixteen shards.

    Raises:
        OptionInvalid: not two numbers, or no such shard.
    """
    from workflows.errors import OptionInvalid

    if text is None:
        return None
    named = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
    number, count = map(int, named.groups()) if named else (0, 0)
    if not 1 <= number <= count:
        raise OptionInvalid(
            f"--shard {text[:40]!r}: give a number from 1 and how many there are, such as 3/16"
        )
    return number, count


def _try_out(device: str, refine: str | None) -> None:
    """Make sure that workers on this machine have what they need, before anything is made."""
    if device not in ("auto", "cpu"):
        from rscc.devices import pick_device

        pick_device(device, hold=False)
    if refine is not None:
        from workflows.scene.refinement import open_segmenter

        open_segmenter(refine)


def _engine_factory(
    scheduler: str | None, workers: int | None, gpu_workers: bool, isolate: bool
) -> Callable[[ModelSource], Engine]:
    """Return what starts the engine that was asked for."""
    from workflows.errors import OptionInvalid

    if scheduler is None:
        if gpu_workers:
            raise OptionInvalid(
                "--gpu-workers is for those of a cluster; give its --scheduler, or leave it out"
            )
        return partial(_local, workers, isolate)
    if workers:
        raise OptionInvalid(
            "--workers is for workers of its own, --scheduler for those of a cluster; give one"
        )
    return partial(_dask, scheduler, gpu_workers)


def _local(workers: int | None, isolate: bool, source: ModelSource) -> Engine:
    from workflows.engines.limits import Limits
    from workflows.engines.local import LocalEngine

    return LocalEngine(source, workers, Limits() if isolate else None)


def _dask(scheduler: str, gpu_workers: bool, source: ModelSource) -> Engine:
    with extra("distributed"):
        from workflows.engines.dask import DaskEngine

    return DaskEngine(source, scheduler, gpu_workers=gpu_workers)


def archive_summary(result: ArchiveSummary, output: Path) -> str:
    """Say in a few lines what a run over an archive, or over a shard of it, in ``output`` came to."""
    before = f" ({result.skipped_as_done:,} of them before)" if result.skipped_as_done else ""
    lines = [
        f"{result.done:,} of {result.pairs:,} pairs done{before} in {result.seconds:.1f} s",
        f"changes {result.changes:,}, {area_words(result.area_m2)}",
    ]
    if result.failed:
        lines.append(f"failed  {result.failed:,} (rscc status {output} --failed lists them)")
        lines += [f"        {reason.count:,}: {reason.line}" for reason in result.reasons[:REASONS]]
    if result.warnings:
        lines.append(f"warned  of {counted(len(result.warnings), 'thing')} (rscc status {output} --warnings)")
        lines += [f"        {warning.count:,}: {warning.line}" for warning in result.warnings[:REASONS]]
    if result.kept:
        lines.append(kept_line(result.kept))
    return shown_lines(
        [*lines, f"layers  {output / 'changes.gpkg'} (open it in QGIS), changes.parquet, summary.csv"]
    )


def kept_line(pairs: Sequence[str]) -> str:
    """Say of which pairs the reports were left though they are of other scenes, dates, options or models."""
    first = pairs[0] if len(pairs) == 1 else f"{pairs[0]} and others"
    return f"kept    {len(pairs):,} as people marked the report: {first} (--overwrite replaces it)"


def estimate_text(result: Estimate) -> str:
    """Say in a few lines what a run over an archive would do and take."""
    planned = result.planned
    new = f", {planned.new:,} new" if planned.new else ""
    changed = f", {planned.changed:,} with changed inputs or settings" if planned.changed else ""
    removed = f", {planned.removed:,} with a report removed or cut off" if planned.removed else ""
    lines = [
        f"pairs   {planned.total:,}: {planned.done:,} done, {planned.failed:,} failed, "
        f"{planned.pending:,} to do{new}{changed}{removed}"
    ]
    if planned.kept:
        lines.append(kept_line(planned.kept))
    unknown = [(result.remote, "on servers, their size not asked"), (result.missing, "missing")]
    lines.append(
        f"scenes  {_size(result.input_bytes)} to read"
        + "".join(f", {count:,} {what}" for count, what in unknown if count)
    )
    if result.looked_at < planned.pending:
        lines.append(
            f"sample  headers of {result.looked_at:,} of the {planned.pending:,} pairs to do were read; "
            "what follows is taken from them"
        )
    for reason in result.reasons:
        lines.append(f"refused {reason.count:,} of {result.looked_at:,}: {reason.line}")
    lines.append(f"tiles   {result.tiles:,}")
    if result.worker_seconds is None or result.seconds is None:
        lines.append("time    unknown: this model has no stated speed; it is known once 20 pairs are done")
    else:
        text = f"{duration(result.worker_seconds)} of one worker, {duration(result.seconds)} with "
        text += f"{result.workers:,}"
        if result.change_seconds is None:
            lines.append(f"time    {text} (as fast as the pairs that are done)")
        else:
            change = f"{result.change_seconds:.2g} s of one worker for each change found"
            lines += [
                f"time    {text}, to find the changes;",
                f"        besides {change}, reading, and the start of the workers",
                "        (stated for server cores with bf16, others take several times as long:",
                "        rscc inspect BEFORE AFTER --time measures a pair here)",
            ]
    lines.append(f"disk    about {_size(result.disk_bytes)}, {_size(result.free_bytes)} are free")
    return shown_lines(lines)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
