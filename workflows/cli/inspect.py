"""The command ``rscc inspect``."""

from contextlib import suppress
from functools import partial

import typer

from rscc.folders import DEFAULT_MODEL
from workflows.cli.options import READING, AfterArgument, BeforeArgument, BySizeModelOption, takes_options
from workflows.cli.terminal import Terminal, print_text
from workflows.options import SceneOptions


@takes_options(SceneOptions, *READING, "group_distance", "batch_size", "memory")
def inspect(
    context: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    options: SceneOptions,
    model: BySizeModelOption = None,
    *,
    terminal: Terminal,
) -> None:
    """Check two scenes and estimate the time and memory of rscc caption.

    Nothing is written. The model looks at one tile, to measure the time. Scenes that rscc caption would
    refuse are an error with the same exit code.
    """
    from tiling import TilingError
    from workflows.errors import OptionInvalid
    from workflows.scene.inspect.inspect import inspect_pair
    from workflows.scene.resolution import chosen_model
    from workflows.scenes import Scene, read_headers

    chosen: str = model or DEFAULT_MODEL
    scenes: tuple[Scene, Scene] = before, after
    with suppress(TilingError, OptionInvalid):  # the inspection says what is wrong with a scene
        scenes = read_headers(before, after, options)
        chosen, options = chosen_model(scenes, model, options)
    load = partial(context.obj.load_captioner, chosen, "auto")
    inspection = inspect_pair(*scenes, context.obj.load_card(chosen), options, load, context.obj.started)
    terminal.result("" if terminal.as_json else inspection.as_text(), inspection.as_dict())
    for refusal in inspection.refusals:
        print_text(f"rscc: error: {refusal.message}", err=True)
    raise typer.Exit(inspection.exit_code)
