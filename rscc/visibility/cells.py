"""What the detector sees of a pair: colour, contrast and darkest pixel of cells of 8 x 8 pixels."""

import numpy as np

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
    share = _means(valid[None].astype(np.float32))  # (1, rows, cols)
    scale = 1 / (255 * np.maximum(share, 1 / CELL**2))
    colour = _means(image.astype(np.float32)) * scale
    grey = image.astype(np.float32).sum(axis=0, keepdims=True) / 3
    mean, square = _means(grey) * scale, _means(grey**2) * scale / 255
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    lowest = np.where(valid, image.min(axis=0), 255)
    darkest = _blocks(lowest[None]).min(axis=(2, 4)) / np.float32(255)
    darkest = np.where(share > 0, darkest, 0)
    return np.concatenate([colour, deviation, darkest, share]).astype(np.float32)


def _means(values: np.ndarray) -> np.ndarray:
    means: np.ndarray = _blocks(values).mean(axis=(2, 4))
    return means


def _blocks(values: np.ndarray) -> np.ndarray:
    bands, height, width = values.shape
    return values.reshape(bands, height // CELL, CELL, width // CELL, CELL)
