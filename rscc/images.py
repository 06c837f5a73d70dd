"""Images: files of strangers, arrays, resizing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rscc.files import open_regular

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP")


@contextmanager
def open_image(path: Path) -> Iterator[Image]:
    """Open an image file by its first bytes, whatever its name: PNG, JPEG, TIFF, BMP or WebP.

    Other formats of Pillow run programs (EPS) or are hardly tested.

    Raises:
        OSError, ValueError, PIL.Image.DecompressionBombError: it is none, damaged, or too large.
    """
    from PIL import Image

    with open(path, "rb", opener=open_regular) as file, Image.open(file, formats=_FORMATS) as image:
        yield image


def resize(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize (3, H, W) uint8 or (H, W) bool to (height, width) with antialiasing (masks: nearest)."""
    from PIL import Image  # imported here: captions of facts do not need it

    if array.shape[-2:] == size:
        return array
    shape = (size[1], size[0])
    if array.ndim == 2:
        image = Image.fromarray(array.astype(np.uint8) * 255)
        return np.asarray(image.resize(shape, Image.Resampling.NEAREST)) > 127
    resized = Image.fromarray(array.transpose(1, 2, 0)).resize(shape, Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))


def check_pairs(before: np.ndarray, after: np.ndarray, position: int) -> None:
    """Check that arrays are images for a network.

    Raises:
        ValueError: they are not both (B, 3, H, W) uint8, of one shape, with B at least 1 and H and W
            multiples of ``position`` (otherwise what is found would be drawn beside its true location).
    """
    dates = (before, after)
    if not all(
        isinstance(date, np.ndarray) and date.dtype == np.uint8 and date.ndim == 4 for date in dates
    ) or (before.shape != after.shape or before.shape[1] != 3 or len(before) < 1):
        got = " and ".join(f"{getattr(date, 'dtype', type(date))} {np.shape(date)}" for date in dates)
        raise ValueError(
            f"before and after must be uint8 arrays (B, 3, H, W) of one shape, B at least 1; got {got}"
        )
    height, width = before.shape[2:]
    if not (height and width) or height % position or width % position:
        raise ValueError(
            f"the sides of images must be multiples of {position} px, the model's positions; got {height} x "
            f"{width}; cut, pad or resize them"
        )
