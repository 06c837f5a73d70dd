"""The ground of every test here: a smooth picture with one change, drawn into whatever grid a file has.

The picture is a function of the place, in metres east and north of a centre. A file is drawn by taking each
of its pixels to the ground through the file's own transform and reference system (pyproj), so the drawing
shares no step with the code that is tested, which goes the other way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
import shapely
from pyproj import CRS, Transformer
from shapely.affinity import rotate, translate
from shapely.geometry import Polygon

# Brightness of the ground; between the two limits lies a smooth picture, a good part of it at the limits, so
# that the 2nd and the 98th percentile are these.
DARK, BRIGHT, PLAIN = 40.0, 220.0, 90.0
# What the fake captioner calls a change with probability 1, in 8 bit: its threshold of 0.5 is then met where
# half of a pixel has changed.
FULL = 100.0
# An L, in metres: turned or mirrored it is another shape. Its sides are no whole pixels and run across them.
L_SHAPE = rotate(Polygon([(-9, -7), (8.7, -7), (8.7, -0.4), (0.2, -0.4), (0.2, 6.8), (-9, 6.8)]), 13, (0, 0))
FLAT_M, FADED_M = 15.0, 24.0
WAVES = 24
SUBPIXELS = 6

ToMap = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Ground:
    """A place and what changed on it.

    Attributes:
        lon, lat: degrees of the centre.
        change_at: metres east and north of the centre at which the change lies.
        seed: of the picture.
    """

    lon: float
    lat: float
    change_at: tuple[float, float] = (-11.9, 8.8)
    seed: int = 0
    _waves: dict[str, np.ndarray] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def crs(self) -> CRS:
        """Metres east and north of the centre, true in every direction from it."""
        return CRS.from_proj4(f"+proj=aeqd +lat_0={self.lat!r} +lon_0={self.lon!r} +datum=WGS84 +units=m")

    @cached_property
    def truth(self) -> Polygon:
        """The outline of the change in metres."""
        return translate(L_SHAPE, *self.change_at)

    def in_metres(self, crs: str) -> Transformer:
        """The way from a reference system to the metres of this ground."""
        return _transformer(str(crs), self.crs)

    def picture(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Brightness without the change; flat around the change."""
        random = np.random.default_rng(self.seed)
        total = np.zeros(np.shape(x))
        for _ in range(WAVES):
            length, angle = random.uniform(9, 36), random.uniform(0, 2 * np.pi)
            turn = 2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / length
            total += np.sin(turn + random.uniform(0, 2 * np.pi))
        middle, half = (DARK + BRIGHT) / 2, (BRIGHT - DARK) / 2
        smooth = middle + half * np.clip(1.2 * total / np.sqrt(WAVES / 2), -1, 1)
        distance = np.hypot(x - self.change_at[0], y - self.change_at[1])
        share = np.clip((distance - FLAT_M) / (FADED_M - FLAT_M), 0, 1)
        return PLAIN + (smooth - PLAIN) * share

    def change(
        self, cols: np.ndarray, rows: np.ndarray, x: np.ndarray, y: np.ndarray, to_metres: ToMap
    ) -> np.ndarray:
        """The share of each pixel that changed, 0..1; ``cols, rows`` and ``x, y`` (metres) are its centre."""
        share = shapely.contains_xy(self.truth, x, y).astype(float)
        step_x, step_y = to_metres(cols[:1, :1] + 1, rows[:1, :1] + 1)
        pixel = float(np.hypot(step_x - x[:1, :1], step_y - y[:1, :1]).max())
        near = np.zeros(x.shape, bool)
        west, south, east, north = self.truth.buffer(2 * pixel).bounds
        near[(x > west) & (x < east) & (y > south) & (y < north)] = True
        near[near] = shapely.distance(self.truth.exterior, shapely.points(x[near], y[near])) < pixel
        parts = (np.arange(SUBPIXELS) + 0.5) / SUBPIXELS - 0.5
        fine_cols = cols[near][:, None, None] + parts[None, :, None] + 0 * parts
        fine_rows = rows[near][:, None, None] + parts[None, None, :] + 0 * parts[:, None]
        inside = shapely.contains_xy(self.truth, *to_metres(fine_cols, fine_rows))
        share[near] = inside.mean((1, 2))
        return share


@cache
def _transformer(source: str, target: CRS) -> Transformer:
    return Transformer.from_crs(source, target, always_xy=True)


def hidden(where: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where a date has no data, by name; ragged at the scale of a pixel, and never at the change."""
    ragged = 2.0 * np.sin(y / 1.7) + 1.5 * np.sin(y / 0.45) + 1.0 * np.sin(x / 0.6)
    return {
        "": np.zeros(x.shape, bool),
        "west": x < -38 + ragged,
        "all but west": x >= -38 + ragged,
        "east": x > 33 + ragged,
        "clouds": (np.hypot(x - 26, y - 12) < 9 + ragged) | (np.hypot(x + 5, y + 25) < 7 + ragged),
        "other clouds": (np.hypot(x - 21, y + 14) < 10 + ragged) | (np.hypot(x - 35, y - 25) < 8 + ragged),
    }[where]
