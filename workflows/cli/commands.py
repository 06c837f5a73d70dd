"""All commands in one list; heavy imports stay inside their functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from workflows.cli.batch import batch
from workflows.cli.caption import caption
from workflows.cli.convert import convert
from workflows.cli.doctor import doctor
from workflows.cli.evaluate import evaluate
from workflows.cli.explain import explain
from workflows.cli.inspect import inspect
from workflows.cli.merge import merge
from workflows.cli.options import Debug, JsonOption
from workflows.cli.pairs import pairs
from workflows.cli.qgis import qgis
from workflows.cli.review import review
from workflows.cli.status import status
from workflows.cli.synthesize import synthesize, synthesize_medium
from workflows.cli.train import train
from workflows.cli.verify import verify

app = typer.Typer(
    help="Words for what changed on the ground: two satellite scenes in, a captioned change layer out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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


def models(as_json: JsonOption = False, debug: Debug = False) -> None:
    """List the models that come with this installation."""
    from rscc.model_folder import available_models
    from rscc.training.card import confidence_line
    from workflows.cli.terminal import say_json

    if as_json:
        say_json([asdict(card) for card in available_models()])
        return
    for card in available_models():
        low, high = card.gsd_range
        typer.echo(
            f"{card.name} {card.version}  {card.description}\n"
            f"    {card.gsd:g} m per pixel (scenes of {low:g} to {high:g} m); weights: {card.licence}"
        )
        if line := confidence_line(card):
            typer.echo(f"    {line}")


# What to type first, by command; shown at the end of its help.
EXAMPLES: dict[Callable[..., None], str] = {
    caption: "rscc caption before.tif after.tif -o changes.geojson --html changes.html",
    inspect: "rscc inspect before.tif after.tif --time",
    explain: "rscc explain before.tif after.tif -o crop.png --at 13.405,52.520",
    convert: "rscc convert changes.geojson changes.gpkg",
    qgis: "rscc qgis changes.geojson -o changes.qgz",
    review: "rscc review changes.geojson changes_marks.json",
    pairs: "rscc pairs scenes -o pairs.csv",
    batch: "rscc batch pairs.csv --out archive --dry-run",
    status: "rscc status archive --watch",
    merge: "rscc merge archive",
    verify: "rscc verify changes.geojson",
    models: "rscc models",
    doctor: "rscc doctor --json",
    train: "rscc train --from rscc-base --data mine --output runs/mine",
    evaluate: "rscc evaluate --data LEVIR-CC --model rscc-base --split test",
    synthesize: "rscc synthesize --data LEVIR-CC --masks masks --output made",
    synthesize_medium: "rscc synthesize-medium --cities OSCD --output made",
}

for command, example in EXAMPLES.items():
    app.command(epilog=f"Example: {example}")(command)
