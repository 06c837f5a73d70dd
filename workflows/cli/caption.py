"""The command ``rscc caption``, and the lines about its result."""

import math
import shutil
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Annotated, Any

import typer

from workflows.cli.options import (
    DETECTION,
    READING,
    AfterArgument,
    BeforeArgument,
    BySizeModelOption,
    DetectorOption,
    DeviceOption,
    HtmlFolderOption,
    HtmlSizeOption,
    OverwriteOption,
    option,
    read_html_size,
    takes_options,
)
from workflows.cli.terminal import Terminal, area_text
from workflows.files import style_path
from workflows.options import SceneOptions
from workflows.printable import counted, printable_lines
from workflows.progress import duration
from workflows.scene.inspect.text import light_words, shift_words


@takes_options(SceneOptions, *READING, *DETECTION, "context", "changes", "keep_maps")
def caption(
    session: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    options: SceneOptions,
    output: Annotated[
        list[Path] | None,
        option(
            "Report: .geojson, .gpkg, .fgb, .parquet, .geojsonl, .csv, .kml, .shp, or .html, its web page; "
            "repeatable; default: <AFTER>_changes.geojson",
            "FILE",
            *("--output", "-o"),
            panel="Output",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        option("Also write a web page of the report, .html", "FILE", panel="Output", hidden=True),
    ] = None,
    html_size: HtmlSizeOption = "8MB",
    html_folder: HtmlFolderOption = None,
    model: BySizeModelOption = None,
    detector: DetectorOption = None,
    device: DeviceOption = "auto",
    overwrite: OverwriteOption = False,
    *,
    terminal: Terminal,
) -> None:
    """Find and describe the changes between BEFORE and AFTER, and write them as a map layer."""
    from workflows import caption_scene
    from workflows.scene.given.read import with_changes
    from workflows.scene.resolution import chosen_model
    from workflows.scenes import read_headers

    size = read_html_size(html_size)
    reports, pages = _sorted_outputs(output or [], html, after)
    # Fail before the model is loaded.
    given = () if options.changes is None else (options.changes.partition("|")[0],)
    _check_outputs(reports, pages, size, html_folder, overwrite, (before, after, *given))
    options = with_changes(options)
    scenes = read_headers(before, after, options)
    chosen, options = chosen_model(scenes, model, options)
    target = reports[0]
    # A killed run finds its finished rows here again.
    resume = target.with_name(f".{target.name}.maps")
    captioner = session.obj.load_captioner(chosen, device)
    if detector is not None:
        captioner = captioner.with_detector(detector)
    with terminal.progress() as update:
        report = caption_scene(*scenes, captioner, options, update, resume=resume)
        report = replace(report, path=target, scenes=scenes)
        warnings, written = list(report.run["warnings"]), []
        for path in reports[::-1]:  # the first removes the maps of the run
            finished = report.finished if path == target else None
            replace(report, finished=finished).write(path, overwrite, report.chips(path, warnings.append))
        for page in pages:
            from workflows.report.page.page import write_page

            written.append(write_page(report, page, size=size, overwrite=overwrite, progress=update))
        if html_folder is not None:
            from workflows.report.page.folder import write_page_folder

            written.append(write_page_folder(report, html_folder, overwrite=overwrite, progress=update))
    terminal.warn(*warnings)
    outputs = {
        "output": target,
        "style": style_path(target),
        "html": pages[0] if pages else None,
        "html_folder": html_folder,
        "maps": options.keep_maps,
    }
    facts = {
        **{name: None if path is None else str(path) for name, path in outputs.items()},
        "outputs": [str(path) for path in (*reports, *pages)],
        "changes": len(report.changes),
        "area_m2": round(report.area_m2, 2),
        "run": report.run,
    }
    seconds = time.perf_counter() - session.obj.started
    lines = [caption_summary(report.run, len(report.changes), report.area_m2, target, seconds)]
    lines += [f"also    {path}" for path in reports[1:]]
    lines += [f"page    {page} (open it in a browser)" for page in written]
    if options.keep_maps is not None:
        lines.append(f"maps    {options.keep_maps} (for rscc convert and explain)")
    width = min(WIDTH, shutil.get_terminal_size().columns)
    summary = textwrap.wrap(report.run["summary"]["text"], width)
    terminal.result("\n".join([*summary, "", *lines]), facts)


def _sorted_outputs(outputs: Sequence[Path], html: Path | None, after: str) -> tuple[list[Path], list[Path]]:
    """Return the reports to write, at least one, and the pages."""
    from tiling import locate
    from workflows.errors import OptionInvalid

    pages = [path for path in outputs if path.suffix.lower() == ".html"] + ([] if html is None else [html])
    # AFTER may be in an archive or on a server.
    default = Path(f"{Path(locate(after).shown).stem}_changes.geojson")
    reports = [path for path in outputs if path.suffix.lower() != ".html"] or [default]
    named = [*reports, *pages]
    if twice := next((path for path in named if named.count(path) > 1), None):
        raise OptionInvalid(f"{twice}: is named twice as an output; name each file once")
    return reports, pages


def _check_outputs(
    reports: Sequence[Path],
    pages: Sequence[Path],
    size: int,
    folder: Path | None,
    overwrite: bool,
    inputs: Sequence[str],
) -> None:
    """Refuse outputs that cannot be written, or that would replace an input."""
    from workflows.report.report import check_report

    for report in reports:
        check_report(report, overwrite, inputs)
    for page in pages:
        from workflows.report.page.page import check_page

        check_page(page, overwrite, inputs, size)
    if folder is not None:
        from workflows.report.page.folder import check_page_folder

        check_page_folder(folder, overwrite, [*inputs, *reports, *pages])


WIDTH = 72
"""Letters of a line of a summary; narrow terminals have less."""
NOTABLE_SHIFT = 0.5
"""Working pixels from which the summary mentions an offset between the scenes."""


def caption_summary(run: dict[str, Any], count: int, area: float, target: Path, seconds: float) -> str:
    """Return a few lines about a run of so many seconds; ``run`` is its record, ``area`` in square metres."""
    grid, model, shift = run["tiling"], run["model"], run["registration"]
    inputs = (run["inputs"]["before"], run["inputs"]["after"])
    names = [f"{PurePath(scene['path']).name}, {scene['date'] or 'no date'}" for scene in inputs]
    lines = [
        f"{counted(count, 'change')}, {area_text(area)}, in {duration(max(seconds, 1))}",
        *(f"{role:7} {name}" for role, name in zip(("before", "after"), names, strict=True)),
        f"grid    {grid['width']:,} x {grid['height']:,} px at {grid['gsd']:.3g} m, "
        + counted(grid["tiles"], "tile"),
        f"model   {model['name']} {model['version']}",
    ]
    if shift["cols"] is not None and math.hypot(shift["cols"], shift["rows"]) >= NOTABLE_SHIFT:
        lines.append(f"offset  {shift_words(shift)}")
    if run["normalization"] is not None:
        lines.append(f"colours {light_words(run['normalization'])}")
    if run["resumed_tiles"]:
        lines.append(f"resumed {run['resumed_tiles']:,} tiles were finished by an earlier run")
    return printable_lines([*lines, f"report  {target} ({_opened(target)})"])


def _opened(target: Path) -> str:
    """Say what opens a report."""
    if target.suffix.lower() == ".parquet":
        return "QGIS 3.22 cannot open it: for that write .gpkg"
    if target.suffix.lower() in (".csv", ".kml"):
        return "without a style"
    return f"open it in QGIS; its style is {'in' if style_path(target) is None else 'beside'} it"


def picture_summary(facts: dict[str, Any], target: Path) -> str:
    """Return a few lines about an explained crop; ``facts`` is its plain form."""
    lines = [
        facts["caption"],
        f"P(changed) {facts['changed_probability']:.2f}, score {facts['score']:.2f}, place: {facts['place']}",
    ]
    if facts["entities"]:
        lines.append(f"entities {', '.join(facts['entities'])}")
    lines += [f"model    {facts['model']['name']} {facts['model']['version']}", f"picture  {target}"]
    return printable_lines(lines)
