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
_EVERY_SECOND = np.uint64(0x00FF_00FF_00FF_00FF)
_ADD_ALL = np.uint64(0x0001_0001_0001_0001)


def cells_of(image: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return the cells of a date: (CHANNELS + 1, h / 8, w / 8) float32 in 0..1.

    The last channel is the share of valid pixels; where that is 0, all are.

    Args:
        image: (3, h, w) uint8, 0 where not valid.
        valid: (h, w) bool, which pixels have data; h and w are multiples of :data:`CELL`.
    """
    is_whole, share = bool(valid.all()), valid_shares(valid)
    scale = 1 / (255 * CELL**2 * np.maximum(share, 1 / CELL**2))
    colour = np.stack([_sums(band) for band in image]) * scale  # one by one: they fit into the cache
    grey = np.add(image[0], image[1], dtype=np.uint16)  # of all bands together
    grey += image[2]
    tall = _rows(grey.astype(np.float32))
    squares = np.einsum("rkc,rkc->rc", tall, tall).astype(np.float64)  # whole numbers, so exact
    square = squares.reshape(len(tall), -1, CELL) @ np.ones(CELL) * scale / (9 * 255)
    deviation = np.sqrt(np.maximum(square - colour.mean(axis=0) ** 2, 0))
    lowest = image.min(axis=0)
    if not is_whole:
        lowest[~valid] = 255
    darkest = _rows(_rows(lowest).min(axis=1).T.copy()).min(axis=1).T
    darkest = np.where(share > 0, darkest / 255, 0)
    return np.concatenate([colour, [deviation, darkest, share]]).astype(np.float32)


def valid_shares(valid: np.ndarray) -> np.ndarray:
    """Return the share of valid pixels of cells, (h / 8, w / 8) float64 in 0..1."""
    if valid.all():
        return np.ones((len(valid) // CELL, valid.shape[1] // CELL))
    return _sums(valid.view(np.uint8)) / CELL**2


def _sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of (h, w) uint8 over cells, (h / 8, w / 8) float64.

    The 8 bytes of a row of a cell are one word of 64 bits, added as four numbers of 16 bits.
    """
    words = np.ascontiguousarray(values).view(np.uint64)
    pairs = (words >> np.uint64(8)) & _EVERY_SECOND
    pairs += words & _EVERY_SECOND
    rows = _rows(pairs).sum(axis=1)
    return ((rows * _ADD_ALL) >> np.uint64(48)).astype(np.float64)


def _rows(values: np.ndarray) -> np.ndarray:
    """Return (h, w) as (h / 8, 8, w)."""
    height, width = values.shape
    return values.reshape(height // CELL, CELL, width)
