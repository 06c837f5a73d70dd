"""How far one date lies off the other: phase correlation on textured windows, believed where they agree.

What was built, shadows that moved and rows of like houses mislead single windows, and real scenes are a
little bent against each other. So the windows are dealt out to a few groups, each spread over the scene; the
spectra of a group are added up before scikit-image looks for the peak, and a shift is believed only when most
groups tell it. Before that the spectra are flattened, not all the way: wholly flat ones hear the noise of
real scenes, raw ones follow the shadows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from tiling.grid import Window, lattice

Read = Callable[[Window], tuple[np.ndarray, np.ndarray, np.ndarray]]

# At most MOST x MOST windows are looked at, of the largest of these sizes that fits twice along a side.
SIZES, MOST = (256, 128, 64), 6
# A window needs this share of valid pixels.
VALID = 0.6
GROUPS = 5
# Groups agree within so many pixels and this part of the shift: real scenes are bent. So many of them must.
AGREE_PX, AGREE_PART = 1.0, 0.25
AGREE_SHARE, FEWEST = 0.6, 3
# Shifts are looked for in steps of a twentieth of a pixel and believed up to an eighth of a window.
STEPS, FARTHEST = 20, 1 / 8
# Power to which the amplitudes of a spectrum are divided out: 0 leaves them, 1 leaves only phases.
FLATTENED = 0.75
# Structures between these standard deviations, in pixels, count; contrast is made even over so many pixels.
FINE, COARSE, LIGHT = 1.0, 8.0, 49
# A shift of more than this is worth a warning, and a correction.
NOTICEABLE = 0.5


@dataclass(frozen=True)
class Registration:
    """The shift of the scene after against the scene before, in working pixels.

    Attributes:
        cols, rows: positive to the right and down; None where it could not be measured.
        metres: its length on the ground, None like ``cols``.
        windows: how many windows had enough data and texture to be used.
        groups: into how many groups they were dealt.
        agreeing: how many of the groups tell the shift.
        spread: median distance of their shifts from it in pixels, None like ``cols``.
        applied: columns and rows by which the scene after was moved against the scene before to make up for
            it, None when it was not.
        left: the shift (columns, rows) that was measured after that, None when there is none.
        moved: which scene was moved, "before" or "after"; None when none was.
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
        """The length of the shift in working pixels, None where it could not be measured."""
        return None if self.cols is None or self.rows is None else float(np.hypot(self.cols, self.rows))

    @property
    def remaining(self) -> float | None:
        """What of that length is left, None where it could not be measured."""
        return self.pixels if self.left is None else float(np.hypot(*self.left))

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, rounded to a thousandth."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def measure(read: Read, width: int, height: int, gsd: float) -> Registration:
    """Measure how far the scene after lies off the scene before.

    Args:
        read: returns both dates (3, h, w) of any real type and validity (h, w) of a window.
        width, height: of the working grid in pixels.
        gsd: metres per pixel.
    """
    size = next((size for size in SIZES if 2 * size <= min(width, height)), 0)
    if not size:
        return Registration()
    spectra = [np.zeros((size, size), np.complex64) for _ in range(GROUPS)]
    windows = 0
    # One after the other: products of matrices take all cores, several at a time get in each other's way.
    for window in lattice(width, height, MOST, size):
        spectrum = _spectrum(*read(window))
        if spectrum is not None:
            spectra[windows % GROUPS] += spectrum
            windows += 1
    shifts = [_peak(spectrum) for spectrum in spectra[:windows]]
    return _agreed(np.array(shifts).reshape(-1, 2), windows, FARTHEST * size, gsd)


def _agreed(shifts: np.ndarray, windows: int, farthest: float, gsd: float) -> Registration:
    """Return the shift that most of the groups (n, 2) tell, or a registration without one."""
    unknown = Registration(windows=windows, groups=len(shifts))
    if len(shifts) < FEWEST:
        return unknown
    apart = np.hypot(*(shifts[:, None] - shifts[None]).transpose(2, 0, 1))
    near = apart <= AGREE_PX + AGREE_PART * np.hypot(*shifts.T)[:, None]
    near &= near.T
    alike = shifts[near[near.sum(1).argmax()]]
    cols, rows = np.median(alike, axis=0).tolist()
    length = float(np.hypot(cols, rows))
    if len(alike) < max(FEWEST, AGREE_SHARE * len(shifts)) or length > farthest:
        return unknown
    spread = float(np.median(np.hypot(*(alike - (cols, rows)).T)))
    return Registration(cols, rows, length * gsd, windows, len(shifts), len(alike), spread)


def _spectrum(before: np.ndarray, after: np.ndarray, valid: np.ndarray) -> np.ndarray | None:
    """Return the cross spectrum (size, size) of a window, all of one weight; None without data or texture."""
    from scipy import fft

    if valid.mean() < VALID:
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
    """Return (h, w) float32 of (3, h, w): edges and grain, however strong the light; None if it is flat."""
    grey = image.mean(axis=0, dtype=np.float64)
    low, high = np.percentile(grey[valid], (1, 99))
    if high <= low:
        return None
    grey = np.where(valid, (np.clip(grey, low, high) - low) / (high - low), 0).astype(np.float32)
    inside = None if valid.all() else valid.astype(np.float32)

    def mean(values: np.ndarray, smooth: np.ndarray) -> np.ndarray:
        # What has no data is no part of the mean, so that its outline is no structure that both dates share.
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
    """Return the filters of fine and coarse structure and of light as (size, size) matrices.

    A product with one smooths a side of a window: at these sizes in less than half of a filter's time.
    """
    from scipy import ndimage

    single = np.eye(size, dtype=np.float32)
    fine, coarse = (ndimage.gaussian_filter1d(single, sigma, axis=0) for sigma in (FINE, COARSE))
    return fine, coarse, ndimage.uniform_filter1d(single, LIGHT, axis=0)


def _peak(spectrum: np.ndarray) -> tuple[float, float]:
    """Return the shift (columns, rows) that a sum of cross spectra tells."""
    from skimage.registration import phase_cross_correlation

    # The product of both images is there already, so the other image is one whose spectrum is 1.
    back, _, _ = phase_cross_correlation(
        spectrum, np.ones_like(spectrum), upsample_factor=STEPS, space="fourier", normalization=None
    )
    return -float(back[1]), -float(back[0])


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [round(part, 3) for part in value]
    return round(value, 3) if isinstance(value, float) else value
