"""The command ``rscc inspect``; registered in the cli."""

from __future__ import annotations

import json
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
    ForceOption,
    GroupDistanceOption,
    GsdOption,
    MemoryOption,
    ModelOption,
    NormalizeOption,
    ScaleOption,
    scene_options,
)


def inspect(
    context: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    model: ModelOption = "rscc-base",
    bands: BandsOption = None,
    scale: ScaleOption = None,
    normalize: NormalizeOption = False,
    align: AlignOption = False,
    gsd: GsdOption = None,
    bbox: BoundsOption = None,
    group_distance: GroupDistanceOption = 0.0,
    batch_size: BatchSizeOption = 16,
    memory: MemoryOption = None,
    date_before: DateBeforeOption = None,
    date_after: DateAfterOption = None,
    force: ForceOption = False,
    measure: Annotated[
        bool, typer.Option("--time", help="Load the model and time it on a few tiles of these scenes.")
    ] = False,
    beams: BeamsOption = 3,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON instead.")] = False,
    debug: Debug = False,
) -> None:
    """Say what rscc caption would make of BEFORE and AFTER: what they are, what fits, what it costs.

    Nothing is written and the model is not loaded, unless its speed is to be measured. What would be
    refused is said as an error, with the exit code that rscc caption would end with.
    """
    from workflows.inspection import inspect_pair

    options = scene_options(context.params)
    card = context.obj.load_card(model)
    load = (lambda: context.obj.load_captioner(model, device)) if measure else None
    found = inspect_pair(before, after, card, options, load)
    typer.echo(json.dumps(found.as_dict(), ensure_ascii=False) if as_json else found.as_text())
    for refusal in found.refusals:
        typer.echo(f"rscc: error: {refusal.message}", err=True)
    if found.exit_code:
        raise typer.Exit(found.exit_code)
