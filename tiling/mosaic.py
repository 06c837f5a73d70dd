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
# A wide scene gives its finished rows in several bands of about this many pixels.
BAND_PX = 2**19


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
        self._row_weights = _weights(grid.rows)
        self._column_weights = _weights(grid.columns)
        # Sums in float64: then a mean over any number of tiles is right to the last bit of float32.
        # A sum with an invalid pixel in it is NaN.
        self._sum = np.zeros((grid.tile, grid.area.width))
        self._row_off = self._due = grid.area.row_off
        self._next = 0

    def add(self, tile: Tile, probability: np.ndarray | None, valid: np.ndarray) -> Iterator[Band]:
        """Take the next tile, (h, w) float32 in 0..1 with (h, w) bool; return the bands that it finishes.

        A pixel that any tile calls invalid is invalid; its probability is ignored. None is 0 everywhere. All
        bands must be taken before the next tile.

        Raises:
            ValueError: the tile is not the next one of the grid, an array has another shape, or bands were
                not taken.
        """
        shape = (tile.window.height, tile.window.width)
        if tile.index != self._next:
            raise ValueError(f"tiles come in order: expected {self._next}, got {tile.index}")
        given = [array.shape for array in (probability, valid) if array is not None]
        if any(one != shape for one in given):
            raise ValueError(f"expected {shape}, got {given}")
        self._check_taken()
        self._next += 1
        area = self.grid.area
        visible = tile.window.intersection(area)
        # The buffer starts at the first row that is not finished, which is never below the tile's first.
        place = visible.slices(Window(area.col_off, self._row_off, area.width, self.grid.tile))
        part = visible.slices(tile.window)
        if probability is not None:
            rows, columns = self._row_weights[tile.row][part[0]], self._column_weights[tile.col][part[1]]
            weighted = np.outer(rows, columns)
            weighted *= probability[part]
            self._sum[place] += weighted
        if not valid.all():
            self._sum[place][~valid[part]] = np.nan
        down, across = self.grid.shape
        if tile.col == across - 1 and tile.row < down - 1:
            self._due = max(self._due, self.grid.rows.starts[tile.row + 1])
        return self._bands()

    def finish(self) -> Iterator[Band]:
        """Return the bands that are left after the last tile.

        Raises:
            ValueError: not all tiles of the grid were added, or bands were not taken.
        """
        if self._next != len(self.grid):
            raise ValueError(f"only {self._next} of {len(self.grid)} tiles were added")
        self._check_taken()
        self._due = self.grid.area.row_end
        return self._bands()

    def _check_taken(self) -> None:
        if self._row_off != self._due:
            raise ValueError(f"the bands of rows {self._row_off} to {self._due - 1} were not taken")

    def _bands(self) -> Iterator[Band]:
        """Yield the rows that are due, then make room for those of the next tiles."""
        rows = self._due - self._row_off
        if not rows:
            return
        area = self.grid.area
        step = max(1, BAND_PX // area.width)
        for row in range(0, rows, step):
            probability = self._sum[row : min(row + step, rows)].astype(np.float32)
            valid = ~np.isnan(probability)
            if not valid.all():
                probability[~valid] = 0
            np.clip(probability, 0, 1, out=probability)
            yield Band(self._row_off + row, probability, valid, area.col_off)
        size = len(self._sum)
        for row in range(rows, size, rows):  # by parts that do not overlap: no copy is made in between
            self._sum[row - rows : min(row, size - rows)] = self._sum[row : row + rows]
        self._sum[size - rows :] = 0
        self._row_off = self._due


def _weights(axis: Axis) -> list[np.ndarray]:
    """Return weights for every tile along one axis that add up to one at each pixel of the area.

    All tiles that see a pixel of the area are among those of the grid, so no other counts there.
    """
    first = axis.starts[0]
    spans = [slice(start - first, stop - first) for start, stop in zip(axis.starts, axis.stops, strict=True)]
    windows = [_window(span.stop - span.start) for span in spans]
    total = np.zeros(spans[-1].stop)
    for span, window in zip(spans, windows, strict=True):
        total[span] += window
    return [window / total[span] for span, window in zip(spans, windows, strict=True)]


def _window(size: int) -> np.ndarray:
    position = (np.arange(size) + 0.5) / size
    return LEAST_WEIGHT + np.sin(np.pi * position) ** 2
