"""The command ``rscc convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workflows.cli.options import (
    Debug,
    HtmlSizeOption,
    ProgressForm,
    ProgressOption,
    QuietOption,
    read_size,
    takes_options,
)
from workflows.options import ServerOptions

STDOUT = "-"


@takes_options(ServerOptions, html_size=("offline", "allow_hosts"))
def convert(
    report: Annotated[str, typer.Argument(metavar="REPORT", help="A .geojson report, of any run.")],
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUT",
            help="The file to write: .geojson, .geojsonl, .gpkg, .fgb, .parquet or .html; - writes lines of "
            "GeoJSON to stdout.",
        ),
    ],
    options: ServerOptions,
    before: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of a page: where BEFORE is now; default: as the report says."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of a page: where AFTER is now; default: as the report says."),
    ] = None,
    html_size: HtmlSizeOption = "8MB",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    debug: Debug = False,
) -> None:
    """Write a report in another format, with the same changes and attributes; or as a page (.html).

    A page shows both scenes, which are read again.
    """
    from workflows.cli.terminal import say, say_json, shown_progress
    from workflows.errors import OptionInvalid
    from workflows.files import check_output
    from workflows.inspection.event import ReportedRun, read_report
    from workflows.page.page import check_page, write_page
    from workflows.page.template import SUFFIX
    from workflows.report.change import feature_of

    if (before is None) != (after is None):
        raise OptionInvalid(f"{before or after}: give --before and --after, or neither")
    size = read_size(html_size, "--html-size")
    as_page = Path(output).suffix.lower() == SUFFIX
    if as_page:
        target: Path | None = check_page(output, overwrite, (report,), size)
    else:
        target = None if output == STDOUT else check_output(output, overwrite, (report,))
    read = read_report(report)
    if target is None:
        for change in read.changes:
            say_json(feature_of(change))
        return
    if as_page:
        if before is not None and after is not None:
            scenes, servers = (before, after), options
        else:
            scenes, servers = ReportedRun(Path(report), read.run).scenes(), options.for_others()
        with shown_progress(progress, quiet) as update:
            write_page(
                read,
                Path(report),
                target,
                scenes=scenes,
                servers=servers,
                size=size,
                overwrite=overwrite,
                progress=update,
            )
    else:
        read.write(target, overwrite)
    if not quiet:
        count = len(read.changes)
        say(f"{target}: {count} change{'' if count == 1 else 's'}")
