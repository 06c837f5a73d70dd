"""Find the part of the working grid that has data: a small site may lie in a large canvas of nodata."""

import numpy as np

from tiling.grid import Window, around, lattice
from tiling.registration import MOST, Read

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
        site = around(found).grown(gap).intersection(site)
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
