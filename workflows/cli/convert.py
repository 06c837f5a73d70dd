"""The command ``rscc convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from workflows.cli.options import (
    Debug,
    HtmlFolderOption,
    HtmlSizeOption,
    ProgressForm,
    ProgressOption,
    QuietOption,
    read_size,
    takes_options,
)
from workflows.options import ServerOptions

STDOUT = "-"


@takes_options(ServerOptions, html_folder=("offline", "allow_hosts"))
def convert(
    report: Annotated[str, typer.Argument(metavar="REPORT", help="A .geojson report, of any run.")],
    options: ServerOptions,
    output: Annotated[
        str | None,
        typer.Argument(
            metavar="OUT",
            help="The file to write: .geojson, .geojsonl, .gpkg, .fgb, .parquet or .html; - writes lines of "
            "GeoJSON to stdout. With --html-folder, none.",
            show_default=False,
        ),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Of a page, or the pictures in a .gpkg: where BEFORE is now; default: as the report says.",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where AFTER is now, likewise; default: as the report says."),
    ] = None,
    html_size: HtmlSizeOption = "8MB",
    html_folder: HtmlFolderOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    debug: Debug = False,
) -> None:
    """Write a report in another format, with the same changes and attributes; or as a page (.html, a folder).

    A page shows both scenes, which are read again.
    """
    from workflows.cli.terminal import say, say_json, shown_progress
    from workflows.errors import OptionInvalid
    from workflows.files import check_output
    from workflows.inspection.event import ReportedRun, read_report
    from workflows.page.chips import chips_of
    from workflows.page.folder import check_page_folder, write_page_folder
    from workflows.page.page import check_page, write_page
    from workflows.page.template import SUFFIX
    from workflows.report.change import feature_of

    if (before is None) != (after is None):
        raise OptionInvalid(f"{before or after}: give --before and --after, or neither")
    if (output is None) == (html_folder is None):
        raise OptionInvalid("give OUT, or --html-folder: one of them")
    size = read_size(html_size, "--html-size")
    target = Path(output) if output is not None and output != STDOUT else None
    as_page = target is not None and target.suffix.lower() == SUFFIX
    if html_folder is not None:
        check_page_folder(html_folder, overwrite, (report,))
    elif target is not None:
        if as_page:
            check_page(target, overwrite, (report,), size)
        else:
            check_output(target, overwrite, (report,))
    read = read_report(report)
    if output == STDOUT:
        for change in read.changes:
            say_json(feature_of(change))
        return
    if target is not None and not as_page:
        chips = None
        if target.suffix.lower() == ".gpkg" and before is not None and after is not None:
            chips = chips_of(read, Path(report), (before, after), options)
        read.write(target, overwrite, chips)
    else:
        if before is not None and after is not None:
            scenes, servers = (before, after), options
        else:
            scenes, servers = ReportedRun(Path(report), read.run).scenes(), options.for_others()
        given: dict[str, Any] = {"scenes": scenes, "servers": servers, "overwrite": overwrite}
        with shown_progress(progress, quiet) as update:
            if html_folder is not None:
                target = write_page_folder(read, Path(report), html_folder, **given, progress=update)
            elif target is not None:
                write_page(read, Path(report), target, **given, size=size, progress=update)
    if not quiet:
        count = len(read.changes)
        say(f"{target}: {count} change{'' if count == 1 else 's'}")
