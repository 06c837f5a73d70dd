"""The commands ``rscc synthesize`` and ``rscc synthesize-medium``, which make training data."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rscc.config import MOST_SEED
from rscc.errors import extra
from workflows.cli.options import option, takes_options
from workflows.cli.terminal import Terminal
from workflows.files import one_line_if_disk_full

if TYPE_CHECKING:
    import numpy as np

    from rscc.data.synthesis.medium_facts import SeriesLayout

MAX_PAIRS = 10_000_000
SeedOption = Annotated[
    int, option("Random seed; the same seed gives the same folder", "N", "--seed", min=0, max=MOST_SEED)
]


def _count(help: str) -> Any:
    return typer.Option(metavar="N", min=0, max=MAX_PAIRS, help=help)


@takes_options()
def synthesize(
    data: Annotated[
        Path,
        option("Captioned data set in the layout of LEVIR-CC; only its training split is used", "FOLDER"),
    ],
    output: Annotated[Path, option("New folder, in the layout of LEVIR-CC", "FOLDER", "--output", "-o")],
    masks: Annotated[
        Path | None, option("Pairs with change masks (index.csv, A, B, label)", "FOLDER")
    ] = None,
    mask_dataset: Annotated[
        list[str] | None, option("Collection of --masks to use; repeatable; default: levir_cd", "NAME")
    ] = None,
    single_date: Annotated[
        Path | None, option("Single dates with masks (index.csv, image, mask)", "FOLDER")
    ] = None,
    crops: Annotated[int, _count("Crops of pairs with change masks")] = 600,
    unchanged: Annotated[int, _count("Pairs of an image and the same image, disturbed")] = 300,
    insertions: Annotated[int, _count("Buildings copied from one image into another")] = 250,
    removals: Annotated[int, _count("Buildings removed by covering them with nearby ground")] = 100,
    seed: SeedOption = 0,
    *,
    terminal: Terminal,
) -> None:
    """Make captioned training pairs from images with masks, for rscc train --also."""
    with extra("train"), one_line_if_disk_full(output):
        from rscc.data.synthesis.folder import write_synthesis
        from rscc.data.synthesis.grammar import Grammar
        from rscc.data.synthesis.imagery import Imagery
        from rscc.data.synthesis.suburbs import Synthesis, SynthesisOptions

        options = SynthesisOptions(
            crops=crops, unchanged=unchanged, insertions=insertions, removals=removals, seed=seed
        )
        names = tuple(mask_dataset or ("levir_cd",))
        sources = Imagery(data, masks=masks, mask_datasets=names, single_date=single_date)
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
    terminal.notice(summary)


@takes_options()
def synthesize_medium(
    cities: Annotated[Path, option("City pairs with change masks (index.csv, A, B, label)", "FOLDER")],
    output: Annotated[Path, option("New folder, in the layout of LEVIR-CC", "FOLDER", "--output", "-o")],
    scenes: Annotated[
        Path | None, option("Folder with one folder of dated GeoTIFFs per series", "FOLDER")
    ] = None,
    city_tiles: Annotated[int, _count("Training tiles from the cities")] = 900,
    series_tiles: Annotated[int, _count("Training tiles from each series")] = 200,
    still_tiles: Annotated[int, _count("Training tiles of an image and the same image")] = 200,
    calm_tiles: Annotated[int, _count("Training tiles of two dates without change")] = 400,
    seed: SeedOption = 0,
    *,
    terminal: Terminal,
) -> None:
    """Make captioned training pairs at 10 to 90 m per pixel, with masks, split by place."""
    with extra("train"), one_line_if_disk_full(output):
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
        terminal.notice(f"{split:5s} {total:4d} tiles, {changed} changed: {places}")


def _series(scenes: Path) -> list[tuple[SeriesLayout, list[np.ndarray]]]:
    """Read the images of every known series, oldest first; the files are named by date."""
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
