"""Find fill: ground of a date that holds one constant value, though the file does not declare it as nodata.

Three marks tell fill from dark water and white roofs. It is connected to the edge of the scene or to declared
nodata, through necks of any width. And either it is exactly constant with a sharp edge, as lossless files
have it, or, where black or white is blurred by compression or noise, it lies outside the outline of the rest,
as collars and the corners of turned scenes do. Away from the edge, three kinds are fill: exact black with
a sharp edge, such as clouds that were cut out; exact white in a rectangle, a block that is missing; and any
other value in a large rectangle that is nearly square, as tiles are. A value far beyond all others is fill
anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tiling.block_cache import BlockCache
from tiling.fill_values import ReadDate, Value, likely_values
from tiling.grid import Window
from tiling.gridded import GriddedReader, GriddedScene
from tiling.scene import SceneInfo

# Pixels around fill that warping mixes with it, or compression.
MIXED, MIXED_BLURRED = 2, 12
# Sharp fill has its value in this share of its pixels, and at most this share of those around it is near it.
# Flat water and saturated roofs fade.
EXACT, FADING = 0.995, 0.3
FEWEST = 64
# With fewer pixels that are no fill, the constant values are the scene.
LEAST_GROUND = 1024
# Blurred fill touches this part of the perimeter, and this share of it lies outside the outline of the rest.
CONTACT, OUTSIDE = 1 / 16, 0.5
# Fill that is neither black nor white touches as much of the perimeter, and its share of the scene lies
# between these: flat roofs and fields also reach the edge, and a plain ground can be most of a scene.
COLLAR, CANVAS = 0.1, 0.8
# A block that is missing has so many pixels, and fills this share of its bounding box.
BLOCK, BOXED = 64 * 64, 0.9
# One that is neither black nor white has so many pixels a side, one side is at most so many times the other,
# and it is at most this share of the scene; what is narrower than so many cells is no part of it. Water that
# compression has smoothed is constant over squares of up to 84 pixels, but has no sharp edge.
TILE, OBLONG, TILE_SHARE, SPECK = 80, 1.25, 1 / 3, 5
# Cells a side on which connections are found, and the outline.
CELLS, OUTLINE_CELLS = 1024, 256
_BLOCK = 512
# Scenes of a series whose fill is kept.
KEPT_FILLS = 8
_EIGHT = np.ones((3, 3), bool)


@dataclass(frozen=True)
class Fill:
    """One constant value that fills ground of a date.

    Attributes:
        value: the value.
        margin: pixels around it that are mixed with it.
        cell: pixels a side of a cell.
        cells: (rows, columns) bool, where on the grid pixels of this value are fill.
        share: of the pixels of the grid, 0..1.
    """

    value: Value
    margin: int
    cell: int
    cells: np.ndarray
    share: float

    def as_dict(self) -> dict[str, Any]:
        """Return the value of the bands and the share as plain values."""
        return {"value": list(self.value.bands), "share": round(self.share, 4)}

    def mask(self, pixels: np.ndarray, window: Window, shift: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
        """Return the fill (h, w) bool among the pixels (3, h, w) of a window, without its margin.

        Args:
            shift: columns and rows by which the date was moved after the fill was found.
        """
        mask = self.value.within(pixels)
        if not mask.any():
            return mask
        rows, cols = (
            np.clip((np.arange(start, end) - round(moved)) // self.cell, 0, count - 1)
            for start, end, moved, count in (
                (window.row_off, window.row_end, shift[1], self.cells.shape[0]),
                (window.col_off, window.col_end, shift[0], self.cells.shape[1]),
            )
        )
        return mask & self.cells[np.ix_(rows, cols)]


def find_fill(read: ReadDate, width: int, height: int) -> list[Fill]:
    """Return the fill of a date; none where hardly anything else is left.

    All of it is read only if its edges, or windows spread over it, hold a value that may be fill.
    """
    values = likely_values(read, width, height)
    if not values:
        return []
    counts = _Counts.of(read, width, height, values)
    fills: list[Fill] = []
    for value, tally in zip(values, counts.values, strict=True):
        if any(value.includes(fill.value.bands) for fill in fills):
            continue  # with less blur
        cells = counts.fill_cells(value, tally)
        pixels = int(tally.core[cells].sum())
        if pixels >= FEWEST:
            margin = MIXED_BLURRED if tally.exact[cells].sum() < EXACT * pixels else MIXED
            fills.append(Fill(value, margin, counts.cell, cells, pixels / (width * height)))
    others = [fill for fill in fills if not (fill.value.is_extreme or fill.value.is_far)]
    if len(others) > 1:  # a drawing, or a map of classes
        fills = [fill for fill in fills if fill.value.is_extreme or fill.value.is_far]
    rest = counts.seen - sum(fill.share for fill in fills) * width * height
    return fills if rest >= LEAST_GROUND else []


def without_fill(
    read: ReadDate, fills: Sequence[Fill], window: Window, whole: Window, shift: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels of a window of a date, and where it has data: not in fill, nor beside it.

    Args:
        whole: the pixels of the grid.
        shift: see :meth:`Fill.mask`.
    """
    from scipy import ndimage

    most = max(fill.margin for fill in fills)
    side = 2 * most
    grown = Window(window.col_off - most, window.row_off - most, window.width + side, window.height + side)
    grown = grown.intersection(whole)
    pixels, valid = read(grown)
    for fill in fills:
        mask = fill.mask(pixels, grown, shift)
        if mask.any():
            valid &= ~ndimage.maximum_filter(mask, 2 * fill.margin + 1)
    inside = window.slices(grown)
    return pixels[:, *inside], valid[inside]


