"""The command ``rscc qgis``."""

from pathlib import Path
from typing import Annotated

from workflows.cli.options import (
    OverwriteOption,
    ReportArgument,
    argument,
    moved_scenes,
    option,
    takes_options,
)
from workflows.cli.terminal import Terminal
from workflows.options import ServerOptions
from workflows.printable import counted


@takes_options(ServerOptions, "offline")
def qgis(
    report: ReportArgument,
    options: ServerOptions,
    before: Annotated[str | None, argument("[BEFORE]", "Where the scene before is now")] = None,
    after: Annotated[str | None, argument("[AFTER]", "Where the scene after is now")] = None,
    output: Annotated[
        Path | None,
        option(
            "Project, .qgz or .qgs; default: <REPORT>.qgz beside the report",
            "FILE",
            "--output",
            "-o",
            panel="Output",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    *,
    terminal: Terminal,
) -> None:
    """Write a QGIS project of a report: both scenes, the changes, and a bookmark for each change."""
    from workflows.report.qgis.project import MOST_BOOKMARKS, write_project

    scenes = moved_scenes(before, after)
    path, changes = write_project(report, output, scenes, servers=options, overwrite=overwrite)
    bookmarks = min(changes, MOST_BOOKMARKS)
    text = f"{path}: {counted(changes, 'change')}, {bookmarks:,} as bookmarks; open it in QGIS"
    terminal.result(text, {"output": str(path), "changes": changes, "bookmarks": bookmarks})
