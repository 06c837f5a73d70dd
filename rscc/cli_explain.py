"""The command ``rscc explain``; registered in the cli."""

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
    BeamsOption,
    BeforeArgument,
    DateAfterOption,
    DateBeforeOption,
    Debug,
    DeviceOption,
    ForceOption,
    GsdOption,
    ModelOption,
    NormalizeOption,
    QuietOption,
    ScaleOption,
    read_bands,
    read_bounds,
    read_pixel,
    read_place,
    read_scale,
)


def explain(
    context: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture to write, .png or .webp.")],
    model: ModelOption = "rscc-base",
    bands: BandsOption = None,
    scale: ScaleOption = None,
    normalize: NormalizeOption = False,
    align: AlignOption = False,
    gsd: GsdOption = None,
    bbox: Annotated[
        str | None,
        typer.Option("--bbox", metavar="W,S,E,N", help="Take the largest change in this box, in degrees."),
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="LON,LAT", help="Look at this place, in degrees.")] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="COL,ROW", help="Look at this pixel of BEFORE, counted from 0."),
    ] = None,
    beams: BeamsOption = 3,
    device: DeviceOption = "auto",
    date_before: DateBeforeOption = None,
    date_after: DateAfterOption = None,
    force: ForceOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing picture.")] = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the picture shows as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Draw what the model sees between BEFORE and AFTER: both dates, maps, the caption word by word.

    The crop is that of the largest change, or the one around the place given. Two PNG or JPEG files without
    georeferencing are shown whole.
    """
    from rscc.terminal import explanation_summary, progress_bar, show_warnings
    from workflows.explain import ExplainOptions, check_pair, explain_pair
    from workflows.picture import check_picture, write_picture

    options = ExplainOptions(
        bands=read_bands(bands),
        scale=read_scale(scale),
        normalize=normalize,
        align=align,
        gsd=gsd,
        bounds=read_bounds(bbox),
        at=read_place(at),
        pixel=read_pixel(window),
        beams=beams,
        date_before=date_before,
        date_after=date_after,
        force=force,
    )
    check_picture(output, overwrite)
    check_pair(before, after)
    captioner = context.obj.load_captioner(model, device)
    with progress_bar(shown=not quiet and sys.stderr.isatty()) as progress:
        explained = explain_pair(before, after, captioner, options, progress)
    write_picture(explained, output, overwrite)
    show_warnings(explained.crop.warnings)
    found = explained.as_dict()
    if not quiet:
        typer.echo(explanation_summary(found, output), err=as_json)
    if as_json:
        typer.echo(json.dumps({"output": str(output), **found}, ensure_ascii=False))
