"""The command ``rscc qgis``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workflows.cli.options import Debug, JsonOption, QuietOption, takes_options
from workflows.options import ServerOptions
from workflows.texts import counted


@takes_options(ServerOptions, overwrite=("offline",))
def qgis(
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="A report: .geojson, .gpkg or .parquet.")],
    options: ServerOptions,
    before: Annotated[
        str | None, typer.Argument(metavar="[BEFORE]", help="Where the scene before is now.")
    ] = None,
    after: Annotated[
        str | None, typer.Argument(metavar="[AFTER]", help="Where the scene after is now.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Project to write, .qgz or .qgs; default: <REPORT>.qgz beside the report."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing project.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Write a QGIS project of a report: both scenes, the changes on top, a bookmark for each."""
    from workflows.cli.terminal import say, say_json
    from workflows.errors import OptionInvalid
    from workflows.inspection.project import write_project

    if before is not None and after is None:
        raise OptionInvalid(f"{before}: give BEFORE and AFTER, or neither")
    scenes = None if before is None or after is None else (before, after)
    made = write_project(report, output, scenes, servers=options, overwrite=overwrite)
    if not quiet:
        count = counted(made.changes, "change")
        say(f"{made.path}: {count}, {made.bookmarks:,} as bookmarks; open it in QGIS", err=as_json)
    if as_json:
        say_json({"output": str(made.path), "changes": made.changes, "bookmarks": made.bookmarks})
