"""Pixels of both dates from all over a scene, in bounded memory: what stretch and light are fitted on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tiling.grid import TileGrid, Window, lattice
from tiling.registration import Read

# With fewer valid pixels than this in the windows that are spread over the scene, it is searched for more.
ENOUGH = 4096
SEARCH = 512
# Light is compared by means of so many pixels a side: noise and a shift of a pixel hardly tell in them.
CELL = 8


def sample_pixels(
    read: Read, width: int, height: int, *, for_nothing: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return pixels (3, n) of both dates, from where both are valid; None where no pixel is.

    ``for_nothing``: pixels of 8 bits are fitted to nothing; it is enough to know that one is there.
    """
    sample = _Sample()
    for window in lattice(width, height):
        sample.add(*read(window))
        if sample.count and for_nothing and sample.is_uint8:
            break
    if sample.count < (1 if for_nothing and sample.is_uint8 else ENOUGH):
        for window in everywhere(width, height):
            sample.add(*read(window))
            if sample.count >= ENOUGH:
                break
    return sample.pixels() if sample.count else None


def sample_cells(read: Read, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the means (3, n) float32 of cells of 8 x 8 pixels that have data on both dates everywhere."""
    dates: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for window in lattice(width, height):
        before, after, valid = read(window)
        whole = _cells(valid[None].astype(np.float32))[0] == 1
        for means, image in zip(dates, (before, after), strict=True):
            means.append(_cells(image.astype(np.float32))[:, whole])
    first, second = (np.concatenate(means, axis=1) for means in dates)
    return first, second


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


class _Sample:
    """Collects pixels that are valid on both dates."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])

    def add(self, before: np.ndarray, after: np.ndarray, valid: np.ndarray) -> None:
        self.count += int(valid.sum())
        for parts, values in zip(self._parts, (before, after), strict=True):
            parts.append(values[:, valid])

    @property
    def is_uint8(self) -> bool:
        """Whether both dates are."""
        return all(parts[0].dtype == np.uint8 for parts in self._parts)

    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        before, after = (np.concatenate(parts, axis=1) for parts in self._parts)
        return before, after
