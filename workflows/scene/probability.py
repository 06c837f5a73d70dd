"""Rows of change probability of a pair: tiles through the model in batches, blended, in bounded memory.

What a row holds does not depend on which other rows are wanted, or were finished by an earlier run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rscc.sequences import batches
from tiling import Band, ChangeMosaic, PairTile, TileGrid, Window, read_tiles
from workflows.progress import device_of, tell
from workflows.scene.carrier import OpenRun
from workflows.scene.cascade import is_ruled_out
from workflows.scene.memory import alike, tiles_at_once, weight_of
from workflows.scene.opening import tile_grid
from workflows.scene.streams import side_by_side, streams_of

if TYPE_CHECKING:
    from rscc.captioner import Captioner

NOTHING = {"tiles": 0, "blank": 0, "identical": 0, "ruled_out": 0, "changed": 0}
"""The counts of no tiles."""


def row_edges(grid: TileGrid) -> list[int]:
    """Return where the rows begin that each row of tiles finishes, from top to bottom, and the area's end.

    Tiles begin there, but for the first and the last: no tile further down sees what lies above.
    """
    area = grid.area
    return [area.row_off, *(start for start in grid.rows.starts if start > area.row_off), area.row_end]


def find_rows(
    run: OpenRun, area: Window | None = None, rows: tuple[int, int] | None = None
) -> Iterator[tuple[Iterator[Band], dict[str, int]]]:
    """Yield for each row of tiles the bands it finishes, to be taken at once, and the counts of its tiles.

    Counts are of all ``tiles``, of the ``blank`` ones, which have no valid pixel, of the ``identical`` ones,
    whose dates do not differ in any pixel, of those that the scout ``ruled_out``, and of the ``changed``
    ones, with a pixel from the threshold on. Only tiles that are none of the first three are shown to the
    model.

    Args:
        run: what is searched. Its progress hears of the stage ``tiles``, its cache keeps the finished rows,
            and those that it has are not computed again.
        area: pixels to look at instead of all that the run looks at; without progress and cache.
        rows: the first row of pixels to find and the first one below them, both of :func:`row_edges`; by
            default all.
    """
    if area is None:
        grid, cache, progress = run.grid, run.cache, run.progress
    else:
        grid, cache, progress = tile_grid(run.pair, run.card, run.options, area), None, None
    area = grid.area
    top, end = rows or (area.row_off, area.row_end)
    requested = [(start, stop) for start, stop in pairwise(row_edges(grid)) if top <= start and stop <= end]
    cached = {start for start, _ in requested if cache is not None and cache.has(start)}
    # Tiles that begin above and reach into these rows are counted there.
    first = 0 if top == area.row_off else _tiles_above(grid, top)
    total = _tiles_above(grid, end) - first

    def tell_done(tiles: int) -> None:
        tell(progress, "tiles", min(max(tiles - first, 0), total), total)

    if cache:
        cache.resumed_tiles = total
    for finished, stretch in groupby(requested, key=lambda edges: edges[0] in cached):
        if finished and cache:
            for start, stop in stretch:
                with cache.finished(start) as (stored, counts, maps):
                    if run.fact_maps is not None:
                        run.fact_maps.update(maps)
                    yield stored, counts
                tell_done(_tiles_above(grid, stop))
            continue
        edges = list(stretch)
        part = _Stretch(run, grid, (edges[0][0], edges[-1][1]))
        if cache:
            cache.resumed_tiles = max(0, cache.resumed_tiles - len(part.tiles))
        for bands, counts in part.predict(tell_done):
            yield (cache.keep(bands, counts, run.fact_maps or {}) if cache else bands), counts


def _tiles_above(grid: TileGrid, row: int) -> int:
    """Return how many tiles begin above a row of pixels."""
    return bisect_left(grid.rows.starts, row) * grid.shape[1]


class _Stretch:
    """Rows of a grid that are computed in one go.

    Attributes:
        weight: how many of the model's crops a tile weighs.
        streams: see :func:`~workflows.scene.streams.streams_of`.
        batch: tiles that the model gets at once.
        tiles: numbers of the tiles that are shown to the model. Batches begin and end where they do when all
            of the grid is computed: what a network computes for a tile may depend, in its last bits, on what
            is in the batch beside it.
    """

    def __init__(self, run: OpenRun, grid: TileGrid, rows: tuple[int, int]) -> None:
        self.run, self.grid = run, grid
        self.weight = weight_of(grid, run.card)
        at_once = tiles_at_once(run.sizes.asked, grid, run.card)
        self.streams = streams_of(device_of(run.captioner), at_once, run.card.localiser)
        self.batch = batch = at_once // max(1, self.streams)
        if len(grid) <= batch:
            self.streams = min(self.streams, 1)  # one batch alone has all cores
        area, (top, end) = grid.area, rows
        self.part = TileGrid(
            grid.width,
            grid.height,
            grid.tile,
            grid.overlap,
            anchor=grid.anchor,
            area=Window(area.col_off, top, area.width, end - top),
            least=grid.least,
            multiple=grid.multiple,
        )
        # The number in the grid of the part's first tile.
        self.offset = _tiles_above(grid, self.part.rows.starts[0])
        last = self.offset + len(self.part)
        self.tiles = range(self.offset - self.offset % batch, min(len(grid), last + -last % batch))
        # Tiles that begin above and reach into the part are counted there.
        self.counted = 0 if top == area.row_off else _tiles_above(self.part, top)

    def predict(self, tell_done: Callable[[int], None]) -> Iterator[tuple[Iterator[Band], dict[str, int]]]:
        """Yield the bands of each row of tiles, and its counts; ``tell_done`` gets the number of a tile."""
        reader: Any = read_tiles(
            self.run.pair,
            self.grid,
            ahead=self.run.memory.ahead,
            first=self.tiles.start,
            end=self.tiles.stop,
        )
        mosaic, part, counts = ChangeMosaic(self.part), self.part, Counter(NOTHING)
        threshold = self.run.options.threshold_for(self.run.card)
        # Here, not in several threads at a time: both are made when they are first asked for.
        facts, scout = self.run.fact_maps, self.run.scout
        look = partial(_look, self.run, scout, weight=self.weight)
        # Closed also when the model fails, so that the reader threads end.
        with closing(reader) as tiles, side_by_side(look, batches(tiles, self.batch), self.streams) as looks:
            for batch, seen in looks:
                if facts is not None:
                    facts.update(seen.facts)
                for tile in batch:
                    number = tile.tile.index - self.offset
                    if not 0 <= number < len(part):
                        continue
                    found = seen.probability.get(tile.tile.index)
                    if number >= self.counted:
                        counts.update(_counted(tile, found, threshold))
                        counts["ruled_out"] += tile.tile.index in seen.ruled_out
                    bands = mosaic.add(part[number], found, tile.valid)
                    if number == len(part) - 1:
                        bands = chain(bands, mosaic.finish())
                    band = next(bands, None)
                    if band is not None:
                        yield chain([band], bands), dict(counts)
                        counts = Counter(NOTHING)
                tell_done(batch[-1].tile.index + 1)
                # Not while the next ones are waited for: what they hold counts, too.
                del batch, seen


def _counted(tile: PairTile, probability: np.ndarray | None, threshold: float) -> dict[str, int]:
    """Return what one tile adds to the counts; one that was not shown has no probability."""
    if probability is None:
        kind, holds = ("identical" if tile.valid.any() else "blank"), True
    else:
        kind, holds = "changed", bool((probability[tile.valid] >= threshold).any())
    return {"tiles": 1, kind: int(holds)}


class _Seen(NamedTuple):
    """What the model, or models, make of some tiles.

    Attributes:
        probability: of change, (h, w) by the tile's index.
        facts: what the fact heads answer by the tile's window, see :attr:`OpenRun.fact_maps`.
        ruled_out: indices of the tiles whose probability is only the scout's.
    """

    probability: dict[int, np.ndarray]
    facts: dict[Window, np.ndarray]
    ruled_out: frozenset[int] = frozenset()


def _look(
    run: OpenRun, scout: Captioner | None, batch: Sequence[PairTile], *, weight: int
) -> tuple[Sequence[PairTile], _Seen]:
    """Return a batch, and what is seen in its tiles that are not the same on both dates."""
    # A blank tile is 0 on both dates.
    tiles = [tile for tile in batch if not np.array_equal(tile.before, tile.after)]
    if scout is None:
        return batch, _searched(run, run.captioner, tiles, weight)
    scouted = _searched(run, scout, tiles, weight).probability
    threshold = run.options.threshold_for(run.card)
    kept = [tile for tile in tiles if not is_ruled_out(tile, scouted[tile.tile.index], threshold)]
    seen = _searched(run, run.captioner, kept, weight)
    ruled_out = frozenset(scouted.keys() - seen.probability.keys())
    return batch, _Seen(scouted | seen.probability, seen.facts, ruled_out)


def _searched(run: OpenRun, model: Captioner, tiles: Sequence[PairTile], weight: int) -> _Seen:
    """Show tiles to the model, those of one size together.

    Of what its heads answer, that of tiles with a change, or perhaps with one by itself, is kept.
    """
    asks = model is run.captioner and run.fact_maps is not None
    threshold = run.options.threshold_for(run.card)
    facts: dict[Window, np.ndarray] = {}

    def call(part: Sequence[PairTile]) -> np.ndarray:
        windows = [tile.tile.window for tile in part]
        dates = np.stack([tile.before for tile in part]), np.stack([tile.after for tile in part])
        with run.naming(windows):
            if not asks:
                return model.search(*dates)
            found, answers = model.survey(*dates)
        from rscc.inference.lone_changes import may_hold_lone_change  # brings torch, which is there by now

        rules = model.facts.rules.on_maps()  # type: ignore[union-attr]
        for tile, probability, maps in zip(part, found, answers, strict=True):
            if (probability[tile.valid] >= threshold).any() or may_hold_lone_change(maps, rules):
                facts[tile.tile.window] = maps
        return found

    probabilities = {
        tile.tile.index: probability
        for same in alike(tiles, lambda tile: tile.valid.shape)
        for part, found in run.sizes.run(same, call, weight)
        for tile, probability in zip(part, found, strict=True)
    }
    return _Seen(probabilities, facts)
