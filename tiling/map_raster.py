"""GeoTIFFs that are filled row by row and keep what was written when the process is killed.

A new raster has its full size from the start and is not compressed, so writing pixels never moves anything
else in the file. Pixels that were never written read as 0 and take no space on most file systems.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import rasterio.shutil
from affine import Affine
from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.windows import Window as RasterWindow

from tiling.errors import MapsNotWritable, SceneDamaged
from tiling.grid import Window
from tiling.opening import open_local

_COG = {
    "compress": "deflate",
    "predictor": "yes",
    "blocksize": 512,
    "overviews": "auto",
    "overview_resampling": "average",
    "bigtiff": "if_safer",
}


def create_raster(
    path: Path,
    *,
    crs: Any,
    transform: Affine,
    width: int,
    height: int,
    names: Sequence[str],
    software: str,
    dtype: str = "float32",
) -> None:
    """Create a GeoTIFF with a band for each name; NaN marks pixels without data in float32."""
    profile = {"driver": "GTiff", "dtype": dtype, "count": len(names), "bigtiff": "if_safer"}
    profile |= {"interleave": "pixel" if len(names) > 3 else "band"}
    with (
        writing(path),
        rasterio.open(path, "w", **profile, crs=crs, transform=transform, width=width, height=height) as file,
    ):
        file.update_tags(TIFFTAG_SOFTWARE=software)
        for number, name in enumerate(names, 1):
            file.set_band_description(number, name)
    if dtype != "float32":
        return
    with writing(path), rasterio.open(path, "r+") as file:
        # Only now: a file that is created with a nodata value is filled with it, which takes long.
        file.nodata = math.nan


class RasterWriter:
    """Writes rows into a raster of :func:`create_raster`; close it to be sure that they are in the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self._file = rasterio.open(path, "r+")

    def write(self, values: np.ndarray, row: int, bands: Sequence[int]) -> None:
        """Write (bands, rows, width) of the raster's type from ``row`` on; bands count from 1."""
        place = RasterWindow(0, row, values.shape[2], values.shape[1])
        with writing(self.path):
            self._file.write(values, indexes=list(bands), window=place)

    def close(self) -> None:
        """Write everything to the file."""
        with writing(self.path):
            self._file.close()


def open_raster(path: Path, dtype: str = "float32") -> DatasetReader:
    """Open a raster of :func:`create_raster`, which may come from anybody; the caller closes it."""
    file = open_local(path)
    if file.driver != "GTiff" or set(file.dtypes) != {dtype}:
        file.close()
        raise SceneDamaged(f"{path}: these are not maps that rscc wrote")
    return file


def read_raster(file: DatasetReader, window: Window, bands: Sequence[int]) -> np.ndarray:
    """Return (bands, h, w) of a window inside the raster, in its type."""
    place = RasterWindow(window.col_off, window.row_off, window.width, window.height)
    try:
        values: np.ndarray = file.read(list(bands), window=place)
    except RasterioError as error:
        raise SceneDamaged(f"{file.name}: its pixels cannot be decoded; detect again") from error
    return values


def compress_raster(path: Path) -> None:
    """Rewrite a complete raster as a Cloud Optimized GeoTIFF; a killed process leaves the old one."""
    draft = path.with_name(f".{path.name}")
    with writing(path):
        rasterio.shutil.copy(path, draft, driver="COG", **_COG)
        draft.replace(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the system and of GDAL into one that names the file."""
    try:
        yield
    except (OSError, RasterioError, CPLE_BaseError, TypeError) as error:  # TypeError: the file is gone
        reason = getattr(error, "strerror", None) or error
        raise MapsNotWritable(
            f"{path}: cannot be written ({reason}); choose another folder or free space on this one"
        ) from error
