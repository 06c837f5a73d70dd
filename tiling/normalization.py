"""Match the brightness of the scene after to that of the scene before: a gain and offset per band.

They are fitted on unchanged pixels, which lie on a common line; changed pixels lie off it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tiling.radiometry import Table

FEWEST = 256
ROUNDS = 30
# Residuals beyond this many robust standard deviations have no weight (Tukey's biweight).
TUKEY = 3.5
# Below this mean correlation of the bands on stable pixels nothing is matched.
CORRELATION = 0.35
# A line that changes no grey value by more is not applied.
NOTICEABLE = 4.0
# Larger gains would amplify noise, smaller ones hide everything.
GAINS = (1 / 3, 3.0)
# Grey values at the ends of the range may be clipped.
DARKEST, BRIGHTEST = 2.0, 253.0


@dataclass(frozen=True)
class Normalization:
    """Grey value of the scene after (0..255, stretched) times ``gain`` plus ``offset``, for each band.

    Attributes:
        gain, offset: red, green, blue.
        correlation: of both dates on the stable pixels, per band.
        stable: share of the sample on the line, 0..1.
        applied: False if the dates are so similar that pixels stay unchanged.
    """

    gain: tuple[float, ...]
    offset: tuple[float, ...]
    correlation: tuple[float, ...]
    stable: float
    applied: bool = True

    @classmethod
    def fit(cls, before: np.ndarray, after: np.ndarray) -> Normalization | None:
        """Fit on grey values (3, n) of the same ground, in 0..255; None without a common line."""
        lines = [_line(*bands) for bands in zip(before, after, strict=True)]
        if any(line is None for line in lines):
            return None
        gain, offset, correlation, stable = zip(*(line for line in lines if line), strict=True)
        if np.mean(correlation) < CORRELATION:
            return None
        ends = np.array([offset, 255 * (np.array(gain) - 1) + np.array(offset)])
        applied = bool(np.abs(ends).max() > NOTICEABLE)
        return cls(gain, offset, correlation, round(float(np.mean(stable)), 4), applied)

    def table(self, stretch: Table | None) -> Table:
        """Combine the stretch of the scene after (None: uint8) with this line."""
        first = stretch or Table((0.0,) * 3, (255.0,) * 3)
        dark, bright = (
            tuple(g * v + o for g, v, o in zip(self.gain, values, self.offset, strict=True))
            for values in (first.dark, first.bright)
        )
        return Table(first.low, first.high, dark, bright)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return {
            name: [round(v, 4) for v in value] if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


def _line(before: np.ndarray, after: np.ndarray) -> tuple[float, float, float, float] | None:
    """Return gain, offset, correlation and share of stable pixels of one band."""
    before, after = before.astype(np.float64), after.astype(np.float64)
    unclipped = (np.minimum(before, after) > DARKEST) & (np.maximum(before, after) < BRIGHTEST)
    x, y = after[unclipped], before[unclipped]
    if x.size < FEWEST:
        return None
    (x1, x2, x3), (y1, y2, y3) = (np.percentile(v, (25, 50, 75)) for v in (x, y))
    gain = (y3 - y1) / max(x3 - x1, 1e-9)
    offset, correlation, weight = y2 - gain * x2, 0.0, np.ones_like(x)
    for _ in range(ROUNDS):
        # Perpendicular to the line, since both dates are noisy.
        residual = (y - gain * x - offset) / np.hypot(1, gain)
        scale = max(1.4826 * np.median(np.abs(residual)), 0.5)
        weight = np.clip(1 - (residual / (TUKEY * scale)) ** 2, 0, None) ** 2
        total = weight.sum()
        mx, my = (weight * x).sum() / total, (weight * y).sum() / total
        sx, sy = (np.sqrt((weight * (v - m) ** 2).sum() / total) for v, m in ((x, mx), (y, my)))
        if min(sx, sy) < 1e-6:
            return None
        correlation = (weight * (x - mx) * (y - my)).sum() / total / (sx * sy)
        gain, old = sy / sx, gain
        offset = my - gain * mx
        if abs(gain - old) < 1e-5:
            break
    if not GAINS[0] <= gain <= GAINS[1]:
        return None
    return float(gain), float(offset), float(correlation), float((weight > 0).mean())
