"""Regions near each other as one change event."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely

from tiling.outlines import components
from tiling.polygons import ChangeRegion


def group_regions(regions: Sequence[ChangeRegion], distance_px: float) -> list[list[int]]:
    """Return the numbers of ``regions`` by event: regions at most ``distance_px`` apart belong together.

    The distance is that of the outlines in pixels of the working grid; a row of regions, each near the next,
    is one event. Every region is in one event; events are in order of their first region, and the numbers
    within one ascend.
    """
    outlines = np.array([region.pixel_polygon for region in regions], dtype=object)
    if not len(outlines):
        return []
    near = shapely.STRtree(outlines).query(outlines, predicate="dwithin", distance=distance_px)
    count, event = components(len(outlines), near.T)
    members: list[list[int]] = [[] for _ in range(count)]
    for number, of in enumerate(event):
        members[of].append(number)
    return sorted(members)
