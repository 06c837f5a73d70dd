"""The command that makes training data: ``rscc synthesize``; registered in the cli."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rscc.config import MOST_SEED
from rscc.errors import extra
from workflows.cli.options import Debug
from workflows.cli.terminal import say
from workflows.files import told_when_refused

if TYPE_CHECKING:
    import numpy as np

    from rscc.data.synthesis.medium_facts import SeriesLayout

# Pairs of one kind that a folder gets.
MOST_PAIRS = 10_000_000
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, max=MOST_SEED, help="The same seed gives the same folder.")
]


def _count(help: str) -> Any:
    return typer.Option(min=0, max=MOST_PAIRS, help=help)


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
    crops: Annotated[int, _count("Crops of pairs with change masks.")] = 600,
    unchanged: Annotated[int, _count("Pairs of one date and itself, disturbed.")] = 300,
    insertions: Annotated[int, _count("Buildings of one place put into another place.")] = 250,
    removals: Annotated[int, _count("Buildings covered by the ground beside them.")] = 100,
    seed: SeedOption = 0,
    debug: Debug = False,
) -> None:
    """Make captioned pairs from imagery with masks, to be trained on with ``rscc train --also``."""
    with extra("train"), told_when_refused(output):
        from rscc.data.synthesis.folder import write_synthesis
        from rscc.data.synthesis.grammar import Grammar
        from rscc.data.synthesis.sources import Sources
        from rscc.data.synthesis.synthesis import Synthesis, SynthesisOptions

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
    say(summary.as_text())


def synthesize_medium(
    cities: Annotated[
        Path,
        typer.Option("--cities", help="Folder of city pairs with change masks (index.csv, A, B, label)."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder, in LEVIR-CC's layout.")],
    scenes: Annotated[
        Path | None,
        typer.Option("--scenes", help="Folder with the folders of dated GeoTIFFs, one per series."),
    ] = None,
    city_tiles: Annotated[int, _count("Training tiles of the cities.")] = 900,
    series_tiles: Annotated[int, _count("Training tiles of each series.")] = 200,
    still_tiles: Annotated[int, _count("Training tiles of one date and itself.")] = 200,
    calm_tiles: Annotated[int, _count("Training tiles of two dates without change.")] = 400,
    seed: SeedOption = 0,
    debug: Debug = False,
) -> None:
    """Make captioned pairs at 10 to 90 m, with masks, split by place."""
    with extra("train"), told_when_refused(output):
        from rscc.data.synthesis.folder import read_cities, write_medium
        from rscc.data.synthesis.medium import medium_pairs

        pairs = medium_pairs(
            read_cities(cities),
            _series(scenes) if scenes is not None else [],
            city_tiles=city_tiles,
            series_tiles=series_tiles,
            still_tiles=still_tiles,
            calm_tiles=calm_tiles,
            seed=seed,
        )
        summary = write_medium(pairs, output, command=shlex.join(["rscc", *sys.argv[1:]]))
    for split, counts in summary.items():
        changed = counts.get("changed", 0)
        places = ", ".join(f"{place} {number}" for place, number in counts.items() if place != "changed")
        total = sum(counts.values()) - changed
        say(f"{split:5s} {total:4d} tiles, {changed} changed: {places}")


def _series(scenes: Path) -> list[tuple[SeriesLayout, list[np.ndarray]]]:
    """Read the dates of every known series, oldest first: the files are named by date."""
    from rscc.data.synthesis.medium_facts import SERIES
    from tiling import open_scene

    series = []
    for layout in SERIES:
        dates = []
        for file in sorted((scenes / layout.name).glob("*.tif")):
            with open_scene(file) as scene:
                dates.append(scene.read())
        if dates:
            series.append((layout, dates))
    return series
