"""The command ``rscc convert``."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from workflows.cli.options import (
    HtmlFolderOption,
    HtmlSizeOption,
    MovedAfterOption,
    MovedBeforeOption,
    OverwriteOption,
    ReportArgument,
    argument,
    moved_scenes,
    option,
    read_html_size,
    takes_options,
)
from workflows.cli.terminal import Terminal, print_json
from workflows.options import MADE_BY, SceneOptions, ServerOptions
from workflows.printable import counted

STDOUT = "-"


def _again(name: str, meaning: str) -> Any:
    return SceneOptions.again(name, f"{meaning}; default: as in the report")


@dataclass(frozen=True)
class ConvertOptions(ServerOptions):
    """Servers that may be contacted, and settings with which changes are made again; None: unchanged."""

    threshold: float | None = _again("threshold", "New probability from which a pixel counts as changed")
    min_area: float | None = _again("min_area", "New smallest change in square metres")
    group_distance: float | None = _again("group_distance", "New distance for grouping outlines, in metres")
    only: tuple[str, ...] | None = SceneOptions.again("only")
    direction: str | None = SceneOptions.again("direction")
    area: str | None = SceneOptions.again("area", "Write only changes that touch the polygons of a file")
    context: tuple[str, ...] = SceneOptions.again("context")


@takes_options(ConvertOptions, *MADE_BY, "context", "only", "direction", "area", "offline", "allow_hosts")
def convert(
    report: ReportArgument,
    options: ConvertOptions,
    output: Annotated[
        str | None,
        argument(
            "OUT",
            "File: .geojson, .geojsonl, .gpkg, .fgb, .parquet, .csv, .kml, .shp or .html; - prints lines",
        ),
    ] = None,
    maps: Annotated[
        Path | None,
        option("Maps that rscc caption kept; default: where the report says", "DIR", panel="Detection"),
    ] = None,
    before: MovedBeforeOption = None,
    after: MovedAfterOption = None,
    html_size: HtmlSizeOption = "8MB",
    html_folder: HtmlFolderOption = None,
    overwrite: OverwriteOption = False,
    *,
    terminal: Terminal,
) -> None:
    """Write a report in another format or as a web page, with the same changes and attributes.

    With --threshold, --min-area or --group-distance, the changes are made again from the maps that rscc
    caption kept.
    """
    from workflows.errors import OptionInvalid
    from workflows.files import check_free
    from workflows.report.change import feature_of, selected
    from workflows.report.page.chips import chips_of
    from workflows.report.page.template import SUFFIX
    from workflows.report.reading import chips_in, open_report

    if (output is None) == (html_folder is None):
        raise OptionInvalid("give either OUT or --html-folder")
    scenes, size = moved_scenes(before, after), read_html_size(html_size)
    target = None if output in (None, STDOUT) else Path(str(output))
    is_page = target is not None and target.suffix.lower() == SUFFIX
    is_remade = any(getattr(options, name) is not None for name in MADE_BY)
    if is_remade and (is_page or html_folder is not None):
        raise OptionInvalid("change the settings of a .geojson first, then make its page")
    if options.context and not is_remade:
        raise OptionInvalid("--context has an effect only with --threshold, --min-area or --group-distance")
    if target is not None:
        check_free([target], overwrite, (report,))
    read = open_report(report)
    if is_remade:
        from workflows.scene.remake import remake

        read = remake(read, options, maps)
        terminal.warn(*read.run["remade"]["warnings"])
    read = replace(read, changes=selected(read.changes, options))
    if output == STDOUT:
        for change in read.changes:
            print_json(feature_of(change))
        return
    read = replace(read, scenes=scenes, servers=options if scenes else options.for_others())
    with terminal.progress() as update:
        if html_folder is not None:
            from workflows.report.page.folder import write_page_folder

            written = write_page_folder(read, html_folder, overwrite=overwrite, progress=update)
        elif target is not None and is_page:
            from workflows.report.page.page import write_page

            written = write_page(read, target, size=size, overwrite=overwrite, progress=update)
        elif target is not None:
            has_new_chips = scenes is not None and target.suffix.lower() == ".gpkg"
            chips = chips_of(read) if has_new_chips else {} if is_remade else chips_in(report)
            written = read.write(target, overwrite, chips)
    facts = {"output": str(written), "changes": len(read.changes)}
    terminal.result(f"{written}: {counted(len(read.changes), 'change')}", facts)
