"""The command ``rscc inspect``."""

from __future__ import annotations

from typing import Annotated

import typer

from rscc.shipped import DEFAULT_MODEL
from workflows.cli.options import (
    DATES,
    READING,
    AfterArgument,
    BeforeArgument,
    Debug,
    DeviceOption,
    ModelOption,
    takes_options,
)
from workflows.options import SceneOptions


@takes_options(
    SceneOptions,
    model=(*READING, "group_distance", "batch_size", "memory", *DATES, "force"),
    measure=("beams",),
)
def inspect(
    context: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    options: SceneOptions,
    model: ModelOption = DEFAULT_MODEL,
    measure: Annotated[
        bool, typer.Option("--time", help="Load the model and time it on a few tiles of these scenes.")
    ] = False,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON instead.")] = False,
    debug: Debug = False,
) -> None:
    """Say what rscc caption would make of BEFORE and AFTER: what they are, what fits, what it costs.

    Nothing is written and the model is not loaded, unless its speed is to be measured. What would be
    refused is said as an error, with the exit code that rscc caption would end with.
    """
    from workflows.cli.terminal import say, say_json
    from workflows.inspection.inspect import inspect_pair

    card = context.obj.load_card(model)
    load = (lambda: context.obj.load_captioner(model, device)) if measure else None
    inspection = inspect_pair(before, after, card, options, load)
    if as_json:
        say_json(inspection.as_dict())
    else:
        say(inspection.as_text())
    for refusal in inspection.refusals:
        say(f"rscc: error: {refusal.message}", err=True)
    raise typer.Exit(inspection.exit_code)
