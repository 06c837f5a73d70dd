"""Blend tiles of change probability into row bands; memory is one tile's height times the scene's width.

Every pixel is the weighted mean of the tiles that cover it. The weights fall smoothly to the edges of a tile,
where the network sees least context, and add up to one at every pixel, so a result that does not depend on
the tiling stays unchanged. They are those of the whole scene, so a pixel has the same value in every area.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiling.grid import Axis, Tile, TileGrid, Window

# The outermost pixels of a tile still count: at the edge of a scene no other tile covers them.
LEAST_WEIGHT = 1e-3
# Finished rows of a wide scene come in several bands of about this many pixels.
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
    """Blends the tiles of ``grid``, added in order, into bands of the grid's area."""

    def __init__(self, grid: TileGrid) -> None:
        self.grid = grid
        self._row_weights = _weights(grid.rows)
        self._column_weights = _weights(grid.columns)
        # In float64, so that means are exact to the last bit of float32. Sums with an invalid pixel are NaN.
        self._sum = np.zeros((grid.tile, grid.area.width))
        self._row_off = self._due = self._filled = grid.area.row_off
        self._next = 0
        self._has_nodata = False

    @property
    def due(self) -> int:
        """The first row of pixels that the tiles so far do not finish."""
        return self._due

    @property
    def has_values(self) -> bool:
        """Whether the rows that are due, or the next ones, are not all 0."""
        return self._filled > self._row_off

    def add(self, tile: Tile, probability: np.ndarray | None, valid: np.ndarray | None) -> Iterator[Band]:
        """Take the next tile, (h, w) float32 in 0..1 with (h, w) bool; return the bands that it finishes.

        A pixel that is invalid in any tile is invalid; its probability is ignored. None means a probability
        of 0, or valid, everywhere.
        All bands must be consumed before the next tile.

        Raises:
            ValueError: the tile is not the next one of the grid, an array has another shape, or bands were
                not consumed.
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
        # The buffer starts at the first unfinished row, which is never below the tile's first.
        place = visible.slices(Window(area.col_off, self._row_off, area.width, self.grid.tile))
        part = visible.slices(tile.window)
        if valid is not None and valid.all():
            valid = None
        if probability is not None or valid is not None:
            self._filled = max(self._filled, visible.row_end)
        if probability is not None:
            weighted = probability[part].astype(np.float64)
            rows, columns = self._row_weights[tile.row][part[0]], self._column_weights[tile.col][part[1]]
            # Weights are exactly 1 where no other tile sees a pixel: most of a tile.
            for edge in _below_one(rows):
                weighted[edge] *= rows[edge, None]
            for edge in _below_one(columns):
                weighted[:, edge] *= columns[edge]
            self._sum[place] += weighted
        if valid is not None:
            self._has_nodata = True
            self._sum[place][~valid[part]] = np.nan
        down, across = self.grid.shape
        if tile.col == across - 1 and tile.row < down - 1:
            self._due = max(self._due, self.grid.rows.starts[tile.row + 1])
        return self._bands()

    def finish(self) -> Iterator[Band]:
        """Return the last bands.

        Raises:
            ValueError: not all tiles of the grid were added, or bands were not consumed.
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
        """Yield the finished rows, then make room for the next tiles."""
        rows = self._due - self._row_off
        if not rows:
            return
        area = self.grid.area
        step = max(1, BAND_PX // area.width)
        if not self.has_values:
            for row in range(0, rows, step):
                zeros = np.broadcast_to(np.float32(0), (min(step, rows - row), area.width))
                yield Band(self._row_off + row, zeros, np.broadcast_to(True, zeros.shape), area.col_off)
            self._row_off = self._due
            return
        for row in range(0, rows, step):
            probability = self._sum[row : min(row + step, rows)].astype(np.float32)
            valid = np.broadcast_to(True, probability.shape)
            if self._has_nodata:
                valid = ~np.isnan(probability)
                probability[~valid] = 0
            np.clip(probability, 0, 1, out=probability)
            yield Band(self._row_off + row, probability, valid, area.col_off)
        size = len(self._sum)
        for row in range(rows, size, rows):  # by disjoint parts, without a copy
            self._sum[row - rows : min(row, size - rows)] = self._sum[row : row + rows]
        self._sum[size - rows :] = 0
        self._row_off = self._due


def _below_one(weights: np.ndarray) -> list[slice]:
    """Return the ends of a row of weights that are not 1, or all of it."""
    full = np.flatnonzero(weights == 1.0)
    if not len(full):
        return [slice(None)]
    return [edge for edge in (slice(0, full[0]), slice(full[-1] + 1, None)) if len(weights[edge])]


def _weights(axis: Axis) -> list[np.ndarray]:
    """Return weights for every tile along one axis that add up to one at each pixel of the area."""
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
