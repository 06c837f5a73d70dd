"""Take a veil off a picture: Koschmieder's law solved for the ground, J = (I - a A) / (1 - a)."""

import numpy as np
from scipy import ndimage

from rscc.visibility.cells import CHANNELS

FAINTEST = 0.2
"""Opacity below which a veil stays: clear ground is seldom above it."""
FULL_FROM = 0.28
"""Opacity from which a veil is removed whole; between both a growing part, so that no edge appears."""
AIR = 235.0
"""Grey value of the light of a veil that is too thin to be measured."""
LIGHT_REACH = 16
"""Cells in each direction over which the light is measured."""
_GREY_PRIOR, _TINT_PRIOR = (20 / 40) ** 2, (10 / 30) ** 2
"""Of the mean of the bands and of their tint: variance of the ground against that of the light."""


def lights(date: np.ndarray, other: np.ndarray, opacity: np.ndarray) -> np.ndarray:
    """Return the light of the veil around each cell of a date, values of its bands (3, h, w).

    With the other date as the ground under the veil, each veiled cell gives a light; its mean is weighted
    against :data:`AIR` by the precision of both, which grows with opacity. So is its tint, the difference of
    a band from that mean, against none.

    Args:
        date, other: cells, see :func:`rscc.visibility.cells.cells_of`.
        opacity: (h, w), of the veil over ``date``.
    """
    veiled = (opacity >= FAINTEST) & (date[CHANNELS] > 0)
    clear = 1 - opacity
    single = 255 * (date[:3] - clear * other[:3]) / np.maximum(opacity, FAINTEST)
    weight = np.where(veiled, opacity**2 / (clear**2 + 0.02), 0)
    share, weight, *total = (
        ndimage.uniform_filter(values, 2 * LIGHT_REACH + 1, mode="constant")
        for values in (veiled.astype(np.float64), weight, *weight * np.clip(single, 0, 255))
    )
    share = np.maximum(share, 1e-6)
    bands, weight = np.stack(total) / share, weight / share
    grey = bands.mean(axis=0)
    light = (grey + _GREY_PRIOR * AIR) / (weight + _GREY_PRIOR)
    result: np.ndarray = np.clip(light + (bands - grey) / (weight + _TINT_PRIOR), 0, 255)
    return result


def without_veil(image: np.ndarray, opacity: np.ndarray, light: np.ndarray) -> np.ndarray:
    """Return (3, h, w) uint8 without a veil of ``opacity``, (h, w), and ``light``, (3, h, w)."""
    part = np.clip((opacity - FAINTEST) / (FULL_FROM - FAINTEST), 0, 1)
    taken = np.minimum(opacity * part, 0.95)
    ground = (image - taken * light) / (1 - taken)
    return np.rint(np.clip(ground, 0, 255)).astype(np.uint8)
