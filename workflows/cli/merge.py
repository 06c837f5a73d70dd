"""The command ``rscc merge``; registered in the cli."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workflows.cli.batch import NOT_ALL, kept_line
from workflows.cli.options import Debug, JsonOption, ProgressForm, ProgressOption, QuietOption
from workflows.cli.terminal import area_words
from workflows.texts import shown_lines

if TYPE_CHECKING:
    from workflows.archive.merge import MergeSummary


def merge(
    archive: Annotated[
        Path, typer.Argument(metavar="ARCHIVE", help="Archive that rscc batch --shard worked into.")
    ],
    remove_shards: Annotated[
        bool,
        typer.Option("--remove-shards", help="Remove the shards afterwards."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also replace reports that people have marked.")
    ] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Build one archive anew of the finished shards of ARCHIVE, as if one run had done all pairs."""
    from workflows.archive.merge import merge_shards
    from workflows.cli.terminal import show_result, shown_progress

    with shown_progress(progress, quiet) as update:
        result = merge_shards(archive, remove=remove_shards, overwrite=overwrite, progress=update)
    facts = {"archive": str(archive), **asdict(result)}
    show_result(merge_summary(result, archive, remove_shards), facts, progress, quiet=quiet, as_json=as_json)
    if result.failed or result.kept:
        raise typer.Exit(NOT_ALL)


def merge_summary(result: MergeSummary, archive: Path, remove_shards: bool = False) -> str:
    """Say in a few lines what shards came to."""
    lines = [
        f"{result.shards:,} shards: {result.done:,} of {result.pairs:,} pairs done",
        f"changes {result.changes:,}, {area_words(result.area_m2)}",
    ]
    if result.failed:
        lines.append(f"failed  {result.failed:,} (rscc status {archive} --failed says why)")
    if result.kept:
        lines.append(kept_line(result.kept))
    if remove_shards and not result.removed:
        lines.append("shards  not removed, for these have other reports of them")
    if result.removed:
        lines.append("shards  removed")
    lines.append(f"layers  {archive}/changes.gpkg (open it in QGIS), changes.parquet, summary.csv")
    return shown_lines(lines)
