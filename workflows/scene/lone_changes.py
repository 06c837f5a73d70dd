"""Changes by themselves, where no building tells of them: new roads and clearings.

The change head knows buildings alone. Other heads answer for positions of the trunk's last maps, 8 m of
ground, in the tiles that the search looked at (:mod:`rscc.inference.lone_changes`). Where they find one, its
outline is that of those positions. What lies beside a building that changed is told by its sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
import shapely
from shapely.geometry import MultiPolygon

from tiling import Band, ChangeMosaic, ChangeRegion, TileGrid, polygonize
from workflows.scene.carrier import OpenRun
from workflows.scene.events import Event, Grouping, cut_out, large
from workflows.scene.facts import ROAD_REACH, fact_answers

if TYPE_CHECKING:
    from rscc.inference.lone_changes import LoneKind

TOLD_BY_OTHERS = 0.5
"""Share of an outline near other changes from which their sentences tell of it, and it is none."""
SIMPLIFY = 2.0
"""Pixels that an outline may be moved to be simpler: a position has 16."""


def lone_changes(run: OpenRun, others: Sequence[Event]) -> list[Event]:
    """Return the new roads and clearings of a run that keeps fact maps, no part of the changes ``others``.

    Those are left out that lie outside of what was asked for, and those that the fact heads doubt. What
    leaves the area that was searched ends there, and ground of other changes is not theirs: areas add up.
    """
    from rscc.inference.lone_changes import KINDS

    found: list[Event] = []
    for kind in KINDS:
        found += _of_kind(run, kind, [*others, *found])
    return found


def _of_kind(run: OpenRun, kind: LoneKind, others: Sequence[Event]) -> list[Event]:
    grouping = Grouping(run.pair, run.options)
    events, _ = grouping.events_of(_regions(run, kind), kind.name)
    events = [event for event in large(events, run.options) if event.probability >= kind.least_mean]
    if not events:
        return []
    told = shapely.STRtree([event.outline for event in others])
    events = _apart(events, told, max(grouping.reach, ROAD_REACH))  # roads so near are told of there
    answers = fact_answers(run, [event.outline for event in events], [event.outline for event in others])
    rules = run.captioner.facts.rules.on_maps()  # type: ignore[union-attr]
    sure = (rules.is_sure(kind.answer, logits[kind.answer]) for logits, _ in answers)
    return large(_beside(run, compress(events, sure), told), run.options)


def _regions(run: OpenRun, kind: LoneKind) -> list[ChangeRegion]:
    """Return all of one kind in the area that was searched."""
    grid = run.pair.grid
    least, bands = kind.least_m2 / grid.gsd**2, _bands(run, run.grid, kind)
    return polygonize(bands, kind.least, min_area_px=least, simplify_px=SIMPLIFY, transform=grid.transform)


def _apart(events: Sequence[Event], others: shapely.STRtree, reach: float) -> list[Event]:
    """Return the events of which most is farther than ``reach`` pixels from all other outlines."""

    def share(outline: MultiPolygon) -> float:
        near = others.geometries[others.query(outline, predicate="dwithin", distance=reach)]
        around = shapely.union_all([one.buffer(reach) for one in near])
        return float(outline.intersection(around).area / outline.area)

    return [event for event in events if share(event.outline) < TOLD_BY_OTHERS]


def _beside(run: OpenRun, events: Iterable[Event], others: shapely.STRtree) -> Iterator[Event]:
    """Yield the events without the ground of other outlines."""
    least = run.options.least_outline_for(run.pair.grid.gsd)
    for event in events:
        near = others.geometries[others.query(event.outline, predicate="intersects")]
        left = cut_out(run.pair, event, shapely.union_all(near), least) if len(near) else event
        if left is not None:
            yield left


def _bands(run: OpenRun, grid: TileGrid, kind: LoneKind) -> Iterator[Band]:
    """Yield the probability of one kind from top to bottom; nothing where no tile has any."""
    assert run.fact_maps is not None
    rules = run.captioner.facts.rules  # type: ignore[union-attr]
    found = {}
    for tile in grid:
        answers = run.fact_maps.get(tile.window)
        if answers is not None and (positions := kind.in_tile(answers, rules)) is not None:
            found[tile.window] = positions
    if not found:
        return
    mosaic = ChangeMosaic(grid)
    for tile in grid:
        shape = (tile.window.height, tile.window.width)
        positions = found.get(tile.window)
        probability = None if positions is None else _enlarged(positions, shape)
        yield from mosaic.add(tile, probability, np.ones(shape, bool))
    yield from mosaic.finish()


def _enlarged(positions: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return (h, w) values of positions as those of pixels, between whose middles they change evenly."""
    down, across = (_shares(*sides) for sides in zip(positions.shape, shape, strict=True))
    pixels: np.ndarray = down @ positions @ across.T
    return pixels


def _shares(positions: int, pixels: int) -> np.ndarray:
    """Return which share (pixels, positions) each of a row of positions has in a row of pixels."""
    middles = (np.arange(pixels) + 0.5) * positions / pixels - 0.5
    middles = np.clip(middles, 0, positions - 1)
    apart = np.abs(middles[:, None] - np.arange(positions))
    return np.maximum(1 - apart, 0).astype(np.float32)
