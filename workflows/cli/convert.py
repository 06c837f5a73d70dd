"""The command ``rscc convert``."""

from __future__ import annotations

from typing import Annotated

import typer

from workflows.cli.options import Debug, QuietOption

STDOUT = "-"


def convert(
    report: Annotated[str, typer.Argument(metavar="REPORT", help="A .geojson report, of any run.")],
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUT",
            help="The file to write: .geojson, .geojsonl, .gpkg, .fgb or .parquet; - writes lines of GeoJSON "
            "to stdout.",
        ),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    quiet: QuietOption = False,
    debug: Debug = False,
) -> None:
    """Write a report in another format, with the same changes and attributes."""
    from workflows.cli.terminal import say, say_json
    from workflows.files import check_output
    from workflows.inspection.event import read_report
    from workflows.report.change import feature_of

    target = None if output == STDOUT else check_output(output, overwrite, (report,))
    read = read_report(report)
    if target is None:
        for change in read.changes:
            say_json(feature_of(change))
        return
    read.write(target, overwrite)
    if not quiet:
        count = len(read.changes)
        say(f"{target}: {count} change{'' if count == 1 else 's'}")
