"""The command that makes training data at 10 to 90 m: ``rscc synthesize-medium``; registered in the cli."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rscc.cli_options import Debug, extra

if TYPE_CHECKING:
    import numpy as np

    from rscc.data.medium_facts import SeriesLayout


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
    city_tiles: Annotated[int, typer.Option(min=0, help="Training tiles of the cities.")] = 900,
    series_tiles: Annotated[int, typer.Option(min=0, help="Training tiles of each series.")] = 200,
    still_tiles: Annotated[int, typer.Option(min=0, help="Training tiles of one date and itself.")] = 200,
    calm_tiles: Annotated[int, typer.Option(min=0, help="Training tiles of two dates without change.")] = 400,
    seed: Annotated[int, typer.Option(help="The same seed gives the same folder.")] = 0,
    debug: Debug = False,
) -> None:
    """Make captioned pairs at 10 to 90 m, with masks, split by place."""
    with extra("train"):
        from rscc.data.medium import medium_pairs
        from rscc.data.medium_folder import read_cities, write_medium

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
        typer.echo(f"{split:5s} {total:4d} tiles, {changed} changed: {places}")


def _series(scenes: Path) -> list[tuple[SeriesLayout, list[np.ndarray]]]:
    """Read the dates of every known series, oldest first: the files are named by date."""
    from rscc.data.medium_facts import SERIES
    from tiling.scene import open_scene

    found = []
    for layout in SERIES:
        dates = []
        for file in sorted((scenes / layout.name).glob("*.tif")):
            with open_scene(file) as scene:
                dates.append(scene.read())
        if dates:
            found.append((layout, dates))
    return found
