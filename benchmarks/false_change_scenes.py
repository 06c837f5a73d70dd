"""Pairs of generated scenes that show the same ground under other conditions: no change, all disturbance.

The ground of the demo scene is rendered a second time, with other cars and another sun or season where that
is asked for; displacement, light, haze, noise and compression are added to the picture.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import Affine
from scipy import ndimage

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from demo_scene.layout import make_layout
from demo_scene.paint import AFTER, BEFORE, Season, fractal, paint
from make_demo_scene import CRS, GSD, NORTH, WEST, compressed, make_scene

__all__ = ["DISTURBANCES", "Disturbance", "Ground", "make_scene", "write_scene"]

# Painted around what is kept, so that a displaced picture has no empty border.
MARGIN = 16
PIXEL_NOISE, JPEG_QUALITY = 2.0, 88

# The sun of another time of day and year: shadows fall the other way and are half as long again.
OTHER_SUN = replace(BEFORE, sun_azimuth=225.0, sun_elevation=38.0, noise=0.0)
SAME = replace(BEFORE, noise=0.0)
# The colours of the painter's other season under the first one's sun.
OTHER_SEASON = replace(
    SAME,
    soil=AFTER.soil,
    dry=AFTER.dry,
    lush=AFTER.lush,
    leaf_dark=AFTER.leaf_dark,
    leaf_light=AFTER.leaf_light,
)
BOTH = replace(OTHER_SEASON, sun_azimuth=OTHER_SUN.sun_azimuth, sun_elevation=OTHER_SUN.sun_elevation)


@dataclass(frozen=True)
class Disturbance:
    """What is done to the second rendering.

    Attributes:
        name: the row of the table.
        season: what it is painted with.
        shift: displacement in pixels, to the right and down.
        gain, gamma: of the camera.
        haze: opacity of the veil where it is thinnest and thickest.
        noise: standard deviation of the sensor in grey values.
        quality: of the JPEG compression.
    """

    name: str
    season: Season = SAME
    shift: tuple[float, float] = (0.0, 0.0)
    gain: float = 1.0
    gamma: float = 1.0
    haze: tuple[float, float] = (0.0, 0.0)
    noise: float = PIXEL_NOISE
    quality: int = JPEG_QUALITY


DISTURBANCES = (
    Disturbance("another exposure, nothing else"),
    Disturbance("shift of 0.5 px", shift=(0.4, -0.3)),
    Disturbance("shift of 1.5 px", shift=(-0.9, 1.2)),
    Disturbance("shift of 3 px", shift=(2.4, 1.8)),
    Disturbance("shift of 8 px", shift=(-4.8, -6.4)),
    Disturbance("another sun, darker, other contrast", season=OTHER_SUN, gain=0.85, gamma=1.15),
    Disturbance("haze veil, 10 to 50 percent", haze=(0.1, 0.5)),
    Disturbance("another season's tint", season=OTHER_SEASON),
    Disturbance("noise and strong JPEG", noise=7.0, quality=50),
    Disturbance(
        "all together, shift of 3 px",
        season=BOTH,
        shift=(2.4, 1.8),
        gain=0.85,
        gamma=1.15,
        haze=(0.1, 0.5),
        noise=7.0,
        quality=50,
    ),
)


@dataclass(frozen=True)
class Ground:
    """One place: ``built`` tells whether the new estate stands there, on both dates."""

    seed: int
    built: bool
    size: int

    def rendered(self, season: Season, date: int, cache: Path) -> np.ndarray:
        """Return (3, side, side) float32 of 0..255, margins included; painted once, kept in ``cache``."""
        key = hashlib.sha256(f"{self}{season}{date}".encode()).hexdigest()[:20]
        file = cache / f"{key}.npy"
        if not file.exists():
            seeds = [int(n) for n in np.random.SeedSequence(self.seed).generate_state(3)]
            side = self.size + 2 * MARGIN
            layout = make_layout(np.random.default_rng(seeds[0]), side * GSD, side * GSD)
            image = paint(
                layout, season, after=self.built, gsd=GSD, ground_seed=seeds[1], date_seed=seeds[2] + date
            )
            cache.mkdir(parents=True, exist_ok=True)
            np.save(file, np.moveaxis(image, -1, 0))
        return np.load(file).astype(np.float32)

    def before(self, cache: Path) -> np.ndarray:
        """Return (3, size, size) uint8 of the first date."""
        return self._taken(self.rendered(SAME, 0, cache), Disturbance("before"), 0)

    def after(self, disturbance: Disturbance, cache: Path) -> np.ndarray:
        """Return (3, size, size) uint8 of the second date: the same ground, disturbed."""
        return self._taken(self.rendered(disturbance.season, 1, cache), disturbance, 1)

    def _taken(self, image: np.ndarray, how: Disturbance, date: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, date])
        if how.shift != (0.0, 0.0):
            image = ndimage.shift(image, (0, how.shift[1], how.shift[0]), order=3, mode="nearest")
        image = image[:, MARGIN:-MARGIN, MARGIN:-MARGIN]
        image = 255 * (how.gain * np.clip(image / 255, 0, 1)) ** how.gamma
        thin, thick = how.haze
        if thick:
            veil = fractal(rng, image.shape[1:], (0.6 * self.size, 0.3 * self.size))
            low, high = veil.min(), veil.max()
            opacity = thin + (thick - thin) * (veil - low) / (high - low)
            image = image * (1 - opacity) + np.array([205.0, 212.0, 222.0])[:, None, None] * opacity
        grain = rng.normal(0, how.noise, (1, *image.shape[1:])) + rng.normal(0, 0.6 * how.noise, image.shape)
        return compressed(np.clip(np.rint(image + grain), 0, 255).astype(np.uint8), how.quality)


def write_scene(path: Path, image: np.ndarray) -> Path:
    """Write (3, h, w) uint8 as a GeoTIFF of 0.5 m and return its path."""
    place = Affine(GSD, 0, WEST, 0, -GSD, NORTH)
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        crs=CRS,
        transform=place,
        width=image.shape[2],
        height=image.shape[1],
        count=3,
        dtype="uint8",
        photometric="RGB",
    ) as target:
        target.write(image)
    return path
