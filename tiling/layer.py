"""One date on the working grid: its pixels and which of them have data, window by window.

Where the grids agree the pixels are those of the file. Elsewhere they are warped in blocks that are fixed to
the ground: GDAL's warper computes slightly different pixels for different requests, and so the result would
depend on the tiles. A pixel counts as valid only where everything it was mixed from is: no nodata value leaks
into the picture.
"""

from __future__ import annotations

import math
import re
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field, replace
from functools import partial

import numpy as np
import rasterio
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.enums import MaskFlags, Resampling
from rasterio.errors import RasterioError
from rasterio.windows import Window as RasterWindow

from tiling.blocks import Block, BlockCache
from tiling.errors import SceneDamaged
from tiling.frame import Grid
from tiling.geodesy import near, on_map, transformer
from tiling.grid import Window, lattice
from tiling.remote import read_error, safe_environment
from tiling.scene import SceneInfo, name_in_vrt, open_scene
from tiling.virtual import MASK_TYPE, OPAQUE, Picture, Place, Warp, mask_vrt, picture_vrt, warped_vrt

# An alpha band with more than a twentieth of its pixels between these shares of full is a picture.
CLEAR, MOST_BETWEEN = 0.02, 0.05
# ...unless this share of its pixels is wholly opaque: clouds with soft rims.
ENOUGH_OPAQUE = 0.25
# What programs take for wholly opaque.
_HIGHEST = (1.0, 255.0, 32767.0, 65535.0)
# Source pixels per working pixel above which they are averaged, not interpolated.
AVERAGE_ABOVE = 2.0
# A block is smaller where it would be made of more source pixels than this along a side.
WARP_BLOCK = (128, 512)
MOST_SOURCE_PX = 2048
# Warped blocks that one date keeps: enough for the rows that the tiles of a scene of 24,000 columns share.
KEPT_BYTES = 48 * 2**20
# Of 1: a mask that was warped is above it only where nothing masked is in it; the rest is arithmetic.
FULL = 1 - 3e-7
_SAME_PLACE = 1e-3


@dataclass(frozen=True)
class Layer:
    """How one scene comes onto the working grid.

    Attributes:
        info: the scene.
        bands: the band numbers, from 1, three of a picture; of a palette its colours are taken.
        grid: the working grid.
        offset: column and row of the scene at which the grid starts, counted from its north-west corner, or
            None when it must be warped.
        resampling: what the warp does.
        picture: what is read of the file.
        shift: columns and rows of the working grid by which the scene is moved right and down.
        blocks: the warped blocks that were used last, for all threads.
    """

    info: SceneInfo
    bands: tuple[int, ...]
    grid: Grid
    offset: tuple[int, int] | None
    resampling: Resampling
    picture: Picture
    shift: tuple[float, float] = (0.0, 0.0)
    blocks: BlockCache = field(default_factory=lambda: BlockCache(KEPT_BYTES), repr=False, compare=False)

    @classmethod
    def of(
        cls, info: SceneInfo, bands: tuple[int, ...], grid: Grid, shift: tuple[float, float] = (0.0, 0.0)
    ) -> Layer:
        """Plan how ``info`` is read.

        Raises:
            TilingError: the file can no longer be read.
        """
        resampling = Resampling.average if grid.gsd / info.gsd > AVERAGE_ABOVE else Resampling.bilinear
        return cls(info, bands, grid, None, resampling, _picture(info, bands)).displaced(shift)

    def displaced(self, shift: tuple[float, float]) -> Layer:
        """Return the layer with its scene moved right and down by ``shift``; nothing is read of the file."""
        offset = _offset(self.info, moved(self.grid, shift)) if self.info.crs == self.grid.crs else None
        return replace(self, offset=offset, shift=shift, blocks=BlockCache(KEPT_BYTES))


