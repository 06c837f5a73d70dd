"""The ``rscc`` command; thin: one function per command, heavy imports inside them."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rscc.cli_data import synthesize
from rscc.cli_evaluation import evaluate
from rscc.cli_medium import synthesize_medium
from rscc.cli_options import (
    DATE_HELP,
    AfterArgument,
    BandsOption,
    BeforeArgument,
    Debug,
    DeviceOption,
    ForceOption,
    ModelOption,
    read_bands,
    read_bounds,
    read_pixel,
    read_place,
)
from rscc.cli_training import train

if TYPE_CHECKING:
    from rscc.captioner import Captioner

INTERRUPTED = 130

app = typer.Typer(
    help="Words for what changed on the ground: two satellite scenes in, a captioned change layer out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def load_captioner(model: str, device: str) -> Captioner:
    """Load a model by name or folder; the default way for ``rscc caption`` to come by one."""
    from rscc.captioner import Captioner

    return Captioner.load(model, device=device)


@dataclass
class State:
    """What travels beside the options: how to get a captioner, and whether tracebacks are wanted."""

    load_captioner: Callable[[str, str], Captioner] = load_captioner
    debug: bool = False


def _print_version(value: bool) -> None:
    if value:
        from rscc import __version__

        typer.echo(f"rscc {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
]


@app.callback()
def root(version: Version = False, debug: Debug = False) -> None:
    """Words for what changed on the ground: two satellite scenes in, a captioned change layer out."""


@app.command()
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
    threshold: Annotated[
        float | None, typer.Option(help="Probability from which a pixel is changed; default: the model's.")
    ] = None,
    min_area: Annotated[
        float, typer.Option(help="Leave out changes smaller than this, in square metres.")
    ] = 20.0,
    bbox: Annotated[
        str | None,
        typer.Option(metavar="W,S,E,N", help="Only this box, in degrees of longitude and latitude."),
    ] = None,
    gsd: Annotated[
        float | None, typer.Option(help="Metres per pixel to work at; default: the model's.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Tiles given to the model at once.")] = 16,
    beams: Annotated[int, typer.Option(help="Width of the caption search.")] = 3,
    device: DeviceOption = "auto",
    date_before: Annotated[str | None, typer.Option(metavar="DATE", help=DATE_HELP)] = None,
    date_after: Annotated[str | None, typer.Option(metavar="DATE", help=DATE_HELP)] = None,
    force: ForceOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing report.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a machine-readable summary on stdout.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Find what changed between BEFORE and AFTER, say it in words, write a map layer."""
    from rscc.terminal import progress_bar, summary
    from tiling import describe
    from workflows import SceneOptions, caption_scene
    from workflows.output import check_output

    # What can be refused is refused before the model is loaded and the work starts.
    target = check_output(output or Path(f"{Path(after).stem}_changes.geojson"), overwrite)
    options = SceneOptions(
        bands=read_bands(bands),
        bounds=read_bounds(bbox),
        gsd=gsd,
        threshold=threshold,
        min_area=min_area,
        batch_size=batch_size,
        beams=beams,
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
    for warning in report.run["warnings"]:
        typer.echo(f"rscc: warning: {warning}", err=True)
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


@app.command()
def explain(
    context: typer.Context,
    before: BeforeArgument,
    after: AfterArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture to write, .png or .webp.")],
    model: ModelOption = "rscc-base",
    bands: BandsOption = None,
    bbox: Annotated[
        str | None,
        typer.Option(metavar="W,S,E,N", help="Take the largest change in this box, in degrees."),
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="LON,LAT", help="Look at this place, in degrees.")] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="COL,ROW", help="Look at this pixel of BEFORE, counted from 0."),
    ] = None,
    beams: Annotated[int, typer.Option(help="Width of the caption search.")] = 3,
    device: DeviceOption = "auto",
    force: ForceOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing picture.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the picture shows as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Draw what the model sees between BEFORE and AFTER: both dates, maps, the caption word by word.

    The crop is that of the largest change, or the one around the place given. Two PNG or JPEG files without
    georeferencing are shown whole.
    """
    from rscc.terminal import explanation_summary, progress_bar
    from workflows.explain import ExplainOptions, check_pair, explain_pair
    from workflows.picture import check_picture, write_picture

    options = ExplainOptions(
        read_bands(bands), read_bounds(bbox), read_place(at), read_pixel(window), beams, force
    )
    check_picture(output, overwrite)
    check_pair(before, after)
    captioner = context.obj.load_captioner(model, device)
    with progress_bar(shown=not quiet and sys.stderr.isatty()) as progress:
        explained = explain_pair(before, after, captioner, options, progress)
    write_picture(explained, output, overwrite)
    for warning in explained.crop.warnings:
        typer.echo(f"rscc: warning: {warning}", err=True)
    found = explained.as_dict()
    if not quiet:
        typer.echo(explanation_summary(found, output), err=as_json)
    if as_json:
        typer.echo(json.dumps({"output": str(output), **found}, ensure_ascii=False))


@app.command()
def models(debug: Debug = False) -> None:
    """List the models that come with this installation."""
    from rscc.cards import confidence_line
    from rscc.weights import available_models

    for card in available_models():
        low, high = card.gsd_range
        typer.echo(
            f"{card.name} {card.version}  {card.description}\n"
            f"    {card.gsd:g} m per pixel (scenes of {low:g} to {high:g} m); weights: {card.licence}"
        )
        if line := confidence_line(card):
            typer.echo(f"    {line}")


app.command()(train)
app.command()(evaluate)
app.command()(synthesize)
app.command()(synthesize_medium)


def main(
    arguments: Sequence[str] | None = None,
    *,
    captioner_factory: Callable[[str, str], Captioner] = load_captioner,
) -> None:
    """Run the command and exit.

    Exit codes: 0 done; 1 the run failed; 2 an input or option is wrong; 130 interrupted.

    Args:
        arguments: words after the program name; None takes them from the process.
        captioner_factory: gives the captioner for (model, device).
    """
    state = State(captioner_factory)
    try:
        app(args=None if arguments is None else list(arguments), prog_name="rscc", obj=state)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        sys.exit(_explain(error, state.debug))


def _explain(error: Exception, debug: bool) -> int:
    """Print an error as one line on stderr and return the exit code it stands for."""
    if debug:
        traceback.print_exception(error)
    message = " ".join(str(error).split())
    # Errors raised on purpose carry an exit code; asking for it spares importing the packages they come from.
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        typer.echo(f"rscc: error: {message}", err=True)
        return code
    hint = "" if debug else "; run again with --debug for the traceback"
    typer.echo(f"rscc: unexpected {type(error).__name__}: {message}{hint}", err=True)
    return 1


if __name__ == "__main__":
    main()
