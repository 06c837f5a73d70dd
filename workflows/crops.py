"""Which pieces of a scene the captioner looks at for a region, and how their sentences become one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import shapely

from tiling import TileGrid, Window

if TYPE_CHECKING:
    from shapely.geometry import Polygon

    from rscc.structures import Caption

# A region over more tiles than this is described from the tiles that hold most of it.
MOST_CROPS = 16
MOST_ALTERNATIVES = 4


class CropPlanner:
    """Chooses crops of one tile's size, in pixels of the working grid; knows no image."""

    def __init__(self, grid: TileGrid) -> None:
        self.grid = grid

    @cached_property
    def _tiles(self) -> tuple[list[Window], np.ndarray]:
        """The windows of all tiles and their cores as boxes; made when the first large region asks."""
        cores = [tile.core for tile in self.grid]
        edges = [(c.col_off, c.row_off, c.col_off + c.width, c.row_off + c.height) for c in cores]
        return [tile.window for tile in self.grid], shapely.box(*np.array(edges, dtype=float).T)

    def crops(self, pixel_polygon: Polygon) -> list[tuple[Window, float]]:
        """Return the windows to describe ``pixel_polygon`` by, each with the pixels of it that it stands for.

        A region that fits into a crop gets one, centred on it and moved inside the scene if it would
        stick out. A larger one gets the tiles whose cores it overlaps, the largest overlap first, 16 at most.
        """
        left, top, right, bottom = pixel_polygon.bounds
        size = self.grid.tile
        if right - left <= size and bottom - top <= size:
            window = Window(
                centred(left, right, size, self.grid.width),
                centred(top, bottom, size, self.grid.height),
                size,
                size,
            )
            return [(window, pixel_polygon.area)]
        shapely.prepare(pixel_polygon)
        windows, cores = self._tiles
        touched = np.flatnonzero(shapely.intersects(pixel_polygon, cores))
        overlap = shapely.area(shapely.intersection(pixel_polygon, cores[touched]))
        order = np.argsort(-overlap, kind="stable")[:MOST_CROPS]
        return [(windows[touched[i]], float(overlap[i])) for i in order if overlap[i] > 0]


def centred(low: float, high: float, size: int, extent: int) -> int:
    """Return the start of a span of ``size`` pixels centred on ``low..high`` that stays inside ``0..extent``.

    A scene smaller than the span starts at 0 and is padded by the reader.
    """
    start = math.floor((low + high - size) / 2 + 0.5)
    return max(0, min(start, extent - size))


def best_caption(candidates: Sequence[tuple[Caption, float]]) -> tuple[Caption, tuple[str, ...]]:
    """Choose among captions with their overlaps (> 0): the greatest overlap x score wins.

    Returns it with its alternatives: first the sentences of the other crops by the same order, then those
    of its own beam; at most 4, none twice.
    """
    ranked = sorted(candidates, key=lambda pair: -pair[0].score * pair[1])
    best = ranked[0][0]
    texts = [caption.text for caption, _ in ranked[1:]] + list(best.alternatives)
    distinct = [text for text in dict.fromkeys(texts) if text != best.text]
    return best, tuple(distinct[:MOST_ALTERNATIVES])
