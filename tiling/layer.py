"""One date on the working grid: its pixels and which of them have data, window by window.

Where the grids agree the pixels are those of the file. Elsewhere they are warped in blocks that are fixed to
the working grid: GDAL's warper computes slightly different pixels for different requests, and so the result
would depend on the tiles. The masks are warped like the pixels, and a pixel counts as valid only where
everything it was mixed from is: no nodata value leaks into the picture.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import rasterio
from affine import Affine
from rasterio.dtypes import dtype_rev, typename_fwd
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.vrt import WarpedVRT
from rasterio.windows import Window as RasterWindow

from tiling.blocks import BlockCache
from tiling.errors import SceneDamaged
from tiling.frame import Grid
from tiling.geodesy import on_map
from tiling.grid import Window, lattice
from tiling.scene import SceneInfo, open_scene
from tiling.vrt import EVERYWHERE, selection_vrt

# Of 255: below it a pixel was mixed from pixels without data, or is transparent.
OPAQUE = 250
# An alpha band with more than a twentieth of its pixels between these shares of full is a picture.
CLEAR, MOST_BETWEEN = 0.02, 0.05
# Source pixels per working pixel above which they are averaged, not interpolated.
AVERAGE_ABOVE = 2.0
WARP_BLOCK = (128, 512)
KEPT_BLOCKS = 64
# The warper's approximation of the map projection is at most this many source pixels off.
WARP_TOLERANCE = 0.01
_SAME_PLACE = 1e-3


@dataclass(frozen=True)
class Layer:
    """How one scene comes onto the working grid.

    Attributes:
        info: the scene.
        bands: the three band numbers, from 1.
        grid: the working grid.
        offset: column and row of the scene at which the grid starts, or None when it must be warped.
        resampling: what the warp does.
        masks: what to read as masks, see :func:`tiling.vrt.selection_vrt`.
        any_band: a pixel has data if any band has; else only if all have.
        blocks: the warped blocks that were used last, for all threads.
    """

    info: SceneInfo
    bands: tuple[int, int, int]
    grid: Grid
    offset: tuple[int, int] | None
    resampling: Resampling
    masks: tuple[str, ...]
    any_band: bool
    blocks: BlockCache[tuple[np.ndarray, np.ndarray]] = field(
        default_factory=lambda: BlockCache(KEPT_BLOCKS), repr=False, compare=False
    )

    @classmethod
    def of(cls, info: SceneInfo, bands: tuple[int, int, int], grid: Grid, alpha_masks: bool) -> Layer:
        """Plan how ``info`` is read; ``alpha_masks`` says whether its alpha band, if any, is a mask."""
        coarser = grid.gsd / info.gsd > AVERAGE_ABOVE
        masks: tuple[str, ...] = ("mask,1",)
        if info.masked_by == "nodata":
            masks = tuple(f"mask,{band}" for band in dict.fromkeys(bands))
        elif info.masked_by == "alpha" and not alpha_masks:
            masks = (EVERYWHERE,)
        return cls(
            info=info,
            bands=bands,
            grid=grid,
            offset=_offset(info, grid),
            resampling=Resampling.average if coarser else Resampling.bilinear,
            masks=masks,
            any_band=info.nodata == 0 or info.dtype == "uint8",
        )

    def open(self, stack: ExitStack) -> LayerReader:
        """Open the files; ``stack`` closes them. The reader is for the calling thread alone."""
        return LayerReader(self, stack)


class LayerReader:
    """Reads windows of a layer in one thread."""

    def __init__(self, layer: Layer, stack: ExitStack) -> None:
        self.layer = layer
        info, grid = layer.info, layer.grid
        with open_scene(info) as file:  # the checks again: files change
            if (file.width, file.height, file.dtypes) != (info.width, info.height, info.dtypes):
                raise SceneDamaged(f"{info.path}: the file changed while it was read; start again")
        srs, transform = _place(info)
        text = selection_vrt(
            info.source,
            size=(info.width, info.height),
            srs=srs,
            geotransform=transform.to_gdal(),
            bands=[(band, typename_fwd[dtype_rev[info.dtypes[band - 1]]]) for band in layer.bands],
            masks=layer.masks,
        )
        self._file: DatasetReader = stack.enter_context(rasterio.open(text, driver="VRT"))
        if layer.offset is None:
            self._file = stack.enter_context(
                WarpedVRT(
                    self._file,
                    crs=grid.crs,
                    transform=grid.transform,
                    width=grid.width,
                    height=grid.height,
                    resampling=layer.resampling,
                    tolerance=WARP_TOLERANCE,
                )
            )

    def read(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Return pixels (3, h, w) in the type of the file and validity (h, w); ``window`` lies in the grid.

        Raises:
            SceneDamaged: pixels of the file cannot be decoded.
        """
        try:
            values, masks = self._aligned(window) if self.layer.offset is not None else self._warped(window)
        except RasterioError as error:
            raise _damaged(self.layer.info) from error
        opaque = masks >= OPAQUE
        valid = np.logical_or.reduce(opaque) if self.layer.any_band else np.logical_and.reduce(opaque)
        if values.dtype.kind == "f":
            valid = valid & np.isfinite(values).all(axis=0)
        return values, valid

    def _aligned(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        cols, rows = self.layer.offset or (0, 0)
        moved = window.shifted(cols, rows)
        inside = moved.intersection(Window(0, 0, self._file.width, self._file.height))
        values, masks = self._blank(window)
        if inside:
            place = (slice(None), *inside.slices(moved))
            values[place], masks[place] = self._read(inside)
        return values, masks

    def _warped(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        values, masks = self._blank(window)
        height, width = WARP_BLOCK
        for row in range(window.row_off // height * height, window.row_end, height):
            for col in range(window.col_off // width * width, window.col_end, width):
                whole = Window(col, row, width, height)
                block = whole.intersection(Window(0, 0, self._file.width, self._file.height))
                inside = block.intersection(window)
                # All of the block, whatever is needed of it: see the top of the file.
                pixels, cover = self.layer.blocks.get((row, col), partial(self._read, block))
                place, part = (slice(None), *inside.slices(window)), (slice(None), *inside.slices(block))
                values[place], masks[place] = pixels[part], cover[part]
        return values, masks

    def _blank(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        shape = (window.height, window.width)
        dtype = np.result_type(*(np.dtype(name) for name in self._file.dtypes[:3]))
        return np.zeros((3, *shape), dtype), np.zeros((len(self.layer.masks), *shape), np.uint8)

    def _read(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        at = RasterWindow(window.col_off, window.row_off, window.width, window.height)
        numbers = list(range(4, 4 + len(self.layer.masks)))
        values = np.stack([self._file.read(band, window=at) for band in (1, 2, 3)])
        return values, self._file.read(numbers, window=at)


def is_mask(info: SceneInfo, band: int) -> bool:
    """Tell whether an alpha band is one.

    Many programs call the fourth band of an image alpha though it is near infrared. A mask is nearly all
    transparent or opaque; a picture is mostly between.
    """
    most = np.iinfo(info.dtypes[band - 1]).max if np.dtype(info.dtypes[band - 1]).kind in "ui" else 1.0
    between = seen = 0
    with open_scene(info) as file:
        for window in lattice(info.width, info.height):
            at = RasterWindow(window.col_off, window.row_off, window.width, window.height)
            try:
                share = file.read(band, window=at) / most
            except RasterioError as error:
                raise _damaged(info) from error
            between += int(((share > CLEAR) & (share < OPAQUE / 255)).sum())
            seen += share.size
    return between <= MOST_BETWEEN * seen


def _damaged(info: SceneInfo) -> SceneDamaged:
    return SceneDamaged(f"{info.path}: some of its pixels cannot be decoded; get a sound copy of the file")


def _place(info: SceneInfo) -> tuple[str, Affine]:
    """Return the CRS of a scene as WKT, and its transform.

    A scene in degrees that crosses the antimeridian gets a prime meridian of its own through its centre: GDAL
    looks for longitudes within -180..180 only and would find half of it.
    """
    west, _, east, _ = info.bounds
    if not info.crs.is_geographic or (west >= -180 and east <= 180):
        return str(info.crs.to_wkt()), info.transform
    centre = (west + east) / 2
    wkt = re.sub(r',AUTHORITY\["[^"]*","[^"]*"\]\]$', "]", info.crs.to_wkt(version="WKT1_GDAL"))
    wkt = re.sub(
        r'PRIMEM\["[^"]*",([-+.\deE]+)(,AUTHORITY\[[^\]]*\])?\]',
        lambda found: f'PRIMEM["centre of the scene",{float(found[1]) + centre!r}]',
        wkt,
    )
    own = info.transform
    return wkt, Affine(own.a, own.b, own.c - centre, own.d, own.e, own.f)


def _offset(info: SceneInfo, grid: Grid) -> tuple[int, int] | None:
    """Return where the grid starts in the scene if their pixels are the same, else None."""
    own, wanted = info.transform, grid.transform
    if info.crs != grid.crs or not _same_cells(own, wanted, max(info.width, info.height)):
        return None
    col, row = on_map(~own, wanted.c, wanted.f)
    if abs(col - round(col)) > _SAME_PLACE or abs(row - round(row)) > _SAME_PLACE:
        return None
    return round(col), round(row)


def _same_cells(own: Affine, wanted: Affine, pixels: int) -> bool:
    """Tell whether pixels are as large, so that over the whole scene they never come apart."""
    ratios = abs(own.a / wanted.a - 1), abs(own.e / wanted.e - 1)
    return max(ratios) * pixels <= _SAME_PLACE
