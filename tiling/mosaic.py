"""Tiles of change probability become row bands of the scene; memory is one tile's height times the width.

Every pixel is the weighted mean of the tiles that see it. The weights fall smoothly to the edges of a tile,
where a network has seen least around a pixel; over all tiles they add up to one at every pixel, so what does
not depend on the tiling comes back as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiling.grid import Tile, TileGrid

# The outermost pixels of a tile still count: at the edge of a scene no other tile sees them.
LEAST_WEIGHT = 1e-3


@dataclass(frozen=True)
class Band:
    """Finished rows of the scene.

    Attributes:
        row_off: the first row.
        probability: (rows, width) float32 in 0..1; 0 where not valid.
        valid: (rows, width) bool.
    """

    row_off: int
    probability: np.ndarray
    valid: np.ndarray


class ChangeMosaic:
    """Blends the tiles of ``grid``, given in order, and streams the scene as bands."""

    def __init__(self, grid: TileGrid) -> None:
        self.grid = grid
        self._row_weights = _weights(grid.rows.starts, grid.height, grid.tile)
        self._column_weights = _weights(grid.columns.starts, grid.width, grid.tile)
        # Sums in float64: then a mean over any number of tiles is right to the last bit of float32.
        self._sum = np.zeros((grid.tile, grid.width))
        self._valid = np.ones((grid.tile, grid.width), bool)
        self._row_off = 0
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
        left, top = tile.window.col_off, tile.window.row_off
        width, height = min(size, self.grid.width - left), min(size, self.grid.height - top)
        weight = self._row_weights[tile.row][:height, None] * self._column_weights[tile.col][None, :width]
        seen = valid[:height, :width]
        place = (slice(0, height), slice(left, left + width))  # the buffer starts at the row of this tile
        self._sum[place] += weight * np.where(seen, probability[:height, :width], 0)
        self._valid[place] &= seen
        rows, columns = self.grid.shape
        if tile.col == columns - 1 and tile.row < rows - 1:
            return iter((self._emit(self.grid.rows.starts[tile.row + 1]),))
        return iter(())

    def finish(self) -> Iterator[Band]:
        """Return the bands that are left after the last tile.

        Raises:
            ValueError: not all tiles of the grid were added.
        """
        if self._next != len(self.grid):
            raise ValueError(f"only {self._next} of {len(self.grid)} tiles were added")
        if self._row_off < self.grid.height:
            yield self._emit(self.grid.height)

    def _emit(self, row_end: int) -> Band:
        rows = row_end - self._row_off
        valid = self._valid[:rows].copy()
        probability = np.where(valid, self._sum[:rows], 0).clip(0, 1).astype(np.float32)
        band = Band(self._row_off, probability, valid)
        kept = self.grid.tile - rows
        self._sum[:kept] = self._sum[rows:].copy()
        self._valid[:kept] = self._valid[rows:].copy()
        self._sum[kept:], self._valid[kept:] = 0, True
        self._row_off = row_end
        return band


def _weights(starts: tuple[int, ...], size: int, tile: int) -> list[np.ndarray]:
    """Return (tile,) weights for every tile along one axis that add up to one at each of ``size`` pixels."""
    position = (np.arange(tile) + 0.5) / tile
    window = LEAST_WEIGHT + np.sin(np.pi * position) ** 2
    total = np.zeros(max(size, starts[-1] + tile))
    for start in starts:
        total[start : start + tile] += window
    return [window / total[start : start + tile] for start in starts]
