"""Find ground that one date does not show, so that it tells neither shift nor brightness.

Under opaque cloud or dense haze, and in flat fill, the texture that the other date has is lost.
"""

import numpy as np

CELL = 8
"""Pixels a side of the cells whose deviations are compared."""
NEAR = 5
"""Cells a side over which deviations are averaged, and of the smallest such ground: larger than roofs."""
LOST = 0.2
"""Share of the deviation of the other date up to which texture is lost."""
TEXTURE = 0.02
"""Deviation, as a share of the range of grey, that ground must have to lose it."""
GROWN = 5
"""Cells around such ground that do not count either: averaging hides half of :data:`NEAR`, edges are soft."""
_RANGE = (2, 98)


def comparable(before: np.ndarray, after: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return the valid pixels (h, w) bool of a window whose ground both dates show.

    Args:
        before, after: (3, h, w) of one type; of two types, which have no common unit, all pixels count.
        valid: (h, w) bool.
    """
    from scipy import ndimage

    rows, cols = (length // CELL for length in valid.shape)
    if before.dtype != after.dtype or min(rows, cols) < NEAR or not valid.any():
        return valid
    # In double precision: undeclared nodata may be the smallest number of single precision.
    greys = [date.mean(axis=0, dtype=np.float64) for date in (before, after)]
    low, high = np.percentile(np.concatenate([grey[valid] for grey in greys]), _RANGE)
    share = cell_means(valid.astype(np.float32))
    first, second = (ndimage.uniform_filter(_deviations(grey - low, valid, share), NEAR) for grey in greys)
    lost = np.minimum(first, second) <= LOST * np.maximum(first, second)
    lost &= np.maximum(first, second) >= TEXTURE * (high - low)
    if not lost.any():
        return valid
    # What a window cuts goes on beyond it.
    lost = ndimage.binary_opening(np.pad(lost, NEAR, mode="edge"), np.ones((NEAR, NEAR), bool))
    lost = lost[NEAR:-NEAR, NEAR:-NEAR]
    if not lost.any():
        return valid
    lost = ndimage.maximum_filter(lost, 2 * GROWN + 1).repeat(CELL, axis=0).repeat(CELL, axis=1)
    beyond = [(0, length - inside) for length, inside in zip(valid.shape, lost.shape, strict=True)]
    shown: np.ndarray = valid & ~np.pad(lost, beyond, mode="edge")
    return shown


def _deviations(grey: np.ndarray, valid: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the deviation of the valid pixels of each cell, (rows, cols) float32."""
    grey = np.where(valid, grey, 0)
    weight = np.maximum(share, 1 / CELL**2)
    mean, square = (cell_means(values) / weight for values in (grey, grey**2))
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0)))


def cell_means(values: np.ndarray) -> np.ndarray:
    """Return the means (..., h // 8, w // 8) of (..., h, w) over whole cells."""
    rows, cols = (length // CELL for length in values.shape[-2:])
    cut = values[..., : rows * CELL, : cols * CELL]
    return np.asarray(cut.reshape(*values.shape[:-2], rows, CELL, cols, CELL).mean(axis=(-3, -1)))
