"""Outlines in pixels of a grid: cut to a box, as masks, the window around one, and the evidence there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from affine import Affine
from rasterio.features import rasterize
from shapely.geometry import MultiPolygon, Polygon

from tiling import Window


def clipped(shape: shapely.Geometry, bounds: tuple[float, float, float, float]) -> MultiPolygon:
    """Return the area of a shape within left, top, right, bottom, without what only touches; may be empty."""
    parts = shapely.get_parts(shapely.clip_by_rect(shape, *bounds))
    return MultiPolygon([part for part in parts if part.area > 0])


def rasterize_outlines(
    outlines: Sequence[shapely.Geometry], window: Window, *, all_touched: bool = True
) -> np.ndarray:
    """Return the pixels (h, w) bool of a window that outlines touch.

    Without ``all_touched`` only those whose centres lie inside.
    """
    inside = [part for outline in outlines if not (part := clipped(outline, window.bounds)).is_empty]
    size = (window.height, window.width)
    if not inside:
        return np.zeros(size, bool)
    moved = Affine.translation(window.col_off, window.row_off)
    mask: np.ndarray = rasterize(
        inside, out_shape=size, transform=moved, all_touched=all_touched, dtype=np.uint8
    )
    return mask.astype(bool)


def window_around(outline: Polygon | MultiPolygon, margin: float = 0.0) -> Window:
    """Return the pixels that an outline touches, with ``margin`` pixels more on every side."""
    left, top, right, bottom = outline.bounds
    col, row = math.floor(left - margin), math.floor(top - margin)
    return Window(col, row, math.ceil(right + margin) - col, math.ceil(bottom + margin) - row)


@dataclass(frozen=True)
class PositionAnswers:
    """Evidence at some positions.

    Attributes:
        values: (answers, h, w) float32, NaN where the network was not asked.
        rows, columns: edges of the positions in pixels, (h + 1,) and (w + 1,).
        side: pixels a side of a whole position.
    """

    values: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    side: int

    @property
    def pixels(self) -> Window:
        """The pixels of these positions."""
        col, row = int(self.columns[0]), int(self.rows[0])
        return Window(col, row, int(self.columns[-1]) - col, int(self.rows[-1]) - row)

    @property
    def shares(self) -> np.ndarray:
        """How much of a whole position each one is, (h, w)."""
        areas: np.ndarray = np.outer(np.diff(self.rows), np.diff(self.columns)) / self.side**2
        return areas

    def weights(self, mask: np.ndarray) -> np.ndarray:
        """Return the share of each position, (h, w), that a mask of :attr:`pixels` covers."""
        sums = np.add.reduceat(mask.astype(np.float32), self.rows[:-1] - self.rows[0], axis=0)
        shares: np.ndarray = np.add.reduceat(sums, self.columns[:-1] - self.columns[0], axis=1) / self.side**2
        return shares


class Neighbours:
    """Finds the outlines that reach into a window."""

    def __init__(self, outlines: Sequence[MultiPolygon]) -> None:
        self.outlines = outlines
        self._tree = shapely.STRtree(outlines)

    def masks(self, number: int, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Return the pixels of one outline and those of all others in a window, (h, w) bool each."""
        near = self._tree.query(shapely.box(*window.bounds), predicate="intersects")
        own = rasterize_outlines([self.outlines[number]], window)
        others = rasterize_outlines([self.outlines[other] for other in near if other != number], window)
        # A pixel that two outlines touch is its own.
        return own, others & ~own


def enlarged(positions: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return (..., h, w) values of cells as those of pixels, interpolated between the centres of cells."""
    down, across = (_shares(*sides) for sides in zip(positions.shape[-2:], shape, strict=True))
    pixels: np.ndarray = down @ positions @ across.T
    return pixels


def _shares(positions: int, pixels: int) -> np.ndarray:
    """Return which share (pixels, positions) each of a row of positions has in a row of pixels."""
    middles = (np.arange(pixels) + 0.5) * positions / pixels - 0.5
    middles = np.clip(middles, 0, positions - 1)
    apart = np.abs(middles[:, None] - np.arange(positions))
    return np.maximum(1 - apart, 0).astype(np.float32)
