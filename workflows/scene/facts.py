"""The facts of each change of a scene, and the sentence that they make.

The fact heads answer for every position of the trunk's maps, and a region's answer is a mean of those of its
positions (:mod:`rscc.inference.fact_heads`). So what the search computed of a tile is all that is asked here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage
from scipy.special import logsumexp
from shapely.geometry import MultiPolygon

from tiling import TileGrid, Window
from workflows.progress import tell
from workflows.report.change import LARGE_BUILDING
from workflows.scene.captions import Neighbours
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import SURROUNDINGS
from workflows.scene.events import Event
from workflows.scene.failures import naming_windows
from workflows.scene.layout import compass_words
from workflows.scene.memory import weight_of
from workflows.scene.opening import tile_grid

if TYPE_CHECKING:
    from rscc.inference.facts import GroundedCaption
    from tiling.grid import Axis

# First and last pixel (exclusive) of a tile along an axis, and of the pixels that it answers for.
Span = tuple[int, int, int, int]


def describe_by_facts(
    run: OpenRun, events: Sequence[Event], others: Sequence[Event]
) -> list[GroundedCaption]:
    """Return the caption of every event, with the facts that it states.

    Progress is reported as the stage ``captions``.
    """
    from rscc.inference.facts import map_caption

    answers = fact_logits(run, [event.outline for event in events], [event.outline for event in others])
    rules = run.captioner.facts.rules.on_maps()  # type: ignore[union-attr]
    captions = []
    for event, logits in zip(events, answers, strict=True):
        place = compass_words(event.geometry, run.ground)
        facts = replace(
            rules.facts(logits, known=True),
            count=event.count,
            place=tuple(place.split("-")) if place else (),
            large=event.median_m2 >= LARGE_BUILDING,
        )
        captions.append(map_caption(facts))
    return captions


def fact_logits(
    run: OpenRun, outlines: Sequence[MultiPolygon], others: Sequence[MultiPolygon]
) -> list[np.ndarray]:
    """Return the logits of the fact heads, (answers,), for changes with these outlines in pixels.

    What is asked about is the outlines and their surroundings, without those of other changes. A change that
    no tile sees whole is seen in several, whose positions are one bag.
    """
    neighbours = Neighbours([*outlines, *others])
    grid = tile_grid(run.pair, run.card, run.options)
    views = [list(views_of(grid, outline)) for outline in outlines]
    _complete(run, sorted({tile for each in views for tile, _ in each}, key=_place), grid)
    answers = []
    for number, parts in enumerate(views):
        bags = [_bag(run.fact_maps[tile], tile, part, neighbours, number) for tile, part in parts]  # type: ignore[index]
        logits, weights = (np.concatenate(each, -1) for each in zip(*bags, strict=True))
        answers.append(logsumexp(logits, axis=1, b=weights) - np.log(weights.sum()))
        tell(run.progress, "captions", number + 1, len(outlines))
    return answers


def views_of(grid: TileGrid, outline: MultiPolygon) -> Iterator[tuple[Window, Window]]:
    """Yield the windows of the tiles that tell of a change, and which pixels each answers for.

    The pixels are those of the change and its surroundings, each of them once.
    """
    left, top, right, bottom = outline.bounds
    low = max(0, math.floor(left - SURROUNDINGS)), max(0, math.floor(top - SURROUNDINGS))
    high = (
        min(grid.width, math.ceil(right + SURROUNDINGS)),
        min(grid.height, math.ceil(bottom + SURROUNDINGS)),
    )
    for above, below, first_row, last_row in _spans(grid.rows, low[1], high[1]):
        for start, stop, first, last in _spans(grid.columns, low[0], high[0]):
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
    """Compute the fact maps of those tiles that no search has kept; those of one size at a time."""
    assert run.fact_maps is not None

    def survey(batch: Sequence[Window]) -> np.ndarray:
        pairs = [run.pair.read(window)[:2] for window in batch]
        with naming_windows(run, batch):
            return run.captioner.survey(*(np.stack(dates) for dates in zip(*pairs, strict=True)))[1]

    missing = sorted((tile for tile in tiles if tile not in run.fact_maps), key=_size)
    for _, same in groupby(missing, key=_size):
        for batch, maps in run.sizes.run(list(same), survey, weight_of(grid, run.card)):
            run.fact_maps.update(zip(batch, maps, strict=True))


def _bag(
    logits: np.ndarray, tile: Window, part: Window, neighbours: Neighbours, event: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of a part of a tile: logits (answers, n), and how much of each is asked about."""
    cell = tile.width // logits.shape[-1]
    rows, cols = part.slices(tile)
    rows, cols = (slice(one.start // cell, -(-one.stop // cell)) for one in (rows, cols))
    height, width = rows.stop - rows.start, cols.stop - cols.start
    block = Window(
        tile.col_off + cell * cols.start, tile.row_off + cell * rows.start, cell * width, cell * height
    )
    asked = np.zeros((block.height, block.width), np.float32)
    inside = part.slices(block)
    asked[inside] = region_of(neighbours, event, block)[inside]
    weights = asked.reshape(height, cell, width, cell).mean((1, 3))
    return logits[:, rows, cols].reshape(len(logits), -1).astype(np.float64), weights.ravel()


def region_of(neighbours: Neighbours, event: int, window: Window) -> np.ndarray:
    """Return the pixels (h, w) bool of a window that an event's facts are asked of."""
    own, others = neighbours.masks(event, window)
    near: np.ndarray = ndimage.distance_transform_edt(~own) <= SURROUNDINGS
    return near & ~others if own.any() else own


def _place(window: Window) -> tuple[int, int]:
    return window.row_off, window.col_off


def _size(window: Window) -> tuple[int, int]:
    return window.height, window.width
