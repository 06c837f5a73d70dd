"""Images as arrays, whatever they are for."""

from __future__ import annotations

import numpy as np
from PIL import Image


def resize(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize (3, H, W) uint8 or (H, W) bool to (height, width) with antialiasing (masks: nearest)."""
    if array.shape[-2:] == size:
        return array
    shape = (size[1], size[0])
    if array.ndim == 2:
        image = Image.fromarray(array.astype(np.uint8) * 255)
        return np.asarray(image.resize(shape, Image.Resampling.NEAREST)) > 127
    resized = Image.fromarray(array.transpose(1, 2, 0)).resize(shape, Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))
