"""Make outlines valid within bounds: GEOS takes hours for one that crosses itself some hundred times."""

from typing import Any

import numpy as np
import shapely
from shapely.geometry import Polygon

MOST_MEETINGS = 1000
"""Pairs of sides of one polygon that may cross, or lie on each other."""
_MOST_BETWEEN = 50_000
# Up to so many GEOS mends a polygon by its lines; above by its area, which takes a hundredth of the time.
_FEW = 20
# Sides that are compared with all at once: each may meet all.
_AT_ONCE = 64


def mended(outline: Any) -> Any:
    """Return an outline as a valid one, like :func:`shapely.make_valid`; None stays None.

    Polygons that overlap or touch are joined.

    Raises:
        ValueError: the sides of a polygon cross each other more than :data:`MOST_MEETINGS` times.
    """
    if outline is None or shapely.is_valid(outline):
        return outline
    parts = shapely.get_parts(shapely.get_parts(outline))
    tangled = parts[~shapely.is_valid(parts)]
    meetings = max((_meetings([part], MOST_MEETINGS, lying=True) for part in tangled), default=0)
    between = _meetings(parts, _MOST_BETWEEN, lying=False) if len(parts) > 1 else 0
    if meetings > MOST_MEETINGS or between > _MOST_BETWEEN:
        raise ValueError(f"an outline crosses itself more than {MOST_MEETINGS:,} times; simplify it")
    return shapely.make_valid(
        outline, method="linework" if len(parts) == 1 and meetings <= _FEW else "structure"
    )


def polygons_in(geometry: Any) -> list[Polygon]:
    """Return the polygons that have an area in a geometry of any kind, or in None."""
    # Twice, because mending can leave a collection that holds a multipolygon.
    parts = shapely.get_parts(shapely.get_parts(geometry))
    return [part for part in parts if isinstance(part, Polygon) and part.area]


def _meetings(parts: Any, most: int, *, lying: bool) -> int:
    """Return how many pairs of sides cross, or with ``lying`` lie on each other; it stops above ``most``."""
    rings = [shapely.get_coordinates(ring) for ring in shapely.get_rings(parts)]
    corners = np.concatenate(
        [np.stack([ring[:-1], ring[1:]], axis=1) for ring in rings or [np.zeros((1, 2))]]
    )
    corners = corners[np.isfinite(corners).all(axis=(1, 2)) & (corners[:, 0] != corners[:, 1]).any(axis=1)]
    sides = shapely.linestrings(corners)
    tree, found, start, step = shapely.STRtree(sides), 0, 0, 1
    while start < len(sides) and found <= 2 * most:
        some = sides[start : start + step]
        start, step = start + step, min(2 * step, _AT_ONCE)
        if lying:
            meeting = tree.query(some, predicate="intersects").shape[1] - len(some)
            found += meeting - tree.query(some, predicate="touches").shape[1]
        else:
            found += tree.query(some, predicate="crosses").shape[1]
    return found // 2
