"""The facts of each change of a scene, and the sentence that they make.

The fact heads answer for every position of the trunk's maps, and a region's answer is a mean of those of its
positions (:mod:`rscc.inference.fact_heads`). So what the search computed of a tile is all that is asked here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage
from shapely.geometry import MultiPolygon

from rscc.text.facts import is_large
from tiling import TileGrid, Window
from workflows.progress import tell
from workflows.scene.captions import Neighbours
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import SURROUNDINGS
from workflows.scene.detection import outline_of, touching
from workflows.scene.events import Event, Grouping, Place
from workflows.scene.layout import compass_words
from workflows.scene.memory import alike, weight_of
from workflows.scene.opening import tile_grid

if TYPE_CHECKING:
    from rscc.inference.facts import GroundedCaption
    from rscc.inference.roads import RoadEvidence
    from tiling.grid import Axis

_NO_BUILDING = frozenset({"came building", "gone building", "came parking lot", "gone road"})
NOT_SO = {"change": frozenset[str](), "road": _NO_BUILDING, "clearing": _NO_BUILDING | {"came trees"}}
"""Answers that are not so of each kind of change, whatever their probability."""
ROAD_REACH = 50.0
"""Pixels around a change in which roads are looked for: across a front garden, 25 m at 0.5 m a pixel."""

# First and last pixel (exclusive) of a tile along an axis, and of the pixels that it answers for.
Span = tuple[int, int, int, int]


def describe_by_facts(
    run: OpenRun, events: Sequence[Event], others: Sequence[Event]
) -> list[GroundedCaption]:
    """Return the caption of every event, with the facts that it states.

    Progress is reported as the stage ``captions``.
    """
    from rscc.inference.facts import map_caption

    outlines = [event.outline for event in events]
    answers = fact_answers(run, outlines, [event.outline for event in others])
    rules = run.captioner.facts.rules.on_maps()  # type: ignore[union-attr]
    alone = [event.outline for event in events if event.kind == "road"]
    captions = []
    for event, (logits, covers), roads in zip(events, answers, roads_near(run, outlines), strict=True):
        place = compass_words(event.geometry, run.ground)
        absent = NOT_SO[event.kind]
        if roads is not None and event.kind != "road":  # the road head has told of that one
            absent |= roads.absent
        if event.kind == "clearing" and any(event.outline.dwithin(road, ROAD_REACH) for road in alone):
            absent |= {"came road"}  # told by the road itself
        facts = replace(
            rules.facts(logits, known=event.kind == "change", absent=absent, covers=covers),
            count=event.count if event.kind == "change" else None,
            sure=event.sure if event.kind == "change" else None,
            place=tuple(place.split("-")) if place else (),
            large=is_large(event.area_m2, event.largest_m2, event.median_m2),
        )
        # Where an object is sure, so is the change.
        captions.append(map_caption(facts, event.probability if facts.sure == 0 else 1.0))
        tell(run.progress, "captions", len(captions), len(events))
    return captions


def by_direction(run: OpenRun, events: Sequence[Event], others: Sequence[Event]) -> list[Event]:
    """Part changes in which buildings came and others are gone, so that each has its own number.

    Where both are sure of a change of several outlines, each outline is asked alone; those of which the same
    is sure are grouped anew. An outline of which neither is sure goes with what most of the others say. Those
    that do not touch what was asked for of the pair are left out.
    """
    several = [number for number, event in enumerate(events) if len(event.places) > 1]
    single = [event.outline for event in events if len(event.places) == 1]
    asked = [events[number].outline for number in several]
    stated = dict(
        zip(several, _directions(run, asked, [*single, *(event.outline for event in others)]), strict=True)
    )
    grouping = Grouping(run.pair, run.options)
    parted: list[Event] = []
    for number, event in enumerate(events):
        parts = [list(event.places)]
        if len(stated.get(number, ())) > 1:
            near = [other.outline for other in (*events[:number], *events[number + 1 :], *others)]
            ways = _directions(run, [outline_of([place.region]) for place in event.places], near)
            parts = _alike(event.places, ways)
        parted += [event] if len(parts) == 1 else [new for part in parts for new in grouping.grouped(part)]
    return list(compress(parted, touching([event.outline for event in parted], run.pair.focus)))


def _directions(
    run: OpenRun, outlines: Sequence[MultiPolygon], others: Sequence[MultiPolygon]
) -> list[frozenset[str]]:
    """Return which of ``came`` and ``gone`` is sure of buildings in each outline; see fact_answers."""
    rules = run.captioner.facts.rules.on_maps()  # type: ignore[union-attr]
    facts = [rules.facts(logits, known=True) for logits, _ in fact_answers(run, outlines, others)]
    return [frozenset(way for way in ("came", "gone") if "building" in getattr(one, way)) for one in facts]


def _alike(places: Sequence[Place], ways: Sequence[frozenset[str]]) -> list[list[Place]]:
    """Part places by the ways that are known of them, the most frequent first; the others go with those."""
    known = [way for way, _ in Counter(filter(None, ways)).most_common()] or [frozenset()]
    return [
        [place for place, way in zip(places, ways, strict=True) if (way or known[0]) == one] for one in known
    ]


def fact_answers(
    run: OpenRun, outlines: Sequence[MultiPolygon], others: Sequence[MultiPolygon]
) -> Iterator[tuple[np.ndarray, dict[str, float]]]:
    """Yield what the fact heads answer for changes with these outlines in pixels.

    That is their logits, (answers,), for the outlines and their surroundings, without those of other changes;
    and the share that each cover had of the ground in the outlines alone. A change that no tile sees whole is
    seen in several, whose positions are one bag.
    """
    from rscc.inference.fact_heads import ANSWERS, bag_logits

    neighbours = Neighbours([*outlines, *others])
    grid = tile_grid(run.pair, run.card, run.options)
    rules = run.captioner.facts.rules  # type: ignore[union-attr]
    for number, parts in enumerate(_seen(run, outlines, grid)):
        maps = {tile: run.fact_maps[tile][: len(ANSWERS)] for tile, _ in parts}  # type: ignore[index]
        logits, (around, own) = _bag_of(maps, parts, partial(regions_of, neighbours, number))
        yield bag_logits(logits, around), rules.covers(logits, own)


def roads_near(run: OpenRun, outlines: Sequence[MultiPolygon]) -> list[RoadEvidence | None]:
    """Return what is known of roads within :data:`ROAD_REACH` of changes; None where the model tells none.

    The tiles are those that tell the facts, so no other is looked at: what one of them does not see of the
    surroundings of a change is left out.
    """
    from rscc.inference.roads import BESIDE_METRES, road_evidence, road_logits, road_maps

    if run.captioner.facts.roads is None:  # type: ignore[union-attr]
        return [None] * len(outlines)
    grid = tile_grid(run.pair, run.card, run.options)
    views = _seen(run, outlines, grid)
    maps = {}
    for tile in _tiles_of(views):
        logits = road_logits(run.fact_maps[tile])  # type: ignore[index]
        assert logits is not None
        maps[tile] = road_maps(logits)
    alone = Neighbours(outlines)
    found: list[RoadEvidence | None] = []
    for number, (outline, parts) in enumerate(zip(outlines, views, strict=True)):
        tile, _ = parts[0]
        if len(parts) == 1:
            parts = [(tile, _around(grid, outline, ROAD_REACH).intersection(tile))]
        probabilities, (weights,) = _bag_of(maps, parts, partial(_near, alone, number))
        metres = tile.width / maps[tile].shape[-1] * run.pair.grid.gsd
        standing, new = probabilities[:, weights > 0]
        found.append(road_evidence(standing, new, metres, BESIDE_METRES))
    return found


def _around(grid: TileGrid, outline: MultiPolygon, reach: float) -> Window:
    """Return the pixels of a change and as far around it as ``reach``."""
    left, top, right, bottom = outline.bounds
    low = max(0, math.floor(left - reach)), max(0, math.floor(top - reach))
    high = min(grid.width, math.ceil(right + reach)), min(grid.height, math.ceil(bottom + reach))
    return Window(*low, high[0] - low[0], high[1] - low[1])


def views_of(grid: TileGrid, outline: MultiPolygon) -> Iterator[tuple[Window, Window]]:
    """Yield the windows of the tiles that tell of a change, and which pixels each answers for.

    The pixels are those of the change and its surroundings, each of them once.
    """
    asked = _around(grid, outline, SURROUNDINGS)
    for above, below, first_row, last_row in _spans(grid.rows, asked.row_off, asked.row_end):
        for start, stop, first, last in _spans(grid.columns, asked.col_off, asked.col_end):
            yield (
                Window(start, above, stop - start, below - above),
                Window(first, first_row, last - first, last_row - first_row),
            )


def _spans(axis: Axis, low: int, high: int) -> list[Span]:
    """Return the tiles along an axis that see the pixels from ``low`` to ``high``: one, if one sees all."""
    spans = list(zip(axis.starts, axis.stops, strict=True))
    whole = [span for span in spans if span[0] <= low and high <= span[1]]
    if whole:
        start, stop = min(whole, key=lambda span: abs(sum(span) - low - high))
        return [(start, stop, low, high)]
    cores = zip(spans, axis.edges, axis.edges[1:], strict=False)
    parts = [(*span, max(low, first), min(high, last)) for span, first, last in cores]
    return [part for part in parts if part[2] < part[3]]


def _complete(run: OpenRun, tiles: Sequence[Window], grid: TileGrid) -> None:
    """Compute the fact maps of those tiles that no search has kept."""
    assert run.fact_maps is not None

    def survey(batch: Sequence[Window]) -> np.ndarray:
        pairs = [run.pair.read(window)[:2] for window in batch]
        with run.naming(batch):
            return run.captioner.survey(*(np.stack(dates) for dates in zip(*pairs, strict=True)))[1]

    missing = [tile for tile in tiles if tile not in run.fact_maps]
    for same in alike(missing, lambda window: (window.height, window.width)):
        for batch, maps in run.sizes.run(same, survey, weight_of(grid, run.card)):
            run.fact_maps.update(zip(batch, maps, strict=True))


def _bag_of(
    maps: Mapping[Window, np.ndarray],
    parts: Sequence[tuple[Window, Window]],
    region: Callable[[Window], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of all parts of tiles, see :func:`_bag`, one after the other."""
    bags = [_bag(maps[tile], tile, part, region) for tile, part in parts]
    values, weights = (np.concatenate(each, -1) for each in zip(*bags, strict=True))
    return values, weights


