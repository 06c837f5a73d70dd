"""The command ``rscc merge``; registered in the cli."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rscc.cli_options import Debug, JsonOption, QuietOption
from rscc.terminal import area_words

if TYPE_CHECKING:
    from workflows.merge import MergeSummary

# It was merged, but pairs failed, or shards are missing or not finished.
NOT_ALL_DONE = 3
# Shards that a line names; of more it says how many.
NAMED = 8


def merge(
    archive: Annotated[
        Path, typer.Argument(metavar="ARCHIVE", help="Archive that rscc batch --shard worked into.")
    ],
    remove_shards: Annotated[
        bool,
        typer.Option("--remove-shards", help="Remove the shards afterwards, if all of them are finished."),
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Make one archive of the shards of ARCHIVE, as if one run had done all pairs.

    To be repeated when more of the shards is done.
    """
    from rscc.terminal import progress_bar
    from workflows.merge import merge_shards

    with progress_bar(shown=not quiet and sys.stderr.isatty()) as progress:
        found = merge_shards(archive, remove=remove_shards, progress=progress)
    if not quiet:
        typer.echo(merge_summary(found, archive, remove_shards), err=as_json)
    if as_json:
        typer.echo(json.dumps({"archive": str(archive), **found.as_dict()}, ensure_ascii=False))
    if found.failed or not found.is_complete:
        raise typer.Exit(NOT_ALL_DONE)


def merge_summary(found: MergeSummary, archive: Path, remove: bool = False) -> str:
    """Say in a few lines what shards came to; ``remove``: whether they were to be removed."""
    there = found.shards - len(found.missing)
    lines = [
        f"{there:,} of {found.shards:,} shards: {found.done:,} of {found.pairs:,} pairs done",
        f"changes {found.changes:,}, {area_words(found.area_m2)}",
    ]
    if found.missing:
        lines.append(f"missing {_named([str(number) for number in found.missing])} of {found.shards:,}")
    if found.left:
        shards = _named([f"{number} ({left:,} pairs)" for number, left in found.unfinished.items()])
        where = f" in shards {shards}" if shards else ""
        lines.append(f"left    {found.left:,}{where}; run them again, then merge again")
    if found.failed:
        lines.append(f"failed  {found.failed:,} (rscc status {archive} --failed says why)")
    if found.removed:
        lines.append("shards  removed")
    elif remove:
        lines.append("shards  not removed: not all are there and finished")
    lines.append(f"layers  {archive}/changes.gpkg (open it in QGIS), changes.parquet, summary.csv")
    return "\n".join(lines)


def _named(items: list[str]) -> str:
    rest = len(items) - NAMED
    return ", ".join(items[:NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
