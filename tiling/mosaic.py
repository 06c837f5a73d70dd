"""Tiles of change probability become row bands of the scene; memory is one tile's height times the width.

Every pixel is the weighted mean of the tiles that see it. The weights fall smoothly to the edges of a tile,
where a network has seen least around a pixel; over all tiles they add up to one at every pixel, so what does
not depend on the tiling comes back as it was. They are those of the whole scene whatever area is asked for,
so a pixel has the same value in every area.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiling.grid import Axis, Tile, TileGrid, Window

# The outermost pixels of a tile still count: at the edge of a scene no other tile sees them.
LEAST_WEIGHT = 1e-3


@dataclass(frozen=True)
class Band:
    """Finished rows of the area.

    Attributes:
        row_off: the first row, in the scene.
        probability: (rows, width) float32 in 0..1; 0 where not valid.
        valid: (rows, width) bool.
        col_off: the first column, in the scene.
    """

    row_off: int
    probability: np.ndarray
    valid: np.ndarray
    col_off: int = 0


class ChangeMosaic:
    """Blends the tiles of ``grid``, given in order, and streams the grid's area as bands."""

    def __init__(self, grid: TileGrid) -> None:
        self.grid = grid
        self._row_weights = _weights(grid.rows, grid.height, grid.tile)
        self._column_weights = _weights(grid.columns, grid.width, grid.tile)
        # Sums in float64: then a mean over any number of tiles is right to the last bit of float32.
        self._sum = np.zeros((grid.tile, grid.area.width))
        self._valid = np.ones((grid.tile, grid.area.width), bool)
        self._row_off = grid.area.row_off
        self._next = 0

    def add(self, tile: Tile, probability: np.ndarray, valid: np.ndarray) -> Iterator[Band]:
        """Take the next tile, (T, T) float32 in 0..1 with (T, T) bool; return the bands that it finishes.

        A pixel that any tile calls invalid is invalid; its probability is ignored.

        Raises:
            ValueError: the tile is not the next one of the grid, or an array has another shape.
        """
        size = self.grid.tile
        if tile.index != self._next:
            raise ValueError(f"tiles come in order: expected {self._next}, got {tile.index}")
        if probability.shape != (size, size) or valid.shape != (size, size):
            raise ValueError(f"expected ({size}, {size}), got {probability.shape} and {valid.shape}")
        self._next += 1
        area = self.grid.area
        wanted = tile.window.intersection(area)
        # The buffer starts at the first row that is not finished, which is never below the tile's first.
        buffer = Window(area.col_off, self._row_off, area.width, size)
        place, part = wanted.slices(buffer), wanted.slices(tile.window)
        weight = self._row_weights[tile.row][part[0], None] * self._column_weights[tile.col][None, part[1]]
        seen = valid[part]
        self._sum[place] += weight * np.where(seen, probability[part], 0)
        self._valid[place] &= seen
        rows, columns = self.grid.shape
        if tile.col == columns - 1 and tile.row < rows - 1:
            return self._emit(self.grid.rows.starts[tile.row + 1])
        return iter(())

    def finish(self) -> Iterator[Band]:
        """Return the bands that are left after the last tile.

        Raises:
            ValueError: not all tiles of the grid were added.
        """
        if self._next != len(self.grid):
            raise ValueError(f"only {self._next} of {len(self.grid)} tiles were added")
        return self._emit(self.grid.area.row_end)

    def _emit(self, row_end: int) -> Iterator[Band]:
        rows = row_end - self._row_off
        if rows <= 0:  # the next tiles begin above the area too
            return iter(())
        finished, valid = self._sum[:rows], self._valid[:rows].copy()
        finished[~valid] = 0
        # Finished sums are of no further use, so nothing as large is made beside them.
        probability = np.clip(finished, 0, 1, out=finished).astype(np.float32)
        band = Band(self._row_off, probability, valid, self.grid.area.col_off)
        kept = self.grid.tile - rows
        self._sum[:kept] = self._sum[rows:]
        self._valid[:kept] = self._valid[rows:]
        self._sum[kept:], self._valid[kept:] = 0, True
        self._row_off = row_end
        return iter((band,))


def _weights(axis: Axis, size: int, tile: int) -> list[np.ndarray]:
    """Return (tile,) weights for every tile of the area; those of all tiles add up to one at each pixel."""
    position = (np.arange(tile) + 0.5) / tile
    window = LEAST_WEIGHT + np.sin(np.pi * position) ** 2
    total = np.zeros(max(size, tile))
    for start in axis.all_starts:
        total[start : start + tile] += window
    return [window / total[start : start + tile] for start in axis.starts]
