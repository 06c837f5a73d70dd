"""What the detector sees of a pair: colour, contrast and darkest pixel of cells of 8 x 8 pixels."""

import numpy as np
from numpy.typing import DTypeLike

CELL = 8
"""Pixels a side."""
WHOLE = 4
"""Cells a side to which grids of cells are rounded up: the stride of the network."""
MARGIN = 136
"""Cells around a cell that what hides it may depend on, a multiple of :data:`WHOLE`: the network (44),
of the shadow of a cloud (32), of the haze around it (40), of the cloud (8), and of its size and edge (12)."""
CHANNELS = 5
"""Of each date: red, green, blue, deviation of grey, darkest value of any band."""


def cells_of(image: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return the cells of a date: (CHANNELS + 1, h / 8, w / 8) float32 in 0..1.

    The last channel is the share of valid pixels; where that is 0, all are.

    Args:
        image: (3, h, w) uint8, 0 where not valid.
        valid: (h, w) bool, which pixels have data; h and w are multiples of :data:`CELL`.
    """
    share = _sums(valid.view(np.uint8), np.uint16) / CELL**2  # (rows, cols)
    scale = 1 / (255 * CELL**2 * np.maximum(share, 1 / CELL**2))
    colour = _sums(image, np.uint16) * scale
    grey = np.add.reduce(image, axis=0, dtype=np.uint16).astype(np.float32)  # of all bands together
    square = _sums(grey**2, np.float32) * scale / (9 * 255)
    deviation = np.sqrt(np.maximum(square - colour.mean(axis=0) ** 2, 0))
    lowest = np.where(valid, image.min(axis=0), np.uint8(255))
    darkest = _rows(_rows(lowest).min(axis=1).T.copy()).min(axis=1).T
    darkest = np.where(share > 0, darkest / 255, 0)
    return np.concatenate([colour, [deviation, darkest, share]]).astype(np.float32)


def _sums(values: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return the sums of (..., h, w) over cells, (..., h / 8, w / 8) float64.

    Args:
        dtype: a type that holds the sum of 8 values.
    """
    columns = _rows(values).sum(axis=-2, dtype=dtype).astype(np.float64)
    sums: np.ndarray = columns.reshape(*columns.shape[:-1], -1, CELL) @ np.ones(CELL)
    return sums


def _rows(values: np.ndarray) -> np.ndarray:
    """Return (..., h, w) as (..., h / 8, 8, w)."""
    *bands, height, width = values.shape
    return values.reshape(*bands, height // CELL, CELL, width)
