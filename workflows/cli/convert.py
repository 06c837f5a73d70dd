"""The command ``rscc convert``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workflows.cli.options import (
    Debug,
    HtmlSizeOption,
    ProgressForm,
    ProgressOption,
    QuietOption,
    extra,
    read_size,
    takes_options,
)
from workflows.options import SceneOptions, ServerOptions

if TYPE_CHECKING:
    from workflows.report.postgis import Database

STDOUT = "-"


def _anew(name: str, meaning: str) -> Any:
    help = f"Make the changes anew: {meaning}; default: as in the report."
    return field(default=None, metadata={"option": replace(SceneOptions.option(name), help=help)})


@dataclass(frozen=True)
class ConvertOptions(ServerOptions):
    """Which servers may be asked, and by what settings the changes are made anew; None keeps the report's."""

    threshold: float | None = _anew("threshold", "probability from which a pixel is changed")
    min_area: float | None = _anew("min_area", "without those smaller than this, in square metres")
    group_distance: float | None = _anew("group_distance", "outlines at most so many metres apart are one")


@takes_options(
    ConvertOptions,
    output=("threshold", "min_area", "group_distance"),
    html_size=("offline", "allow_hosts"),
)
def convert(
    report: Annotated[str, typer.Argument(metavar="REPORT", help="A .geojson report, of any run.")],
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUT",
            help="The file to write: .geojson, .geojsonl, .gpkg, .fgb, .parquet or .html; - writes lines of "
            "GeoJSON to stdout; postgresql://USER@HOST/DATABASE?table=NAME writes a table of PostGIS.",
        ),
    ],
    options: ConvertOptions,
    probability: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The change probability that rscc caption kept; default: as the report says, or beside it.",
        ),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of a page: where BEFORE is now; default: as the report says."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of a page: where AFTER is now; default: as the report says."),
    ] = None,
    html_size: HtmlSizeOption = "8MB",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file or table.")
    ] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    debug: Debug = False,
) -> None:
    """Write a report in another format, with the same changes and attributes; or as a page (.html).

    A page shows both scenes, which are read again. With --threshold, --min-area or --group-distance the
    changes are made anew from the change probability that was kept.
    """
    from workflows.addresses import is_database
    from workflows.cli.terminal import say, say_json, show_warnings, shown_progress
    from workflows.errors import OptionInvalid
    from workflows.files import check_output
    from workflows.inspection.event import ReportedRun, read_report
    from workflows.inspection.remake import MADE_BY, remade
    from workflows.page.page import check_page, write_page
    from workflows.page.template import SUFFIX
    from workflows.report.change import feature_of

    if (before is None) != (after is None):
        raise OptionInvalid(f"{before or after}: give --before and --after, or neither")
    if is_database(report):
        raise OptionInvalid("REPORT: a database is what a report is written to; give REPORT first, then OUT")
    settings = {name: getattr(options, name) for name in MADE_BY}
    anew = any(value is not None for value in settings.values())
    if probability is not None and not anew:
        raise OptionInvalid(
            "--probability is of use only with --threshold, --min-area or --group-distance; give one of them"
        )
    size = read_size(html_size, "--html-size")
    database = _database(output, options) if is_database(output) else None
    as_page = database is None and Path(output).suffix.lower() == SUFFIX
    if as_page and anew:
        raise OptionInvalid(f"{output}: make the changes anew as .geojson first, then its page")
    target: Path | None = None
    if as_page:
        target = check_page(output, overwrite, (report,), size)
    elif database is None and output != STDOUT:
        target = check_output(output, overwrite, (report,))
    read = read_report(report)
    if anew:
        read = remade(read, Path(report), settings, probability)
        show_warnings(read.run["remade"]["warnings"], progress)
    if database is not None:
        database.write(read.changes, read.run, overwrite=overwrite)
    elif target is None:
        for change in read.changes:
            say_json(feature_of(change))
        return
    elif as_page:
        if before is not None and after is not None:
            scenes: tuple[str, str] = (before, after)
            servers: ServerOptions = options
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
        place = target if database is None else database.shown
        say(f"{place}: {count} change{'' if count == 1 else 's'}")


def _database(address: str, options: ServerOptions) -> Database:
    """Return what an address names, if it may be opened."""
    from workflows.errors import OptionInvalid

    with extra("postgis"):
        from workflows.report.postgis import Database
    database = Database.of(address)
    if options.offline:
        raise OptionInvalid(f"{database.shown}: --offline opens no address; leave it out")
    return database
