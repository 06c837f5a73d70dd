"""The command ``rscc batch``."""

from __future__ import annotations

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
from workflows.cli.terminal import Terminal
from workflows.option_fields import read_shard
from workflows.options import SceneOptions

if TYPE_CHECKING:
    from workflows.archive.workers.engine import Engine
    from workflows.archive.workers.tasks import ModelSource


MAX_WORKERS = 4096
INCOMPLETE = 3
"""Exit code: some pairs failed, or kept an outdated report because people marked it."""
_OF_TABLE = ("date_before", "date_after")  # the table of pairs has them


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
    from workflows.archive.model_choice import model_for
    from workflows.archive.run import run_archive
    from workflows.archive.workers.tasks import ModelSource
    from workflows.cli.batch_text import archive_summary, estimate_text
    from workflows.errors import OptionInvalid
    from workflows.pairs.table import read_pairs

    expected = "the number of a shard and their count, such as 3/16"
    part = (1, 1) if shard is None else read_text("--shard", shard, read_shard, expected)
    work = ArchiveOptions(
        retries=retries,
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
    if not (dry_run or scheduler):
        _check_device(device)
    with terminal.progress() as update:
        if dry_run:
            from workflows.archive.estimate import estimate_archive

            count, threads = (1, 1) if scheduler else _local_workers(device, workers)
            load = None if scheduler else source.captioner
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


def _check_device(device: str) -> None:
    """Raise if this machine lacks the device, before anything is written."""
    if device not in ("auto", "cpu"):
        from rscc.devices import pick_device

        pick_device(device, hold=False)


def _local_workers(device: str, workers: int | None) -> tuple[int, int]:
    """Return the number of workers on this machine, and the threads of each."""
    from workflows.archive.workers.tasks import local_devices, threads_each

    count = len(local_devices(device, workers))
    return count, threads_each(count)


def _engine(
    source: ModelSource, workers: int | None, scheduler: str | None, retries: int, memory: int
) -> Engine:
    """Make the engine; Dask is imported only where pairs are to be processed."""
    from workflows.archive.workers.engine import Engine

    return Engine(source, workers=workers, scheduler=scheduler, retries=retries, memory=memory)
