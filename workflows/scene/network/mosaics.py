"""Tiles become rows of the maps: probabilities are blended, evidence is that of the core of each tile."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from tiling import Band, ChangeMosaic, PairTile, Tile, TileGrid
from tiling.prefetch import map_ahead
from workflows.scene.maps import ChangeMaps
from workflows.scene.network.map_folder import writing_row
from workflows.scene.network.models import TileAnswers
from workflows.scene.pixels import enlarged

LEAST_JUDGED = 0.5
"""Share of a position that must be judged for its answers to count."""
AHEAD = 4
"""Bands that wait to be written."""


def row_edges(grid: TileGrid) -> list[int]:
    """Return where the rows begin that each row of tiles finishes, from top to bottom, and the area's end.

    Tiles begin there, but for the first and the last: no tile further down sees what lies above.
    """
    area = grid.area
    return [area.row_off, *(start for start in grid.rows.starts if start > area.row_off), area.row_end]


class Mosaics:
    """Puts the tiles of some rows together and writes the maps.

    Args:
        part: the grid of the tiles, which are given in its order.
    """

    def __init__(self, part: TileGrid, maps: ChangeMaps) -> None:
        self._part, self._maps, self._counts = part, maps, Counter[str]()
        self._edges = row_edges(part)
        self._change = ChangeMosaic(part)
        self._lone = [ChangeMosaic(part) for _ in range(maps.kinds)]
        answers = len(maps.about["answers"])
        self._evidence = EvidenceRows(part, maps, answers) if answers else None

    def add(
        self, place: Tile, whole: Tile, tile: PairTile | None, answers: TileAnswers | None, is_counted: bool
    ) -> Iterator[Band]:
        """Take the next tile; write the row that it finishes, if any, and yield its change probability.

        Args:
            place: the tile in the grid of the part.
            whole: the same tile in the whole grid, with its core there.
            tile: None where it was not read: it has no data, or nobody asked about its ground.
            answers: of the network; None where it did not look: the probability is 0.
            is_counted: whether the tile belongs to the row, and not to the one above.
        """
        if is_counted:
            self._counts.update(_counts_of(tile, answers))
        probability, facts = (None, None) if answers is None else (answers.probability, answers.facts)
        valid = None if tile is None else tile.valid
        change = self._change.add(place, probability, valid)
        lone = [
            mosaic.add(place, positions, None)
            for mosaic, positions in zip(self._lone, self._positions(facts, valid), strict=True)
        ]
        if is_counted and self._evidence is not None:
            self._evidence.add(whole, None if answers is None else answers.evidence, valid)
        if place.index == len(self._part) - 1:
            change, lone = self._change.finish(), [mosaic.finish() for mosaic in self._lone]
        elif self._change.due == self._edges[0]:
            return
        yield from self._write(change, lone)

    def _write(self, change: Iterator[Band], lone: Sequence[Iterator[Band]]) -> Iterator[Band]:
        start, stop = self._edges[:2]
        del self._edges[0]
        with (
            writing_row(self._maps, start, stop, self._counts) as row,
            ThreadPoolExecutor(1, thread_name_prefix="write") as pool,
        ):
            yield from map_ahead(pool, row.write, change, AHEAD)
            for number, (mosaic, bands) in enumerate(zip(self._lone, lone, strict=True), 1):
                write = partial(row.write, number=number)
                for _ in map_ahead(pool, write, bands, AHEAD) if mosaic.has_values else bands:
                    pass
            if self._evidence is not None:
                row.write_answers(*self._evidence.take())
        self._counts.clear()

    def _positions(self, facts: np.ndarray | None, valid: np.ndarray | None) -> list[np.ndarray | None]:
        """Return the probability of each kind of lone change in a tile, (h, w); None without any.

        Args:
            valid: (h, w) bool, the pixels that are judged; elsewhere it is 0.
        """
        if not self._lone:
            return []
        from rscc.facts.lone_changes import KINDS  # imports torch, which is loaded by now

        rules = self._maps.rules
        if facts is None or rules is None or valid is None:
            return [None] * len(self._lone)
        found = [kind.in_tile(facts, rules) for kind in KINDS]
        return [
            None if positions is None else enlarged(positions, valid.shape) * valid for positions in found
        ]


class EvidenceRows:
    """Collects the answers of tiles for the positions in their cores, row of tiles by row of tiles."""

    def __init__(self, grid: TileGrid, maps: ChangeMaps, answers: int) -> None:
        self._grid, self._maps, self._answers = grid, maps, answers
        self._rows: list[np.ndarray] = []
        self._first: int | None = None

    def add(self, tile: Tile, facts: np.ndarray | None, valid: np.ndarray | None) -> None:
        """Take the answers of the next tile.

        Args:
            facts: (answers, h, w); None where the network was not asked.
            valid: its pixels that are judged, (h * side, w * side) bool; a position with less than half of
                them has no answer.
        """
        maps, side, core, window = self._maps, self._maps.position, tile.core, tile.window
        first, stop = np.searchsorted(maps.rows_of_positions, (core.row_off, core.row_end))
        if tile.col == 0:
            empty = np.full((self._answers, stop - first, len(maps.columns) - 1), np.nan, np.float32)
            self._rows.append(empty)
            self._first = int(first) if self._first is None else self._first
        if facts is None or valid is None or not core:
            return
        left, right = np.searchsorted(maps.columns, (core.col_off, core.col_end))
        row, col = (core.row_off - window.row_off) // side, (core.col_off - window.col_off) // side
        part = slice(row, row + stop - first), slice(col, col + right - left)
        answers = self._rows[-1][:, :, left:right]
        answers[:] = facts[:, *part]
        if not valid.all():
            shares = valid.reshape(facts.shape[1], side, facts.shape[2], side).mean(axis=(1, 3))
            answers[:, (shares < LEAST_JUDGED)[part]] = np.nan

    def take(self) -> tuple[int, np.ndarray]:
        """Return the first row of positions that was collected, and (answers, rows, width); forget them."""
        rows, first = np.concatenate(self._rows, axis=1), self._first or 0
        self._rows, self._first = [], None
        return first, rows


def _counts_of(tile: PairTile | None, answers: TileAnswers | None) -> dict[str, int]:
    """Return what a tile adds to the counts of its row."""
    if tile is None:
        return {"tiles": 1, "skipped": 1}
    if answers is None:
        return {"tiles": 1, "identical" if tile.valid.any() else "blank": 1}
    return {"tiles": 1, "ruled_out": int(answers.ruled_out)}
