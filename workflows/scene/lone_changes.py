"""Changes by themselves, where no building tells of them: new roads and clearings.

The change head knows buildings alone. Other heads answer for positions of the trunk's last maps, 8 m of
ground with rscc-base (:mod:`rscc.facts.lone_changes`). Where they find a road or a clearing, its outline is
that of those positions. What lies beside a building that changed is part of that building's sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING

import shapely
from shapely.geometry import MultiPolygon

from tiling import polygonize
from workflows.options import SceneOptions
from workflows.scene.evidence import ROAD_REACH, evidence_of
from workflows.scene.found import FoundChange, grouped, large, touching
from workflows.scene.maps import ChangeMaps
from workflows.scene.outline import cut_out, outlines_of

if TYPE_CHECKING:
    from rscc.facts.lone_changes import LoneKind

TOLD_BY_OTHERS = 0.5
"""Share of an outline near other changes from which it belongs to them."""
SIMPLIFY = 2.0
"""Pixels that an outline may be moved to be simpler: a position has 16."""


def lone_changes(others: Sequence[FoundChange], maps: ChangeMaps, options: SceneOptions) -> list[FoundChange]:
    """Return the new roads and clearings that are no part of the changes ``others``.

    Those outside of the pixels that were asked for are left out, and those that the fact heads doubt. Ground
    of other changes is not theirs: areas add up.
    """
    from rscc.facts.lone_changes import KINDS

    found: list[FoundChange] = []
    for band, kind in enumerate(KINDS[: maps.kinds], 1):
        if any(row.lone[band - 1] for row in maps.rows.values()):
            found += _of_kind(kind, band, [*others, *found], maps, options)
    return found


def _of_kind(
    kind: LoneKind, band: int, others: Sequence[FoundChange], maps: ChangeMaps, options: SceneOptions
) -> list[FoundChange]:
    grid, rules = maps.frame.grid, maps.rules
    assert rules is not None
    regions = polygonize(
        maps.bands(band),
        kind.least,
        min_area_px=kind.least_m2 / grid.gsd**2,
        simplify_px=SIMPLIFY,
        transform=grid.transform,
    )
    least, distance = options.smallest_outline_for(grid.gsd), options.group_distance_for(grid.gsd) / grid.gsd
    changes = grouped(outlines_of(regions, grid, least, kind.name), distance)
    changes = large(compress(changes, touching(changes, maps.frame.focus)), options)
    changes = [change for change in changes if change.probability >= kind.least_mean]
    if not changes:
        return []
    tree = shapely.STRtree([other.pixels for other in others])
    changes = _apart(changes, tree, max(distance, ROAD_REACH))  # roads so near belong to the others
    outlines = [change.pixels for change in (*changes, *others)]
    found = evidence_of(outlines, maps, range(len(changes)))
    sure = [rules.is_sure(kind.answer, evidence.logits[kind.answer]) for evidence in found]
    return large(_without_ground_of(compress(changes, sure), tree, maps, least), options)


def _apart(changes: Sequence[FoundChange], others: shapely.STRtree, reach: float) -> list[FoundChange]:
    """Return the changes of which most is farther than ``reach`` pixels from all other outlines."""

    def share(outline: MultiPolygon) -> float:
        near = others.geometries[others.query(outline, predicate="dwithin", distance=reach)]
        around = shapely.union_all([other.buffer(reach) for other in near])
        return float(outline.intersection(around).area / outline.area)

    return [change for change in changes if share(change.pixels) < TOLD_BY_OTHERS]


def _without_ground_of(
    changes: Iterable[FoundChange], others: shapely.STRtree, maps: ChangeMaps, least: float
) -> Iterator[FoundChange]:
    """Yield the changes without the ground of other outlines."""
    for change in changes:
        near = others.geometries[others.query(change.pixels, predicate="intersects")]
        left = cut_out(change, shapely.union_all(near), maps.frame.grid, least) if len(near) else change
        if left is not None:
            yield left
