"""Crops from which the decoder describes a change, and the choice among their captions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import ndimage
from shapely.geometry import MultiPolygon, Polygon

from rscc.structures import Caption
from tiling import Window
from workflows.scene.evidence import SURROUNDINGS
from workflows.scene.pixels import clipped
from workflows.scenes import centred

MOST_CROPS = 16
"""Crops of one change at most: the largest parts of it."""
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

    def around(self, bounds: tuple[float, float, float, float]) -> Window:
        """Return the square window centred on left, top, right, bottom, moved inside the scene."""
        left, top, right, bottom = bounds
        col, row = centred(left, right, self.size, self.width), centred(top, bottom, self.size, self.height)
        return Window(col, row, self.size, self.size)


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


def best_caption(candidates: Sequence[tuple[Caption, float]]) -> Caption:
    """Choose among the captions of a change's crops, each with its overlap (> 0) in pixels.

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
    others = tuple([text for text in distinct if text != best.text][:MOST_ALTERNATIVES])
    return replace(best, alternatives=others)


SOFT = 8.0
"""Width in pixels of the transition between shown and hidden."""


def masked(before: np.ndarray, after: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the crop after, (3, T, T) uint8, with that before outside of the surroundings of a change.

    Args:
        before, after: (3, T, T) uint8.
        own: (T, T) bool, the pixels of the change; without any all is shown.
    """
    if not own.any():
        return after
    distance = ndimage.distance_transform_edt(~own)
    shown = np.clip(1 - (distance - SURROUNDINGS) / SOFT, 0, 1)
    return np.rint(before + shown * (after.astype(np.float32) - before)).astype(np.uint8)
