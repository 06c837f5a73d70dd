"""One date on the working grid: pixels and validity, window by window.

If the grids agree, the pixels are those of the file. Otherwise they are warped in blocks that are fixed to
the ground: GDAL's warper computes slightly different pixels for different requests, so the result would
depend on the tiles. A pixel is valid only if all source pixels it is made of are.
"""

from __future__ import annotations

import math
import re
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, field, replace
from functools import partial

import numpy as np
import rasterio
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.enums import MaskFlags, Resampling
from rasterio.errors import RasterioError
from rasterio.windows import Window as RasterWindow

from tiling.block_cache import Block, BlockCache
from tiling.errors import SceneDamaged
from tiling.gdal import read_error, safe_environment
from tiling.geodesy import near, on_map, transformer
from tiling.grid import Window, lattice
from tiling.scene import SceneInfo, open_scene
from tiling.vrt_writing import (
    MASK_TYPE,
    OPAQUE,
    MapPosition,
    Selection,
    Warp,
    bands_vrt,
    mask_vrt,
    pinned,
    warped_vrt,
)
from tiling.working_grid import Grid

# An alpha band with more than a twentieth of its pixels between transparent and opaque is no mask...
CLEAR, MOST_BETWEEN = 0.02, 0.05
# ...unless this share of its pixels is opaque: clouds with soft edges.
ENOUGH_OPAQUE = 0.25
# Values that programs use for opaque.
_HIGHEST = (1.0, 255.0, 32767.0, 65535.0)
# Source pixels per working pixel above which they are averaged instead of interpolated.
AVERAGE_ABOVE = 2.0
# Rows and columns of a warped block; fewer where it would need more source pixels than this along a side.
WARP_BLOCK = (128, 512)
MOST_SOURCE_PX = 2048
# Cache of warped blocks of a date: enough for the rows that tiles of a scene of 24,000 columns share.
KEPT_BYTES = 48 * 2**20
# A grid of up to so many pixels is kept as a whole.
SMALL_PX = 2**20
# A warped mask is above this only where no masked pixel contributes; the rest is rounding.
FULL = 1 - 3e-7
_SAME_PLACE = 1e-3


@dataclass(frozen=True)
class GriddedScene:
    """How one scene is read onto the working grid.

    Attributes:
        bands: band numbers, from 1; a palette gives its colours.
        offset: column and row of the scene, from its north-west corner, at which the grid starts; None if it
            must be warped.
        resampling: of the warp.
        selection: bands and masks that are read of the file.
        shift: columns and rows of the working grid by which the scene is moved right and down.
        blocks: cache of warped blocks, for all threads.
    """

    info: SceneInfo
    bands: tuple[int, ...]
    grid: Grid
    offset: tuple[int, int] | None
    resampling: Resampling
    selection: Selection
    shift: tuple[float, float] = (0.0, 0.0)
    blocks: BlockCache = field(default_factory=lambda: BlockCache(KEPT_BYTES), repr=False, compare=False)

    @classmethod
    def of(
        cls, info: SceneInfo, bands: tuple[int, ...], grid: Grid, shift: tuple[float, float] = (0.0, 0.0)
    ) -> GriddedScene:
        """Plan how ``info`` is read."""
        resampling = Resampling.average if grid.gsd / info.gsd > AVERAGE_ABOVE else Resampling.bilinear
        return cls(info, bands, grid, None, resampling, _selection(info, bands)).displaced(shift)

    @property
    def alpha_is_picture(self) -> bool:
        """Whether a band that the file calls alpha is no mask: mostly it is near infrared."""
        is_used = self.info.masked_by == "alpha" and self.selection.masks
        return "alpha" in self.info.colors and self.selection.alpha is None and not is_used

    def displaced(self, shift: tuple[float, float]) -> GriddedScene:
        """Return it moved right and down by ``shift``; the file is not read."""
        offset = _offset(self.info, moved(self.grid, shift)) if self.info.crs == self.grid.crs else None
        return replace(self, offset=offset, shift=shift, blocks=BlockCache(KEPT_BYTES))


