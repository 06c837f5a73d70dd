"""Where a pair changed: tiles through the model, blended, traced as regions; in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from tiling import (
    Band,
    ChangeMosaic,
    ChangeRegion,
    PairTile,
    Polygonizer,
    ScenePair,
    TileGrid,
    Window,
    read_tiles,
)
from workflows.memory import AHEAD, Batches
from workflows.options import SceneOptions
from workflows.progress import Progress, batches, tell

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.structures import ChangePrediction
    from rscc.weights import ModelCard
    from workflows.tile_cache import TileCache


def tile_grid(
    pair: ScenePair, card: ModelCard, options: SceneOptions, area: Window | None = None
) -> TileGrid:
    """Return the tiles of a pair that touch ``area``, by default all; they are fixed to the ground.

    Raises:
        OptionInvalid: the overlap that was asked for is too large.
    """
    return TileGrid(
        pair.grid.width,
        pair.grid.height,
        tile=card.tile_size,
        overlap=options.overlap_for(card),
        anchor=pair.grid.anchor,
        area=area,
    )


def search_area(pair: ScenePair, card: ModelCard, options: SceneOptions) -> Window:
    """Return the pixels to look at: those asked for, and around them a tile and the distance of a group.

    So a change that lies across the edge of what was asked for is seen whole, unless it is larger than that.
    """
    return grown(pair, pair.focus, card.tile_size + int(np.ceil(options.group_distance / pair.grid.gsd)))


def grown(pair: ScenePair, window: Window, pixels: int) -> Window:
    """Return ``window`` with ``pixels`` more on every side, as far as the working grid goes."""
    larger = Window(
        window.col_off - pixels,
        window.row_off - pixels,
        window.width + 2 * pixels,
        window.height + 2 * pixels,
    )
    return larger.intersection(Window(0, 0, pair.grid.width, pair.grid.height))


def find_changes(
    pair: ScenePair,
    grid: TileGrid,
    captioner: Captioner,
    options: SceneOptions,
    progress: Progress | None = None,
) -> tuple[list[ChangeRegion], dict[str, int]]:
    """Return the changed regions that touch what was asked for of ``pair``, and the counts of its tiles.

    Arguments and counts as :func:`find_regions`.
    """
    regions, counts = find_regions(pair, grid, captioner, options, progress)
    touched = touching([region.pixel_polygon for region in regions], pair.focus)
    return [region for region, touches in zip(regions, touched, strict=True) if touches], counts


def touching(outlines: Sequence[Any], window: Window) -> np.ndarray:
    """Return (n,) bool: which of the outlines, in pixels, touch a window of the same grid."""
    return shapely.intersects(
        np.array(outlines, dtype=object),
        shapely.box(window.col_off, window.row_off, window.col_end, window.row_end),
    )


def find_regions(
    pair: ScenePair,
    grid: TileGrid,
    captioner: Captioner,
    options: SceneOptions,
    progress: Progress | None = None,
    *,
    sizes: Batches | None = None,
    ahead: int = AHEAD,
    cache: TileCache | None = None,
) -> tuple[list[ChangeRegion], dict[str, int]]:
    """Return the changed regions of the grid's area, and how many tiles were ``blank`` and ``changed``.

    Blank tiles have no valid pixel and are not shown to the model. With a cache, the rows that an earlier
    run finished are not computed again; the regions are the same.

    Args:
        pair: the scenes.
        grid: the tiles to look at.
        captioner: the model.
        options: of the run.
        progress: told of the stage ``tiles``.
        sizes: how many tiles the model gets at once; by default as the options say.
        ahead: tiles that are read in advance.
        cache: keeps the finished rows.
    """
    sizes = sizes or Batches(options.batch_size)
    # Half the area here, all of it once the outline that is reported is known: simplifying moves edges.
    smallest = 0.5 * options.min_area / pair.grid.gsd**2
    polygons = Polygonizer(options.threshold_for(captioner.card), min_area_px=smallest)
    counts = Counter(tiles=0, blank=0, changed=0)
    row, area, first = grid.area.row_off, grid.area, len(grid)
    for bands, known in cache.finished(row) if cache else ():
        counts = Counter(known)
        for band in bands:
            polygons.add(band)
            row = band.row_off + len(band.probability)
    if row < area.row_end:
        rest = TileGrid(
            grid.width,
            grid.height,
            grid.tile,
            grid.overlap,
            anchor=grid.anchor,
            area=Window(area.col_off, row, area.width, area.row_end - row),
        )
        first = _first_tile(grid, rest, sizes)
        reader: Any = read_tiles(pair, grid, ahead=ahead, first=first)
        # Closed also when the model fails, so that the reader threads end.
        with closing(reader) as tiles:
            for bands in _rows(tiles, grid, rest, captioner, sizes, counts, progress):
                for band in cache.keep(bands, counts) if cache else bands:
                    polygons.add(band)
    if cache:
        cache.resumed_tiles = first
    regions = polygons.finish(simplify_px=options.simplify, transform=pair.grid.transform)
    return regions, {name: counts[name] for name in ("blank", "changed")}


def _first_tile(grid: TileGrid, rest: TileGrid, sizes: Batches) -> int:
    """Return the tile of ``grid`` to begin at for ``rest``, which has its last rows.

    Batches begin where they do without a cache: what a network computes for a tile may depend, in its last
    bits, on what is in the batch beside it.
    """
    skipped = len(grid) - len(rest)
    return skipped - skipped % sizes.asked


def _rows(
    tiles: Iterator[PairTile],
    grid: TileGrid,
    rest: TileGrid,
    captioner: Captioner,
    sizes: Batches,
    counts: Counter[str],
    progress: Progress | None,
) -> Iterator[Iterator[Band]]:
    """Yield the bands each tile finishes of ``rest``; ``counts`` grows by the tiles not counted yet."""
    mosaic = ChangeMosaic(rest)
    skipped = len(grid) - len(rest)
    for batch in batches(tiles, sizes.asked):
        found = _predict([tile for tile in batch if tile.valid.any()], captioner, sizes)
        for tile in batch:
            number = tile.tile.index
            blank = number not in found
            probability, changed = found.get(number, (np.zeros(tile.valid.shape, np.float32), False))
            if number >= counts["tiles"]:
                counts.update(tiles=1, blank=blank, changed=changed)
            if number >= skipped:
                yield mosaic.add(rest[number - skipped], probability, tile.valid)
        tell(progress, "tiles", batch[-1].tile.index + 1, len(grid))
    yield mosaic.finish()


def _predict(
    tiles: Sequence[PairTile], captioner: Captioner, sizes: Batches
) -> dict[int, tuple[np.ndarray, bool]]:
    """Return by tile index the change probability, and whether the model calls the tile changed."""

    def call(part: Sequence[PairTile]) -> ChangePrediction:
        return captioner.predict_change(
            np.stack([tile.before for tile in part]), np.stack([tile.after for tile in part])
        )

    found = {}
    for part, prediction in sizes.run(tiles, call):
        changed = prediction.changed_probability >= captioner.card.changed_threshold
        for tile, probability, flag in zip(part, prediction.change_probability, changed, strict=True):
            found[tile.tile.index] = probability, bool(flag)
    return found
