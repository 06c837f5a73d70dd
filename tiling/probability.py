"""The change probability of a pair as one raster that is kept: a Cloud Optimized GeoTIFF.

It holds what outlines are traced from, to the last bit, so that others can be traced from it: with another
threshold, without the model that found it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import rasterio
import rasterio.shutil
from affine import Affine
from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.windows import Window as RasterWindow

from tiling.access import Access
from tiling.errors import ProbabilityNotWritable, SceneDamaged
from tiling.frame import Frame, Grid
from tiling.grid import Window
from tiling.mosaic import Band
from tiling.scene import open_scene

BLOCK = 512
NAME = "probability of change"
# Tags: the grid that was worked on, and what the caller adds.
_GRID, _ABOUT = "RSCC_GRID", "RSCC"
# Pixels that are read at once, and how far the file's place may be off the one it tells, in pixels.
_READ_PX, _OFF = 2**24, 1e-3
_COG = {
    "compress": "deflate",
    "predictor": "yes",
    "blocksize": BLOCK,
    "overviews": "auto",
    "overview_resampling": "average",
    "bigtiff": "if_safer",
}


@dataclass(frozen=True)
class KeptProbability:
    """A raster of change probability that was opened; see :func:`open_probability`.

    Attributes:
        shown: its name for messages.
        frame: the grid that was worked on, and the pixels that were asked for.
        area: the pixels of the grid that the raster has.
        about: what was said of it when it was written.
    """

    shown: str
    frame: Frame
    area: Window
    about: dict[str, Any]
    _file: DatasetReader

    def bands(self) -> Iterator[Band]:
        """Yield its rows from top to bottom, as they were written.

        Raises:
            SceneDamaged: pixels cannot be decoded, or are no probabilities.
        """
        area = self.area
        step = max(1, min(BLOCK, _READ_PX // area.width))
        for row in range(0, area.height, step):
            rows = min(step, area.height - row)
            try:
                values = self._file.read(1, window=RasterWindow(0, row, area.width, rows))
            except RasterioError as error:
                raise SceneDamaged(f"{self.shown}: its pixels cannot be decoded; get a sound copy") from error
            valid = ~np.isnan(values)
            probability = np.where(valid, values, np.float32(0))
            if probability.min() < 0 or probability.max() > 1:
                raise SceneDamaged(f"{self.shown}: its values are no probabilities; give one that rscc wrote")
            yield Band(area.row_off + row, probability, valid, area.col_off)


@contextmanager
def write_probability(
    path: Path, frame: Frame, area: Window, about: Mapping[str, Any], software: str
) -> Iterator[Callable[[Band], None]]:
    """Yield what takes the bands of ``area`` from top to bottom; at the end the raster is there, or nothing.

    Pixels without data are NaN. Until the end the pixels lie beside ``path``, 4 bytes each.

    Args:
        path: the file; one that is there gives way.
        frame: the grid that was worked on, and the pixels of it that were asked for.
        area: the pixels that come.
        about: plain values to keep in the tag ``RSCC``.
        software: what writes it.

    Raises:
        ProbabilityNotWritable: the system refused.
    """
    grid = frame.grid
    place = dict(vars(grid), transform=grid.transform[:6], area=astuple(area), focus=astuple(frame.focus))
    del place["crs"]
    tags = {"TIFFTAG_SOFTWARE": software, _GRID: json.dumps(place), _ABOUT: json.dumps(dict(about))}
    with ExitStack() as stack:
        with _writing(path):
            folder = Path(stack.enter_context(TemporaryDirectory(prefix=".rscc-", dir=path.parent)))
            rows, made = folder / "rows.tif", folder / "change.tif"
            file = rasterio.open(
                rows,
                "w",
                driver="GTiff",
                **{"width": area.width, "height": area.height, "count": 1, "dtype": "float32"},
                **{"crs": grid.crs, "nodata": math.nan, "bigtiff": "if_safer"},
                transform=grid.transform * Affine.translation(area.col_off, area.row_off),
            )
            stack.callback(file.close)
            file.update_tags(**tags)
            file.set_band_description(1, NAME)

        def add(band: Band) -> None:
            values = np.where(band.valid, band.probability, np.float32(math.nan))
            place = RasterWindow(0, band.row_off - area.row_off, area.width, len(values))
            with _writing(path):
                file.write(values, 1, window=place)

        yield add
        with _writing(path):
            file.close()
            rasterio.shutil.copy(rows, made, driver="COG", **_COG)
            made.replace(path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RasterioError, CPLE_BaseError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProbabilityNotWritable(
            f"{path}: cannot be written ({reason}); choose another folder or free this one"
        ) from error


@contextmanager
def open_probability(path: str | Path) -> Iterator[KeptProbability]:
    """Open a raster of :func:`write_probability`; it may come from anybody.

    Raises:
        TilingError: it is missing, not readable, or none that was written so.
    """
    with open_scene(path, Access(offline=True)) as file:
        shown = str(path)
        try:
            grid, focus, area = _placed(json.loads(file.tags()[_GRID]), file)
            about = json.loads(file.tags()[_ABOUT])
            sound = isinstance(about, dict) and file.count == 1 and file.dtypes[0] == "float32"
        except (KeyError, TypeError, ValueError, RecursionError, OverflowError):
            sound = False
        if not sound:
            raise SceneDamaged(f"{shown}: this is no change probability that rscc kept; give one")
        yield KeptProbability(shown, Frame(grid, focus), area, about, file)


def _placed(told: Mapping[str, Any], file: DatasetReader) -> tuple[Grid, Window, Window]:
    """Return the grid, the pixels asked for and those in the file, as a tag tells them.

    Raises:
        ValueError, TypeError, KeyError: it tells what cannot be, or of another raster.
    """
    focus, area = (Window(*map(int, told[name])) for name in ("focus", "area"))
    transform = Affine(*map(float, told["transform"]))
    width, height, gsd = int(told["width"]), int(told["height"]), float(told["gsd"])
    whole = Window(0, 0, width, height)
    lies = transform * Affine.translation(area.col_off, area.row_off)
    off = np.abs(np.subtract(lies[:6], file.transform[:6])).max()
    if not (
        (area.width, area.height) == (file.width, file.height)
        and all(window and window.intersection(whole) == window for window in (area, focus))
        and transform.b == transform.d == 0
        and transform.a > 0 > transform.e
        and 0 < gsd < math.inf
        and off <= _OFF * transform.a
        and file.crs is not None
    ):
        raise ValueError("the tag tells of another raster")
    column, row = map(int, told["anchor"])
    return Grid(file.crs, transform, width, height, gsd, (column, row)), focus, area
