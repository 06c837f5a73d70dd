"""Which pieces of a scene the captioner looks at for a region, and how their sentences become one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from affine import Affine
from rasterio.features import rasterize
from scipy import ndimage
from shapely.geometry import MultiPolygon, Polygon

from rscc.structures import Caption
from tiling import Window

# A region of more parts than this is described from the largest of them.
MOST_CROPS = 16
MOST_ALTERNATIVES = 4


@dataclass(frozen=True)
class CropPlanner:
    """Chooses crops of ``size`` pixels a side on a working grid; knows no image."""

    width: int
    height: int
    size: int

    def crops(self, pixel_polygon: Polygon | MultiPolygon) -> list[tuple[Window, float]]:
        """Return the windows to describe ``pixel_polygon`` by, each with the pixels of it that it stands for.

        A region that fits into a crop gets one, centred on it and moved inside the scene if it would
        stick out. A larger one is halved until its parts fit, and each part gets one, the largest first, 16
        at most. Nothing here depends on where the tiles lie.
        """
        parts = sorted(_fitting(pixel_polygon, self.size), key=lambda part: -part.area)[:MOST_CROPS]
        return [(self.around(part.bounds), float(part.area)) for part in parts]

    def around(self, bounds: tuple[float, float, float, float], size: int | None = None) -> Window:
        """Return the square window centred on left, top, right, bottom, moved inside the scene."""
        side = size or self.size
        left, top, right, bottom = bounds
        col, row = centred(left, right, side, self.width), centred(top, bottom, side, self.height)
        return Window(col, row, side, side)


def _fitting(shape: Polygon | MultiPolygon, size: int) -> list[Polygon | MultiPolygon]:
    """Halve a shape across its longer side until every part is at most ``size`` wide and high."""
    left, top, right, bottom = shape.bounds
    width, height = right - left, bottom - top
    if max(width, height) <= size:
        return [shape]
    if width >= height:
        middle = left + width / 2
        halves = ((left, top, middle, bottom), (middle, top, right, bottom))
    else:
        middle = top + height / 2
        halves = ((left, top, right, middle), (left, middle, right, bottom))
    return [
        part
        for half in halves
        if not (piece := clipped(shape, half)).is_empty
        for part in _fitting(piece, size)
    ]


def clipped(shape: shapely.Geometry, bounds: tuple[float, float, float, float]) -> MultiPolygon:
    """Return the area of a shape within left, top, right, bottom, without what only touches; may be empty."""
    parts = shapely.get_parts(shapely.clip_by_rect(shape, *bounds))
    return MultiPolygon([part for part in parts if part.area > 0])


def burnt(shapes: Sequence[shapely.Geometry], window: Window, *, all_touched: bool = True) -> np.ndarray:
    """Return the pixels (h, w) bool of a window that outlines in pixels of the grid touch.

    Without ``all_touched`` only those whose middle lies inside.
    """
    edges = (window.col_off, window.row_off, window.col_end, window.row_end)
    inside = [part for shape in shapes if not (part := clipped(shape, edges)).is_empty]
    size = (window.height, window.width)
    if not inside:
        return np.zeros(size, bool)
    moved = Affine.translation(window.col_off, window.row_off)
    return rasterize(inside, out_shape=size, transform=moved, all_touched=all_touched, dtype=np.uint8).astype(
        bool
    )


def centred(low: float, high: float, size: int, extent: int) -> int:
    """Return the start of a span of ``size`` pixels centred on ``low..high`` that stays inside ``0..extent``.

    A scene smaller than the span starts at 0 and is padded by the reader.
    """
    start = math.floor((low + high - size) / 2 + 0.5)
    return max(0, min(start, extent - size))


def best_caption(candidates: Sequence[tuple[Caption, float]]) -> tuple[Caption, tuple[str, ...]]:
    """Choose among the captions of an event's crops, each with its overlap (> 0) in pixels.

    Every sentence weighs the sum of overlap x score over the crops that say it; the heaviest wins. Returns
    it as the crop says it that gives it most, with its alternatives: first the other sentences by weight,
    then those of its own beam; at most 4, none twice.
    """
    weights: dict[str, float] = {}
    said: dict[str, Caption] = {}
    for caption, overlap in sorted(candidates, key=lambda pair: -pair[0].score * pair[1]):
        weights[caption.text] = weights.get(caption.text, 0.0) + caption.score * overlap
        said.setdefault(caption.text, caption)
    ranked = sorted(weights, key=lambda text: -weights[text])
    best = said[ranked[0]]
    distinct = dict.fromkeys([*ranked[1:], *best.alternatives])
    return best, tuple([text for text in distinct if text != best.text][:MOST_ALTERNATIVES])


SURROUNDINGS = 24.0
"""Pixels around a change that belong to it: its yard, its drive, the road along it."""
MARGIN = 6.0
"""Pixels around another change that are hidden with it."""
SOFT = 8.0
"""Pixels over which what is hidden passes into what is shown."""
ZOOM, SMALLEST_ZOOM = 1.5, 64
"""A tighter crop has this many times the longer side of the change, and at least so many pixels a side."""


@dataclass(frozen=True)
class View:
    """What the captioner is shown.

    Attributes:
        before, after: (3, T, T) uint8.
        focus: (T, T) float32 in 0..1, see :meth:`rscc.captioner.Captioner.caption`; None is 1 everywhere.
    """

    before: np.ndarray
    after: np.ndarray
    focus: np.ndarray | None = None


def view_of(way: str, before: np.ndarray, after: np.ndarray, own: np.ndarray, others: np.ndarray) -> View:
    """Return a crop as ``way`` shows it.

    Args:
        way: ``mask``, ``others`` or ``weight``; the other two show what they show as it is.
        before, after: (3, T, T) uint8.
        own, others: (T, T) bool, the pixels of the change that is described and those of all other changes.
    """
    if not own.any():
        return View(before, after)
    from_own = ndimage.distance_transform_edt(~own)
    if way == "others":
        hidden = np.minimum(_fade(ndimage.distance_transform_edt(~others), MARGIN), from_own / SOFT)
        shown = 1 - np.minimum(hidden, 1)
    else:
        shown = _fade(from_own, SURROUNDINGS)
    if way == "weight":
        return View(before, after, shown.astype(np.float32))
    return View(before, np.rint(before + shown * (after.astype(np.float32) - before)).astype(np.uint8))


def zoom_side(width: float, height: float, tile: int) -> int:
    """Return the side of the tighter crop, in pixels, for a change of this size; at most ``tile``."""
    return min(tile, max(SMALLEST_ZOOM, int(np.ceil(ZOOM * max(width, height)))))


def _fade(distance: np.ndarray, solid: float) -> np.ndarray:
    """Return 1 up to ``solid`` pixels away, then falling to 0."""
    return np.clip(1 - (distance - solid) / SOFT, 0, 1)
