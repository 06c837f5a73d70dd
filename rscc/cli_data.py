"""The command that makes training data: ``rscc synthesize``; registered in the cli."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rscc.cli_options import Debug, extra


def synthesize(
    data: Annotated[
        Path,
        typer.Option("--data", help="Captioned data set in LEVIR-CC's layout; its training split is used."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder, in LEVIR-CC's layout.")],
    masks: Annotated[
        Path | None, typer.Option(help="Folder of pairs with change masks (index.csv, A, B, label).")
    ] = None,
    mask_dataset: Annotated[
        list[str] | None,
        typer.Option(help="Collection of --masks that is used; repeatable; default: levir_cd."),
    ] = None,
    single_date: Annotated[
        Path | None, typer.Option(help="Folder of single dates with masks (index.csv, image, mask).")
    ] = None,
    crops: Annotated[int, typer.Option(min=0, help="Crops of pairs with change masks.")] = 600,
    unchanged: Annotated[int, typer.Option(min=0, help="Pairs of one date and itself, disturbed.")] = 300,
    insertions: Annotated[
        int, typer.Option(min=0, help="Buildings of one place put into another place.")
    ] = 250,
    removals: Annotated[int, typer.Option(min=0, help="Buildings covered by the ground beside them.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same folder.")] = 0,
    debug: Debug = False,
) -> None:
    """Make captioned pairs from imagery with masks, to be trained on with ``rscc train --also``."""
    with extra("train"):
        from rscc.data.grammar import Grammar
        from rscc.data.synthesis import Synthesis, SynthesisOptions
        from rscc.data.synthesis_folder import write_synthesis
        from rscc.data.synthesis_sources import Sources

        options = SynthesisOptions(
            crops=crops, unchanged=unchanged, insertions=insertions, removals=removals, seed=seed
        )
        names = tuple(mask_dataset or ("levir_cd",))
        sources = Sources(data, masks=masks, mask_datasets=names, single_date=single_date)
        grammar = Grammar.learn(
            caption for record in sources.captioned if record.changed for caption in record.captions
        )
        summary = write_synthesis(
            Synthesis(sources, grammar, options).pairs(),
            output,
            options,
            sources=sources.names,
            command=shlex.join(["rscc", *sys.argv[1:]]),
        )
    typer.echo(summary.as_text())
