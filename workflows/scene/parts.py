"""Very large scenes in parts that several processes do, with the report that one process gives.

A part is some rows of tiles. What it finds is kept as rows of probability in one folder, the tile cache,
which all processes must see. When all parts are done, the report is made from that folder: outlines are
traced over the seams of parts as over those of tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rscc.model_folder import ModelCard
from tiling import TileGrid, plan_frame
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions
from workflows.report.report import ChangeReport
from workflows.scene.opening import Scene, planned_gsd, read_headers, search_area, tile_grid
from workflows.scene.probability import find_rows, row_edges
from workflows.scene.run import SceneRun, caption_scene

if TYPE_CHECKING:
    from rscc.captioner import Captioner

Rows = tuple[int, int]
# A part computes the row of tiles above it once more: with one row of its own that would be half its work.
LEAST_ROWS = 2


def planned_tiles(
    before: Scene, after: Scene, card: ModelCard, options: SceneOptions | None = None
) -> TileGrid:
    """Return the tiles that a run looks at; from the headers of the scenes, no pixel is read.

    Raises:
        TilingError, TooCoarse, OptionInvalid: as :func:`workflows.caption_scene`.
    """
    options = options or SceneOptions()
    infos = read_headers(before, after, options)
    frame = plan_frame(*infos, gsd=planned_gsd(infos, card, options), bounds=options.bounds)
    return tile_grid(frame, card, options, search_area(frame, card, options))


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
    """Return the parts of a pair that has more than ``most_tiles`` tiles; None where it is better done whole.

    Raises:
        TilingError, TooCoarse, OptionInvalid: as :func:`workflows.caption_scene`.
    """
    grid = planned_tiles(before, after, card, options)
    parts = plan_parts(grid, most_tiles)
    return parts if len(grid) > most_tiles and len(parts) > 1 else None


def find_part(
    before: Scene,
    after: Scene,
    captioner: Captioner,
    options: SceneOptions,
    rows: Sequence[int],
) -> None:
    """Do one part, one of :func:`plan_parts`: fill ``options.tile_cache`` with its rows.

    Other parts of the pair may be done at the same time in other processes, by the same model and options.
    What an earlier try finished is not repeated.

    Raises:
        OptionInvalid: there is no tile cache, or the scene has no such part.
        TilingError, TooCoarse, MemoryTooSmall, MemoryExhausted, TileCacheUnusable: the part cannot be done.
    """
    if options.tile_cache is None:
        raise OptionInvalid("a part of a scene needs a tile cache to be kept in; give its folder")
    with SceneRun.open(before, after, captioner, options, shared=True) as run:
        top, end = rows
        edges = row_edges(run.grid)
        if not (top in edges and end in edges and top < end):
            raise OptionInvalid(
                f"{run.infos[0].path}: rows {top} to {end} are no part of this scene any more; cut it anew"
            )
        for bands, _ in find_rows(run, rows=(top, end)):
            for _ in bands:
                pass  # taken to be kept


def join_parts(before: Scene, after: Scene, captioner: Captioner, options: SceneOptions) -> ChangeReport:
    """Make the report of a pair whose parts are done: that of :func:`workflows.caption_scene`.

    A part that is missing or damaged is computed here. In the run record no tile counts as resumed: the parts
    were computed for this report.
    """
    report = caption_scene(before, after, captioner, options)
    return replace(report, run={**report.run, "resumed_tiles": 0})
