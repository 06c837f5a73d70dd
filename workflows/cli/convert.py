"""The command ``rscc convert``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

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
from workflows.options import SceneOptions, ServerOptions

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
            "GeoJSON to stdout.",
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    debug: Debug = False,
) -> None:
    """Write a report in another format, with the same changes and attributes; or as a page (.html).

    A page shows both scenes, which are read again. With --threshold, --min-area or --group-distance the
    changes are made anew from the change probability that was kept.
    """
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
    settings = {name: getattr(options, name) for name in MADE_BY}
    anew = any(value is not None for value in settings.values())
    if probability is not None and not anew:
        raise OptionInvalid(
            "--probability is of use only with --threshold, --min-area or --group-distance; give one of them"
        )
    size = read_size(html_size, "--html-size")
    as_page = Path(output).suffix.lower() == SUFFIX
    if as_page and anew:
        raise OptionInvalid(f"{output}: make the changes anew as .geojson first, then its page")
    if as_page:
        target: Path | None = check_page(output, overwrite, (report,), size)
    else:
        target = None if output == STDOUT else check_output(output, overwrite, (report,))
    read = read_report(report)
    if anew:
        read = remade(read, Path(report), settings, probability)
        show_warnings(read.run["remade"]["warnings"], progress)
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
