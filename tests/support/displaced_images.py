"""Images moved by parts of pixels."""

from __future__ import annotations

import numpy as np
from scipy import ndimage


def moved(image: np.ndarray, cols: float, rows: float) -> np.ndarray:
    """Move an image (bands, height, width) to the right and down; what comes in repeats the border.

    Band by band: a spline of all three dimensions would be made across the bands, too.
    """
    return np.stack([ndimage.shift(band, (rows, cols), order=3, mode="nearest") for band in image])
