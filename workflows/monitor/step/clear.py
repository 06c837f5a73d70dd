"""Which dates show the ground of a pixel, and series without what lasts one date or lies over everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from workflows.monitor.step.fit import SHORT

# A date is hidden where it differs from the dates before and after by this many times the noise.
SPIKE = 4.0
# Of both differences the smaller is at least this share of the larger; else the date begins or ends a step.
ALIKE = 0.4
# Dates before and after that it is compared with.
NEIGHBOURS = 3
# Cloud is brighter than this percentile of the ground, in its median over the dates...
BRIGHTER_THAN = 99
# ...and hardly coloured: its bands differ by less than this share of the brightest, and by this more.
COLOURED, COLOURED_BY = 0.25, 10.0
# White that stays for so many dates is a roof or sand.
LASTING = 3
# Standard deviation, in pixels, of the filter that makes blobs of pixels, and that of haze.
BLOB, HAZE = 1.0, 12.0
# Differences of this many times their usual size are changes of the ground, not haze.
MOST_HAZE = 2.0


@dataclass(frozen=True)
class Ground:
    """What is usual in a series; measured once, so that windows agree.

    Attributes:
        noise: robust standard deviation of the brightness between neighbouring dates.
        white: brightness that hardly any ground exceeds.
        spread: (3,) robust standard deviation of each band around its median.
    """

    noise: float
    white: float
    spread: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Ground:
        """Measure it in matched grey values (dates, 3, n)."""
        brightness = values.mean(axis=1)
        median = np.median(values, axis=0)
        steps = np.abs(np.diff(brightness, axis=0))
        return cls(
            noise=float(1.4826 * np.median(steps) / np.sqrt(2)) + 0.5,
            white=float(np.percentile(median.mean(axis=0), BRIGHTER_THAN)),
            spread=1.4826 * np.median(np.abs(values - median), axis=(0, 2)) + 0.5,
        )


def usable_dates(values: np.ndarray, valid: np.ndarray, ground: Ground) -> np.ndarray:
    """Return (dates, h, w) bool: the date shows the ground of the pixel, without cloud or shadow.

    Args:
        values: (dates, 3, h, w) matched grey values.
    """
    brightness = values.mean(axis=1)
    hidden = _clouds(values, brightness, ground)
    for date in range(1, len(values) - 1):
        before = np.median(brightness[max(0, date - NEIGHBOURS) : date], axis=0)
        after = np.median(brightness[date + 1 : date + 1 + NEIGHBOURS], axis=0)
        up, down = (
            ndimage.gaussian_filter(brightness[date] - other, BLOB) / ground.noise
            for other in (before, after)
        )
        less, more = np.minimum(np.abs(up), np.abs(down)), np.maximum(np.abs(up), np.abs(down))
        hidden[date] |= (up * down > 0) & (less > np.maximum(SPIKE, ALIKE * more))
    grown = ndimage.binary_dilation(hidden, ndimage.generate_binary_structure(2, 1)[None])
    return np.asarray(valid & ~grown)


def _clouds(values: np.ndarray, brightness: np.ndarray, ground: Ground) -> np.ndarray:
    """Return where a date is white and brighter than usual there, but fewer than three dates in a row are."""
    highest = values.max(axis=1)
    pale = highest - values.min(axis=1) < COLOURED * highest + COLOURED_BY
    usual = np.median(brightness, axis=0) + SPIKE * ground.noise
    white = (brightness > np.maximum(usual, ground.white)) & pale
    seen = ndimage.gaussian_filter(white.astype(np.float32), (0, BLOB, BLOB)) > 0.5
    if len(seen) < LASTING:
        return np.asarray(seen)
    return np.asarray(seen & ~ndimage.binary_opening(seen, np.ones((LASTING, 1, 1))))


def clear_series(values: np.ndarray, usable: np.ndarray, ground: Ground) -> np.ndarray:
    """Return values (dates, 3, h, w) where each hidden date repeats the last usable one, without haze.

    So a step starts at the first usable date that shows it. Leading hidden dates repeat the first usable one.
    """
    dates = len(values)
    number = np.arange(dates)[:, None, None]
    last = np.maximum.accumulate(np.where(usable, number, -1), axis=0)
    last = np.where(last < 0, usable.argmax(axis=0), last)
    filled = np.take_along_axis(values, last[:, None], axis=0)
    spread = ground.spread.astype(np.float32)[:, None, None]
    residual = filled - np.median(filled, axis=0)
    shown = (usable[:, None] & (np.abs(residual) < MOST_HAZE * spread)).astype(np.float32)
    weight, haze = (ndimage.gaussian_filter(one, (0, 0, HAZE, HAZE)) for one in (shown, residual * shown))
    return np.asarray(filled - haze / np.maximum(weight, 0.05))


def despiked(values: np.ndarray) -> np.ndarray:
    """Return the median of each three dates in a row (dates, ...); few dates stay as they are.

    The ends repeat their neighbours.
    """
    if len(values) < SHORT:
        return values
    low, high = np.minimum(values[:-2], values[1:-1]), np.maximum(values[:-2], values[1:-1])
    middle = np.maximum(low, np.minimum(high, values[2:]))
    return np.concatenate([middle[:1], middle, middle[-1:]])
