"""Find the values of a date that may be fill, in windows at its edges and spread over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiling.grid import Window, lattice, spread
from tiling.radiometry import PERCENTILES, fill_values

ReadDate = Callable[[Window], tuple[np.ndarray, np.ndarray]]
"""Returns pixels (3, h, w) and validity (h, w) of one date in a window of the grid."""

# Windows of this side: along the edges, so far apart at most, and so many a side spread over the rest.
PROBE, APART, SPREAD = 64, 512, 6
# In a window so many pixels equal their neighbours, or this share is nearly black or white.
FEWEST_FLAT, EXTREME = 32, 0.1
# Only the most frequent values are looked at.
MOST_VALUES = 6
# Compression changes black and white by this part of the range, noise by the second; values within the third
# part are near. Where all values lie within the last part, in a dim scene, fill is exact.
BLURRED, NOISY, NEAR, DIM = 2 / 255, 8 / 255, 8 / 255, 64 / 255

Bands = tuple[float, ...]


@dataclass(frozen=True)
class Value:
    """A value that may be fill.

    Attributes:
        bands: of the three bands.
        blur: how far compressed pixels may be from it.
        near: how far a value is near it.
        is_extreme: whether it is the lowest or the highest.
        is_far: whether it is far beyond all others.
    """

    bands: Bands
    blur: float
    near: float
    is_extreme: bool = False
    is_far: bool = False

    def within(self, pixels: np.ndarray) -> np.ndarray:
        """Return the pixels (h, w) bool of (3, h, w) that are this value, blurred or not."""
        return self._within(pixels, self.blur)

    def equals(self, pixels: np.ndarray) -> np.ndarray:
        """Return the pixels that are exactly this value."""
        return self._within(pixels, 0)

    def is_near(self, pixels: np.ndarray) -> np.ndarray:
        """Return the pixels that are near this value."""
        return self._within(pixels, self.near)

    def includes(self, bands: Bands) -> bool:
        """Return whether a value is this one, blurred or not."""
        return bool(self.within(np.array(bands).reshape(3, 1, 1)).all())

    def _within(self, pixels: np.ndarray, distance: float) -> np.ndarray:
        mask = np.ones(pixels.shape[1:], bool)
        whole = pixels.dtype.kind in "iu"
        for band, value in zip(pixels, self.bands, strict=True):
            # Whole numbers are compared as such: twice as fast.
            low, high = value - distance, value + distance
            mask &= (band >= (int(np.ceil(low)) if whole else low)) & (
                band <= (int(high // 1) if whole else high)
            )
        return mask


def likely_values(read: ReadDate, width: int, height: int) -> list[Value]:
    """Return the values that may be fill, at most :data:`MOST_VALUES`."""
    windows = [(pixels, valid) for pixels, valid in map(read, _windows(width, height)) if valid.any()]
    if not windows:
        return []
    sample = np.concatenate([pixels[:, valid] for pixels, valid in windows], axis=1)
    if sample.dtype == np.uint8:
        low, high, far = 0.0, 255.0, []
    else:
        low, high = float(sample.min()), float(sample.max())
        far = [value for value in fill_values(sample) if value]
    customary = _customary(sample.dtype)

    def is_frequent(value: Value) -> bool:
        return any((value.within(pixels) & valid).mean() > EXTREME for pixels, valid in windows)

    frequent: Counter[Bands] = Counter()
    for pixels, valid in windows:
        frequent.update(_flat_values(pixels, valid))
    most = [bands for bands, _ in frequent.most_common(MOST_VALUES)]
    ground = sample[:, ~np.isin(sample, far).any(axis=0)] if far else sample
    span = 255.0 if sample.dtype == np.uint8 else float(np.ptp(np.percentile(ground, PERCENTILES)))
    near = NEAR * span
    likely = [Value((value,) * 3, 0.0, near, is_far=True) for value in far]
    for end in ({low, high} & customary) - set(far):
        noisy = Value((end,) * 3, NOISY * span, near, is_extreme=True)
        # Else no value with less blur is: the percentiles, which take long, are not needed.
        if is_frequent(noisy):
            reach = np.abs(np.percentile(ground, PERCENTILES) - end).max() if ground.size else 0
            for blur in (BLURRED, NOISY) if reach >= DIM * span else (0.0,):
                value = replace(noisy, blur=blur * span)
                if is_frequent(value):
                    # It may be beside the end: 1 or 254.
                    flattest = next((bands for bands in most if value.includes(bands)), value.bands)
                    likely.append(replace(value, bands=flattest))
    for bands in most:
        if not any(value.includes(bands) for value in likely):
            likely.append(Value(bands, 0.0, near))
    return likely[:MOST_VALUES]


def _customary(dtype: np.dtype[Any]) -> set[float]:
    """Return the values that programs fill with: 0, and the ends of a type of whole numbers."""
    if dtype.kind not in "iu":
        return {0.0}
    limits = np.iinfo(dtype)
    return {0.0, float(limits.min), float(limits.max)}


def _flat_values(pixels: np.ndarray, valid: np.ndarray) -> Counter[Bands]:
    """Return the values of pixels (3, h, w) that equal those to the right and below, and their numbers."""
    inner = pixels[:, :-1, :-1]
    flat = (inner == pixels[:, :-1, 1:]) & (inner == pixels[:, 1:, :-1])
    same = flat.all(axis=0) & valid[:-1, :-1]
    if same.sum() < FEWEST_FLAT:
        return Counter()
    values, counts = np.unique(inner[:, same], axis=1, return_counts=True)
    return Counter(
        {tuple(bands): int(n) for bands, n in zip(values.T.tolist(), counts, strict=True) if n >= FEWEST_FLAT}
    )


def _windows(width: int, height: int) -> Iterator[Window]:
    """Yield windows along the edges, and spread over the scene."""
    yield from lattice(width, height, SPREAD, PROBE)
    whole = Window(0, 0, width, height)
    across, down = (spread(length, -(-length // APART), PROBE) for length in (width, height))
    for col in across:
        for row in spread(height, 2, PROBE):
            yield Window(col, row, PROBE, PROBE).intersection(whole)
    for row in down:
        for col in spread(width, 2, PROBE):
            yield Window(col, row, PROBE, PROBE).intersection(whole)
