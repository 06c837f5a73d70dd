"""Scenes painted from a known ground: any place, projection, rotation and pixel size; and shifted images."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from affine import Affine
from PIL import Image, ImageDraw, ImageOps
from pyproj import Transformer
from rasterio.control import GroundControlPoint
from rasters import write_scene
from scipy import ndimage
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import gaussian_filter

from tiling.geodesy import near

# Samples along each side of a pixel.
FINE = 4
# Places along each side of a scene that are projected one by one.
KNOTS = 33
DARK, BRIGHT = 60, 220

Figure = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Where on Earth, and the maps that are in use there.
PLACES = {
    (15.0, 50.0): ["EPSG:32633", "EPSG:3857", "EPSG:4326", "EPSG:3035"],
    (2.3, 48.9): ["EPSG:2154", "EPSG:32631", "EPSG:4326"],
    (-73.98, 40.75): ["EPSG:2263", "EPSG:32618", "EPSG:3857", "EPSG:4326"],
    (-74.0, -8.4): ["EPSG:32718", "EPSG:4326", "EPSG:3857"],
    (18.5, -34.0): ["EPSG:32734", "EPSG:2048", "EPSG:4326"],
    (180.0, -17.0): ["EPSG:32701", "EPSG:32760", "EPSG:3832", "EPSG:4326"],
    (-45.0, 82.0): ["EPSG:3413", "EPSG:3995", "EPSG:32623", "EPSG:4326"],
    (30.0, 89.9995): ["EPSG:3995", "EPSG:32661", "EPSG:3413"],
    (100.0, -75.0): ["EPSG:3031", "EPSG:32747", "EPSG:4326"],
}


def disc(x: float, y: float, radius: float) -> Figure:
    """A disc around a place on the ground."""
    return lambda east, north: np.hypot(east - x, north - y) <= radius


def nothing(east: np.ndarray, north: np.ndarray) -> np.ndarray:
    """No figure at all."""
    return np.zeros(east.shape, bool)


@lru_cache
def _way(source: str, target: str) -> Transformer:
    return Transformer.from_crs(source, target, always_xy=True)


@dataclass(frozen=True)
class Ground:
    """The plane around a place: metres to and from degrees and maps."""

    lon: float
    lat: float
    _plane: str = field(init=False, default="")

    def __post_init__(self) -> None:
        plane = f"+proj=aeqd +lat_0={self.lat} +lon_0={self.lon} +datum=WGS84"
        object.__setattr__(self, "_plane", plane)

    def to_map(self, crs: str, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Metres to map coordinates; degrees do not jump."""
        east, north = _way(self._plane, crs).transform(np.asarray(x, float), np.asarray(y, float))
        return (near(east, self.lon), north) if crs == "EPSG:4326" else (east, north)

    def of_map(self, crs: str, east: Any, north: Any) -> tuple[np.ndarray, np.ndarray]:
        """Map coordinates to metres."""
        return _way(crs, self._plane).transform(np.asarray(east, float), np.asarray(north, float))

    def plane(self, polygon: Any) -> Any:
        """A polygon in degrees, perhaps cut at the antimeridian, in metres and in one piece."""
        moved = shapely.transform(
            polygon, lambda xy: np.column_stack(self.of_map("EPSG:4326", xy[:, 0], xy[:, 1]))
        )
        return shapely.unary_union([part.buffer(1e-4) for part in shapely.get_parts(moved)])


