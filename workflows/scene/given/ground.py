"""The ground that the network looks at where changes are given: theirs, and a margin around each."""

from collections.abc import Sequence

import numpy as np
import shapely
from shapely.geometry import MultiPolygon

from rscc.model_folder import ModelCard
from tiling import Frame, NoOverlap, TileGrid, Window
from workflows.printable import counted, printable
from workflows.report.scenes import in_pixels
from workflows.scene.evidence import ROAD_REACH
from workflows.scene.given.layer import GivenLayer, GivenOutline
from workflows.scene.pixels import window_around


def ground_around(given: GivenLayer, frame: Frame, area: Window, card: ModelCard) -> Window:
    """Return the pixels around all given changes that lie in ``area``; of no changes one pixel of it.

    Raises:
        NoOverlap: there are changes, and none lies there.
    """
    if not given.outlines:
        return Window(area.col_off, area.row_off, 1, 1)
    inside = _inside(given.outlines, frame, area)
    if not inside:
        raise NoOverlap(
            f"{printable(given.name)}: none of its {counted(len(given.outlines), 'polygon')} lies on the "
            "ground that both scenes show; check its place and its coordinate reference system"
        )
    around = window_around(shapely.box(*shapely.total_bounds(inside)), _margin(card))
    return around.intersection(area)


def tiles_near(
    outlines: Sequence[GivenOutline], frame: Frame, grid: TileGrid, card: ModelCard
) -> tuple[int, ...]:
    """Return the numbers of the tiles of a grid that see a given change or the ground around it."""
    inside = _inside(outlines, frame, grid.area)
    if not inside:
        return ()
    boxes = shapely.box(*np.array([tile.window.bounds for tile in grid], dtype=float).T)
    near = shapely.STRtree(inside).query(boxes, predicate="dwithin", distance=_margin(card))[0]
    return tuple(np.unique(near).tolist())


def _margin(card: ModelCard) -> int:
    return ROAD_REACH + card.position_size


def _inside(outlines: Sequence[GivenOutline], frame: Frame, area: Window) -> list[MultiPolygon]:
    """Return the outlines in pixels that touch a window."""
    window = shapely.box(*area.bounds)
    shapes = in_pixels([outline.geometry for outline in outlines], frame)
    return [shape for shape in shapes if shape.intersects(window)]
