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
_AIR_DEVIATION, _GROUND_DEVIATION = 15.0, 20.0


def lights(date: np.ndarray, other: np.ndarray, opacity: np.ndarray) -> np.ndarray:
    """Return the light of the veil around each cell of a date, a grey value (h, w).

    With the other date as the ground under the veil, each veiled cell gives a light; its mean is weighted
    against :data:`AIR` by the precision of both, which grows with opacity.

    Args:
        date, other: cells, see :func:`rscc.visibility.cells.cells_of`.
        opacity: (h, w), of the veil over ``date``.
    """
    shown, ground = (255 * cells[:3].mean(axis=0) for cells in (date, other))
    veiled = (opacity >= FAINTEST) & (date[CHANNELS] > 0)
    clear = 1 - opacity
    precision = np.where(veiled, opacity**2 / ((clear**2 + 0.02) * _GROUND_DEVIATION**2), 0)
    single = np.clip((shown - clear * ground) / np.maximum(opacity, FAINTEST), 0, 255)
    size = 2 * LIGHT_REACH + 1
    share, weight, total = (
        ndimage.uniform_filter(values, size, mode="constant")
        for values in (veiled.astype(np.float64), precision, precision * single)
    )
    share = np.maximum(share, 1e-6)
    prior = 1 / _AIR_DEVIATION**2
    result: np.ndarray = (total / share + prior * AIR) / (weight / share + prior)
    return result


def without_veil(image: np.ndarray, opacity: np.ndarray, light: np.ndarray) -> np.ndarray:
    """Return (3, h, w) uint8 without a veil of ``opacity`` and ``light``, (h, w) each."""
    part = np.clip((opacity - FAINTEST) / (FULL_FROM - FAINTEST), 0, 1)
    taken = np.minimum(opacity * part, 0.95)
    ground = (image - taken * light) / (1 - taken)
    return np.rint(np.clip(ground, 0, 255)).astype(np.uint8)
