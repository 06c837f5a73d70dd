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
    ForceOption,
    GroupDistanceOption,
    GsdOption,
    MemoryOption,
    ModelOption,
    NormalizeOption,
    QuietOption,
    ScaleOption,
    read_bands,
    read_bounds,
    read_memory,
    read_scale,
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
    threshold: Annotated[
        float | None, typer.Option(help="Probability from which a pixel is changed; default: the model's.")
    ] = None,
    min_area: Annotated[
        float, typer.Option(help="Leave out changes smaller than this, in square metres.")
    ] = 20.0,
    group_distance: GroupDistanceOption = 0.0,
    regularize: Annotated[
        bool,
        typer.Option("--regularize", help="Give outlines right angles where that hardly changes them."),
    ] = False,
    refine: Annotated[
        str | None,
        typer.Option(
            metavar="SEGMENTER", help="Redraw outlines by a segmenter: sam:FOLDER or mobile_sam:FILE."
        ),
    ] = None,
    focus_captions: Annotated[
        Focus,
        typer.Option(help="How words keep to their polygon where several changes share a crop."),
    ] = Focus.mask,
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a machine-readable summary on stdout.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Find what changed between BEFORE and AFTER, say it in words, write a map layer."""
    from rscc.terminal import progress_bar, show_warnings, summary
    from tiling import describe
    from workflows import SceneOptions, caption_scene
    from workflows.output import check_output

    # What can be refused is refused before the model is loaded and the work starts.
    target = check_output(output or _default_output(after), overwrite)
    options = SceneOptions(
        bands=read_bands(bands),
        scale=read_scale(scale),
        normalize=normalize,
        align=align,
        gsd=gsd,
        bounds=read_bounds(bbox),
        threshold=threshold,
        min_area=min_area,
        group_distance=group_distance,
        regularize=regularize,
        refine=refine,
        focus_captions=str(focus_captions),
        beams=beams,
        batch_size=batch_size,
        memory=read_memory(memory),
        tile_cache=tile_cache,
        date_before=date_before,
        date_after=date_after,
        force=force,
    )
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
