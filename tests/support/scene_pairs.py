"""Pairs of small georeferenced scenes with rectangles of known brightness, and the command run on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasters import north_up
from shapely.geometry import Polygon, box

GROUND = 100
# Row, column, height, width in pixels, and brightness after.
Rectangle = tuple[int, int, int, int, int]
SPOTS: list[Rectangle] = [(20, 20, 20, 30, 240), (20, 120, 20, 30, 240), (200, 60, 20, 30, 240)]
"""Three bright ones, the last away from the others."""


@dataclass(frozen=True)
class MadePair:
    """Two files and the polygons of the changed ground, in their CRS, in the order of the rectangles."""

    before: Path
    after: Path
    truth: list[Polygon]


def make_pair(
    folder: Path,
    rectangles: list[Rectangle],
    *,
    size: tuple[int, int] = (150, 210),
    gsd: float = 0.5,
    crs: str = "EPSG:32633",
    origin: tuple[float, float] = (500_000.0, 5_600_000.0),
    names: tuple[str, str] = ("before.tif", "after.tif"),
    nodata_rows: int = 0,
    tags: tuple[dict[str, str], dict[str, str]] = ({}, {}),
) -> MadePair:
    """Write two GeoTIFFs of ``size`` (height, width); the top ``nodata_rows`` of the second are nodata 0."""
    transform = north_up(*origin, gsd)
    noise = np.random.default_rng(5).integers(-8, 9, (3, *size))
    # Two dates are never the same to the last bit: then nothing would be searched.
    images = [(GROUND + noise + lighter).astype(np.uint8) for lighter in (0, 1)]
    truth = []
    for row, col, height, width, brightness in rectangles:
        images[1][:, row : row + height, col : col + width] = brightness
        truth.append(_ground(transform, row, col, height, width))
    images[1][:, :nodata_rows] = 0
    paths = [folder / name for name in names]
    for path, image, tag in zip(paths, images, tags, strict=True):
        write_raster(path, image, transform=transform, crs=crs, nodata=0 if nodata_rows else None, tags=tag)
    return MadePair(paths[0], paths[1], truth)


def _ground(transform: Affine, row: int, col: int, height: int, width: int) -> Polygon:
    west, north = transform.c + transform.a * col, transform.f + transform.e * row
    return box(west, north + transform.e * height, west + transform.a * width, north)


def write_raster(
    path: Path,
    image: np.ndarray,
    *,
    transform: Affine | None,
    crs: str | None,
    nodata: float | None = None,
    tags: dict[str, str] | None = None,
) -> Path:
    """Write (bands, height, width) as a tiled GeoTIFF."""
    options = {"tiled": True, "blockxsize": 128, "blockysize": 128, "compress": "deflate", "nodata": nodata}
    options |= {} if transform is None else {"transform": transform}
    options |= dict(zip(("count", "height", "width"), image.shape, strict=True))
    with rasterio.open(path, "w", driver="GTiff", dtype=image.dtype, crs=crs, **options) as file:
        file.write(image)
        file.update_tags(**(tags or {}))
    return path


def exit_code(*words: object, **factories: Callable | None) -> int:
    """Run the command and return its exit code; ``factories`` are those of ``main``."""
    from workflows.cli.app import main

    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words], **factories)
    return int(ended.value.code or 0)


def run_here(
    streams: pytest.CaptureFixture[str], *words: object, **factories: Callable | None
) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it wrote to stdout and stderr."""
    code = exit_code(*words, **factories)
    return code, *streams.readouterr()
