"""Look at pixels of both dates all over a scene, in bounded memory: for stretch, brightness and data."""

from collections.abc import Iterator

import numpy as np

from tiling.comparable import cell_means, comparable
from tiling.grid import TileGrid, Window, around, lattice
from tiling.registration import MOST, Read

# With fewer valid pixels in the windows spread over the scene, all of it is searched.
ENOUGH = 4096
SEARCH = 512


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
    """Return the means (3, n) float32 of cells that are valid, and shown, on both dates.

    Noise and a small shift hardly matter there.
    """
    dates: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for window in lattice(width, height):
        before, after, valid = read(window)
        whole = cell_means(comparable(before, after, valid).astype(np.float32)) == 1
        for means, image in zip(dates, (before, after), strict=True):
            means.append(cell_means(image.astype(np.float32))[:, whole])
    return _joined(dates)


def everywhere(width: int, height: int) -> Iterator[Window]:
    """Yield windows that cover a scene once."""
    for tile in TileGrid(width, height, SEARCH, 0):
        yield tile.core


def _joined(dates: tuple[list[np.ndarray], list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    before, after = (np.concatenate(parts, axis=1) for parts in dates)
    return before, after


# Share of pixels with data from which, in a few windows, the whole grid is the site.
MOSTLY = 0.75
# Windows a side in which data is looked for, and their side; a smaller area is read as a whole.
FINE, SIDE = 16, 64
# Looks, each closer than the one before.
LOOKS = 3


def data_site(read: Read, width: int, height: int, known: Window) -> tuple[Window, float]:
    """Return the pixels around all ground with data on both dates, and the share of the grid with data, 0..1.

    It is the whole grid where most of that has data, or nothing has. Outside of ``known`` a
    date has none.
    """
    whole, start = Window(0, 0, width, height), known
    part = start.width * start.height / (width * height)
    seen, _ = _looked_at(read, start, MOST)
    share = seen * part
    if share >= MOSTLY:
        return whole, share
    site = start
    for look in range(LOOKS):
        seen, found = _looked_at(read, site, FINE)
        share = seen * part if look == 0 else share
        if not found:
            break
        read_all = max(site.width, site.height) <= FINE * SIDE
        # As far as the next windows that were looked at.
        gap = 0 if read_all else -(-max(site.width, site.height) // FINE)
        site = around(found).expanded(gap).intersection(site)
        if read_all:
            break
    return site, share


def within(read: Read, site: Window) -> Read:
    """Return a reader of windows that are counted from the corner of a site."""
    return lambda window: read(window.shifted(site.col_off, site.row_off))


def _looked_at(read: Read, area: Window, most: int) -> tuple[float, list[Window]]:
    """Return the share of pixels with data in windows spread over an area, and where these pixels are."""
    windows = [Window(0, 0, area.width, area.height)]
    if max(area.width, area.height) > FINE * SIDE:
        windows = list(lattice(area.width, area.height, most, SIDE))
    pixels, found = 0, []
    for window in windows:
        placed = window.shifted(area.col_off, area.row_off)
        valid = read(placed)[2]
        pixels += int(valid.sum())
        if valid.any():
            rows, cols = np.flatnonzero(valid.any(axis=1)), np.flatnonzero(valid.any(axis=0))
            size = int(cols[-1] - cols[0]) + 1, int(rows[-1] - rows[0]) + 1
            found.append(Window(placed.col_off + int(cols[0]), placed.row_off + int(rows[0]), *size))
    return pixels / sum(window.width * window.height for window in windows), found
