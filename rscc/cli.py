"""The ``rscc`` command; thin: one function per command, heavy imports inside them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from rscc.cli_batch import batch
from rscc.cli_caption import caption
from rscc.cli_data import synthesize
from rscc.cli_evaluation import evaluate
from rscc.cli_explain import explain
from rscc.cli_inspect import inspect
from rscc.cli_medium import synthesize_medium
from rscc.cli_merge import merge
from rscc.cli_options import Debug
from rscc.cli_pairs import pairs
from rscc.cli_status import status
from rscc.cli_training import train
from rscc.interrupts import INTERRUPTED, MESSAGE, tidy_interrupts

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.weights import ModelCard

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


def load_card(model: str) -> ModelCard:
    """Read the card of a model by name or folder, without its weights."""
    from rscc.weights import find_model, open_model_folder

    return open_model_folder(find_model(model)).card


@dataclass
class State:
    """What travels beside the options: how to get a captioner or a card, whether tracebacks are wanted."""

    load_captioner: Callable[[str, str], Captioner] = load_captioner
    load_card: Callable[[str], ModelCard] = load_card
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


app.command()(caption)
app.command()(inspect)
app.command()(explain)
app.command()(pairs)
app.command()(batch)
app.command()(status)
app.command()(merge)


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
    card_factory: Callable[[str], ModelCard] = load_card,
) -> None:
    """Run the command and exit.

    Exit codes: 0 done; 1 the run failed; 2 an input or option is wrong; 3 some pairs of an archive failed;
    130 interrupted.

    Args:
        arguments: words after the program name; None takes them from the process.
        captioner_factory: gives the captioner for (model, device).
        card_factory: gives the card of a model.
    """
    state = State(captioner_factory, card_factory)
    try:
        with tidy_interrupts():
            app(args=None if arguments is None else list(arguments), prog_name="rscc", obj=state)
    except KeyboardInterrupt:
        typer.echo(MESSAGE, err=True)
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # typer's form of the same
            typer.echo(MESSAGE, err=True)
        raise
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
