"""The command ``rscc caption``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from workflows.cli.options import (
    DATES,
    FINDING,
    READING,
    AfterArgument,
    BeforeArgument,
    Debug,
    DeviceOption,
    JsonOption,
    ModelOption,
    QuietOption,
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
    model: ModelOption = "rscc-base",
    device: DeviceOption = "auto",
    isolate: Annotated[
        bool,
        typer.Option(
            "--isolate/--no-isolate",
            help="Read the scenes in a process of its own, with limits on memory, processor time and files.",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing report.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Find what changed between BEFORE and AFTER, say it in words, write a map layer."""
    from workflows import caption_scene
    from workflows.cli.terminal import progress_bar, say, say_json, show_warnings, summary
    from workflows.engines.alone import caption_alone
    from workflows.engines.tasks import ModelSource
    from workflows.files import check_output, style_path
    from workflows.scene.opening import read_headers

    # What can be refused is refused before the model is loaded and the work starts.
    target = check_output(output or _default_output(after), overwrite, (before, after))
    if isolate:
        report = caption_alone(before, after, ModelSource(model, device, context.obj.load_captioner), options)
    else:
        scenes = read_headers(before, after, options)
        captioner = context.obj.load_captioner(model, device)
        with progress_bar(shown=not quiet and sys.stderr.isatty()) as progress:
            report = caption_scene(*scenes, captioner, options, progress)
    report.write(target, overwrite)
    show_warnings(report.run["warnings"])
    if not quiet:
        say(summary(report.run, len(report.changes), report.area_m2, target), err=as_json)
    if as_json:
        style = style_path(target)
        facts = {
            "output": str(target),
            "style": None if style is None else str(style),
            "changes": len(report.changes),
            "area_m2": round(report.area_m2, 2),
            "run": report.run,
        }
        say_json(facts)


def _default_output(after: str) -> Path:
    """Name the report after the scene, be it a file, one in an archive, or one on a server.

    Raises:
        TilingError: the scene is named in a way that is not read.
    """
    from tiling import locate

    return Path(f"{Path(locate(after).shown).stem}_changes.geojson")
