"""Tiles over a scene: arithmetic on pixels, rows and columns counted from the top left.

Invariants: the cores of the tiles cover each pixel of the area exactly once, each core lies in its window,
and windows leave the scene only if it is smaller than a tile. Tiles are fixed to the ground: a cut scene has
the windows of the whole, but for those along the cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """A rectangle of pixels: first column and row (may be negative), width and height."""

    col_off: int
    row_off: int
    width: int
    height: int

    @property
    def col_end(self) -> int:
        """The first column right of the window."""
        return self.col_off + self.width

    @property
    def row_end(self) -> int:
        """The first row below the window."""
        return self.row_off + self.height

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """First column and row, and the first ones behind: left, top, right and bottom of its outline."""
        return self.col_off, self.row_off, self.col_end, self.row_end

    def intersection(self, other: Window) -> Window:
        """Return the pixels in both; width or height is 0 if there are none."""
        col, row = max(self.col_off, other.col_off), max(self.row_off, other.row_off)
        width = max(0, min(self.col_end, other.col_end) - col)
        height = max(0, min(self.row_end, other.row_end) - row)
        return Window(col, row, width, height)

    def shifted(self, cols: int, rows: int) -> Window:
        """Return the window moved right by ``cols`` and down by ``rows``."""
        return Window(self.col_off + cols, self.row_off + rows, self.width, self.height)

    def slices(self, origin: Window) -> tuple[slice, slice]:
        """Return the rows and columns of this window in an array that holds ``origin``."""
        row, col = self.row_off - origin.row_off, self.col_off - origin.col_off
        return slice(row, row + self.height), slice(col, col + self.width)

    def expanded(self, pixels: int) -> Window:
        """Return the window with ``pixels`` more on every side."""
        size = self.width + 2 * pixels, self.height + 2 * pixels
        return Window(self.col_off - pixels, self.row_off - pixels, *size)

    def __bool__(self) -> bool:
        return self.width > 0 and self.height > 0


def around(windows: Sequence[Window]) -> Window:
    """Return the smallest window that holds some windows."""
    left, top = min(w.col_off for w in windows), min(w.row_off for w in windows)
    right, bottom = max(w.col_end for w in windows), max(w.row_end for w in windows)
    return Window(left, top, right - left, bottom - top)


def lattice(width: int, height: int, most: int = 16, size: int = 64) -> Iterator[Window]:
    """Yield at most ``most`` x ``most`` windows of ``size`` pixels a side, spread evenly over a scene."""
    whole = Window(0, 0, width, height)
    for row in spread(height, most, size):
        for col in spread(width, most, size):
            yield Window(col, row, size, size).intersection(whole)


def spread(extent: int, most: int, size: int) -> list[int]:
    """Return the starts of at most ``most`` spans of ``size``, from one end to the other."""
    count = min(most, -(-extent // size))
    return [round(n * max(0, extent - size) / max(1, count - 1)) for n in range(count)]


@dataclass(frozen=True)
class Tile:
    """One tile: its index, row and column in the grid, its window, and the core that no other tile has.

    The core is empty if all pixels of the area in its window belong to other cores.
    """

    index: int
    row: int
    col: int
    window: Window
    core: Window


@dataclass(frozen=True)
class Axis:
    """The tiles along one axis of a grid.

    Attributes:
        starts: first pixels of the tiles that touch the area.
        stops: their ends.
        edges: edges of their cores, one more than tiles, from the start to the end of the area.
    """

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    edges: tuple[int, ...]

    @classmethod
    def cut(
        cls, size: int, tile: int, overlap: int, anchor: int, area: tuple[int, int], least: int, multiple: int
    ) -> Axis:
        """Cut ``size`` pixels into tiles; keep those that touch the area (first pixel, end).

        A tile that leaves the scene is cut there, to ``least`` pixels or more and a multiple of
        ``multiple``; a tile inside its neighbour is left out.
        """

        def length(start: int, stop: int) -> int:
            return min(tile, max(least, -(-(stop - start) // multiple) * multiple))

        step = tile - overlap
        # From the first start above 0 on the lattice to the last tile that is not inside its neighbour.
        inner = [*range(-anchor % step or step, size - overlap, step)] if size > tile else []
        spans = [(start, start + tile) for start in inner]
        spans.insert(0, (0, length(0, inner[0] + overlap if inner else size)))
        if inner:
            spans[-1] = size - length(inner[-1], size), size
        starts, stops = zip(*spans, strict=True)
        # A core ends in the middle of the overlap with the next tile.
        edges = (0, *((stop + start) // 2 for stop, start in zip(stops, starts[1:], strict=False)), size)
        low, high = area
        first, end = bisect_right(stops, low), bisect_left(starts, high)
        clipped = tuple(min(max(edge, low), high) for edge in edges[first : end + 1])
        return cls(starts[first:end], stops[first:end], clipped)


class TileGrid:
    """Square tiles of ``tile`` pixels with an overlap of at least ``overlap`` pixels, in row-major order.

    Tiles are fixed to the ground, not to the start of the scene. At the edges of the scene they are cut, down
    to ``least`` pixels; a smaller rest overlaps more with the neighbour.

    Args:
        tile: side of a tile in pixels.
        least: smallest width and height of a tile; by default ``tile``, so that all are square.
        multiple: of which the sides of cut tiles are multiples, for the network.
        overlap: smallest number of pixels that neighbours share.
        anchor: column and row of the scene's first pixel on an endless lattice of pixels. Tiles start at
            multiples of ``tile - overlap`` on it.
        area: requested pixels, cut to the scene (default: all). The grid has the tiles that touch it; windows
            are the same for every area, cores are cut to it. It must not be empty.
    """

    def __init__(
        self,
        width: int,
        height: int,
        tile: int = 256,
        overlap: int = 64,
        *,
        anchor: tuple[int, int] = (0, 0),
        area: Window | None = None,
        least: int | None = None,
        multiple: int = 16,
    ) -> None:
        scene = Window(0, 0, width, height)
        self.width, self.height, self.tile, self.overlap, self.anchor = width, height, tile, overlap, anchor
        self.least, self.multiple = tile if least is None else least, multiple
        self.area = scene if area is None else area.intersection(scene)
        assert self.area, f"{area} has no pixel of a scene of {width} x {height}"
        col, row = anchor
        across, down = (self.area.col_off, self.area.col_end), (self.area.row_off, self.area.row_end)
        self.columns = Axis.cut(width, tile, overlap, col, across, self.least, multiple)
        self.rows = Axis.cut(height, tile, overlap, row, down, self.least, multiple)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns of tiles."""
        return len(self.rows.starts), len(self.columns.starts)

    def __len__(self) -> int:
        rows, columns = self.shape
        return rows * columns

    def __getitem__(self, index: int) -> Tile:
        assert 0 <= index < len(self), f"tile {index} of {len(self)}"
        row, col = divmod(index, self.shape[1])
        top, bottom = self.rows.edges[row : row + 2]
        left, right = self.columns.edges[col : col + 2]
        start, above = self.columns.starts[col], self.rows.starts[row]
        return Tile(
            index,
            row,
            col,
            Window(start, above, self.columns.stops[col] - start, self.rows.stops[row] - above),
            Window(left, top, right - left, bottom - top),
        )

    def __iter__(self) -> Iterator[Tile]:
        return (self[index] for index in range(len(self)))
