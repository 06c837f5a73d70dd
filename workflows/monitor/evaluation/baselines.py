"""What finds events in a series without a season, without noise and without learning.

Both know nothing of clouds. Of four or five thresholds that with the best F1 of recall and precision on the
12 open places was taken, so they are flattered.
"""

import numpy as np
import shapely
from rasterio.features import rasterize
from scipy import ndimage
from shapely.geometry import MultiPolygon

from tiling import transformer
from workflows.monitor.evaluation.scores import Reported
from workflows.monitor.step.cube import SeriesCube
from workflows.monitor.step.regions import EIGHT

PIXELS = 8
"""Fewest pixels of an event."""
# Differences of two dates, and of the means before and after a step, in robust standard deviations.
TWO_DATES, STEP = 2.5, 3.0
SIDE = 2


def two_dates(values: np.ndarray, months: list[int]) -> list[Reported]:
    """Return where the last date differs from the first, of (dates, 3, h, w); dated by the last."""
    difference = np.abs(values[-1] - values[0]).mean(axis=0)
    noise = 1.4826 * np.median(difference) + 1e-6
    return _parts(difference > TWO_DATES * noise, np.full(difference.shape, len(months) - 1), months)


def plain_steps(values: np.ndarray, months: list[int]) -> list[Reported]:
    """Return where one step explains most of a pixel, of (dates, 3, h, w); dated by the commonest date."""
    dates = len(values)
    if dates < 2 * SIDE:
        return []
    best, first = np.zeros(values.shape[2:]), np.zeros(values.shape[2:], int)
    for date in range(SIDE, dates - SIDE + 1):
        before, after = values[:date], values[date:]
        size = np.abs(after.mean(axis=0) - before.mean(axis=0)).mean(axis=0)
        spread = np.sqrt((before.var(axis=0) * date + after.var(axis=0) * (dates - date)) / dates).mean(
            axis=0
        )
        ratio = size / (spread + 1.0)
        first, best = np.where(ratio > best, date, first), np.maximum(ratio, best)
    return _parts(best > STEP, first, months)


def mask_of(outline: MultiPolygon, cube: SeriesCube) -> np.ndarray:
    """Return the pixels (h, w) that an outline in WGS84 touches."""
    move = transformer("EPSG:4326", cube.grid.crs).transform
    moved, size = shapely.transform(outline, move, interleaved=False), (cube.grid.height, cube.grid.width)
    touched = rasterize([(moved, 1)], size, transform=cube.grid.transform, all_touched=True)
    return np.asarray(touched).astype(bool)


def _parts(changed: np.ndarray, first: np.ndarray, months: list[int]) -> list[Reported]:
    label, number = ndimage.label(changed, EIGHT)
    parts = [label == one for one in range(1, number + 1)]
    return [
        Reported(part, months[int(np.bincount(first[part]).argmax())])
        for part in parts
        if part.sum() >= PIXELS
    ]
