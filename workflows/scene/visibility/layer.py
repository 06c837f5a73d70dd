"""``visibility.tif`` in a folder of maps: what hides the ground on each date, in cells of 8 x 8 pixels.

    bands 1, 2   what hides the ground before and after, see :data:`HIDDEN_BY`
    bands 3, 4   opacity of the veil over it, 0 to 255
    bands 5-10   light of that veil, red, green and blue of each date

Cells are counted from a corner that is fixed to the ground, so a box has those of the whole scene.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rscc.visibility.cells import CELL, WHOLE
from rscc.visibility.restoration import FAINTEST, without_veil
from tiling import Window
from tiling.map_raster import open_raster, read_raster
from workflows.errors import MapsUnusable
from workflows.scene.pixels import enlarged

VISIBILITY = "visibility.tif"
_LIGHTS = (f"{color} light {date}" for date in ("before", "after") for color in ("red", "green", "blue"))
BANDS = ("before", "after", "veil before", "veil after", *_LIGHTS)
HIDDEN_BY = ("", "fill", "cloud", "shadow", "haze")
"""What a value of the first two bands means: 0 is clear ground, 1 has no data on either date."""


@dataclass(frozen=True)
class CellGrid:
    """The cells that cover an area of the working grid.

    Attributes:
        col_off, row_off: first pixels of the first cell, 0 or less where the cell begins outside the grid.
        columns, rows: numbers of cells, multiples of :data:`~rscc.visibility.cells.WHOLE`.
    """

    col_off: int
    row_off: int
    columns: int
    rows: int

    @classmethod
    def over(cls, area: Window, anchor: tuple[int, int]) -> CellGrid:
        """Return the cells over ``area`` of a grid whose first pixel is at ``anchor`` of its lattice."""
        side = CELL * WHOLE
        (col, columns), (row, rows) = (
            ((low + start) // side * side - start, -(-(high + start) // side) - (low + start) // side)
            for low, high, start in (
                (area.col_off, area.col_end, anchor[0]),
                (area.row_off, area.row_end, anchor[1]),
            )
        )
        return cls(col, row, columns * WHOLE, rows * WHOLE)

    def cells(self, window: Window, margin: int = 0) -> Window:
        """Return the cells that touch a window of pixels, and some around it."""
        col, row = (window.col_off - self.col_off) // CELL, (window.row_off - self.row_off) // CELL
        col_end = -(-(window.col_end - self.col_off) // CELL)
        row_end = -(-(window.row_end - self.row_off) // CELL)
        around = Window(col - margin, row - margin, col_end - col + 2 * margin, row_end - row + 2 * margin)
        return around.intersection(Window(0, 0, self.columns, self.rows))

    def pixels(self, cells: Window) -> Window:
        """Return the pixels of some cells."""
        col, row = self.col_off + CELL * cells.col_off, self.row_off + CELL * cells.row_off
        return Window(col, row, CELL * cells.width, CELL * cells.height)

    def covered(self, cells: Window, area: Window) -> np.ndarray:
        """Return the share of each of some cells that lies in an area of pixels, (rows, columns)."""
        down, across = (
            np.clip(np.minimum(edges + CELL, high) - np.maximum(edges, low), 0, CELL) / CELL
            for edges, low, high in (
                (self.row_off + CELL * np.arange(cells.row_off, cells.row_end), area.row_off, area.row_end),
                (self.col_off + CELL * np.arange(cells.col_off, cells.col_end), area.col_off, area.col_end),
            )
        )
        return np.outer(down, across)


class Visibility:
    """Reads ``visibility.tif``."""

    def __init__(self, path: Path, anchor: tuple[int, int], area: Window) -> None:
        self.grid = CellGrid.over(area, anchor)
        self._file: Any = open_raster(path, "uint8")
        size = len(BANDS), self.grid.rows, self.grid.columns
        if (self._file.count, self._file.height, self._file.width) != size:
            self._file.close()
            raise MapsUnusable(f"{path}: it does not fit the other maps; caption the scenes again")
        # The last rows that were read: the tiles of a row have the same.
        self._last = 0, np.zeros((len(BANDS), 0, 0), np.uint8)

    def cells(self, cells: Window) -> np.ndarray:
        """Return all bands of some cells, (10, rows, columns) uint8."""
        first, values = self._last
        if not first <= cells.row_off <= cells.row_end <= first + values.shape[1]:
            first, place = cells.row_off, Window(0, cells.row_off, self.grid.columns, cells.height)
            values = read_raster(self._file, place, range(1, len(BANDS) + 1))
            if values[:2].max(initial=0) >= len(HIDDEN_BY):
                raise MapsUnusable(f"{self._file.name}: the maps are damaged; caption the scenes again")
            self._last = first, values
        inside = slice(cells.row_off - first, cells.row_end - first), slice(cells.col_off, cells.col_end)
        return values[:, *inside]

    def classes(self, window: Window) -> np.ndarray:
        """Return what hides each pixel of a window, (2, h, w) uint8."""
        cells = self.grid.cells(window)
        large = self.cells(cells)[:2].repeat(CELL, axis=1).repeat(CELL, axis=2)
        rows, cols = window.slices(self.grid.pixels(cells))
        return large[:, rows, cols]

    def view(
        self, before: np.ndarray, after: np.ndarray, valid: np.ndarray, window: Window
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a window as the network sees it: without haze, hidden ground as the other date shows it.

        Both dates are (3, h, w) uint8; what cloud, shadow or dense haze hides is not valid, (h, w) bool.
        """
        cells = self.grid.cells(window, margin=1)
        values = self.cells(cells)
        hidden = values[:2] > HIDDEN_BY.index("fill")
        opacity, lights = values[2:4] / np.float32(255), np.split(values[4:].astype(np.float32), 2)
        if not hidden.any() and opacity.max(initial=0) < FAINTEST:
            return before, after, valid
        dates = [before, after]
        whole = self.grid.pixels(cells)
        inner = window.intersection(whole)  # a window may be larger than what the cells cover
        part, place, shape = inner.slices(window), inner.slices(whole), (whole.height, whole.width)
        for date in (0, 1):
            if opacity[date].max() >= FAINTEST:
                veil = enlarged(opacity[date], shape)[place]
                light = enlarged(lights[date], shape)[:, *place]
                dates[date] = dates[date].copy()
                clear = without_veil(dates[date][:, *part], veil, light)
                dates[date][:, *part] = np.where(valid[part], clear, 0)
        covered = np.zeros((2, *valid.shape), bool)
        covered[:, *part] = hidden.repeat(CELL, axis=1).repeat(CELL, axis=2)[:, *place]
        before = np.where(covered[0], dates[1], dates[0])
        after = np.where(covered[1], before, dates[1])
        return before, after, valid & ~covered.any(axis=0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
