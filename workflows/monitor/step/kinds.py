"""What became of a region: by spectral indices where the bands allow, by colours where they do not.

Colours are brightness as a share of white, excess green, and red minus blue as a share of the sum, of
grey values above black. Their thresholds were set on the places that the coefficients were fitted on. Colours
alone tell neither growth of green, which is mostly season, nor roofs, which look like graded ground.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rscc.facts.land_cover import Index, excess_green, indices_for
from workflows.monitor.events import Direction, Kind

# Share of white up to which the darkest ground is taken for black: some series have nothing dark.
DARKEST = 0.2
# Open water: greener than red, bluish, dark.
WATER_GREEN, WATER_RED, WATER_BRIGHT = 0.12, 0.05, 0.4
# Bare ground: brighter by these factors, the second where green was lost; and reddish.
BRIGHTER, BRIGHTER_LESS_GREEN, GREEN_LOST, SOIL_RED, DARK_BEFORE = 1.25, 1.15, 0.03, 0.13, 0.6


@dataclass(frozen=True)
class KindOf:
    """What appeared or disappeared, and what it was told by."""

    kind: Kind
    direction: Direction
    by: str


CHANGED = KindOf("changed", "changed", "")


@dataclass(frozen=True)
class Colors:
    """Black and white of a series.

    Attributes:
        black: (3,) grey value of each band that nearly all ground exceeds.
        white: grey value that hardly any ground exceeds.
    """

    black: np.ndarray
    white: float

    @classmethod
    def of(cls, median: np.ndarray) -> Colors:
        """Measure them in the median of the dates (3, n)."""
        white = float(np.percentile(median, 99))
        return cls(np.minimum(np.percentile(median, 1, axis=1), DARKEST * white), white)

    def kind(self, before: np.ndarray, after: np.ndarray) -> KindOf:
        """Tell the kind from mean red, green and blue (3,) before and after."""
        old, new = (np.maximum(values - self.black, 0) for values in (before, after))
        green = [float(excess_green(one)) for one in (old, new)]
        red = [float((one[0] - one[2]) / max(one.sum(), 8)) for one in (old, new)]
        bright = [float(one.mean()) / self.white for one in (before, after)]
        water = [
            g > WATER_GREEN and r < WATER_RED and b < WATER_BRIGHT
            for g, r, b in zip(green, red, bright, strict=True)
        ]
        brighter = bright[1] / max(bright[0], 1e-6)
        cleared = brighter > BRIGHTER and bright[0] < DARK_BEFORE
        cleared |= brighter > BRIGHTER_LESS_GREEN and green[0] - green[1] > GREEN_LOST
        if water[0] != water[1]:
            return KindOf("water", "appeared" if water[1] else "disappeared", "colours")
        if cleared and red[1] > SOIL_RED:
            return KindOf("bare_ground", "appeared", "colours")
        return CHANGED


def kind_by_indices(
    before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray], parts: Sequence[str]
) -> KindOf | None:
    """Tell the kind from the bands of both times; None without an index, or where none decides.

    Args:
        before, after: (n,) means over the region of each part of the spectrum, of several dates.
        parts: those that all scenes have.
    """
    indices = {name: one for name, one in indices_for(parts).items() if name in ("water", "vegetation")}
    decided = {name: (_decide(one, before), _decide(one, after)) for name, one in indices.items()}
    water, plants = decided.get("water", (0, 0)), decided.get("vegetation", (0, 0))
    if water[0] * water[1] == -1:
        return KindOf("water", "appeared" if water[1] > 0 else "disappeared", indices["water"].name)
    if plants[0] * plants[1] == -1 and 1 not in water:
        kind: Kind = "vegetation" if plants[1] > 0 else "bare_ground"
        return KindOf(kind, "appeared", indices["vegetation"].name)
    return None


def _decide(index: Index, bands: Mapping[str, np.ndarray]) -> int:
    """Return 1 for yes, -1 for no and 0 for undecided, by the median of the dates."""
    values = index.of(bands)
    return 0 if np.isnan(values).all() else int(index.decide(np.nanmedian(values, keepdims=True))[0])
