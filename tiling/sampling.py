"""Pixels of both dates from all over a scene, in bounded memory: what stretch and light are fitted on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tiling.grid import TileGrid, Window, lattice
from tiling.registration import MOST, Read

# With fewer valid pixels than this in the windows that are spread over the scene, it is searched for more.
ENOUGH = 4096
SEARCH = 512
# Light is compared by means of so many pixels a side: noise and a shift of a pixel hardly tell in them.
CELL = 8


def sample_pixels(
    read: Read, width: int, height: int, *, for_stretch: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return pixels (3, n) of both dates, from where both are valid; None where no pixel is.

    Those of 8 bits, to which nothing is fitted (``for_stretch`` False), are fewer: from windows that are
    inside those by which the shift is measured, so that no more blocks are read.
    """
    dates: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])

    def add(window: Window) -> int:
        """Take the valid pixels of a window; return how many there are."""
        *images, valid = read(window)
        for date, image in zip(dates, images, strict=True):
            date.append(image[:, valid])
        return int(valid.sum())

    windows = lattice(width, height) if for_stretch else lattice(width, height, MOST)
    count = sum(add(window) for window in windows)
    if count < (ENOUGH if for_stretch else 1):
        for window in everywhere(width, height):
            count += add(window)
            if count >= ENOUGH:
                break
    return _joined(dates) if count else None


def sample_cells(read: Read, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the means (3, n) float32 of cells of 8 x 8 pixels that have data on both dates everywhere."""
    dates: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for window in lattice(width, height):
        *images, valid = read(window)
        whole = _cells(valid[None].astype(np.float32))[0] == 1
        for means, image in zip(dates, images, strict=True):
            means.append(_cells(image.astype(np.float32))[:, whole])
    return _joined(dates)


def only_values(read: Read, width: int, height: int) -> tuple[float | None, float | None]:
    """Return the one value that all pixels of a date have; None for a date with several.

    Windows from all over the scene are looked at, until both dates have shown several values.
    """
    seen: tuple[set[float], set[float]] = (set(), set())
    for window in lattice(width, height):
        *dates, valid = read(window)
        for values, image in zip(seen, dates, strict=True):
            if valid.any():
                values |= {image[:, valid].min().item(), image[:, valid].max().item()}
        if all(len(values) > 1 for values in seen):
            break
    first, second = (values.pop() if len(values) == 1 else None for values in seen)
    return first, second


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
