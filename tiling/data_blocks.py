"""Find where a scene has data without reading it: a small site may lie in a large canvas of nodata.

Overviews show it; else the sizes of the compressed blocks of a GeoTIFF, for blocks without data are absent or
all of the smallest size.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from pyproj import Transformer
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.windows import Window as RasterWindow

from tiling.geodesy import on_map, transformer
from tiling.grid import Window
from tiling.scene import SceneInfo, open_scene
from tiling.working_grid import Grid

# Scenes with fewer pixels a side are looked at by their pixels.
LARGE = 8192
# Pixels a side of the overview that is read, and blocks whose sizes are asked for.
_OVERVIEW, _MOST_BLOCKS = 2048, 2_000_000
# Edges per side of a window that reprojection bends.
_EDGES = 8


def data_window(info: SceneInfo, grid: Grid) -> Window | None:
    """Return the pixels of a grid around the data of a scene; None where that cannot be told by its header.

    Only scenes that are files of this machine, and larger than :data:`LARGE` pixels a side, are looked at.
    """
    if max(info.width, info.height) < LARGE or info.gcps or info.source.startswith("/vsi"):
        return None
    try:
        with open_scene(info) as file:
            found = _by_overview(file) or _by_blocks(file)
    except RasterioError:
        return None
    return None if found is None else _on_grid(found, info, grid)


def _by_overview(file: DatasetReader) -> Window | None:
    """Return the pixels around the data of an overview, and one of its pixels more."""
    factors = [factor for factor in file.overviews(1) if max(file.shape) / factor <= _OVERVIEW]
    if not factors:
        return None
    step = factors[0]
    seen = file.dataset_mask(out_shape=(-(-file.height // step), -(-file.width // step))) > 0
    return _around(seen, step, step, file, margin=1)


def _by_blocks(file: DatasetReader) -> Window | None:
    """Return the blocks that hold more than those without data."""
    rows, cols = file.block_shapes[0]
    shape = -(-file.height // rows), -(-file.width // cols)
    if file.driver != "GTiff" or shape[0] * shape[1] > _MOST_BLOCKS or min(shape) < 2:
        return None
    names = (f"BLOCK_SIZE_{col}_{row}" for row in range(shape[0]) for col in range(shape[1]))
    sizes = np.array([int(file.get_tag_item(name, "TIFF", bidx=1) or 0) for name in names]).reshape(shape)
    counts = Counter(sizes.ravel().tolist())
    least = min(counts)
    empty = {0} & counts.keys()
    # The blocks of the smallest size hold one value each: nodata, if samples of them do.
    if least and counts[least] > 1 and not _any_data(file, np.argwhere(sizes == least), rows, cols):
        empty.add(least)
    return _around(~np.isin(sizes, list(empty)), rows, cols, file) if empty else None


def _any_data(file: DatasetReader, blocks: np.ndarray, rows: int, cols: int) -> bool:
    """Return whether a few of some blocks have valid pixels."""
    for row, col in blocks[:: max(1, len(blocks) // 4)]:
        window = RasterWindow(col * cols, row * rows, cols, rows).intersection(
            RasterWindow(0, 0, file.width, file.height)
        )
        if file.dataset_mask(window=window).any():
            return True
    return False


def _around(seen: np.ndarray, rows: int, cols: int, file: DatasetReader, margin: int = 0) -> Window | None:
    """Return the pixels of the file around cells (of so many rows and columns) that are set."""
    if not seen.any():
        return None
    there = [np.flatnonzero(seen.any(axis=axis)) for axis in (1, 0)]
    (top, bottom), (left, right) = ((int(one[0]) - margin, int(one[-1]) + 1 + margin) for one in there)
    window = Window(left * cols, top * rows, (right - left) * cols, (bottom - top) * rows)
    return window.intersection(Window(0, 0, file.width, file.height))


def _on_grid(window: Window, info: SceneInfo, grid: Grid) -> Window:
    """Return the pixels of a grid around a window of a scene."""
    steps = np.linspace(0, 1, _EDGES + 1)
    cols = window.col_off + window.width * np.concatenate([steps, steps, 0 * steps, 0 * steps + 1])
    rows = window.row_off + window.height * np.concatenate([0 * steps, 0 * steps + 1, steps, steps])
    x, y = on_map(info.transform, cols, rows)
    if info.crs != grid.crs:
        move: Transformer = transformer(info.crs, grid.crs)
        x, y = move.transform(x, y)
    across, down = on_map(~grid.transform, x, y)
    whole = Window(0, 0, grid.width, grid.height)
    if not (np.isfinite(across).all() and np.isfinite(down).all()):
        return whole
    left, top = int(np.floor(across.min())) - 2, int(np.floor(down.min())) - 2
    right, bottom = int(np.ceil(across.max())) + 2, int(np.ceil(down.max())) + 2
    return Window(left, top, right - left, bottom - top).intersection(whole)
