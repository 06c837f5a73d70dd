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
    from workflows.files import check_output
    from workflows.inspection.event import read_report
    from workflows.report.change import feature_of
    from workflows.report.geojson import json_text

    target = None if output == STDOUT else check_output(output, overwrite)
    read = read_report(report)
    if target is None:
        for change in read.changes:
            typer.echo(json_text(feature_of(change)))
        return
    read.write(target, overwrite)
    if not quiet:
        typer.echo(f"{target}: {len(read.changes)} changes")
