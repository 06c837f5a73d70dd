"""The command ``rscc convert``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rscc.errors import extra
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
from workflows.options import MADE_BY, SceneOptions, ServerOptions
from workflows.texts import counted

if TYPE_CHECKING:
    from workflows.report.postgis import Database

STDOUT = "-"


def _anew(name: str, meaning: str) -> Any:
    return SceneOptions.again(name, f"Make the changes anew: {meaning}; default: as in the report.")


@dataclass(frozen=True)
class ConvertOptions(ServerOptions):
    """Which servers may be asked, and by what settings the changes are made anew; None keeps the report's."""

    threshold: float | None = _anew("threshold", "probability from which a pixel is changed")
    min_area: float | None = _anew("min_area", "without those smaller than this, in square metres")
    group_distance: float | None = _anew("group_distance", "outlines at most so many metres apart are one")


@takes_options(
    ConvertOptions,
    output=("threshold", "min_area", "group_distance"),
    html_folder=("offline", "allow_hosts"),
)
def convert(
    report: Annotated[str, typer.Argument(metavar="REPORT", help="A report: .geojson, .gpkg or .parquet.")],
    options: ConvertOptions,
    output: Annotated[
        str | None,
        typer.Argument(
            metavar="OUT",
            help="The file to write: .geojson, .geojsonl, .gpkg, .fgb, .parquet or .html; - writes lines of "
            "GeoJSON to stdout; postgresql://USER@HOST/DATABASE?table=NAME writes a table of PostGIS. With "
            "--html-folder, none.",
            show_default=False,
        ),
    ] = None,
    probability: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The change probability that rscc caption kept; default: as the report says, or beside it.",
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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file or table.")
    ] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    debug: Debug = False,
) -> None:
    """Write a report in another format, with the same changes and attributes; or as a page (.html, a folder).

    A page shows both scenes, which are read again. With --threshold, --min-area or --group-distance the
    changes are made anew from the change probability that was kept.
    """
    from workflows.addresses import is_database
    from workflows.cli.terminal import say_json, show_result, show_warnings, shown_progress
    from workflows.errors import OptionInvalid
    from workflows.inspection.event import ReportedRun, read_report
    from workflows.report.change import feature_of
    from workflows.report.reading import chips_in

    if (before is None) != (after is None):
        raise OptionInvalid(f"{before or after}: give --before and --after, or neither")
    if is_database(report):
        raise OptionInvalid("REPORT: a database is what a report is written to; give REPORT first, then OUT")
    settings = _settings(options, probability)
    size = read_size(html_size, "--html-size")
    target = _target(output, html_folder, options)
    if target.page and settings:
        raise OptionInvalid(f"{target.path}: make the changes anew as .geojson first, then its page")
    _check(target, report, overwrite, size)
    read = read_report(report).recounted()
    if settings:
        from workflows.inspection.remake import remade

        read = remade(read, Path(report), settings, probability)
        show_warnings(read.run["remade"]["warnings"], progress)
    shown = target.database.shown if target.database else str(target.path)
    given = None if before is None or after is None else (before, after)
    if target.database is not None:
        target.database.write(read.changes, read.run, overwrite=overwrite)
    elif target.path is None:
        for change in read.changes:
            say_json(feature_of(change))
        return
    elif target.page is None:
        chips = {} if settings else chips_in(Path(report))
        if given is not None and target.path.suffix.lower() == ".gpkg":
            from workflows.page.chips import chips_of

            chips = chips_of(read, Path(report), given, options)
        read.write(target.path, overwrite, chips)
    else:
        from workflows.page.folder import write_page_folder
        from workflows.page.page import write_page

        scenes = given or ReportedRun(Path(report), read.run).scenes()
        servers = options if given else options.for_others()
        how: dict[str, Any] = {"scenes": scenes, "servers": servers, "overwrite": overwrite}
        with shown_progress(progress, quiet) as update:
            if target.page == "folder":
                shown = str(write_page_folder(read, Path(report), target.path, **how, progress=update))
            else:
                write_page(read, Path(report), target.path, **how, size=size, progress=update)
    facts = {"output": shown, "changes": len(read.changes)}
    show_result(f"{shown}: {counted(len(read.changes), 'change')}", facts, progress, quiet=quiet)


@dataclass(frozen=True)
class _Target:
    """Where a report goes; without a path and a database to stdout."""

    path: Path | None = None
    database: Database | None = None
    page: Literal["file", "folder"] | None = None


def _settings(options: ConvertOptions, probability: Path | None) -> dict[str, float | None]:
    """Return the settings that make the changes anew; none where none was given."""
    from workflows.errors import OptionInvalid

    settings = {name: getattr(options, name) for name in MADE_BY}
    if any(value is not None for value in settings.values()):
        return settings
    if probability is not None:
        raise OptionInvalid(
            "--probability is of use only with --threshold, --min-area or --group-distance; give one of them"
        )
    return {}


def _target(output: str | None, html_folder: Path | None, options: ServerOptions) -> _Target:
    from workflows.addresses import is_database
    from workflows.errors import OptionInvalid
    from workflows.page.template import SUFFIX

    if (output is None) == (html_folder is None):
        raise OptionInvalid("give OUT, or --html-folder: one of them")
    if output is None:
        return _Target(html_folder, page="folder")
    if output == STDOUT:
        return _Target()
    if is_database(output):
        with extra("postgis"):
            from workflows.report.postgis import Database
        database = Database.of(output)
        if options.offline:
            raise OptionInvalid(f"{database.shown}: --offline opens no address; leave it out")
        return _Target(database=database)
    path = Path(output)
    return _Target(path, page="file" if path.suffix.lower() == SUFFIX else None)


def _check(target: _Target, report: str, overwrite: bool, size: int) -> None:
    """Refuse what cannot be written before anything is read."""
    if target.path is None:
        return
    if target.page == "folder":
        from workflows.page.folder import check_page_folder

        check_page_folder(target.path, overwrite, (report,))
    elif target.page == "file":
        from workflows.page.page import check_page

        check_page(target.path, overwrite, (report,), size)
    else:
        from workflows.report.report import check_report

        check_report(target.path, overwrite, (report,))
