"""Blend tiles of change probability into row bands; memory is one tile's height times the scene's width.

Every pixel is the weighted mean of the tiles that cover it. The weights fall smoothly to the edges of a tile,
where the network sees least context. Means are taken along rows, then along columns, one tile after the
other: ``mean += share * (value - mean)``. So a value that all tiles agree on stays unchanged to the last bit,
and the most of a tile that no other covers is only copied. The weights are those of the whole scene, so a
pixel has the same value in every area.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiling.grid import Axis, Tile, TileGrid

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

    @property
    def is_complete(self) -> bool:
        """Whether all pixels are valid; it costs nothing where ``valid`` repeats one value."""
        return bool(self.valid.all() if any(self.valid.strides) else self.valid.flat[0])


class ChangeMosaic:
    """Blends the tiles of ``grid``, added in order, into bands of the grid's area.

    Attributes:
        due: the first row of pixels that the tiles so far do not finish.
        has_values: whether the rows that were finished last are not all 0.
    """

    def __init__(self, grid: TileGrid) -> None:
        self.grid, self.due, self.has_values = grid, grid.area.row_off, False
        self._row_shares, self._column_shares = _shares(grid.rows), _shares(grid.columns)
        self._taken = self.due  # the first row that the caller has not consumed
        self._next = 0
        self._buffer = np.zeros((grid.tile, grid.area.width), np.float32)
        # The current row of tiles, in the buffer, and the rows that are not due yet of those above it; an
        # invalid pixel is NaN. None stands for zeros.
        self._strip: np.ndarray | None = None
        self._above: np.ndarray | None = None
        self._has_nodata = False

    def add(self, tile: Tile, probability: np.ndarray | None, valid: np.ndarray | None) -> Iterator[Band]:
        """Take the next tile, (h, w) float32 in 0..1 with (h, w) bool; return the bands that it finishes.

        A pixel that is invalid in any tile is invalid; its probability is ignored. None means a probability
        of 0, or valid, everywhere. All bands must be consumed before the next tile.
        """
        shape = (tile.window.height, tile.window.width)
        assert tile.index == self._next, f"tiles come in order: expected {self._next}, got {tile.index}"
        assert all(array is None or array.shape == shape for array in (probability, valid))
        assert self._taken == self.due, "bands were not consumed"
        self._next += 1
        if valid is not None and valid.all():
            valid = None
        if self._strip is not None or probability is not None or valid is not None:
            self._blend_with_left(tile, probability, valid)
        down, across = self.grid.shape
        if tile.col < across - 1:
            return iter(())
        if self._strip is not None or self._above is not None:
            self._blend_with_above(tile)
        return iter(()) if tile.row == down - 1 else self._finished(self.grid.rows.starts[tile.row + 1])

    def finish(self) -> Iterator[Band]:
        """Return the last bands, after all tiles of the grid were added and their bands consumed."""
        assert self._next == len(self.grid), f"only {self._next} of {len(self.grid)} tiles were added"
        assert self._taken == self.due, "bands were not consumed"
        return self._finished(self.grid.area.row_end)

    def _blend_with_left(self, tile: Tile, probability: np.ndarray | None, valid: np.ndarray | None) -> None:
        area = self.grid.area
        visible = tile.window.intersection(area)
        rows, columns = visible.slices(tile.window)
        values = np.zeros((visible.height, visible.width), np.float32)
        if probability is not None:
            values = probability[rows, columns]
        if valid is not None:
            self._has_nodata = True
            values = np.where(valid[rows, columns], values, np.float32(math.nan))
        strip = self._blank(tile) if self._strip is None else self._strip
        left = visible.col_off - area.col_off
        part, shares = strip[:, left : left + visible.width], self._column_shares[tile.col][columns]
        shared = int((shares < 1).sum())
        both = values[:, :shared].copy()
        _blend(part[:, :shared], both, shares[:shared])
        part[:, :shared] = both
        part[:, shared:] = values[:, shared:]
        self._strip = strip

    def _blend_with_above(self, tile: Tile) -> None:
        strip = self._blank(tile) if self._strip is None else self._strip
        first = self.due - tile.window.row_off
        shares = self._row_shares[tile.row][first : first + len(strip)]
        shared = int((shares < 1).sum())
        above = np.float32(0) if self._above is None else self._above
        _blend(above, strip[:shared], shares[:shared, None])
        self._strip = strip

    def _blank(self, tile: Tile) -> np.ndarray:
        strip = self._buffer[: tile.window.intersection(self.grid.area).height]
        strip[:] = 0
        return strip

    def _finished(self, end: int) -> Iterator[Band]:
        """Keep the rows from ``end`` on for the next tiles; return those above as bands."""
        start, self.due = self.due, max(self.due, end)
        strip, self._strip, self._above = self._strip, None, None
        self.has_values = strip is not None
        if strip is not None and len(strip) > self.due - start:
            self._above = strip[self.due - start :].copy()
        return self._bands(start, self.due, strip)

    def _bands(self, start: int, end: int, strip: np.ndarray | None) -> Iterator[Band]:
        area = self.grid.area
        step = max(1, BAND_PX // area.width)
        for row in range(start, end, step):
            shape = min(step, end - row), area.width
            probability, valid = np.broadcast_to(np.float32(0), shape), np.broadcast_to(True, shape)
            if strip is not None:
                probability = strip[row - start : row - start + shape[0]].copy()  # the buffer is used again
                if self._has_nodata:
                    valid = ~np.isnan(probability)
                    probability[~valid] = 0
            yield Band(row, probability, valid, area.col_off)
        self._taken = end


def _blend(before: np.ndarray | np.float32, values: np.ndarray, shares: np.ndarray) -> None:
    """Replace values by the mean of those before and them, in which they have these shares; 0..1."""
    values -= before
    values *= shares
    values += before
    np.clip(values, 0, 1, out=values)


def _shares(axis: Axis) -> list[np.ndarray]:
    """Return for every tile along an axis which share it has in the mean of it and the tiles before it."""
    first, shares = axis.starts[0], []
    total = np.zeros(axis.stops[-1] - first)
    for start, stop in zip(axis.starts, axis.stops, strict=True):
        window, span = _window(stop - start), slice(start - first, stop - first)
        total[span] += window
        shares.append((window / total[span]).astype(np.float32))
    return shares


def _window(size: int) -> np.ndarray:
    position = (np.arange(size) + 0.5) / size
    return LEAST_WEIGHT + np.sin(np.pi * position) ** 2
