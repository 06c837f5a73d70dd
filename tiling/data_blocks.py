"""Find where a scene has data without reading it: a small site may lie in a large canvas of nodata.

Compressed blocks of a GeoTIFF without data are absent, or of the smallest size and of the same bytes. Else
overviews show it.
"""

from collections.abc import Sequence

import numpy as np
from pyproj import Transformer
from rasterio.enums import MaskFlags
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.windows import Window as RasterWindow

from tiling.geodesy import on_map, transformer
from tiling.grid import Window, around
from tiling.scene import SceneInfo, open_scene
from tiling.working_grid import Grid

# Scenes with fewer pixels a side are looked at by their pixels.
LARGE = 8192
# Pixels a side of the overview that is read, and blocks whose sizes are asked for.
_OVERVIEW, _MOST_BLOCKS = 2048, 2_000_000
# Different contents that blocks of nodata may have: whole ones, and those cut at the edges.
_MOST_CONTENTS = 16
# Bytes that a compressed block of one value has at most.
_ONE_VALUE = 8192
# Blocks whose mask is read where the bytes of a block do not tell its mask.
_MOST_MASKS = 4096
# Windows that are kept apart; more become one.
_MOST_WINDOWS = 64
# Edges per side of a window that reprojection bends.
_EDGES = 8


def common_data(infos: Sequence[SceneInfo], grid: Grid) -> tuple[Window, ...]:
    """Return windows of a grid outside of which a scene has no data; the whole grid where nothing tells."""
    found = [Window(0, 0, grid.width, grid.height)]
    for info in infos:
        parts = data_windows(info, grid)
        if parts is not None:
            both = (part.intersection(other) for part in found for other in parts)
            found = list(dict.fromkeys(filter(None, both)))
    if len(found) > _MOST_WINDOWS:
        found = [around(found)]
    return tuple(found) or (Window(0, 0, grid.width, grid.height),)


def data_windows(info: SceneInfo, grid: Grid) -> list[Window] | None:
    """Return windows of a grid that hold all data of a scene; None where its header does not tell.

    Only scenes that are files of this machine, and larger than :data:`LARGE` pixels a side, are looked at.
    """
    if max(info.width, info.height) < LARGE or info.gcps or info.source.startswith("/vsi"):
        return None
    try:
        with open_scene(info) as file:
            found = _by_blocks(file) or _by_overview(file)
    except RasterioError:
        return None
    return found and [_on_grid(window, info, grid) for window in found]


def _by_overview(file: DatasetReader) -> list[Window]:
    """Return the pixels around the data of an overview, and one of its pixels more; none without one."""
    factors = [factor for factor in file.overviews(1) if max(file.shape) / factor <= _OVERVIEW]
    if not factors:
        return []
    step = factors[0]
    seen = file.dataset_mask(out_shape=(-(-file.height // step), -(-file.width // step))) > 0
    return _windows(seen, step, step, file, margin=1)


def _by_blocks(file: DatasetReader) -> list[Window]:
    """Return the pixels of the blocks with data; none where no block is known to have none."""
    rows, cols = file.block_shapes[0]
    shape = -(-file.height // rows), -(-file.width // cols)
    if file.driver != "GTiff" or shape[0] * shape[1] > _MOST_BLOCKS or min(shape) < 2:
        return []
    names = (f"BLOCK_SIZE_{col}_{row}" for row in range(shape[0]) for col in range(shape[1]))
    sizes = np.array([int(file.get_tag_item(name, "TIFF", bidx=1) or 0) for name in names]).reshape(shape)
    seen, least = sizes > 0, sizes.min()
    smallest = np.argwhere(sizes == least).tolist()
    if 0 < least <= _ONE_VALUE and len(smallest) > 1:
        for row, col in _without_data(file, smallest, int(least)):
            seen[row, col] = False
    return [] if seen.all() else _windows(seen, rows, cols, file)


def _without_data(file: DatasetReader, blocks: Sequence[Sequence[int]], size: int) -> Sequence[Sequence[int]]:
    """Return the blocks, of ``size`` bytes each, without a valid pixel; equal bytes are decoded once."""
    if MaskFlags.per_dataset in file.mask_flag_enums[0]:
        # The bytes of a block do not tell its mask: samples of all.
        some = blocks[:: -(-len(blocks) // _MOST_MASKS)]
        return () if any(_has_data(file, *block) for block in some) else blocks
    contents: dict[bytes, list[Sequence[int]]] = {}
    with open(file.name, "rb") as raw:
        for row, col in blocks:
            raw.seek(int(file.get_tag_item(f"BLOCK_OFFSET_{col}_{row}", "TIFF", bidx=1) or 0))
            contents.setdefault(raw.read(size), []).append((row, col))
            if len(contents) > _MOST_CONTENTS:
                return ()
    return [block for equal in contents.values() if not _has_data(file, *equal[0]) for block in equal]


def _has_data(file: DatasetReader, row: int, col: int) -> bool:
    """Return whether a block has a valid pixel."""
    rows, cols = file.block_shapes[0]
    whole = RasterWindow(0, 0, file.width, file.height)
    window = RasterWindow(col * cols, row * rows, cols, rows).intersection(whole)
    return bool(file.dataset_mask(window=window).any())


def _windows(seen: np.ndarray, rows: int, cols: int, file: DatasetReader, margin: int = 0) -> list[Window]:
    """Return the pixels of the file around groups of set cells, of so many rows and columns each."""
    from scipy import ndimage  # slow to import

    labels, count = ndimage.label(seen, np.ones((3, 3)))
    if count > _MOST_WINDOWS:
        labels = seen.astype(np.uint8)
    whole, found = Window(0, 0, file.width, file.height), []
    for down, across in ndimage.find_objects(labels):
        left, top = across.start - margin, down.start - margin
        wide, high = across.stop + margin - left, down.stop + margin - top
        found.append(Window(left * cols, top * rows, wide * cols, high * rows).intersection(whole))
    return found


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
