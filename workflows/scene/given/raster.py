"""Outlines of a raster of changes: a mask, a probability, or classes, on any grid.

What its values are is told by them: real numbers from 0 to 1 are a probability; whole numbers with at most
:data:`MOST_CLASSES` values besides 0 are classes, with one a mask; 8-bit numbers with more are a probability
times 255. Outlines follow the edges of its pixels; regions that touch at a corner are one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rasterio.errors import RasterioError
from rasterio.windows import Window as RasterWindow

from tiling import (
    ANYWHERE,
    Access,
    Band,
    ReprojectionFailed,
    SceneInfo,
    describe,
    open_scene,
    polygonize,
    to_wgs84,
)
from tiling.gdal import read_error
from workflows.errors import GivenInvalid
from workflows.printable import printable
from workflows.scene.given.layer import MOST_FEATURES, GivenLayer, GivenOutline

MOST_CLASSES = 20
CHANGED = 0.5
"""Probability from which a pixel is changed."""
PERCENT = 100
"""Largest 8-bit value up to which a probability may be meant in percent, which is refused."""
_STRIP_PX = 2**22


def read_raster_changes(file: str, access: Access | None = None) -> GivenLayer:
    """Return the regions of a raster of changes; those of classes have the attribute ``class``.

    Raises:
        GivenInvalid: it has several bands or values of no such kind, or too many regions.
    """
    info, shown = describe(file, access or ANYWHERE), printable(file)
    if info.count != 1 or info.gcps:
        what = f"has {info.count} bands" if info.count != 1 else "lies by ground control points"
        raise GivenInvalid(f"{shown}: {what}; give polygons, or a mask of one band on a plain grid")
    values = _values_of(info)
    if values is None or (len(values) > MOST_CLASSES and info.dtype == "uint8" and max(values) > PERCENT):
        scale, kind = 1.0 if values is None else 255.0, "probability"
        classes: list[int | None] = [None]
    elif len(values) <= MOST_CLASSES:
        scale, kind = 1.0, "classes" if len(values) > 1 else "mask"
        classes = list(values)
    else:
        raise GivenInvalid(
            f"{shown}: has {len(values):,} different values; give a mask, up to {MOST_CLASSES} classes, or a "
            "probability from 0 to 1"
        )
    outlines: list[GivenOutline] = []
    for value in classes:
        attributes = {"class": value} if kind == "classes" else {}
        for shape in _regions(info, value, scale, shown):
            outlines.append(GivenOutline(shape, str(len(outlines) + 1), attributes))
    columns = ("class",) if kind == "classes" else ()
    return GivenLayer(Path(info.path).name, tuple(outlines), kind, columns=columns)


def _values_of(info: SceneInfo) -> list[int] | None:
    """Return the values besides 0 that occur, one more than 256 at most; None of a probability.

    Raises:
        GivenInvalid: real numbers that are no probability.
    """
    found: set[int] = set()
    is_real = np.issubdtype(info.dtype, np.floating)
    for _, values, valid in _strips(info):
        seen = values[valid & (values != 0)]
        if is_real and not ((seen >= 0) & (seen <= 1)).all():
            if not (seen == np.floor(seen)).all() or np.abs(seen).max() > 2**31:
                raise GivenInvalid(
                    f"{printable(info.path)}: has values from {seen.min():g} to {seen.max():g}; give a "
                    "probability from 0 to 1, a mask or classes"
                )
            is_real = False
        if len(found) <= 256:
            found |= set(np.unique(seen).astype(np.int64).tolist())
    return None if is_real else sorted(found)


def _regions(info: SceneInfo, value: int | None, scale: float, shown: str) -> Iterator[Any]:
    """Yield the regions of one value, or of a probability times ``scale``, in WGS84."""

    def bands() -> Iterator[Band]:
        for row, values, valid in _strips(info):
            chosen = values / np.float32(scale) if value is None else values == value
            yield Band(row, np.where(valid, chosen, 0).astype(np.float32), valid)

    regions = polygonize(bands(), CHANGED, transform=info.transform)
    if len(regions) > MOST_FEATURES:
        raise GivenInvalid(f"{shown}: {len(regions):,} regions; at most {MOST_FEATURES:,} are read; clean it")
    for region in regions:
        try:
            yield to_wgs84(region.polygon, info.crs)
        except ReprojectionFailed as error:
            raise GivenInvalid(f"{shown}: {error}; check its coordinate reference system") from error


def _strips(info: SceneInfo) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the first row of each strip, its values and which of them are data, (rows, width)."""
    with open_scene(info) as file:
        step = max(1, _STRIP_PX // file.width)
        for row in range(0, file.height, step):
            place = RasterWindow(0, row, file.width, min(step, file.height - row))
            try:
                read = file.read(1, window=place, masked=True)
            except RasterioError as error:
                raise read_error(info.path, info.source, error) from error
            values = np.ma.getdata(read)
            yield row, values, ~np.ma.getmaskarray(read) & np.isfinite(values)