def _bag(
    maps: np.ndarray, tile: Window, part: Window, region: Callable[[Window], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of a part of a tile: maps (answers, n), and how much of each lies in some regions.

    ``region`` returns which pixels of a window do, (regions, h, w) bool; the latter is (regions, n).
    """
    cell = tile.width // maps.shape[-1]
    rows, cols = part.slices(tile)
    rows, cols = (slice(one.start // cell, -(-one.stop // cell)) for one in (rows, cols))
    height, width = rows.stop - rows.start, cols.stop - cols.start
    block = Window(
        tile.col_off + cell * cols.start, tile.row_off + cell * rows.start, cell * width, cell * height
    )
    inside = (slice(None), *part.slices(block))
    pixels = region(block)
    asked = np.zeros(pixels.shape, np.float32)
    asked[inside] = pixels[inside]
    weights = asked.reshape(-1, height, cell, width, cell).mean((2, 4))
    return maps[:, rows, cols].reshape(len(maps), -1).astype(np.float64), weights.reshape(len(weights), -1)


def regions_of(neighbours: Neighbours, event: int, window: Window) -> np.ndarray:
    """Return the pixels (2, h, w) bool of a window that an event's facts are asked of, and its own."""
    own, others = neighbours.masks(event, window)
    return np.stack([_within(own, SURROUNDINGS) & ~others, own])


def _near(outlines: Neighbours, event: int, window: Window) -> np.ndarray:
    """Return the pixels (1, h, w) bool of a window within :data:`ROAD_REACH` of an event."""
    own, _ = outlines.masks(event, window)
    return _within(own, ROAD_REACH)[None]


def _within(own: np.ndarray, reach: float) -> np.ndarray:
    """Return the pixels at most so far from those of (h, w) bool; none where there are none."""
    near: np.ndarray = ndimage.distance_transform_edt(~own) <= reach
    return near if own.any() else own


def _seen(
    run: OpenRun, outlines: Sequence[MultiPolygon], grid: TileGrid
) -> list[list[tuple[Window, Window]]]:
    """Return :func:`views_of` each change; what their tiles answer is there then."""
    views = [list(views_of(grid, outline)) for outline in outlines]
    _complete(run, _tiles_of(views), grid)
    return views


def _tiles_of(views: Sequence[Sequence[tuple[Window, Window]]]) -> list[Window]:
    tiles = {tile for each in views for tile, _ in each}
    return sorted(tiles, key=lambda window: (window.row_off, window.col_off))
