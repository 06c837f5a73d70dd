"""From maps to outlines: threshold, trace, simplify, filter by area, and write in degrees.

The change head knows buildings alone. Other heads answer for positions of the trunk's last maps, 8 m of
ground with rscc-base (:mod:`rscc.facts.lone_changes`). Where they find a road or a clearing, its outline is
that of those positions. What lies beside a building that changed is part of that building's sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

import shapely
from shapely.affinity import affine_transform
from shapely.geometry import MultiPolygon, Polygon

from tiling import Band, ChangeRegion, Grid, geodesic_area_m2, polygonize, polygons_in, regularized, to_wgs84
from workflows.options import SceneOptions
from workflows.report.geojson import joined, parts_of, rounded
from workflows.scene.evidence import ROAD_REACH, evidence_of
from workflows.scene.found import FoundChange, Outline, grouped, large, touching
from workflows.scene.maps import ChangeMaps
from workflows.scene.pixels import clipped

if TYPE_CHECKING:
    from rscc.facts.lone_changes import LoneKind

REGULAR_TOLERANCE = 2.0
"""Pixels: what is smaller is straightened where outlines get right angles."""


def outline(bands: Iterator[Band], threshold: float, grid: Grid, options: SceneOptions) -> list[ChangeRegion]:
    """Return the regions of at least ``threshold`` in bands of change probability, from top to bottom.

    Outlines are joined in whole pixels, then filtered, simplified, and moved to the map once.
    """
    # Half the area here, all of it once the outline that is reported is known: simplifying moves edges.
    smallest = 0.5 * options.smallest_outline_for(grid.gsd) / grid.gsd**2
    # Closed also when tracing fails, so that the threads behind the bands end.
    with closing(bands) as given:  # type: ignore[type-var]
        return polygonize(
            given, threshold, min_area_px=smallest, simplify_px=options.simplify, transform=grid.transform
        )


def outlines_of(
    regions: Iterable[ChangeRegion], grid: Grid, min_area: float, kind: str = "change"
) -> list[Outline]:
    """Return the regions whose outline, as it is written, has at least ``min_area`` square metres."""
    outlines = []
    for region in regions:
        geometry = _written(to_wgs84(region.polygon, grid.crs), min_area)
        if not geometry.is_empty and (area := geodesic_area_m2(geometry)) >= min_area:
            outlines.append(Outline(region, geometry, area, kind))
    return outlines


def right_angled(changes: Iterable[FoundChange], grid: Grid, min_area: float) -> list[FoundChange]:
    """Give outlines right angles where that hardly changes them, see :func:`tiling.regularized`.

    An outline that would fall below ``min_area`` square metres stays as it was.
    """

    def straightened(old: Outline) -> Outline:
        shape = regularized(old.region.pixel_polygon, REGULAR_TOLERANCE)
        if shape is old.region.pixel_polygon:
            return old
        return (outlines_of([_with_outline(old.region, shape, grid)], grid, min_area) or [old])[0]

    return [replace(change, outlines=tuple(map(straightened, change.outlines))) for change in changes]


def cut_out(
    change: FoundChange, others: MultiPolygon | Polygon, grid: Grid, min_area: float
) -> FoundChange | None:
    """Return a change without ground, in pixels, that others have; None where no outline is left.

    An outline that is parted by it becomes several, of at least ``min_area`` square metres each.
    """
    regions = [
        _with_outline(replace(region, area_px=max(1, round(part.area))), part, grid)
        for region in change.regions
        for part in polygons_in(region.pixel_polygon.difference(others))
    ]
    outlines = outlines_of(regions, grid, min_area, change.kind)
    return FoundChange(tuple(outlines)) if outlines else None


def _with_outline(region: ChangeRegion, shape: Polygon | MultiPolygon, grid: Grid) -> ChangeRegion:
    """Return a region with another outline in pixels."""
    polygon = affine_transform(shape, grid.transform.to_shapely())
    return replace(region, pixel_polygon=shape, polygon=polygon)


def _written(shape: Polygon | MultiPolygon, min_area: float) -> Polygon | MultiPolygon:
    """Return an outline in degrees as it is written: one, without scraps, where rounding splits it."""
    written = rounded(shape)
    if isinstance(shape, MultiPolygon) or isinstance(written, Polygon):
        return written
    parts = [(part, geodesic_area_m2(part)) for part in parts_of(written)]
    least = min(min_area, max((area for _, area in parts), default=0.0))
    return joined([part for part, area in parts if area >= least])


TOLD_BY_OTHERS = 0.5
"""Share of an outline near other changes from which it belongs to them."""
SIMPLIFY = 2.0
"""Pixels that an outline may be moved to be simpler: a position has 16."""


def lone_regions(maps: ChangeMaps) -> list[list[ChangeRegion]]:
    """Return the regions of each kind of lone change that maps have; reads the change probability alone."""
    if not maps.kinds:
        return []
    from rscc.facts.lone_changes import KINDS

    gsd, transform = maps.frame.grid.gsd, maps.frame.grid.transform
    return [
        polygonize(
            maps.bands(band),
            kind.least,
            min_area_px=kind.least_m2 / gsd**2,
            simplify_px=SIMPLIFY,
            transform=transform,
        )
        if any(row.lone[band - 1] for row in maps.rows.values())
        else []
        for band, kind in enumerate(KINDS, 1)
    ]


def lone_changes(
    regions: Iterable[Sequence[ChangeRegion]],
    others: Sequence[FoundChange],
    maps: ChangeMaps,
    options: SceneOptions,
) -> list[FoundChange]:
    """Return the new roads and clearings that are no part of the changes ``others``.

    Those outside of the pixels that were asked for are left out, and those that the fact heads doubt. Ground
    of other changes is not theirs: areas add up. ``regions`` are those of :func:`lone_regions`.
    """
    from rscc.facts.lone_changes import KINDS

    found: list[FoundChange] = []
    for kind, of_kind in zip(KINDS, regions, strict=False):
        found += _of_kind(kind, of_kind, [*others, *found], maps, options)
    return found


def _of_kind(
    kind: LoneKind,
    regions: Sequence[ChangeRegion],
    others: Sequence[FoundChange],
    maps: ChangeMaps,
    options: SceneOptions,
) -> list[FoundChange]:
    grid, rules = maps.frame.grid, maps.rules
    assert rules is not None
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
        left, top, right, bottom = outline.bounds
        box = left - reach, top - reach, right + reach, bottom + reach
        around = shapely.union_all([clipped(other, box).buffer(reach) for other in near])
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
