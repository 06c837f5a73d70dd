"""Maps of the step after one date, in the form of the maps of a pair: outlines and words are made of them.

Each band of the probability is F of :mod:`workflows.monitor.stack.steps`. The evidence at a position is the
median of that of the pairs across the step, so that one veiled date does not speak.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache, reduce
from pathlib import Path

import numpy as np

from rscc.model_folder import ModelCard
from tiling import Band, TileGrid, Window
from workflows.monitor.events import Pair
from workflows.monitor.stack.pairs import READ_PX, PairMaps
from workflows.monitor.stack.steps import crossing, step_probability
from workflows.options import SceneOptions
from workflows.scene.maps import ChangeMaps
from workflows.scene.network.map_folder import grid_of, new_maps, position_edges, writing_row
from workflows.scene.opening import tile_grid

RowOf = Callable[[int, int, int], np.ndarray | None]
"""Returns F of a row of tiles over the whole width: arguments are its first pixel, its end, and the band."""


@contextmanager
def step_maps(
    pairs: PairMaps, step: int, folder: Path, card: ModelCard, options: SceneOptions
) -> Iterator[ChangeMaps | None]:
    """Yield the maps of the step after one date, of the ground where it may have changed; None without any.

    Args:
        folder: for the maps, empty; the caller removes it.
    """
    grid, whole = tile_grid(pairs.frame, card, options, pairs.frame.focus), pairs.frame.focus
    least, alike = _least(pairs, options.threshold_for(card)), _least(pairs, card.threshold)

    @lru_cache(len(least))
    def computed(top: int, bottom: int, band: int) -> np.ndarray | None:
        window = Window(whole.col_off, top, whole.width, bottom - top)
        return _step_band(pairs, step, window, band, least[band], alike[band])

    # A small place is read and computed at once; of a large one, the row of tiles that is looked at.
    def row_of(top: int, bottom: int, band: int) -> np.ndarray | None:
        if whole.width * whole.height > READ_PX:
            return computed(top, bottom, band)
        values = computed(whole.row_off, whole.row_end, band)
        return None if values is None else values[top - whole.row_off : bottom - whole.row_off]

    area = _changed_area(row_of, grid, whole, least)
    if area is None:
        yield None
        return
    rows, columns = (position_edges(axis, card.position_size) for axis in (grid.rows, grid.columns))
    edges = [
        [edge for edge in own if low <= edge <= high]
        for own, low, high in (
            (columns, area.col_off, area.col_end),
            (rows, area.row_off, area.row_end),
        )
    ]
    about = {
        **pairs.about,
        "identity": f"step {step}",
        "grid": grid_of(pairs.frame, area),
        "position_edges": dict(zip(("columns", "rows"), edges, strict=True)),
    }
    about.pop("answers"), about.pop("format")
    with new_maps(folder, about, pairs.frame.grid.crs, pairs.about["answers"]) as maps:
        for top, bottom in zip(grid.rows.edges, grid.rows.edges[1:], strict=False):
            if area.row_off <= top < bottom <= area.row_end:
                window = Window(area.col_off, top, area.width, bottom - top)
                columns_of = slice(area.col_off - whole.col_off, area.col_end - whole.col_off)
                bands = (row_of(top, bottom, band) for band in range(len(least)))
                shown = [None if values is None else values[:, columns_of] for values in bands]
                _write_row(maps, pairs, step, window, shown)
        yield maps


def _changed_area(row_of: RowOf, grid: TileGrid, whole: Window, least: Sequence[float]) -> Window | None:
    """Return whole cores of tiles around all that may have changed, and those beside them."""

    def may_change(core: Window) -> bool:
        columns = slice(core.col_off - whole.col_off, core.col_end - whole.col_off)
        rows = (row_of(core.row_off, core.row_end, band) for band in range(len(least)))
        return any(
            values is not None and (values[:, columns] >= low).any()  # NaN is not
            for values, low in zip(rows, least, strict=True)
        )

    changed = [tile for tile in grid if tile.core and may_change(tile.core)]
    if not changed:
        return None
    down, across = grid.shape
    first_row, last_row = min(tile.row for tile in changed) - 1, max(tile.row for tile in changed) + 2
    first_col, last_col = min(tile.col for tile in changed) - 1, max(tile.col for tile in changed) + 2
    top, bottom = grid.rows.edges[max(0, first_row)], grid.rows.edges[min(down, last_row)]
    left, right = grid.columns.edges[max(0, first_col)], grid.columns.edges[min(across, last_col)]
    return Window(left, top, right - left, bottom - top).intersection(whole)


def _least(pairs: PairMaps, threshold: float) -> list[float]:
    """Return the probability from which a pixel changed, for each band."""
    from rscc.facts.lone_changes import KINDS

    return [threshold, *(kind.least for kind in KINDS)][: 1 + pairs.kinds]


def _step_band(
    pairs: PairMaps, step: int, window: Window, band: int, least: float, alike: float
) -> np.ndarray | None:
    """Return F of a band of the probability, (h, w), 0 where below ``least`` and NaN without data.

    None where no pair has values. F is at most the largest P of the last date before with one after, so it
    is computed only where that reaches ``least``.
    """
    crossed = list(crossing(step, pairs.count))
    if not any(pairs.has_values(pair, band) for pair in crossed):
        return None
    last = [pairs.probability(pair, window, band) for pair in crossed if pair[0] == step]
    known = [values for values in last if values is not None]
    if not known:
        return None
    most = reduce(np.fmax, known)
    changed = most >= least
    found = np.where(np.isnan(most), np.nan, 0).astype(np.float32)
    if changed.any():

        @cache
        def read(pair: Pair) -> np.ndarray | None:
            values = pairs.probability(pair, window, band)
            return None if values is None else values[changed]

        values = step_probability(read, step, pairs.count, alike)
        assert values is not None, "some pair differs there"
        found[changed] = np.where(values >= least, values, 0)
    return found


def _write_row(
    maps: ChangeMaps, pairs: PairMaps, step: int, window: Window, bands: Sequence[np.ndarray | None]
) -> None:
    with writing_row(maps, window.row_off, window.row_end, {"tiles": 0}) as row:
        for band, values in enumerate(bands):
            if values is None and band:
                continue
            if values is None:
                values = np.full((window.height, window.width), np.nan, np.float32)
            valid = np.ones(values.shape, bool) if band else ~np.isnan(values)
            row.write(Band(window.row_off, np.nan_to_num(values), valid, window.col_off), band)
        if maps.has_evidence:
            edges = maps.rows_of_positions
            first, stop = np.searchsorted(edges, (window.row_off, window.row_end))
            rows, columns = ((e[:-1] + e[1:]) // 2 for e in (edges[first : stop + 1], maps.columns))
            row.write_answers(int(first), _evidence(pairs, step, rows, columns))


def _evidence(pairs: PairMaps, step: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    found = [pairs.answers(pair, rows, columns) for pair in crossing(step, pairs.count) if pair in pairs]
    ordered = np.sort(np.stack(found), axis=0)  # NaN last
    middle = np.maximum((~np.isnan(ordered)).sum(axis=0, keepdims=True) - 1, 0) // 2
    values: np.ndarray = np.take_along_axis(ordered, middle, axis=0)[0]
    return values.astype(np.float32)
