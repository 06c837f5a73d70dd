"""The command ``rscc batch``; registered in the cli."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rscc.cli_options import (
    AlignOption,
    BandsOption,
    BatchSizeOption,
    BeamsOption,
    BoundsOption,
    Debug,
    DeviceOption,
    Focus,
    FocusOption,
    ForceOption,
    GroupDistanceOption,
    GsdOption,
    JsonOption,
    MemoryOption,
    MinAreaOption,
    ModelOption,
    NormalizeOption,
    QuietOption,
    RefineOption,
    RegularizeOption,
    ScaleOption,
    ThresholdOption,
    extra,
    scene_options,
)

if TYPE_CHECKING:
    from workflows.engine import Engine
    from workflows.tasks import ModelSource

Engines = StrEnum("Engines", ["local", "dask"])
# The run went through, but some pairs failed.
SOME_FAILED = 3


def batch(
    context: typer.Context,
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="Table of pairs, as rscc pairs writes it.")],
    output: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="ARCHIVE", help="Folder of the archive: a new one, or one to go on with."
        ),
    ],
    model: ModelOption = "rscc-base",
    bands: BandsOption = None,
    scale: ScaleOption = None,
    normalize: NormalizeOption = False,
    align: AlignOption = False,
    gsd: GsdOption = None,
    bbox: BoundsOption = None,
    threshold: ThresholdOption = None,
    min_area: MinAreaOption = 20.0,
    group_distance: GroupDistanceOption = 0.0,
    regularize: RegularizeOption = False,
    refine: RefineOption = None,
    focus_captions: FocusOption = Focus.mask,
    beams: BeamsOption = 3,
    batch_size: BatchSizeOption = 16,
    memory: MemoryOption = None,
    device: DeviceOption = "auto",
    force: ForceOption = False,
    engine: Annotated[
        Engines | None, typer.Option(help="Who does the work; default: local, with --scheduler dask.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; default: one per GPU, else one per core.")
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
        int, typer.Option(min=0, help="How often a pair is tried again that failed or crashed.")
    ] = 1,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also take up the pairs that failed in earlier runs.")
    ] = False,
    give_up_after: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Stop when the scenes of so many pairs in a row cannot be had; 0: never."
        ),
    ] = 25,
    split_above: Annotated[
        int,
        typer.Option(
            min=0, metavar="TILES", help="Cut pairs with more tiles than this among the workers; 0: none."
        ),
    ] = 4096,
    full_hash: Annotated[
        bool,
        typer.Option("--full-hash", help="Know scenes by all their bytes, not by size, time and header."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what there is to do, and what it would take.")
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Work through the table PAIRS into ARCHIVE: a report for every pair, and one layer of all changes.

    The same command goes on where it ended, whatever ended it, and repeats nothing.
    """
    from rscc.cli_archive_texts import archive_summary, estimate_text
    from rscc.terminal import progress_bar, show_warnings
    from rscc.weights import check_whole
    from workflows.archive import run_archive
    from workflows.archive_estimate import estimate_archive
    from workflows.pair_table import read_pairs
    from workflows.tasks import ModelSource

    options, share = scene_options(context.params), read_shard(shard)
    rows = read_pairs(pairs, warn=lambda line: show_warnings([line]))
    card = context.obj.load_card(model)
    check_whole(card, model)
    start = _engine_factory(engine, scheduler, workers, gpu_workers)
    if not (dry_run or scheduler):
        _try_out(device, options.refine)
    with progress_bar(shown=not quiet and sys.stderr.isatty()) as progress:
        if dry_run:
            count, threads = _cores_of(device, workers, scheduler)
            expected = estimate_archive(
                rows,
                output,
                card,
                options,
                workers=count,
                threads=threads,
                retry_failed=retry_failed,
                full_hash=full_hash,
                shard=share,
                progress=progress,
            )
            _show(estimate_text(expected), expected.as_dict(), output, quiet, as_json)
            return
        found = run_archive(
            rows,
            output,
            card,
            ModelSource(model, device, context.obj.load_captioner),
            start,
            options,
            retries=retries,
            retry_failed=retry_failed,
            full_hash=full_hash,
            shard=share,
            split_above=split_above or None,
            give_up_after=give_up_after,
            progress=progress,
            notice=None if quiet else lambda line: typer.echo(line, err=True),
        )
    _show(archive_summary(found, output), found.as_dict(), output, quiet, as_json)
    if found.failed:
        raise typer.Exit(SOME_FAILED)


def read_shard(text: str | None) -> tuple[int, int] | None:
    """Parse ``3/16``: the third of sixteen shards.

    Raises:
        OptionInvalid: not two numbers, or no such shard.
    """
    from workflows.errors import OptionInvalid

    if text is None:
        return None
    named = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    number, count = (int(named[1]), int(named[2])) if named else (0, 0)
    if not 1 <= number <= count:
        raise OptionInvalid(f"--shard {text!r}: give a number from 1 and how many there are, such as 3/16")
    return number, count


def _try_out(device: str, refine: str | None) -> None:
    """Make sure that workers on this machine have what they need, before anything is made.

    Raises:
        DeviceUnavailable: there is no such device.
        OptionInvalid, ExtraNotInstalled, WeightsNotFound: there is no such segmenter.
    """
    if device not in ("auto", "cpu"):
        from rscc.devices import pick_device

        pick_device(device, hold=False)
    if refine is not None:
        from workflows.refining import open_segmenter

        open_segmenter(refine)


def _engine_factory(
    engine: Engines | None, scheduler: str | None, workers: int | None, gpu_workers: bool
) -> Callable[[ModelSource], Engine]:
    """Return what starts the engine that was asked for.

    Raises:
        OptionInvalid: the options do not go together.
    """
    from workflows.errors import OptionInvalid

    engine = engine or (Engines.dask if scheduler or gpu_workers else Engines.local)
    if engine is Engines.local:
        if scheduler or gpu_workers:
            raise OptionInvalid("--engine local has no scheduler; leave it out, or give --engine dask")
        return partial(_local, workers)
    if scheduler and workers:
        raise OptionInvalid(
            "--workers is for workers of its own, --scheduler for those of a cluster; give one"
        )
    return partial(_dask, workers, scheduler, gpu_workers)


def _local(workers: int | None, source: ModelSource) -> Engine:
    from workflows.engine_local import LocalEngine, local_devices

    devices = local_devices(source.device, workers)
    return LocalEngine(source, len(devices), devices)


def _dask(workers: int | None, scheduler: str | None, gpu_workers: bool, source: ModelSource) -> Engine:
    with extra("distributed"):
        from workflows.engine_dask import DaskEngine

    return DaskEngine(source, workers, scheduler, gpu_workers=gpu_workers)


def _cores_of(device: str, workers: int | None, scheduler: str | None) -> tuple[int, int]:
    """Return how many workers an estimate is for, and the cores of each."""
    from workflows.processes import local_devices, threads_each

    if scheduler:
        return 1, 1
    count = len(local_devices(device, workers))
    return count, threads_each(count)


def _show(text: str, found: dict[str, Any], output: Path, quiet: bool, as_json: bool) -> None:
    if not quiet:
        typer.echo(text, err=as_json)
    if as_json:
        typer.echo(json.dumps({"archive": str(output), **found}, ensure_ascii=False))
