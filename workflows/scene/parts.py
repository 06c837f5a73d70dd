"""Very large scenes in parts that several processes do, with the report that one process gives.

A part is some rows of tiles. Each process writes its rows into the same maps, in a folder that all can reach.
When all parts are done, the report is made of these maps; seams of parts are seams of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rscc.model_folder import ModelCard
from tiling import TileGrid
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions
from workflows.report.report import Report
from workflows.scene.network.detect import fill_maps, maps_of
from workflows.scene.network.mosaics import row_edges
from workflows.scene.opening import open_pair, planned_tiles
from workflows.scene.run import caption_scene
from workflows.scenes import Scene

if TYPE_CHECKING:
    from rscc.captioner import Captioner

Rows = tuple[int, int]
# A part computes the row of tiles above it once more: with one row of its own that would be half its work.
LEAST_ROWS = 2


def plan_parts(grid: TileGrid, most_tiles: int) -> tuple[Rows, ...]:
    """Cut the area of a grid into parts of about equal work: first row of pixels, and first one below.

    Parts lie under each other without a gap. Each has at most ``most_tiles`` tiles, or at least two rows of
    tiles where that is more.
    """
    edges = row_edges(grid)
    rows, columns = len(edges) - 1, grid.shape[1]
    needed = -(-rows // max(1, most_tiles // columns))
    count = max(1, min(needed, rows // LEAST_ROWS))
    cuts = [edges[rows * number // count] for number in range(count + 1)]
    return tuple(pairwise(cuts))


def split_of(
    before: Scene, after: Scene, card: ModelCard, options: SceneOptions, most_tiles: int
) -> tuple[Rows, ...] | None:
    """Return the parts of a pair that has more than ``most_tiles`` tiles; None to do it whole."""
    grid, _ = planned_tiles(before, after, card, options)
    parts = plan_parts(grid, most_tiles)
    return parts if len(grid) > most_tiles and len(parts) > 1 else None


def start_parts(before: Scene, after: Scene, captioner: Captioner, options: SceneOptions) -> None:
    """Make the maps in ``options.keep_maps`` before the first part; those of other options are removed."""
    assert options.keep_maps is not None
    with (
        open_pair(before, after, captioner.card, options) as opened,
        maps_of(opened, captioner, options.keep_maps, replace_others=True),
    ):
        pass


def find_part(
    before: Scene,
    after: Scene,
    captioner: Captioner,
    options: SceneOptions,
    rows: Sequence[int],
) -> None:
    """Do one part, one of :func:`plan_parts`: write its rows into the maps in ``options.keep_maps``.

    Other parts of the pair may be done at the same time in other processes, by the same model and options.
    What an earlier try finished is not repeated.

    Raises:
        OptionInvalid: the scene has no such part.
    """
    assert options.keep_maps is not None
    with open_pair(before, after, captioner.card, options) as opened:
        top, end = rows
        edges = row_edges(opened.grid)
        if not (top in edges and end in edges and top < end):
            raise OptionInvalid(
                f"{opened.infos[0].path}: rows {top} to {end} are no part of this scene any more"
            )
        fill_maps(opened, captioner, options.keep_maps, (top, end), shared=True)


def join_parts(before: Scene, after: Scene, captioner: Captioner, options: SceneOptions) -> Report:
    """Make the report of a pair whose parts are done: that of :func:`workflows.caption_scene`.

    A part that is missing or damaged is detected here. No tile counts as resumed in the run record, since the
    parts were detected for this report; the maps are not part of the result.
    """
    report = caption_scene(
        before, after, captioner, replace(options, keep_maps=None), resume=options.keep_maps
    )
    return replace(report, run={**report.run, "resumed_tiles": 0})
