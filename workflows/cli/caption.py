"""The command ``rscc caption``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rscc.shipped import DEFAULT_MODEL
from workflows.cli.options import (
    DATES,
    FINDING,
    READING,
    AfterArgument,
    BeforeArgument,
    Debug,
    DeviceOption,
    HtmlFolderOption,
    HtmlSizeOption,
    JsonOption,
    ModelOption,
    ProgressForm,
    ProgressOption,
    QuietOption,
    read_size,
    takes_options,
)
from workflows.options import SceneOptions


@takes_options(
    SceneOptions,
    model=(*READING, *FINDING, "tile_cache"),
    device=(*DATES, "force"),
)
def caption(
    context: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    options: SceneOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Report to write: .geojson, .geojsonl, .gpkg, .fgb or .parquet; "
            "default: <AFTER>_changes.geojson in this folder.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Also write a page to look at the report in a browser, .html."
        ),
    ] = None,
    html_size: HtmlSizeOption = "8MB",
    html_folder: HtmlFolderOption = None,
    probability: Annotated[
        Path | None,
        typer.Option(
            "--probability",
            metavar="FILE",
            help="Also keep the change probability, a Cloud Optimized GeoTIFF, .tif; rscc convert makes the "
            "changes anew from it.",
        ),
    ] = None,
    model: ModelOption = DEFAULT_MODEL,
    device: DeviceOption = "auto",
    isolate: Annotated[
        bool,
        typer.Option(
            "--isolate/--no-isolate",
            help="Read the scenes in a process of its own, with limits on memory, processor time and files.",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing report.")] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Find what changed between BEFORE and AFTER, say it in words, write a map layer."""
    from workflows import caption_scene
    from workflows.cli.terminal import show_result, show_warnings, shown_progress, summary
    from workflows.errors import OptionInvalid
    from workflows.files import check_raster, style_path
    from workflows.report.report import check_report
    from workflows.scene.opening import read_headers

    # What can be refused is refused before the model is loaded and the work starts.
    target = check_report(output or _default_output(after), overwrite, (before, after))
    size = read_size(html_size, "--html-size")
    if isolate and (html is not None or html_folder is not None):
        raise OptionInvalid(
            "--html and --html-folder read the scenes here; with --isolate, make the page by rscc convert"
        )
    if html is not None:
        from workflows.page.page import check_page, write_page

        check_page(html, overwrite, (before, after), size)
    if html_folder is not None:
        from workflows.page.folder import check_page_folder, write_page_folder

        outputs = [target, *([] if html is None else [html])]
        check_page_folder(html_folder, overwrite, (before, after, *outputs))
    if probability is not None:
        check_raster(probability, overwrite, (before, after))
        if isolate or options.tile_cache is not None:
            other = "--isolate" if isolate else "--tile-cache, which keeps only what changed"
            raise OptionInvalid(f"--probability does not go with {other}; leave one of them out")
    if isolate:
        from workflows.engines.alone import caption_alone
        from workflows.engines.tasks import ModelSource

        source = ModelSource(model, device, context.obj.captioner_factory)
        report = caption_alone(before, after, source, options)
    else:
        scenes = read_headers(before, after, options)
        captioner = context.obj.load_captioner(model, device)
        with shown_progress(progress, quiet) as update:
            report = caption_scene(*scenes, captioner, options, update, probability=probability)
    warnings = list(report.run["warnings"])
    chips = None
    if target.suffix.lower() == ".gpkg" and not isolate:
        from tiling import TilingError
        from workflows.page.chips import chips_of

        try:
            chips = chips_of(report, target, scenes)
        except TilingError as error:
            # What was found is worth more than its pictures.
            warnings.append(f"map tips have no pictures: {error}")
    report.write(target, overwrite, chips)
    if html is not None:
        with shown_progress(progress, quiet) as update:
            write_page(report, target, html, scenes=scenes, size=size, overwrite=overwrite, progress=update)
    page = None
    if html_folder is not None:
        with shown_progress(progress, quiet) as update:
            page = write_page_folder(
                report, target, html_folder, scenes=scenes, overwrite=overwrite, progress=update
            )
    show_warnings(warnings, progress)
    files = {
        "output": target,
        "style": style_path(target),
        "html": html,
        "html_folder": html_folder,
        "probability": probability,
    }
    facts = {
        **{name: None if file is None else str(file) for name, file in files.items()},
        "changes": len(report.changes),
        "area_m2": round(report.area_m2, 2),
        "run": report.run,
    }
    lines = [summary(report.run, len(report.changes), report.area_m2, target)]
    lines += [f"page    {file} (open it in a browser)" for file in (html, page) if file is not None]
    text = "\n".join([*lines, "", report.run["summary"]["text"]])
    show_result(text, facts, progress, quiet=quiet, as_json=as_json)


def _default_output(after: str) -> Path:
    """Name the report after the scene, be it a file, one in an archive, or one on a server."""
    from tiling import locate

    return Path(f"{Path(locate(after).shown).stem}_changes.geojson")
