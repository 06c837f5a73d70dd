"""Sample pixels of both dates from all over a scene, in bounded memory, to fit stretch and brightness."""

from collections.abc import Iterator

import numpy as np

from tiling.comparable import comparable
from tiling.grid import TileGrid, Window, lattice
from tiling.registration import MOST, Read

# With fewer valid pixels in the windows spread over the scene, all of it is searched.
ENOUGH = 4096
SEARCH = 512
# Brightness is compared by means over cells of this side, where noise and a small shift hardly matter.
CELL = 8


def sample_pixels(
    read: Read, width: int, height: int, *, for_stretch: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return pixels (3, n) of both dates where both are valid; None if there are none.

    A stretch looks at ground that both dates show, see :mod:`tiling.comparable`, where enough of it is found.
    Without ``for_stretch`` (8 bits) they are fewer: from windows inside those of the registration, so that
    no further blocks are read.
    """
    dates: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    shown: list[np.ndarray] = []

    def add(window: Window) -> int:
        """Take the valid pixels of a window; return their number."""
        before, after, valid = read(window)
        for date, image in zip(dates, (before, after), strict=True):
            date.append(image[:, valid])
        if for_stretch:
            shown.append(comparable(before, after, valid)[valid])
        return int(valid.sum())

    windows = lattice(width, height) if for_stretch else lattice(width, height, MOST)
    count = sum(add(window) for window in windows)
    if count < (ENOUGH if for_stretch else 1):
        for window in everywhere(width, height):
            count += add(window)
            if count >= ENOUGH:
                break
    if not count:
        return None
    before, after = _joined(dates)
    both = np.concatenate(shown) if shown else np.zeros(0, bool)
    return (before[:, both], after[:, both]) if both.sum() >= ENOUGH else (before, after)


def sample_cells(read: Read, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the means (3, n) float32 of cells of 8 x 8 pixels that are valid, and shown, on both dates."""
    dates: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for window in lattice(width, height):
        before, after, valid = read(window)
        whole = _cells(comparable(before, after, valid)[None].astype(np.float32))[0] == 1
        for means, image in zip(dates, (before, after), strict=True):
            means.append(_cells(image.astype(np.float32))[:, whole])
    return _joined(dates)


def everywhere(width: int, height: int) -> Iterator[Window]:
    """Yield windows that cover a scene once."""
    for tile in TileGrid(width, height, SEARCH, 0):
        yield tile.core


def _cells(image: np.ndarray) -> np.ndarray:
    """Return the means (c, h // 8, w // 8) of (c, h, w)."""
    bands, height, width = image.shape
    rows, cols = height // CELL, width // CELL
    cut = image[:, : rows * CELL, : cols * CELL]
    return np.asarray(cut.reshape(bands, rows, CELL, cols, CELL).mean(axis=(2, 4)))


def _joined(dates: tuple[list[np.ndarray], list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    before, after = (np.concatenate(parts, axis=1) for parts in dates)
    return before, after