class GriddedReader:
    """Reads windows of a scene in the thread that opens it; ``stack`` closes the files."""

    def __init__(self, layer: GriddedScene, stack: ExitStack) -> None:
        self.layer = layer
        info, selection = layer.info, layer.selection
        with open_scene(info) as file:  # check again: the file may have changed
            if (file.width, file.height, file.dtypes) != (info.width, info.height, info.dtypes):
                raise SceneDamaged(f"{info.path}: the file changed while it was read; start again")
        # A band that is needed several times is read once.
        numbers = [number for number, _ in selection.bands]
        self._show = [0, 1, 2] if selection.palette else [numbers.index(band) for band in layer.bands]
        # A warp leaves pixels without data, too.
        self._has_mask = layer.offset is None or bool(
            selection.masks or selection.alpha or selection.clear_palette
        )
        texts = bands_vrt(selection), mask_vrt(selection)
        if layer.offset is None:
            self._block, self._first = _blocks(layer)
            warp = _warp(layer, self._block, self._first)
            types = [kind for _, kind in selection.bands], [MASK_TYPE]
            texts = warped_vrt(texts[0], types[0], warp), warped_vrt(texts[1], types[1], warp)
        with safe_environment(info.source):
            self._file, self._mask = (
                stack.enter_context(rasterio.open(text, driver="VRT")) for text in texts
            )

    def read(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Return pixels (bands, h, w) in the type of the file and validity (h, w) of a window of the grid."""
        whole = Window(0, 0, self.layer.grid.width, self.layer.grid.height)
        is_local = not self.layer.info.source.startswith("/vsi")
        if whole.width * whole.height <= SMALL_PX and is_local and window.intersection(whole) == window:
            # Read once: it is looked at several times before its tiles.
            with suppress(SceneDamaged):  # perhaps not in this window
                values, valid = self.layer.blocks.get(whole, partial(self._decoded, whole))
                part = window.slices(whole)
                return values[:, *part].copy(), valid[part].copy()
        return self._decoded(window)

    def _decoded(self, window: Window) -> Block:
        try:
            # GDAL opens the sources of a VRT at the first read.
            with safe_environment(self.layer.info.source):
                return self._aligned(window) if self.layer.offset is not None else self._warped(window)
        except RasterioError as error:
            raise read_error(self.layer.info.path, self.layer.info.source, error) from error

    def _aligned(self, window: Window) -> Block:
        cols, rows = self.layer.offset or (0, 0)
        wide, high = self._file.width, self._file.height
        placed = window.shifted(cols, rows)
        inside = placed.intersection(Window(0, 0, wide, high))
        if not inside:
            return self._blank(window)
        west, north = self.layer.info.transform.a > 0, self.layer.info.transform.e < 0
        col = inside.col_off if west else wide - inside.col_end
        row = inside.row_off if north else high - inside.row_end
        pixels, cover = self._read(Window(col, row, inside.width, inside.height))
        turn = (slice(None, None, 1 if north else -1), slice(None, None, 1 if west else -1))
        pixels, cover = self._shown(pixels)[:, *turn], cover[turn]
        if inside == placed:
            return pixels, cover
        values, valid = self._blank(window)
        there = inside.slices(placed)
        values[:, *there], valid[there] = pixels, cover
        return values, valid

    def _warped(self, window: Window) -> Block:
        values, valid = self._blank(window)
        (height, width), first = self._block, self._first
        placed = window.shifted(*first)
        for row in range(placed.row_off // height * height, placed.row_end, height):
            for col in range(placed.col_off // width * width, placed.col_end, width):
                block = Window(col, row, width, height)
                # Always the whole block: see the top of the file.
                pixels, cover = self.layer.blocks.get((row, col), partial(self._read, block))
                inside = block.intersection(placed)
                there, part = inside.slices(placed), inside.slices(block)
                values[:, *there] = self._shown(pixels[:, *part])
                valid[there] = cover[part]
        return values, valid

    def _blank(self, window: Window) -> Block:
        shape = (window.height, window.width)
        return np.zeros((len(self._show), *shape), np.result_type(*self._file.dtypes)), np.zeros(shape, bool)

    def _shown(self, pixels: np.ndarray) -> np.ndarray:
        return pixels if self._show == [*range(len(pixels))] else pixels[self._show]

    def _read(self, window: Window) -> Block:
        """Return the bands of the open VRT, each once, and where they have data."""
        at = RasterWindow(*astuple(window))
        shape = self._file.count, window.height, window.width
        values = np.empty(shape, np.result_type(*self._file.dtypes))
        if len(set(self._file.dtypes)) == 1:
            self._file.read(window=at, out=values)
        else:
            for number, band in enumerate(values, 1):
                self._file.read(number, window=at, out=band)
        valid = self._mask.read(1, window=at) > FULL if self._has_mask else np.ones(shape[1:], bool)
        if values.dtype.kind == "f":
            valid &= np.isfinite(values).all(axis=0)
        return values, valid


def _alpha_band(info: SceneInfo, bands: tuple[int, ...]) -> tuple[int, float] | None:
    """Return the number of the alpha band and its opaque value; None if there is none, or it is no mask.

    Many programs call the fourth band alpha though it is near infrared. A mask is nearly everywhere
    transparent or opaque; an image is mostly between, and hardly anywhere at the highest value. The opaque
    value depends on the program: 1, or the highest of 8 or 16 bits whatever the type of the band.
    """
    if "alpha" not in info.colors or info.masked_by == "mask":
        return None
    alpha = info.colors.index("alpha") + 1
    if alpha in bands:
        return None
    with open_scene(info) as file:
        try:
            windows = (RasterWindow(*astuple(window)) for window in lattice(info.width, info.height))
            seen = np.nan_to_num(np.concatenate([file.read(alpha, window=at).ravel() for at in windows]))
        except RasterioError as error:
            raise read_error(info.path, info.source, error) from error
    highest = float(seen.max())
    opaque = next((value for value in _HIGHEST if value >= highest), highest)
    share = seen / opaque
    between = ((share > CLEAR) & (share < OPAQUE / 255)).mean()
    is_mask = between <= MOST_BETWEEN or (share >= 1).mean() >= ENOUGH_OPAQUE
    return (alpha, opaque) if is_mask and opaque else None


def moved(grid: Grid, shift: tuple[float, float]) -> Affine:
    """Return where the pixels of ``grid`` lie in a scene that is to move right and down by ``shift``."""
    return _begun_at(grid.transform, -shift[0], -shift[1])


def _begun_at(transform: Affine, col: float, row: float) -> Affine:
    """Return the transform of a raster whose first pixel is that at ``col`` and ``row``."""
    x, y = on_map(transform, col, row)
    return Affine(transform.a, transform.b, x, transform.d, transform.e, y)


def _selection(info: SceneInfo, bands: tuple[int, ...]) -> Selection:
    """Return what is read of a file: bands or the colours of its palette, and what masks them."""
    numbers = tuple(dict.fromkeys(bands))
    with open_scene(info) as file:
        flags = [set(file.mask_flag_enums[number - 1]) for number in numbers]
        # The name of a VRT is its checked text.
        source = str(file.name) if file.driver == "VRT" else pinned(info.path, info.source, file.driver)
    masked, any_band = _masked_bands(info, numbers, flags)
    alpha = _alpha_band(info, bands)
    # GDAL makes a mask of an alpha band itself, but by the highest value of its type.
    if any(MaskFlags.alpha in kinds for kinds in flags):
        if alpha and alpha[1] == np.iinfo(info.dtypes[alpha[0] - 1]).max:
            alpha = None
        else:
            masked = []
    palette = info.palette or ()
    return Selection(
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


def _masked_bands(
    info: SceneInfo, numbers: tuple[int, ...], flags: list[set[MaskFlags]]
) -> tuple[list[int], bool]:
    """Return the bands whose masks count, and whether a pixel has data if any of these masks says so."""
    masked = [n for n, kinds in zip(numbers, flags, strict=True) if MaskFlags.all_valid not in kinds]
    if not any(MaskFlags.nodata in kinds for kinds in flags):
        return masked[:1], False  # one mask for all bands
    # A dark pixel may have 0 in one band; a value that no measurement has is nodata in any band.
    any_band = len(numbers) > 1 and (info.nodata == 0 or info.dtype == "uint8")
    if any_band and len(masked) < len(numbers):
        masked = []  # a band without nodata value has data everywhere
    return masked, any_band


def _blocks(layer: GriddedScene) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return height and width of the warped blocks, and column and row of the grid in the first of them.

    Blocks are counted from the origin of the lattice, so a scene that is cut elsewhere has the same blocks.
    """
    ratio = max(1.0, layer.grid.gsd / layer.info.gsd)
    fit = 2 ** max(4, math.floor(math.log2(MOST_SOURCE_PX / ratio)))
    block = min(WARP_BLOCK[0], fit), min(WARP_BLOCK[1], fit)
    col, row = layer.grid.anchor
    return block, (col % block[1], row % block[0])


def _warp(layer: GriddedScene, block: tuple[int, int], first: tuple[int, int]) -> Warp:
    grid = layer.grid
    target = _begun_at(moved(grid, layer.shift), -first[0], -first[1])
    return Warp(
        source=_map_position(layer.info),
        target=MapPosition(str(grid.crs.to_wkt()), target),
        width=-(-(first[0] + grid.width) // block[1]) * block[1],
        height=-(-(first[1] + grid.height) // block[0]) * block[0],
        block=block,
        method=layer.resampling.name.capitalize(),
        scale=_scale(layer),
    )


def _scale(layer: GriddedScene) -> tuple[float, float]:
    """Return the working pixels per source pixel along its columns and rows, in the middle of the grid."""
    grid, info = layer.grid, layer.info
    cols, rows = grid.width / 2 + np.array([0, 1, 0]), grid.height / 2 + np.array([0, 0, 1])
    x, y = on_map(grid.transform, cols, rows)
    if info.crs != grid.crs:
        x, y = transformer(grid.crs, info.crs).transform(x, y)
        x = near(x, x[0]) if info.crs.is_geographic else x
    wide, high = (np.hypot(*(line[1:] - line[0])) for line in on_map(~info.transform, x, y))
    return (1.0, 1.0) if not (wide > 0 and high > 0) else (float(f"{1 / wide:.3g}"), float(f"{1 / high:.3g}"))


def _map_position(info: SceneInfo) -> MapPosition:
    """Return the position of a scene.

    A scene in degrees that crosses the antimeridian gets a prime meridian through its centre: GDAL looks for
    longitudes within -180..180 only and would find half of it.
    """
    west, _, east, _ = info.bounds
    if not info.crs.is_geographic or (west >= -180 and east <= 180):
        return MapPosition(str(info.crs.to_wkt()), info.transform, info.gcps)
    centre = (west + east) / 2
    wkt = re.sub(r',AUTHORITY\["[^"]*","[^"]*"\]\]$', "]", info.crs.to_wkt(version="WKT1_GDAL"))
    wkt = re.sub(
        r'PRIMEM\["[^"]*",([-+.\deE]+)(,AUTHORITY\[[^\]]*\])?\]',
        lambda match: f'PRIMEM["centre of the scene",{float(match[1]) + centre!r}]',
        wkt,
    )
    a, b, c, d, e, f = info.transform[:6]
    gcps = tuple(GroundControlPoint(point.row, point.col, point.x - centre, point.y) for point in info.gcps)
    return MapPosition(wkt, Affine(a, b, c - centre, d, e, f), gcps)


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