@dataclass(frozen=True)
class View:
    """How a scene looks at the ground.

    Attributes:
        crs: of the scene.
        gsd: metres per pixel.
        angle: by which it is turned, degrees.
        shear: tangent of the angle by which its columns lean.
        mirrored, south_up: whether columns run from east to west, rows from south to north.
        bent: how far its middle is bent off, as a share of its width; placed by control points if not None.
        width, height: in pixels.
        centre: of the scene, in metres on the ground.
    """

    crs: str
    gsd: float = 0.5
    angle: float = 0.0
    shear: float = 0.0
    mirrored: bool = False
    south_up: bool = False
    bent: float | None = None
    width: int = 160
    height: int = 120
    centre: tuple[float, float] = (0.0, 0.0)

    def transform(self, ground: Ground) -> Affine:
        """Columns and rows to map coordinates, not bent."""
        x, y = (float(value) for value in ground.to_map(self.crs, *self.centre))
        step = 10.0
        east, north = (
            np.subtract(ground.to_map(self.crs, self.centre[0] + dx, self.centre[1] + dy), (x, y)) / step
            for dx, dy in ((step, 0), (0, step))
        )
        # Map units per metre along the axes of the map.
        same = float(np.hypot(*east))
        units = (abs(float(east[0])), abs(float(north[1]))) if self.crs == "EPSG:4326" else (same, same)
        turn = math.radians(self.angle)
        flip = -1 if self.mirrored else 1, 1 if self.south_up else -1
        cos, sin = math.cos(turn), math.sin(turn)
        # In metres: flip, lean, turn; then to map units around the centre.
        a, b, d, e = flip[0], self.shear * flip[1], 0.0, flip[1]
        a, b, d, e = (cos * a - sin * d, cos * b - sin * e, sin * a + cos * d, sin * b + cos * e)
        a, b, d, e = (self.gsd * v for v in (a * units[0], b * units[0], d * units[1], e * units[1]))
        middle = self.width / 2, self.height / 2
        if self.angle == self.shear == 0:
            b = d = 0.0
        return Affine(a, b, x - a * middle[0] - b * middle[1], d, e, y - d * middle[0] - e * middle[1])

    def ground_of(self, ground: Ground, cols: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Metres on the ground of places in the image."""
        # On a coarse lattice, and between its knots along straight lines: scenes are small.
        knots = np.linspace(0, self.height, KNOTS), np.linspace(0, self.width, KNOTS)
        own = self.transform(ground)
        x, y = self._unbent(*np.meshgrid(knots[1], knots[0]))
        places = ground.of_map(self.crs, own.a * x + own.b * y + own.c, own.d * x + own.e * y + own.f)
        between = RegularGridInterpolator(knots, np.stack(places, axis=-1))
        east, north = np.moveaxis(between((rows, cols)), -1, 0)
        return east, north

    def _unbent(self, cols: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where a place of the image would be in an image that is not bent; the inverse of ``_bend``."""
        x, y = np.array(cols, float), np.array(rows, float)
        for _ in range(30):
            there = self._bend(x, y)
            x, y = x + cols - there[0], y + rows - there[1]
        return x, y

    def _bend(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u, v = x / self.width - 0.5, y / self.height - 0.5
        size = (self.bent or 0.0) * self.width
        return x + size * (v * v - 0.5 * u * v), y + size * (u * u + 0.3 * u * v)

    def points(self, ground: Ground) -> list[GroundControlPoint]:
        """Ground control points on a lattice of five by four."""
        own = self.transform(ground)
        found = []
        for x in np.linspace(0, self.width, 5):
            for y in np.linspace(0, self.height, 4):
                col, row = self._bend(x, y)
                place = own.a * x + own.b * y + own.c, own.d * x + own.e * y + own.f
                found.append(GroundControlPoint(float(row), float(col), *map(float, place)))
        return found

    def paint(self, ground: Ground, figure: Figure) -> np.ndarray:
        """Return (3, height, width) uint8: DARK, and BRIGHT where the figure is."""
        if figure is nothing:
            return np.full((3, self.height, self.width), DARK, np.uint8)
        steps = (np.arange(FINE) + 0.5) / FINE
        cols = (np.arange(self.width)[:, None] + steps).ravel()
        rows = (np.arange(self.height)[:, None] + steps).ravel()
        inside = figure(*self.ground_of(ground, *np.meshgrid(cols, rows)))
        share = inside.reshape(self.height, FINE, self.width, FINE).mean((1, 3))
        grey = np.rint(DARK + (BRIGHT - DARK) * share).astype(np.uint8)
        return np.stack([grey] * 3)

    def write(self, path: Path, ground: Ground, image: np.ndarray, **options: Any) -> Path:
        """Write an image of this view."""
        if self.bent is None:
            options = {"transform": self.transform(ground), **options}
            return write_scene(path, image, crs=self.crs, **options)
        return write_scene(path, image, crs=self.crs, transform=None, gcps=self.points(ground), **options)


def drawn_ground(seed: int, size: int = 256) -> Image.Image:
    """Return an RGB picture of fields of noise with roads and houses."""
    rng = np.random.default_rng(seed)
    noise = sum(gaussian_filter(rng.normal(size=(size, size)), sigma) * sigma for sigma in (1, 3, 9, 20))
    image = Image.fromarray(np.clip(110 + 45 * noise, 0, 255).astype(np.uint8)).convert("RGB")
    pen = ImageDraw.Draw(image)
    for _ in range(4):
        (x, y), (u, v) = rng.uniform(0, size, (2, 2))
        pen.line([(x, 0), (u, y), (v, size)], fill=(160, 155, 150), width=7)
    for _ in range(25):
        x, y = rng.integers(0, size - 20, 2).tolist()
        width, height = rng.integers(8, 20, 2).tolist()
        pen.rectangle([x, y, x + width, y + height], fill=tuple(rng.integers(40, 240, 3).tolist()))
    return image


def planted(image: Image.Image, *, side: int, zoom: float, turns: int, mirrored: bool) -> Image.Image:
    """Return a piece of a picture, ``side`` pixels from (30, 20), zoomed, turned, mirrored and recoloured."""
    piece = image.crop((30, 20, 30 + side, 20 + side))
    piece = piece.resize((round(side * zoom),) * 2, Image.Resampling.BICUBIC).rotate(90 * turns)
    piece = ImageOps.mirror(piece) if mirrored else piece
    colours = np.asarray(piece, float) * (1.2, 0.8, 0.7) + (-20, 10, 30)
    return Image.fromarray((255 * (np.clip(colours, 0, 255) / 255) ** 0.8).astype(np.uint8))


def write_grounds(folder: Path, seeds: range, suffix: str = ".png") -> list[Path]:
    """Write one picture a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{seed:04d}{suffix}" for seed in seeds]
    for path, seed in zip(paths, seeds, strict=True):
        drawn_ground(seed).save(path)
    return paths


def moved(image: np.ndarray, cols: float, rows: float) -> np.ndarray:
    """Move an image (bands, height, width) to the right and down; what comes in repeats the border.

    Band by band: a spline of all three dimensions would be made across the bands, too.
    """
    return np.stack([ndimage.shift(band, (rows, cols), order=3, mode="nearest") for band in image])
