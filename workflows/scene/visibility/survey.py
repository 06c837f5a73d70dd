"""Find what hides the ground before the network looks: one pass over both dates, in strips of bounded height.

A cell's answer depends on the cells within a fixed distance, and strips overlap by it, so the layer does not
depend on strips, tiles or boxes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from affine import Affine

import rscc
from rscc.visibility.cells import CELL, CHANNELS, MARGIN, cells_of, valid_shares
from tiling import ScenePair, Window
from tiling.map_raster import RasterWriter, create_raster
from workflows.scene.visibility.layer import BANDS, HIDDEN_BY, VISIBILITY, CellGrid

if TYPE_CHECKING:
    from rscc.visibility.detector import VeilDetector

LEAST_VALID = 0.5
"""Share of a cell's pixels on the grid that must have data."""
STRIP = 256
"""Rows of cells that are looked at together, besides those around them."""
PART = 512, 64
"""Columns and rows of cells whose pixels are read together."""


def survey(pair: ScenePair, area: Window, folder: Path, detector: VeilDetector | None) -> None:
    """Write ``visibility.tif`` of an area into a folder, complete or not at all.

    Args:
        detector: of the model; None only marks ground without data.

    Raises:
        SceneDamaged: a scene cannot be decoded.
        MapsNotWritable: the system refuses.
    """
    grid = CellGrid.over(area, pair.grid.anchor)
    draft = folder / f".{VISIBILITY}"
    create_raster(
        draft,
        crs=pair.grid.crs,
        transform=pair.grid.transform * Affine.translation(grid.col_off, grid.row_off) * Affine.scale(CELL),
        width=grid.columns,
        height=grid.rows,
        names=BANDS,
        software=f"rscc {rscc.__version__}",
        dtype="uint8",
    )
    writer = RasterWriter(draft)
    try:
        for row, layers in _strips(pair, grid, detector):
            writer.write(layers, row, range(1, len(BANDS) + 1))
    finally:
        writer.close()
    draft.replace(folder / VISIBILITY)


def _strips(
    pair: ScenePair, grid: CellGrid, detector: VeilDetector | None
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the first row of each strip and its layers, (10, rows, columns) uint8."""
    whole = Window(0, 0, pair.grid.width, pair.grid.height)
    top, cells = 0, np.zeros((2, CHANNELS + 1, 0, grid.columns), np.float32)
    with closing(_cells(pair, grid, with_pixels=detector is not None)) as further:
        for row in range(0, grid.rows, STRIP):
            first, last = max(0, row - MARGIN), min(grid.rows, row + STRIP + MARGIN)
            parts = [cells[:, :, first - top :]]
            while first + sum(part.shape[2] for part in parts) < last:
                parts.append(next(further))
            top, cells = first, np.concatenate(parts, axis=2)
            before, after = cells[:, :, : last - first]
            found = np.zeros((len(BANDS), *before.shape[1:]), np.uint8)
            if detector is not None and before[-1].any():
                found[:] = detector.layers(before, after)
            inside = grid.covered(Window(0, first, grid.columns, last - first), whole)
            found[:2, before[-1] < LEAST_VALID * inside] = HIDDEN_BY.index("fill")
            stop = min(grid.rows, row + STRIP)
            yield row, found[:, row - first : stop - first]


def _cells(pair: ScenePair, grid: CellGrid, *, with_pixels: bool) -> Generator[np.ndarray]:
    """Yield the cells of both dates, (2, CHANNELS + 1, rows, columns) float32, from top to bottom.

    Without ``with_pixels`` only the last channel is filled.
    """

    def has_data(part: Window) -> bool:
        return any(map(grid.pixels(part).intersection, pair.data_near))

    whole = Window(0, 0, grid.columns, grid.rows)
    parts = [
        Window(col, row, *PART).intersection(whole)
        for row in range(0, grid.rows, PART[1])
        for col in range(0, grid.columns, PART[0])
    ]
    with closing(pair.read_ahead([grid.pixels(part) for part in filter(has_data, parts)], 2)) as reads:
        for _, across in groupby(parts, key=lambda part: part.row_off):
            columns = []
            for part in across:
                cells = np.zeros((2, CHANNELS + 1, part.height, part.width), np.float32)
                if has_data(part):
                    *dates, valid = next(reads)
                    cells[:, -1] = valid_shares(valid)
                    if with_pixels:
                        cells[:] = [cells_of(date, valid) for date in dates]
                columns.append(cells)
            yield np.concatenate(columns, axis=3)