@dataclass(frozen=True)
class _Tally:
    """Numbers of pixels by cell: with the value, with exactly it, around it, and of these near it."""

    core: np.ndarray
    exact: np.ndarray
    around: np.ndarray
    near: np.ndarray


@dataclass(frozen=True)
class _Counts:
    """What the pixels of a date are, by cell.

    Attributes:
        cell: pixels a side of a cell.
        size: pixels of each cell.
        unseen: pixels without data.
        values: a tally for each value.
    """

    cell: int
    size: np.ndarray
    unseen: np.ndarray
    values: list[_Tally]

    @classmethod
    def of(cls, read: ReadDate, width: int, height: int, values: list[Value]) -> _Counts:
        cell = -(-max(width, height) // CELLS)
        shape = -(-height // cell), -(-width // cell)
        size, unseen = (np.zeros(shape, np.int32) for _ in range(2))
        tallies = [_Tally(*(np.zeros(shape, np.int32) for _ in range(4))) for _ in values]
        for window, grown in _blocks(width, height, cell):
            pixels, valid = read(grown)
            inside = window.slices(grown)
            there = tuple(slice(part.start // cell, -(-part.stop // cell)) for part in window.slices(_ORIGIN))
            size[there] = _sums(np.ones((window.height, window.width), bool), cell)
            unseen[there] = _sums(~valid[inside], cell)
            for value, tally in zip(values, tallies, strict=True):
                core = value.within(pixels) & valid
                if core.any():
                    for counted, mask in zip(
                        (tally.core, tally.exact, tally.around, tally.near),
                        (core, *_described(value, pixels, valid, core)),
                        strict=True,
                    ):
                        counted[there] = _sums(mask[inside], cell)
        return cls(cell, size, unseen, tallies)

    @property
    def seen(self) -> int:
        """The number of pixels with data."""
        return int((self.size - self.unseen).sum())

    def fill_cells(self, value: Value, tally: _Tally) -> np.ndarray:
        """Return the cells (rows, columns) bool in which a value is fill."""
        from scipy import ndimage

        if value.is_far:
            return tally.core > 0
        labels, count = ndimage.label(tally.core > 0, _EIGHT)

        def sums(counted: np.ndarray, labels: np.ndarray = labels) -> np.ndarray:
            labelled = labels > 0
            return np.bincount(labels[labelled], counted[labelled], minlength=count + 1)

        pixels, contact = sums(tally.core), sums(self._outside) * self.cell
        is_exact = sums(tally.exact) >= EXACT * pixels
        rows, cols = self.size.shape
        along = contact >= CONTACT * 2 * (rows + cols) * self.cell
        share = pixels / self.size.sum()
        if value.is_extreme:
            may_be_fill = is_exact | along
        else:
            may_be_fill = is_exact & along & (share >= COLLAR) & (share <= CANVAS)
        if not (may_be_fill & (pixels >= FEWEST))[1:].any():
            return np.zeros(self.size.shape, bool) if value.is_extreme else self._tiles(tally)
        # What lies around it is also in other cells.
        spread = ndimage.maximum_filter(labels, 2 * -(-_RING // self.cell) + 1)
        around, near = sums(tally.around, spread), sums(tally.near, spread)
        outside = sums(np.where(self._outline(tally), 0, tally.core))
        sharp = is_exact & (near <= FADING * around)
        blurred = value.is_extreme & along & (outside >= OUTSIDE * pixels)
        sharp &= may_be_fill
        is_fill = (contact > 0) & (pixels >= FEWEST) & (sharp | blurred)
        if value.is_extreme and (sharp & (pixels >= BLOCK)).any():
            boxed = 0 if value.includes((0.0,) * 3) else BOXED * self._boxes(labels)
            is_fill |= sharp & (pixels >= np.maximum(BLOCK, boxed))
        is_fill[0] = False  # the cells without the value
        cells: np.ndarray = is_fill[labels]
        return cells if value.is_extreme else cells | self._tiles(tally)

    def _tiles(self, tally: _Tally) -> np.ndarray:
        """Return the cells of rectangles that are nearly square, exactly constant and sharp."""
        from scipy import ndimage

        cells = np.zeros(self.size.shape, bool)
        if tally.core.sum() < TILE**2:
            return cells
        solid = ndimage.binary_opening(2 * tally.core > self.size, np.ones((SPECK, SPECK), bool))
        # Its edge also crosses the cells beside it, and lies in them.
        reach = 1 + -(-_RING // self.cell)
        for box in ndimage.find_objects(ndimage.label(solid)[0]):
            short, long = sorted(self.cell * (part.stop - part.start) for part in box)
            ring = tuple(slice(max(0, part.start - reach), part.stop + reach) for part in box)
            is_square = short >= TILE and long <= OBLONG * short
            is_full = tally.core[box].sum() >= BOXED * self.size[box].sum()
            is_sharp = tally.near[ring].sum() <= FADING * tally.around[ring].sum()
            if is_square and is_full and is_sharp and tally.core[box].sum() <= TILE_SHARE * self.size.sum():
                cells[ring] = True
        return cells

    def _boxes(self, labels: np.ndarray) -> np.ndarray:
        """Return the pixels of the bounding box of each label; of the first, which is 0, none."""
        from scipy import ndimage

        sides = [[part.stop - part.start for part in box] for box in ndimage.find_objects(labels)]
        return np.array([0, *(self.cell**2 * rows * cols for rows, cols in sides)])

    @cached_property
    def _outside(self) -> np.ndarray:
        """The cells at the edge of the grid, or beside nodata that reaches it."""
        from scipy import ndimage

        labels, _ = ndimage.label(np.pad(self.unseen > 0, 1, constant_values=True), _EIGHT)
        beyond = labels == labels[0, 0]
        return _grown(beyond)[1:-1, 1:-1]

    def _outline(self, tally: _Tally) -> np.ndarray:
        """Return the cells that have ground without the value on both sides, in their row or their column.

        Specks do not count.
        """
        from scipy import ndimage

        step = -(-max(self.size.shape) // OUTLINE_CELLS)
        ground, size = (_sums(counts, step) for counts in (self.size - self.unseen - tally.core, self.size))
        rest = ndimage.binary_opening(2 * ground > size, _EIGHT)
        between = np.zeros_like(rest)
        for axis in (0, 1):
            since = np.logical_or.accumulate(rest, axis)
            between |= since & np.flip(np.logical_or.accumulate(np.flip(rest, axis), axis), axis)
        rows, cols = self.size.shape
        outline: np.ndarray = between.repeat(step, 0).repeat(step, 1)[:rows, :cols]
        return outline


_ORIGIN = Window(0, 0, 0, 0)
_RING = 2


def _described(
    value: Value, pixels: np.ndarray, valid: np.ndarray, core: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where pixels have exactly the value, lie around it, and around it are near it."""
    mixed = _grown(core)  # pixels beside it may be mixed with it
    around = _grown(mixed) & ~mixed & valid
    return value.equals(pixels) & core, around, value.is_near(pixels) & around


def _grown(mask: np.ndarray) -> np.ndarray:
    """Return a mask (h, w) bool and the eight neighbours of its pixels; ndimage takes ten times as long."""
    for axis in (0, 1):
        grown, near = (np.moveaxis(part, axis, 0) for part in (mask.copy(), mask))
        grown[1:] |= near[:-1]
        grown[:-1] |= near[1:]
        mask = np.moveaxis(grown, 0, axis)
    return mask


def _blocks(width: int, height: int, cell: int) -> Iterator[tuple[Window, Window]]:
    """Yield windows of whole cells that cover a scene once, alone and with the pixels around them."""
    step, whole = max(1, _BLOCK // cell) * cell, Window(0, 0, width, height)
    for row in range(0, height, step):
        for col in range(0, width, step):
            yield (
                Window(col, row, step, step).intersection(whole),
                Window(col - _RING, row - _RING, step + 2 * _RING, step + 2 * _RING).intersection(whole),
            )


def _sums(values: np.ndarray, side: int) -> np.ndarray:
    """Return the sums of (h, w) over cells of ``side``; the last ones may be cut."""
    if side == 1:
        return values.astype(np.int32)
    rows, cols = (np.arange(0, length, side) for length in values.shape)
    sums: np.ndarray = np.add.reduceat(np.add.reduceat(values.astype(np.int32), rows, axis=0), cols, axis=1)
    return sums


class Lattice:
    """The grid of a scene, on which all pairs of a series lie, and the fill of those that were read last."""

    def __init__(self, info: SceneInfo) -> None:
        self.info = info
        self._fills: list[tuple[GriddedScene, tuple[Fill, ...]]] = []

    def fill_of(self, reader: GriddedReader) -> tuple[Fill, ...]:
        """Return the fill of a scene, see :func:`find_fill`, found once for all its pairs."""
        layer, grid = reader.layer, reader.layer.grid
        for known, fill in self._fills:
            if known == layer:
                return fill
        fill = tuple(find_fill(reader.read, grid.width, grid.height))
        self._fills = [*self._fills[1 - KEPT_FILLS :], (replace(layer, blocks=BlockCache(0)), fill)]
        return fill
