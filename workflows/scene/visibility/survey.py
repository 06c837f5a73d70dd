"""Find what hides the ground before the network looks: one pass over both dates, in strips of bounded height.

A cell's answer depends on the cells within a fixed distance, and strips overlap by it, so the layer does not
depend on strips, tiles or boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from affine import Affine

import rscc
from rscc.visibility.cells import CELL, CHANNELS, MARGIN, cells_of
from tiling import ScenePair, Window
from tiling.map_raster import RasterWriter, create_raster
from workflows.scene.visibility.layer import BANDS, HIDDEN_BY, VISIBILITY, CellGrid

if TYPE_CHECKING:
    from rscc.visibility.detector import VeilDetector

LEAST_VALID = 0.5
"""Share of a cell's pixels on the grid that must have data."""
STRIP = 256
"""Rows of cells that are looked at together, besides those around them."""


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
    """Yield the first row of each strip and its layers, (6, rows, columns) uint8."""
    whole = Window(0, 0, pair.grid.width, pair.grid.height)
    kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for row in range(0, grid.rows, STRIP):
        first, last = max(0, row - MARGIN), min(grid.rows, row + STRIP + MARGIN)
        kept = {number: cells for number, cells in kept.items() if number >= first}
        for number in range(first, last):
            if number not in kept:
                kept |= _cell_rows(pair, grid, number, last)
        dates = [np.stack([kept[number][date] for number in range(first, last)], axis=1) for date in (0, 1)]
        found = np.zeros((len(BANDS), *dates[0].shape[1:]), np.uint8)
        if detector is not None and dates[0][-1].any():
            found[:] = detector.layers(*dates)
        inside = grid.covered(Window(0, first, grid.columns, last - first), whole)
        found[:2, dates[0][-1] < LEAST_VALID * inside] = HIDDEN_BY.index("fill")
        stop = min(grid.rows, row + STRIP)
        yield row, found[:, row - first : stop - first]


def _cell_rows(
    pair: ScenePair, grid: CellGrid, first: int, last: int
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Read rows of cells: the cells of both dates, (channels, columns) each, by their row."""
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for col in range(0, grid.columns, STRIP):
        window = grid.pixels(Window(col, first, min(STRIP, grid.columns - col), last - first))
        if not any(map(window.intersection, pair.data_near)):
            for part in parts:
                part.append(np.zeros((CHANNELS + 1, last - first, window.width // CELL), np.float32))
            continue
        *dates, valid = pair.read(window)
        for part, image in zip(parts, dates, strict=True):
            part.append(cells_of(image, valid))
    before, after = (np.concatenate(part, axis=2) for part in parts)
    return {first + row: (before[:, row], after[:, row]) for row in range(last - first)}
