"""Tiles as the network sees them: without haze, and with hidden ground as the other date shows it."""

from dataclasses import replace

import numpy as np

from rscc.visibility.cells import CELL
from rscc.visibility.restoration import FAINTEST, without_veil
from tiling import PairTile, Window
from workflows.scene.pixels import enlarged
from workflows.scene.visibility.layer import HIDDEN_BY, Visibility

FILL = HIDDEN_BY.index("fill")


def as_seen(tile: PairTile, layer: Visibility) -> PairTile:
    """Return a tile without haze; ground that cloud, shadow or dense haze hides is not valid."""
    before, after, valid = seen(tile.before, tile.after, tile.valid, tile.tile.window, layer)
    return replace(tile, before=before, after=after, valid=valid)


def seen(
    before: np.ndarray, after: np.ndarray, valid: np.ndarray, window: Window, layer: Visibility
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both dates (3, h, w) uint8 and validity (h, w) bool of a window, as :func:`as_seen` has them."""
    cells = layer.grid.cells(window, margin=1)
    values = layer.cells(cells)
    hidden = values[:2] > FILL
    opacity, lights = values[2:4] / np.float32(255), np.split(values[4:].astype(np.float32), 2)
    if not hidden.any() and opacity.max(initial=0) < FAINTEST:
        return before, after, valid
    dates = [before, after]
    whole = layer.grid.pixels(cells)
    inner = window.intersection(whole)  # a window may be larger than what the cells cover
    part, place, shape = inner.slices(window), inner.slices(whole), (whole.height, whole.width)
    for date in (0, 1):
        if opacity[date].max() >= FAINTEST:
            veil = enlarged(opacity[date], shape)[place]
            light = enlarged(lights[date], shape)[:, *place]
            dates[date] = dates[date].copy()
            dates[date][:, *part] = np.where(valid[part], without_veil(dates[date][:, *part], veil, light), 0)
    covered = np.zeros((2, *valid.shape), bool)
    covered[:, *part] = hidden.repeat(CELL, axis=1).repeat(CELL, axis=2)[:, *place]
    before = np.where(covered[0], dates[1], dates[0])
    after = np.where(covered[1], before, dates[1])
    return before, after, valid & ~covered.any(axis=0)
