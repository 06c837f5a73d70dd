"""From regions to changes: outlines near each other are one change, parted by what came and what is gone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress

import shapely
from scipy import ndimage
from shapely.geometry import MultiPolygon

from rscc.facts.unfamiliar import least_mean
from tiling import ChangeRegion
from workflows.options import SceneOptions
from workflows.scene.evidence import evidence_of, familiarities, wholes_of
from workflows.scene.found import Changes, FoundChange, Outline, grouped, in_order, large, touching
from workflows.scene.maps import ChangeMaps
from workflows.scene.outline import lone_changes, lone_regions, outlines_of, right_angled
from workflows.scene.pixels import rasterize_outlines, window_around

EDGE = 2
"""Pixels from the edge of the data up to which a change may go on beyond it: simplifying moves outlines."""


def group(regions: Iterable[ChangeRegion], maps: ChangeMaps, options: SceneOptions) -> Changes:
    """Return what a person would call changes: regions grouped, large enough, in order from north to south.

    With fact heads, changes in which some buildings came and others are gone are parted, and new roads and
    clearings that lie by themselves are added.
    """
    grid = maps.frame.grid
    least = options.smallest_outline_for(grid.gsd)
    maps.open()
    with ThreadPoolExecutor(1, thread_name_prefix="lone") as pool:
        lone = pool.submit(lone_regions, maps)  # reads other maps than the rest
        changes = grouped(outlines_of(regions, grid, least), options.group_distance_for(grid.gsd) / grid.gsd)
        inside = touching(changes, maps.frame.focus)
        found, others = large(compress(changes, inside), options), list(compress(changes, ~inside))
        if options.regularize:
            found = large(right_angled(found, grid, least), options)
        if maps.rules is not None:
            found = _with_wholes(_parted(found, others, maps, options), others, maps)
            found += lone_changes(lone.result(), [*found, *others], maps, options)
    found = [_with_edge(change, maps) for change in in_order(_sure_where_unfamiliar(found, maps, options))]
    return Changes(found, others)


def _parted(
    changes: Sequence[FoundChange], others: Sequence[FoundChange], maps: ChangeMaps, options: SceneOptions
) -> list[FoundChange]:
    """Part changes in which buildings came and others are gone, so that each has its own number.

    Where both are sure of a change of several outlines, each outline is looked at by itself; those with the
    same answer are grouped again. An outline of which neither is sure goes with most of the others. Parts
    that do not touch the pixels that were asked for are left out.
    """
    every = [change.pixels for change in (*changes, *others)]
    several = [number for number, change in enumerate(changes) if len(change.outlines) > 1]
    distance = options.group_distance_for(maps.frame.grid.gsd) / maps.frame.grid.gsd
    ways = dict(zip(several, _directions(every, several, maps), strict=True))
    result: list[FoundChange] = []
    for number, change in enumerate(changes):
        if len(ways.get(number, ())) < 2:
            result.append(change)
            continue
        outlines = [
            MultiPolygon(shapely.get_parts(one.region.pixel_polygon).tolist()) for one in change.outlines
        ]
        rest = [*every[:number], *every[number + 1 :]]
        each = _directions([*outlines, *rest], range(len(outlines)), maps)
        parts = _by_direction(change.outlines, each)
        result += [change] if len(parts) == 1 else [new for part in parts for new in grouped(part, distance)]
    return list(compress(result, touching(result, maps.frame.focus)))


def _with_wholes(
    changes: Sequence[FoundChange], others: Sequence[FoundChange], maps: ChangeMaps
) -> list[FoundChange]:
    """Say of each change of what buildings its outlines are fragments, so that those are counted."""
    outlines = [change.pixels for change in (*changes, *others)]
    wholes = wholes_of(outlines, maps, range(len(changes)))
    return [change.with_known(wholes=one) for change, one in zip(changes, wholes, strict=True)]


def _sure_where_unfamiliar(
    changes: Sequence[FoundChange], maps: ChangeMaps, options: SceneOptions
) -> list[FoundChange]:
    """Measure how familiar the ground of each change is; leave out faint ones on unfamiliar ground.

    New roads stay: on validation data of other kinds most of the faint ones are right.
    """
    threshold = maps.about["settings"]["threshold"] if options.threshold is None else options.threshold
    measures = familiarities([change.pixels for change in changes], maps)
    measured = [change.with_known(familiarity=one) for change, one in zip(changes, measures, strict=True)]
    return [
        change
        for change in measured
        if change.kind == "road" or change.probability >= least_mean(threshold, change.familiarity)
    ]


def _directions(
    outlines: Sequence[MultiPolygon], numbers: Sequence[int], maps: ChangeMaps
) -> list[frozenset[str]]:
    """Return for some of the outlines which of ``came`` and ``gone`` is sure of buildings in it."""
    rules = maps.rules
    assert rules is not None
    facts = [rules.facts(one.logits, known=True) for one in evidence_of(outlines, maps, numbers)]
    return [frozenset(way for way in ("came", "gone") if "building" in getattr(one, way)) for one in facts]


def _by_direction(outlines: Sequence[Outline], ways: Sequence[frozenset[str]]) -> list[list[Outline]]:
    """Part outlines by their directions, the most frequent first; those without go with the first."""
    known = [way for way, _ in Counter(filter(None, ways)).most_common()] or [frozenset()]
    return [
        [outline for outline, own in zip(outlines, ways, strict=True) if (own or known[0]) == way]
        for way in known
    ]


def _with_edge(change: FoundChange, maps: ChangeMaps) -> FoundChange:
    """Say of a change whether it touches the edge of the maps or of the data, beyond which it may go on."""
    area, around = maps.area, window_around(change.pixels, 1)
    cut = around != around.intersection(area)
    if not cut:
        window = window_around(change.pixels, EDGE).intersection(area)
        missing = maps.nodata(window)
        cut = bool(missing.any()) and bool(
            (
                ndimage.binary_dilation(missing, iterations=EDGE)
                & rasterize_outlines([change.pixels], window)
            ).any()
        )
    return change.with_known(cut_by_edge=cut) if cut else change
