"""New roads that lie by themselves: changes of their own, where no building tells of them.

The change head knows buildings alone. The road head answers for positions of the trunk's last maps, 8 m of
ground, in the tiles that the search looked at; where it finds a new road and the fact heads agree that one
came, its outline is that of those positions. A road beside a building that changed is told by its sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress

import numpy as np
import shapely
from scipy import ndimage
from shapely.geometry import MultiPolygon

from tiling import Band, ChangeMosaic, ChangeRegion, Polygonizer, TileGrid
from workflows.scene.carrier import OpenRun
from workflows.scene.events import Event, Grouping
from workflows.scene.facts import fact_logits, roads_near

LEAST_ROAD = 320.0
"""Square metres of the smallest new road: 40 m by a position of 8 m."""
TOLD_BY_OTHERS = 0.5
"""Share of a road's outline near other changes from which their sentences tell of it, and it is none."""
SIMPLIFY = 2.0
"""Pixels that the outline of a road may be moved to be simpler: a position has 16."""


def road_events(run: OpenRun, others: Sequence[Event]) -> list[Event]:
    """Return the new roads of a run that are no part of the changes ``others``.

    Those are left out that lie outside of what was asked for, and those that the fact heads doubt. A road
    that leaves the area that was searched ends there.
    """
    from rscc.inference.roads import NEW_ALONE, is_sure_of_road

    if run.fact_maps is None:
        return []
    facts = run.captioner.facts
    if facts is None or facts.roads is None:
        return []
    grouping = Grouping(run.pair, run.options)
    events, _ = grouping.events_of(_regions(run), "road")
    if not events:
        return []
    events = _apart(events, others, grouping.reach)
    answers = fact_logits(run, [event.outline for event in events], [event.outline for event in others])
    rules = facts.rules.on_maps()
    events = list(compress(events, (is_sure_of_road(logits, rules) for logits in answers)))
    near = roads_near(run, [event.outline for event in events])
    return list(compress(events, (roads is not None and roads.new >= NEW_ALONE for roads in near)))


def _regions(run: OpenRun) -> list[ChangeRegion]:
    """Return all new roads of the area that was searched."""
    from rscc.inference.roads import NEW

    grid = run.pair.grid
    polygons = Polygonizer(NEW, min_area_px=LEAST_ROAD / grid.gsd**2)
    for band in _bands(run, run.grid):
        polygons.add(band)
    return polygons.finish(simplify_px=SIMPLIFY, transform=grid.transform)


def _apart(events: Sequence[Event], others: Sequence[Event], reach: float) -> list[Event]:
    """Return the events of which most is farther than ``reach`` pixels from all others."""
    around = np.array([event.outline.buffer(reach) for event in others], dtype=object)
    tree = shapely.STRtree(around)

    def share(outline: MultiPolygon) -> float:
        near = shapely.union_all(around[tree.query(outline)])
        return float(outline.intersection(near).area / outline.area)

    return [event for event in events if share(event.outline) < TOLD_BY_OTHERS]


def _bands(run: OpenRun, grid: TileGrid) -> Iterator[Band]:
    """Yield the probability of a new road from top to bottom; nothing where no tile has one."""
    from rscc.inference.roads import NEW, new_roads, road_logits

    assert run.fact_maps is not None
    found = {}
    for tile in grid:
        answers = run.fact_maps.get(tile.window)
        logits = None if answers is None else road_logits(answers)
        if logits is not None and (new := new_roads(logits)).max() >= NEW:
            found[tile.window] = new
    if not found:
        return
    mosaic = ChangeMosaic(grid)
    for tile in grid:
        shape = (tile.window.height, tile.window.width)
        positions = found.get(tile.window)
        probability = np.zeros(shape, np.float32) if positions is None else _enlarged(positions, shape)
        yield from mosaic.add(tile, probability, np.ones(shape, bool))
    yield from mosaic.finish()


def _enlarged(positions: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return (h, w) values of positions as those of pixels, between whose middles they change evenly."""
    factors = [wanted / own for wanted, own in zip(shape, positions.shape, strict=True)]
    pixels: np.ndarray = ndimage.zoom(positions, factors, order=1, mode="nearest", grid_mode=True)
    return pixels
