"""All commands by panel of the help, each with an example. Heavy imports stay inside the commands."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from workflows.cli.batch import batch
from workflows.cli.caption import caption
from workflows.cli.convert import convert
from workflows.cli.doctor import doctor
from workflows.cli.evaluate import evaluate
from workflows.cli.explain import explain
from workflows.cli.inspect import inspect
from workflows.cli.monitor import monitor
from workflows.cli.options import set_debug, switch, takes_options
from workflows.cli.pairs import pairs
from workflows.cli.qgis import qgis
from workflows.cli.review import review
from workflows.cli.status import status
from workflows.cli.synthesize import synthesize, synthesize_medium
from workflows.cli.terminal import Terminal, print_json, print_text
from workflows.cli.train import train
from workflows.cli.verify import verify


class Command(TyperCommand):
    """A command whose help has panels if one of its options belongs to the panel Input."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        parameters = super().get_params(ctx)
        options: list[Any] = [each for each in parameters if each.param_type_name == "option"]
        has_panels = any(each.rich_help_panel == "Input" for each in options)
        for each in options:
            each.rich_help_panel = (each.rich_help_panel or "Advanced") if has_panels else None
        _hide_types_of_flags(options)
        return parameters


class Group(TyperGroup):
    """The command ``rscc`` itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options."""
        options = super().get_params(ctx)
        _hide_types_of_flags(options)
        return options


def joined_paragraphs(docstring: str | None) -> str:
    """Return the text of a docstring with each paragraph on one line, for the width of the terminal."""
    paragraphs = cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _hide_types_of_flags(options: Iterable[Any]) -> None:
    for each in options:
        if each.is_flag:
            each.metavar = ""


app = typer.Typer(
    cls=Group,
    help="Find, outline and describe what changed between satellite or aerial images of one place.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        from rscc import __version__

        typer.echo(f"rscc {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, switch("--version", "Print the version and exit", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, switch("--debug", "Print the traceback of an error", callback=set_debug)] = False,
) -> None:
    """Find, outline and describe what changed between satellite or aerial images of one place."""


@takes_options()
def models(terminal: Terminal) -> None:
    """List the models of this installation."""
    from rscc.model_folder import available_models
    from rscc.training.card_text import confidence_line

    cards = available_models()
    if terminal.as_json:
        print_json([asdict(card) for card in cards])
        return
    for card in cards:
        low, high = card.gsd_range
        lines = [
            f"{card.name} {card.version}  {card.description}",
            f"    {card.gsd:g} m per pixel (scenes of {low:g} to {high:g} m); weights: {card.licence}",
        ]
        if line := confidence_line(card):
            lines.append(f"    {line}")
        known = "measured" if card.familiarity_sha256 else "not measured"
        lines.append(f"    familiarity of the ground: {known}")
        print_text("\n".join(lines))


COMMANDS: dict[str, dict[Callable[..., None], str]] = {
    "Everyday": {
        caption: "rscc caption before.tif after.tif -o changes.geojson -o changes.html",
        inspect: "rscc inspect before.tif after.tif",
        convert: "rscc convert changes.geojson changes.gpkg",
        explain: "rscc explain changes.geojson --id 1",
        review: "rscc review changes.geojson changes_marks.json",
        qgis: "rscc qgis changes.geojson -o changes.qgz",
    },
    "Archives": {
        pairs: "rscc pairs scenes -o pairs.csv",
        batch: "rscc batch pairs.csv --out archive --dry-run",
        monitor: "rscc monitor scenes --out watch",
        status: "rscc status archive --watch",
    },
    "Models": {
        models: "rscc models",
        doctor: "rscc doctor --json",
        train: "rscc train --from rscc-base --data mine --output runs/mine",
        evaluate: "rscc evaluate --data LEVIR-CC --model rscc-base --split test",
        synthesize: "rscc synthesize --data LEVIR-CC --masks masks --output made",
        synthesize_medium: "rscc synthesize-medium --cities OSCD --output made",
    },
    "Verification": {verify: "rscc verify changes.geojson"},
}
"""The commands of each panel, with the example at the end of their help."""

for panel, commands in COMMANDS.items():
    for command, example in commands.items():
        register = app.command(
            cls=Command,
            help=joined_paragraphs(command.__doc__),
            epilog=f"Example: {example}",
            rich_help_panel=panel,
        )
        register(command)
