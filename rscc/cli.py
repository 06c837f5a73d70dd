"""The ``rscc`` command; thin: one function per command, heavy imports inside them."""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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


def _set_debug(context: typer.Context, value: bool) -> bool:
    if value and isinstance(context.obj, State):
        context.obj.debug = True
    return value


def _print_version(value: bool) -> None:
    if value:
        from rscc import __version__

        typer.echo(f"rscc {__version__}")
        raise typer.Exit


Debug = Annotated[
    bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an unexpected error.")
]
Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
]
ModelOption = Annotated[str, typer.Option("--model", help="Name of a shipped model, or a model folder.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 or mps.")]
DateHelp = "2019, 2019-08 or 2019-08-31; default: from tags or file name."


@app.callback()
def root(version: Version = False, debug: Debug = False) -> None:
    """Words for what changed on the ground: two satellite scenes in, a captioned change layer out."""


@app.command()
def caption(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Raster of the earlier date.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Raster of the later date.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Report to write; default: <AFTER>_changes.geojson in this folder."
        ),
    ] = None,
    model: ModelOption = "rscc-base",
    bands: Annotated[
        str | None, typer.Option(metavar="R,G,B", help="Bands shown to the model, counted from 1: 3,2,1.")
    ] = None,
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
    date_before: Annotated[str | None, typer.Option(metavar="DATE", help=DateHelp)] = None,
    date_after: Annotated[str | None, typer.Option(metavar="DATE", help=DateHelp)] = None,
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
        bands=_bands(bands),
        bounds=_bounds(bbox),
        gsd=gsd,
        threshold=threshold,
        min_area=min_area,
        batch_size=batch_size,
        beams=beams,
        date_before=date_before,
        date_after=date_after,
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
def models(debug: Debug = False) -> None:
    """List the models that come with this installation."""
    from rscc.weights import available_models

    for card in available_models():
        low, high = card.gsd_range
        typer.echo(
            f"{card.name} {card.version}  {card.description}\n"
            f"    {card.gsd:g} m per pixel (scenes of {low:g} to {high:g} m); weights: {card.licence}"
        )


@app.command()
def train(
    data: Annotated[Path, typer.Option("--data", help="Captioned data set in LEVIR-CC's layout.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Run folder; the model lies in its folder model.")
    ],
    model: Annotated[str, typer.Option("--model", help="Which paper's model: rdd, scorer or dirl.")] = "rdd",
    config: Annotated[
        str | None, typer.Option(help="TOML file or shipped config; default: <MODEL>_levir_cc.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the new model; default: of the run folder.")
    ] = None,
    masks: Annotated[
        list[Path] | None, typer.Option(help="Further pairs with change masks; repeatable.")
    ] = None,
    trunk: Annotated[
        str | None, typer.Option(help="Model whose trunk and change head are the start.")
    ] = None,
    backbone_weights: Annotated[Path | None, typer.Option(help="File of pretrained trunk weights.")] = None,
    text_encoder: Annotated[str, typer.Option(help="Text encoder of the auxiliary losses.")] = "sentence",
    epochs: Annotated[int | None, typer.Option(help="Instead of the config's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the config's.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that lies in the output.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    debug: Debug = False,
) -> None:
    """Train a model and write it as a model folder."""
    with extra("train"):
        from dataclasses import replace

        from rscc.config import load_config
        from rscc.runs import RunPaths, train_model

        settings = load_config(config or f"{model}_levir_cc")
        changes: dict[str, Any] = {
            key: value for key, value in (("epochs", epochs), ("seed", seed)) if value is not None
        }
        settings = replace(
            settings, model=replace(settings.model, paper=model), train=replace(settings.train, **changes)
        )
        folder = train_model(
            settings,
            RunPaths(data, output, tuple(masks or ()), trunk, backbone_weights, text_encoder),
            name=name or output.resolve().name,
            command=shlex.join(["rscc", *sys.argv[1:]]),
            resume=resume,
            device=device,
            report=typer.echo,
        )
    typer.echo(f"model   {folder.path}")


@app.command()
def evaluate(
    data: Annotated[Path, typer.Option("--data", help="Folder of the captioned data set.")],
    model: ModelOption = "rscc-base",
    dataset: Annotated[
        str, typer.Option(help="Its layout: levir_cc, dubai_cc, clevr_change, spot_the_diff ...")
    ] = "levir_cc",
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    compare: Annotated[
        bool, typer.Option("--compare", help="Also print the rows of the papers' own tables beside ours.")
    ] = False,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Also write the scores to this file.")
    ] = None,
    beams: Annotated[int, typer.Option(min=1, help="Width of the caption search.")] = 3,
    device: DeviceOption = "auto",
    debug: Debug = False,
) -> None:
    """Score a model beside simple baselines: all, changed and unchanged pairs, each type, the change mask."""
    from workflows.output import check_folder, write_together

    if as_json is not None:
        check_folder(as_json)
    with extra("train"):
        from rscc.evaluate import evaluate as score

        table = score(model, data, dataset=dataset, split=split, beams=beams, device=device)
    typer.echo(table.as_text(compare=compare))
    if as_json is not None:
        write_together({as_json: [json.dumps(table.as_dict(), indent=1), "\n"]})


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say which extra to install when a package outside this distribution is missing."""
    from rscc.errors import ExtraNotInstalled

    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("rscc", "tiling", "workflows"):
            raise
        raise ExtraNotInstalled(f"this command needs {package}: pip install 'rscc[{name}]'") from error


def _bands(text: str | None) -> tuple[int, int, int] | None:
    """Parse ``3,2,1``."""
    from workflows.errors import OptionInvalid

    if text is None:
        return None
    try:
        red, green, blue = (int(part) for part in text.split(","))
    except ValueError:
        raise OptionInvalid(f"--bands {text!r}: give three band numbers such as 3,2,1") from None
    return red, green, blue


def _bounds(text: str | None) -> tuple[float, float, float, float] | None:
    """Parse ``W,S,E,N``."""
    from workflows.errors import OptionInvalid

    if text is None:
        return None
    try:
        west, south, east, north = (float(part) for part in text.split(","))
    except ValueError:
        raise OptionInvalid(f"--bbox {text!r}: give west,south,east,north in degrees") from None
    return west, south, east, north


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
