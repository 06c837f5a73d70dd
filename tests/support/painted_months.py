"""Monthly series of painted ground of 30 m with seasons, haze and clouds, on which things are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rasters import north_up, write_scene
from scipy import ndimage

from tiling import describe
from workflows.dates import PartialDate
from workflows.monitor.events import Series, SeriesScene

Box = tuple[slice, slice]
ROOF, SOIL = (200.0, 205.0, 210.0), (175.0, 115.0, 60.0)


def months(count: int, first: int = 0) -> list[str]:
    """Return ``YYYY-MM`` of months in a row from January 2018 on."""
    return [f"{2018 + number // 12}-{number % 12 + 1:02d}" for number in range(first, first + count)]


def paint(
    dates: Sequence[str],
    built: Sequence[tuple[Box, int, int, tuple[float, ...]]] = (),
    clouds: Mapping[int, Box] | None = None,
    side: int = 64,
    seed: int = 0,
) -> np.ndarray:
    """Return (dates, 3, side, side) uint8: fields with a season, haze, noise, and the things that are built.

    Args:
        dates: ``YYYY-MM``.
        built: box, first date with it, first date without it again, and red, green, blue.
        clouds: a white box, and its shadow beside it, by number of the date.
        side: in pixels.
        seed: of the ground.
    """
    random = np.random.default_rng(seed)
    fields = random.integers(0, 6, (side // 12 + 1, side // 12 + 1)).repeat(12, 0).repeat(12, 1)[:side, :side]
    palette = random.uniform((50, 55, 35), (110, 95, 75), (6, 3))
    ground = palette[fields].transpose(2, 0, 1) + ndimage.gaussian_filter(
        random.normal(0, 12, (3, side, side)), (0, 1, 1)
    )
    ground[:, -6:, -12:] = 190.0  # a bright yard, which gives the series its white
    green = np.array([-18.0, 6.0, -10.0])[:, None, None] * (fields % 2)
    images = []
    for number, date in enumerate(dates):
        season = np.cos(2 * np.pi * (int(date[5:]) - 6) / 12)
        image = ground + green * season
        for box, first, gone, color in built:
            if first <= number < gone:
                image[:, *box] = np.array(color)[:, None, None] + random.normal(0, 4, image[:, *box].shape)
        image = image * random.uniform(0.85, 1.1) + random.uniform(0, 20) + random.normal(0, 2, image.shape)
        if clouds and number in clouds:
            rows, cols = clouds[number]
            image[:, rows, cols] = 245
            image[:, rows, cols.stop : cols.stop + 6] *= 0.4
        images.append(np.clip(image, 1, 255).astype(np.uint8))
    return np.stack(images)


def write_months(folder: Path, images: np.ndarray, dates: Sequence[str], **options: Any) -> Series:
    """Write one scene per date and return them as a series."""
    folder.mkdir(parents=True, exist_ok=True)
    scenes = []
    for image, date in zip(images, dates, strict=True):
        path = write_scene(folder / f"{date}.tif", image, **{"transform": north_up(cell=30.0), **options})
        scenes.append(SeriesScene(path.name, describe(path), PartialDate(date), date))
    return Series(folder.name, folder, tuple(scenes))