class LayerReader:
    """Reads windows of a layer, in the thread that opens it alone; ``stack`` closes the files."""

    def __init__(self, layer: Layer, stack: ExitStack) -> None:
        self.layer = layer
        info, picture = layer.info, layer.picture
        with open_scene(info) as file:  # the checks again: files change
            if (file.width, file.height, file.dtypes) != (info.width, info.height, info.dtypes):
                raise SceneDamaged(f"{info.path}: the file changed while it was read; start again")
        # A band that is shown several times is read once.
        numbers = [number for number, _ in picture.bands]
        self._show = [0, 1, 2] if picture.palette else [numbers.index(band) for band in layer.bands]
        texts = picture_vrt(picture), mask_vrt(picture)
        if layer.offset is None:
            self._block, self._first = _blocks(layer)
            warp = _warp(layer, self._block, self._first)
            types = [kind for _, kind in picture.bands], [MASK_TYPE]
            texts = warped_vrt(texts[0], types[0], warp), warped_vrt(texts[1], types[1], warp)
        with safe_environment(info.source):
            self._file, self._mask = (
                stack.enter_context(rasterio.open(text, driver="VRT")) for text in texts
            )

    def read(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Return pixels (bands, h, w) in the type of the file and validity (h, w) of a window in the grid.

        Raises:
            SceneDamaged: pixels of the file cannot be decoded.
        """
        try:
            # GDAL opens the scene behind the text at the first read only.
            with safe_environment(self.layer.info.source):
                return self._aligned(window) if self.layer.offset is not None else self._warped(window)
        except RasterioError as error:
            raise read_error(self.layer.info.path, self.layer.info.source, error) from error

    def _aligned(self, window: Window) -> Block:
        cols, rows = self.layer.offset or (0, 0)
        wide, high = self._file.width, self._file.height
        placed = window.shifted(cols, rows)
        inside = placed.intersection(Window(0, 0, wide, high))
        values, valid = self._blank(window)
        if inside:
            west, north = self.layer.info.transform.a > 0, self.layer.info.transform.e < 0
            col = inside.col_off if west else wide - inside.col_end
            row = inside.row_off if north else high - inside.row_end
            pixels, cover = self._read(Window(col, row, inside.width, inside.height))
            turn = (slice(None, None, 1 if north else -1), slice(None, None, 1 if west else -1))
            there = inside.slices(placed)
            values[:, *there] = pixels[:, *turn][self._show]
            valid[there] = cover[turn]
        return values, valid

    def _warped(self, window: Window) -> Block:
        values, valid = self._blank(window)
        (height, width), first = self._block, self._first
        placed = window.shifted(*first)
        for row in range(placed.row_off // height * height, placed.row_end, height):
            for col in range(placed.col_off // width * width, placed.col_end, width):
                block = Window(col, row, width, height)
                # All of the block, whatever is needed of it: see the top of the file.
                pixels, cover = self.layer.blocks.get((row, col), partial(self._read, block))
                inside = block.intersection(placed)
                there, part = inside.slices(placed), inside.slices(block)
                values[:, *there] = pixels[:, *part][self._show]
                valid[there] = cover[part]
        return values, valid

    def _blank(self, window: Window) -> Block:
        shape = (window.height, window.width)
        return np.zeros((len(self._show), *shape), np.result_type(*self._file.dtypes)), np.zeros(shape, bool)

    def _read(self, window: Window) -> Block:
        """Return the bands of the open file, each once, and where they have data."""
        at = RasterWindow(*astuple(window))
        values = np.stack([self._file.read(band, window=at) for band in self._file.indexes])
        valid = self._mask.read(1, window=at) > FULL
        if values.dtype.kind == "f":
            valid &= np.isfinite(values).all(axis=0)
        return values, valid


def _opaque_value(info: SceneInfo, bands: tuple[int, ...]) -> float:
    """Return the value at which the alpha band is opaque; 0 if there is none, or it is a picture to look at.

    Many programs call the fourth band of an image alpha though it is near infrared. A mask is nearly all
    transparent or opaque; a picture is mostly between, and hardly anywhere at the highest value. Which value
    that is depends on the program: 1, or the highest of 8 or 16 bits whatever the type of the band.
    """
    if "alpha" not in info.colors or info.masked_by == "mask":
        return 0.0
    alpha = info.colors.index("alpha") + 1
    if alpha in bands:
        return 0.0
    with open_scene(info) as file:
        try:
            windows = (RasterWindow(*astuple(window)) for window in lattice(info.width, info.height))
            seen = np.nan_to_num(np.concatenate([file.read(alpha, window=at).ravel() for at in windows]))
        except RasterioError as error:
            raise read_error(info.path, info.source, error) from error
    highest = float(seen.max())
    most = next((value for value in _HIGHEST if value >= highest), highest)
    share = seen / most
    between = ((share > CLEAR) & (share < OPAQUE / 255)).mean()
    return most if between <= MOST_BETWEEN or (share >= 1).mean() >= ENOUGH_OPAQUE else 0.0


def moved(grid: Grid, shift: tuple[float, float]) -> Affine:
    """Return where the pixels of ``grid`` lie in a scene that is to move right and down by ``shift``."""
    return _begun_at(grid.transform, -shift[0], -shift[1])


def _begun_at(transform: Affine, col: float, row: float) -> Affine:
    """Return the transform of a raster whose first pixel is that at ``col`` and ``row``."""
    x, y = on_map(transform, col, row)
    return Affine(transform.a, transform.b, x, transform.d, transform.e, y)


def _picture(info: SceneInfo, bands: tuple[int, ...]) -> Picture:
    """Say what is read of a file: bands or the colours of its palette, and what masks them."""
    opaque = _opaque_value(info, bands)
    numbers = tuple(dict.fromkeys(bands))
    with open_scene(info) as file:
        flags = [file.mask_flag_enums[number - 1] for number in numbers]
        source = name_in_vrt(info, file)
    per_band = any(MaskFlags.nodata in kinds for kinds in flags)
    masked = [n for n, kinds in zip(numbers, flags, strict=True) if MaskFlags.all_valid not in kinds]
    # A dark pixel may have 0 in one band; a value that no measurement has is nodata wherever it stands.
    any_band = per_band and len(numbers) > 1 and (info.nodata == 0 or info.dtype == "uint8")
    if not per_band:
        masked = masked[:1]
    elif any_band and len(masked) < len(numbers):
        masked = []  # a band without nodata value has data everywhere
    alpha = (info.colors.index("alpha") + 1, opaque) if opaque else None
    if any(MaskFlags.alpha in kinds for kinds in flags):
        # GDAL has made a mask of it, by what is opaque in the type of the band.
        if alpha and opaque == np.iinfo(info.dtypes[alpha[0] - 1]).max:
            alpha = None
        else:
            masked = []
    palette = info.palette or ()
    return Picture(
        source=source,
        width=info.width,
        height=info.height,
        bands=((1, "uint8"),) * 3 if palette else tuple((n, info.dtypes[n - 1]) for n in numbers),
        palette=bool(palette),
        masks=tuple(f"mask,{number}" for number in masked),
        any_mask=any_band,
        alpha=alpha,
        clear_palette=any(color[3] < OPAQUE for color in palette),
    )


def _blocks(layer: Layer) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return height and width of the warped blocks, and column and row of the grid in the first of them.

    Blocks are counted from where the lattice of the grid begins, not from where this grid does: so a scene
    that is cut elsewhere has the same blocks.
    """
    ratio = max(1.0, layer.grid.gsd / layer.info.gsd)
    fit = 2 ** max(4, math.floor(math.log2(MOST_SOURCE_PX / ratio)))
    block = min(WARP_BLOCK[0], fit), min(WARP_BLOCK[1], fit)
    col, row = layer.grid.anchor
    return block, (col % block[1], row % block[0])


def _warp(layer: Layer, block: tuple[int, int], first: tuple[int, int]) -> Warp:
    grid = layer.grid
    target = _begun_at(moved(grid, layer.shift), -first[0], -first[1])
    return Warp(
        source=_place(layer.info),
        target=Place(str(grid.crs.to_wkt()), target),
        width=-(-(first[0] + grid.width) // block[1]) * block[1],
        height=-(-(first[1] + grid.height) // block[0]) * block[0],
        block=block,
        method=layer.resampling.name.capitalize(),
        scale=_scale(layer),
    )


def _scale(layer: Layer) -> tuple[float, float]:
    """Return the working pixels per source pixel along its columns and rows, in the middle of the grid."""
    grid, info = layer.grid, layer.info
    # There, one pixel to the right and one below.
    cols, rows = grid.width / 2 + np.array([0, 1, 0]), grid.height / 2 + np.array([0, 0, 1])
    x, y = on_map(grid.transform, cols, rows)
    if info.crs != grid.crs:
        x, y = transformer(grid.crs, info.crs).transform(x, y)
        x = near(x, x[0]) if info.crs.is_geographic else x
    wide, high = (np.hypot(*(line[1:] - line[0])) for line in on_map(~info.transform, x, y))
    return (1.0, 1.0) if not (wide > 0 and high > 0) else (float(f"{1 / wide:.3g}"), float(f"{1 / high:.3g}"))


def _place(info: SceneInfo) -> Place:
    """Return where a scene lies.

    A scene in degrees that crosses the antimeridian gets a prime meridian of its own through its centre: GDAL
    looks for longitudes within -180..180 only and would find half of it.
    """
    west, _, east, _ = info.bounds
    if not info.crs.is_geographic or (west >= -180 and east <= 180):
        return Place(str(info.crs.to_wkt()), info.transform, info.gcps)
    centre = (west + east) / 2
    wkt = re.sub(r',AUTHORITY\["[^"]*","[^"]*"\]\]$', "]", info.crs.to_wkt(version="WKT1_GDAL"))
    wkt = re.sub(
        r'PRIMEM\["[^"]*",([-+.\deE]+)(,AUTHORITY\[[^\]]*\])?\]',
        lambda match: f'PRIMEM["centre of the scene",{float(match[1]) + centre!r}]',
        wkt,
    )
    a, b, c, d, e, f = info.transform[:6]
    gcps = tuple(GroundControlPoint(point.row, point.col, point.x - centre, point.y) for point in info.gcps)
    return Place(wkt, Affine(a, b, c - centre, d, e, f), gcps)


def _offset(info: SceneInfo, target: Affine) -> tuple[int, int] | None:
    """Return where a grid starts in the scene if their pixels are the same, else None."""
    if not info.along_axes:
        return None
    # Rows from south to north, or columns from east to west, are read the other way round.
    west, _, _, north = info.bounds
    turned = Affine(abs(info.transform.a), 0.0, west, 0.0, -abs(info.transform.e), north)
    # As large, so that over the whole scene they never come apart.
    ratios = abs(turned.a / target.a - 1), abs(turned.e / target.e - 1)
    if max(ratios) * max(info.width, info.height) > _SAME_PLACE:
        return None
    col, row = on_map(~turned, target.c, target.f)
    if abs(col - round(col)) > _SAME_PLACE or abs(row - round(row)) > _SAME_PLACE:
        return None
    return round(col), round(row)
