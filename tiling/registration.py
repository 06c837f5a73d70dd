"""Measure the shift between two dates: phase correlation on textured windows, accepted where they agree.

New buildings, moving shadows and rows of equal houses mislead single windows, and real scenes are slightly
distorted. So windows are distributed over a few groups, each spread over the scene; the spectra of a group
are summed before scikit-image finds the peak, and a shift is accepted if most groups agree. Spectra are
partly flattened: flat ones follow noise, raw ones shadows.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from tiling.comparable import comparable
from tiling.grid import Window, lattice

Read = Callable[[Window], tuple[np.ndarray, np.ndarray, np.ndarray]]

# At most MOST x MOST windows, of the largest of these sizes that fits twice along a side.
SIZES, MOST = (256, 128, 64), 6
# A window needs this share of valid pixels, and of ground that both dates show.
VALID, SHOWN = 0.6, 0.3
GROUPS = 5
# Groups agree within so many pixels plus a part of the shift. A share, and at least so many, must agree.
AGREE_PX, AGREE_PART = 1.0, 0.25
AGREE_SHARE, FEWEST = 0.6, 3
# Steps per pixel of the search, and the largest shift as a part of a window.
STEPS, FARTHEST = 20, 1 / 8
# Exponent by which amplitudes are divided out: 0 leaves them, 1 leaves only phases.
FLATTENED = 0.75
# Band-pass of structures (standard deviations in pixels), and window of the contrast normalisation.
FINE, COARSE, LIGHT = 1.0, 8.0, 49
# A larger shift is worth a warning and a correction.
NOTICEABLE = 0.5


@dataclass(frozen=True)
class Registration:
    """The shift of the scene after against the scene before, in working pixels.

    Attributes:
        cols, rows: positive to the right and down; None if it could not be measured.
        metres: its length on the ground, None like ``cols``.
        windows: number of windows with enough data and texture.
        groups: number of groups of windows.
        agreeing: number of groups that agree on the shift.
        spread: median distance of their shifts from it in pixels, None like ``cols``.
        applied: columns and rows by which the scene after was moved against the scene before, or None.
        left: the shift (columns, rows) measured after that, or None.
        moved: the scene that was moved, "before" or "after", or None.
    """

    cols: float | None = None
    rows: float | None = None
    metres: float | None = None
    windows: int = 0
    groups: int = 0
    agreeing: int = 0
    spread: float | None = None
    applied: tuple[float, float] | None = None
    left: tuple[float, float] | None = None
    moved: str | None = None

    @property
    def pixels(self) -> float | None:
        """The length of the shift in working pixels, None if it could not be measured."""
        return None if self.cols is None or self.rows is None else float(np.hypot(self.cols, self.rows))

    @property
    def remaining(self) -> float | None:
        """The length that remains, None if it could not be measured."""
        return self.pixels if self.left is None else float(np.hypot(*self.left))

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, rounded to a thousandth."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def measure(read: Read, width: int, height: int, gsd: float) -> Registration:
    """Measure the shift of the scene after against the scene before.

    Args:
        read: returns both dates (3, h, w) of any real type and validity (h, w) of a window.
    """
    size = next((size for size in SIZES if 2 * size <= min(width, height)), 0)
    if not size:
        return Registration()
    spectra = [np.zeros((size, size), np.complex64) for _ in range(GROUPS)]
    windows = 0
    # Not in threads: matrix products already use all cores.
    for window in lattice(width, height, MOST, size):
        spectrum = _spectrum(*read(window))
        if spectrum is not None:
            spectra[windows % GROUPS] += spectrum
            windows += 1
    shifts = [_peak(spectrum) for spectrum in spectra[:windows]]
    return _agreed(np.array(shifts).reshape(-1, 2), windows, FARTHEST * size, gsd)


def _agreed(shifts: np.ndarray, windows: int, farthest: float, gsd: float) -> Registration:
    """Return the shift on which most of the groups (n, 2) agree, or a registration without one."""
    unknown = Registration(windows=windows, groups=len(shifts))
    if len(shifts) < FEWEST:
        return unknown
    apart = np.hypot(*(shifts[:, None] - shifts[None]).transpose(2, 0, 1))
    near = apart <= AGREE_PX + AGREE_PART * np.hypot(*shifts.T)[:, None]
    near &= near.T
    agreeing = shifts[near[near.sum(1).argmax()]]
    cols, rows = np.median(agreeing, axis=0).tolist()
    length = float(np.hypot(cols, rows))
    if len(agreeing) < max(FEWEST, AGREE_SHARE * len(shifts)) or length > farthest:
        return unknown
    spread = float(np.median(np.hypot(*(agreeing - (cols, rows)).T)))
    return Registration(cols, rows, length * gsd, windows, len(shifts), len(agreeing), spread)


def _spectrum(before: np.ndarray, after: np.ndarray, valid: np.ndarray) -> np.ndarray | None:
    """Return the normalised cross spectrum (size, size) of a window; None without data or texture."""
    from scipy import fft

    if valid.mean() < VALID:
        return None
    valid = comparable(before, after, valid)
    if valid.mean() < SHOWN:
        return None
    taper = np.hanning(len(valid) + 2)[1:-1].astype(np.float32)
    pair = []
    for image in (before, after):
        detail = _detail(image, valid)
        if detail is None:
            return None
        spectrum = fft.fft2(detail * taper[:, None] * taper[None])
        spectrum /= np.maximum(np.abs(spectrum), 1e-6) ** FLATTENED
        pair.append(spectrum / np.sqrt((np.abs(spectrum) ** 2).sum()))
    cross: np.ndarray = pair[0] * pair[1].conj()
    return cross


def _detail(image: np.ndarray, valid: np.ndarray) -> np.ndarray | None:
    """Return (h, w) float32 of (3, h, w): edges and grain, independent of brightness; None if it is flat."""
    grey = image.mean(axis=0, dtype=np.float64)
    low, high = np.percentile(grey[valid], (1, 99))
    if high <= low:
        return None
    grey = np.where(valid, (np.clip(grey, low, high) - low) / (high - low), 0).astype(np.float32)
    inside = None if valid.all() else valid.astype(np.float32)

    def mean(values: np.ndarray, smooth: np.ndarray) -> np.ndarray:
        # Masked pixels are left out, so that their outline is no structure that both dates share.
        means = smooth @ values @ smooth.T
        return means if inside is None else means / np.maximum(smooth @ inside @ smooth.T, 0.05)

    fine, coarse, light = _filters(len(grey))
    detail = mean(grey, fine) - mean(grey, coarse)
    if inside is not None:
        detail *= inside
    contrast = np.sqrt(np.maximum(mean(detail**2, light), 0))
    return np.asarray(detail / (contrast + 0.1))


@cache
def _filters(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the smoothing of fine and coarse structure and of contrast as (size, size) matrices.

    At these sizes products are twice as fast as filters.
    """
    from scipy import ndimage

    single = np.eye(size, dtype=np.float32)
    fine, coarse = (ndimage.gaussian_filter1d(single, sigma, axis=0) for sigma in (FINE, COARSE))
    return fine, coarse, ndimage.uniform_filter1d(single, LIGHT, axis=0)


def _peak(spectrum: np.ndarray) -> tuple[float, float]:
    """Return the shift (columns, rows) at the peak of a sum of cross spectra."""
    from skimage.registration import phase_cross_correlation

    # It expects two spectra; theirs is already multiplied, so the other is 1.
    back, _, _ = phase_cross_correlation(
        spectrum, np.ones_like(spectrum), upsample_factor=STEPS, space="fourier", normalization=None
    )
    return -float(back[1]), -float(back[0])


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [round(part, 3) for part in value]
    return round(value, 3) if isinstance(value, float) else value
