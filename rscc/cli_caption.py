"""The command ``rscc caption``; registered in the cli."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rscc.cli_options import (
    AfterArgument,
    AlignOption,
    BandsOption,
    BatchSizeOption,
    BeamsOption,
    BeforeArgument,
    BoundsOption,
    DateAfterOption,
    DateBeforeOption,
    Debug,
    DeviceOption,
    Focus,
    FocusOption,
    ForceOption,
    GroupDistanceOption,
    GsdOption,
    JsonOption,
    MemoryOption,
    MinAreaOption,
    ModelOption,
    NormalizeOption,
    QuietOption,
    RefineOption,
    RegularizeOption,
    ScaleOption,
    ThresholdOption,
    scene_options,
)


def caption(
    context: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Report to write; default: <AFTER>_changes.geojson in this folder."
        ),
    ] = None,
    model: ModelOption = "rscc-base",
    bands: BandsOption = None,
    scale: ScaleOption = None,
    normalize: NormalizeOption = False,
    align: AlignOption = False,
    gsd: GsdOption = None,
    bbox: BoundsOption = None,
    threshold: ThresholdOption = None,
    min_area: MinAreaOption = 20.0,
    group_distance: GroupDistanceOption = 0.0,
    regularize: RegularizeOption = False,
    refine: RefineOption = None,
    focus_captions: FocusOption = Focus.mask,
    beams: BeamsOption = 3,
    batch_size: BatchSizeOption = 16,
    memory: MemoryOption = None,
    tile_cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep finished tiles here, so that a killed run goes on."),
    ] = None,
    device: DeviceOption = "auto",
    date_before: DateBeforeOption = None,
    date_after: DateAfterOption = None,
    force: ForceOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing report.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Find what changed between BEFORE and AFTER, say it in words, write a map layer."""
    from rscc.terminal import progress_bar, show_warnings, summary
    from tiling import describe
    from workflows import caption_scene
    from workflows.output import check_output

    # What can be refused is refused before the model is loaded and the work starts.
    target = check_output(output or _default_output(after), overwrite)
    options = scene_options(context.params)
    for scene in (before, after):
        describe(scene)
    captioner = context.obj.load_captioner(model, device)
    with progress_bar(shown=not quiet and sys.stderr.isatty()) as progress:
        report = caption_scene(before, after, captioner, options, progress)
    report.write(target, overwrite)
    show_warnings(report.run["warnings"])
    if not quiet:
        typer.echo(summary(report.run, len(report.changes), report.area_m2, target), err=as_json)
    if as_json:
        found = {
            "output": str(target),
            "style": str(target.with_suffix(".qml")),
            "changes": len(report.changes),
            "area_m2": round(report.area_m2, 2),
            "run": report.run,
        }
        typer.echo(json.dumps(found, ensure_ascii=False))


def _default_output(after: str) -> Path:
    """Name the report after the scene, be it a file, one in an archive, or one on a server.

    Raises:
        TilingError: the scene is named in a way that is not read.
    """
    from tiling.location import locate

    return Path(f"{Path(locate(after).shown).stem}_changes.geojson")
