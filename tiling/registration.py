"""How far one date lies off the other: measured on a few textured windows, believed where they agree.

Phase correlation (scikit-image) of one window can be misled by what was built, by shadows that moved or by
rows of like houses. Windows that were misled disagree with each other, so a shift is believed only when most
windows tell the same, and only up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tiling.grid import Window, lattice

Read = Callable[[Window], tuple[np.ndarray, np.ndarray, np.ndarray]]

# At most MOST x MOST windows of SIZE pixels a side are looked at; a smaller scene is one window.
SIZE, MOST = 256, 6
SMALLEST = 48
# A window needs this share of valid pixels.
VALID = 0.75
# Shifts are looked for in steps of a twentieth of a pixel, up to this many pixels.
STEPS, FARTHEST = 20, 32.0
# Windows agree within this many pixels, and so many of them must.
AGREE_PX, AGREE_SHARE, FEWEST = 1.0, 0.5, 3


@dataclass(frozen=True)
class Registration:
    """The shift of the scene after against the scene before, in working pixels.

    Attributes:
        cols, rows: positive to the right and down; None where it could not be measured.
        metres: its length on the ground, None like ``cols``.
        windows: how many windows tell this shift.
        measured: how many windows had enough texture and data to tell one.
        spread: median distance in pixels of those windows from the shift, None like ``cols``.
        applied: whether the scene after is displaced to make up for it.
        left: the shift (columns, rows) measured again after that, None where it was not or could not be.
    """

    cols: float | None = None
    rows: float | None = None
    metres: float | None = None
    windows: int = 0
    measured: int = 0
    spread: float | None = None
    applied: bool = False
    left: tuple[float, float] | None = None

    @property
    def pixels(self) -> float | None:
        """The length of the shift in working pixels, None where it could not be measured."""
        return None if self.cols is None or self.rows is None else float(np.hypot(self.cols, self.rows))

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, rounded to what was measured."""
        return {
            name: round(value, 3)
            if isinstance(value, float)
            else [round(v, 3) for v in value]
            if isinstance(value, tuple)
            else value
            for name, value in asdict(self).items()
        }


def measure(read: Read, width: int, height: int, gsd: float) -> Registration:
    """Measure how far the scene after lies off the scene before.

    Args:
        read: returns both dates (3, h, w) of any real type and validity (h, w) of a window.
        width, height: of the working grid in pixels.
        gsd: metres per pixel.
    """
    found = []
    for window in lattice(width, height, MOST, SIZE):
        shift = _shift_in(*read(window))
        if shift is not None:
            found.append(shift)
    return _agreed(np.array(found, np.float64).reshape(-1, 2), gsd)


def _agreed(shifts: np.ndarray, gsd: float) -> Registration:
    """Return the shift (n, 2) that most windows tell, or one without values."""
    measured = len(shifts)
    if not measured:
        return Registration()
    distance = np.hypot(*(shifts[:, None] - shifts[None]).transpose(2, 0, 1))
    alike = shifts[(distance <= AGREE_PX)[np.argmax((distance <= AGREE_PX).sum(1))]]
    needed = max(AGREE_SHARE * measured, min(FEWEST, measured))
    cols, rows = np.median(alike, axis=0).tolist()
    length = float(np.hypot(cols, rows))
    if len(alike) < needed or length > FARTHEST:
        return Registration(windows=0, measured=measured)
    spread = float(np.median(np.hypot(*(alike - (cols, rows)).T)))
    return Registration(cols, rows, length * gsd, len(alike), measured, spread)


def _shift_in(before: np.ndarray, after: np.ndarray, valid: np.ndarray) -> tuple[float, float] | None:
    """Return the shift (columns, rows) that one window tells, None where it has no data or no texture."""
    if min(valid.shape) < SMALLEST or valid.mean() < VALID:
        return None
    from skimage.registration import phase_cross_correlation

    images = [_structure(image, valid) for image in (before, after)]
    if any(image is None for image in images):
        return None
    back, _, _ = phase_cross_correlation(*images, upsample_factor=STEPS, normalization=None)
    return -float(back[1]), -float(back[0])


def _structure(image: np.ndarray, valid: np.ndarray) -> np.ndarray | None:
    """Return what is left of (3, h, w) without light and haze: edges and grain of middle size, tapered."""
    from scipy import ndimage

    grey = image.astype(np.float64).mean(axis=0)
    low, high = np.percentile(grey[valid], (1, 99))
    if high <= low:
        return None
    grey = np.where(valid, np.clip(grey, low, high), np.median(grey[valid]))
    detail = ndimage.gaussian_filter(grey, 1.0) - ndimage.gaussian_filter(grey, 8.0)
    power = np.sqrt(ndimage.gaussian_filter(detail**2, 16.0))
    detail /= power + 0.1 * (high - low)
    rows, cols = (np.hanning(size + 2)[1:-1] for size in valid.shape)
    return np.asarray(detail * rows[:, None] * cols[None])
