"""A change that was found: its outlines on the grid and on the map, and what they measure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any, TypeVar

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon

from rscc.facts.objects import both_sizes
from tiling import ChangeRegion, Window, geodesic_area_m2, group_regions
from tiling.outlines import components
from workflows.options import SceneOptions
from workflows.report.change import GIVEN, SEEN, Change
from workflows.report.geojson import rounded
from workflows.scene.given.layer import Given
from workflows.scene.pixels import rasterize_outlines, window_around
from workflows.scene.words.location import arrangement, compass_words

PARTED_GSD = 2.0
"""Metres per pixel up to which a building has a shape, by which those that touch are parted."""
LARGEST_PARTED = 4096**2
"""Pixels of the box around an outline in which objects are told apart; a larger outline counts as one."""
CONVEX = 0.75
"""Pixels from the convex hull up to which an outline has no waist: half of what parts two objects."""
SURE, PART = 0.86, 0.5
"""Mean probability of change of an outline, and share of the area of the largest object in it, from which its
objects are sure. On validation scenes 322 of 323 outlines without others hold the number that is counted, of
the rest 9 of 21."""
TOUCHING = 0.1
"""Pixels up to which the parts of a given multipolygon touch."""
OneChange = TypeVar("OneChange", "FoundChange", Change)
"""A change that was found, or one of a report."""


@dataclass(frozen=True)
class Outline:
    """A region with its outline as it is written (WGS84, rounded) and the geodesic area of that outline.

    Attributes:
        kind: ``change`` of what the change head found, ``given`` of what a user gave, else see
            :class:`rscc.facts.lone_changes.LoneKind`.
        objects: outlines that lie in it and are its objects, where it is a frame around them.
    """

    region: ChangeRegion
    geometry: Polygon | MultiPolygon
    area_m2: float
    kind: str = "change"
    objects: tuple[Outline, ...] = ()

    @property
    def regions(self) -> list[ChangeRegion]:
        """What its facts are measured on: its own region, or those of its objects."""
        return [one.region for one in self.objects] or [self.region]

    @property
    def objects_m2(self) -> tuple[float, ...]:
        """Square metres of each object in it: buildings that touch are parted."""
        if self.objects:
            return tuple(area for one in self.objects for area in one.objects_m2)
        return self._objects[0]

    @property
    def sure(self) -> int:
        """How many of its objects are certain, see :data:`SURE` and :data:`PART`."""
        if self.objects:
            return sum(one.sure for one in self.objects)
        if self.region.mean_probability < SURE:
            return 0
        areas, surer = self._objects
        return sum(area >= PART * max(areas) for area in surer)

    @cached_property
    def _objects(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Square metres of each object, and of those that are certainly apart."""
        alone = (self.area_m2,)
        if self.kind == GIVEN:
            apart = _parts_apart(self.region.pixel_polygon) * self.area_m2
            return tuple(apart.tolist()), tuple(apart.tolist())
        if self.kind != "change":
            return alone, alone
        outline = self.region.pixel_polygon
        window = window_around(outline)
        if self.area_m2 > PARTED_GSD**2 * outline.area or window.width * window.height > LARGEST_PARTED:
            return alone, alone
        if _is_convex(outline):
            return alone, alone
        areas, surer = (
            tuple((self.area_m2 * sizes / sizes.sum()).tolist())
            for sizes in both_sizes(rasterize_outlines([outline], window))
        )
        return areas, surer


def _parts_apart(outline: Polygon | MultiPolygon) -> np.ndarray:
    """Return the share of the area that each part has; parts that touch are one."""
    parts = shapely.get_parts(outline)
    if len(parts) == 1:
        return np.ones(1)
    near = shapely.STRtree(parts).query(parts, predicate="dwithin", distance=TOUCHING)
    count, group = components(len(parts), near.T)
    areas: np.ndarray = np.bincount(group, shapely.area(parts), minlength=count)
    return areas / areas.sum()


def _is_convex(outline: Polygon | MultiPolygon) -> bool:
    """Return whether an outline has no waist, by which objects that touch are parted."""
    if not isinstance(outline, Polygon) or outline.interiors:
        return False
    corners = shapely.points(shapely.get_coordinates(outline))
    return bool(shapely.distance(corners, outline.convex_hull.exterior).max() <= CONVEX)


_OF_OUTLINES = ("geometry", "area_m2", "pixels")


@dataclass(frozen=True)
class FoundChange:
    """One change of the report before it has words: an outline, or outlines near each other.

    Attributes:
        wholes: estimated square metres of each object, where its outlines are only fragments of them; None
            where they are whole.
        familiarity: how like the training data its ground is, 0..1; None where that was not measured.
        given: what is known of an outline that a user gave; None of what was found.
    """

    outlines: tuple[Outline, ...]
    cut_by_edge: bool = False
    wholes: tuple[float, ...] | None = None
    familiarity: float | None = None
    given: Given | None = None

    @property
    def kind(self) -> str:
        """What was found: all its outlines are of one kind."""
        return self.outlines[0].kind

    @property
    def regions(self) -> list[ChangeRegion]:
        """The regions that its facts are measured on."""
        return [region for outline in self.outlines for region in outline.regions]

    @property
    def is_seen(self) -> bool:
        """Whether the change head sees a change: in most of a given outline, or as objects in it."""
        if self.given is None:
            return self.kind == "change"
        return (self.given.supported or 0.0) >= SEEN or any(one.objects for one in self.outlines)

    @cached_property
    def geometry(self) -> Polygon | MultiPolygon:
        """What is written: the outline, or all outlines as one geometry."""
        if len(self.outlines) == 1:
            return self.outlines[0].geometry
        union = shapely.union_all([outline.geometry for outline in self.outlines])
        return union if self.given is not None else rounded(union)

    @cached_property
    def area_m2(self) -> float:
        """Geodesic area in square metres."""
        if len(self.outlines) == 1:
            return self.outlines[0].area_m2
        return geodesic_area_m2(self.geometry)

    def with_known(self, **known: Any) -> FoundChange:
        """Return the change with more known of it; what was computed of its outlines is kept."""
        change = replace(self, **known)
        kept = {name: self.__dict__[name] for name in _OF_OUTLINES if name in self.__dict__}
        change.__dict__.update(kept)
        return change

    @cached_property
    def objects_m2(self) -> tuple[float, ...]:
        """Square metres of each of its objects."""
        if self.wholes is not None:
            return self.wholes
        return tuple(area for outline in self.outlines for area in outline.objects_m2)

    @property
    def count(self) -> int:
        """How many objects it has."""
        return len(self.objects_m2)

    @property
    def sure(self) -> int:
        """How many of its objects are certain."""
        return min(self.count, sum(outline.sure for outline in self.outlines))

    @property
    def largest_m2(self) -> float:
        """Area of its largest object in square metres."""
        return max(self.objects_m2)

    @property
    def median_m2(self) -> float:
        """Median area of its objects in square metres."""
        return median(self.objects_m2)

    @property
    def arrangement(self) -> str | None:
        """How its outlines lie, see :func:`workflows.scene.words.location.arrangement`.

        None where outlines are no objects: of several objects in one, and of parts of a road or a building.
        """
        outlines = [region.pixel_polygon for region in self.regions]
        is_part = self.kind != "change" or self.wholes is not None
        parts = is_part or len(outlines) == 1 < self.count
        return None if parts else arrangement(outlines)

    @property
    def probability(self) -> float:
        """Mean probability of change of its pixels, 0..1."""
        pixels = [region.area_px for region in self.regions]
        return float(np.average([region.mean_probability for region in self.regions], weights=pixels))

    @cached_property
    def pixels(self) -> MultiPolygon:
        """All its outlines in pixels of the working grid."""
        return shapely.multipolygons(shapely.get_parts([region.pixel_polygon for region in self.regions]))

    def measured(self, ground: Polygon | MultiPolygon | None) -> dict[str, Any]:
        """Return the attributes of a change that its outlines give; ``ground`` is what was searched."""
        return {
            "geometry": self.geometry,
            "change_probability": self.probability,
            "area_m2": float(self.area_m2),
            "outline_of": self.kind,
            "count": self.count,
            "largest_m2": self.largest_m2,
            "median_m2": self.median_m2,
            "place": compass_words(self.geometry, ground),
            "arrangement": self.arrangement,
            "cut_by_edge": self.cut_by_edge,
            "familiarity": self.familiarity,
            **({} if self.given is None else vars(self.given)),
        }


def touching(changes: Sequence[FoundChange], window: Window) -> np.ndarray:
    """Return (n,) bool: which of the changes touch a window of the working grid."""
    return shapely.intersects(
        np.array([change.pixels for change in changes], dtype=object),
        shapely.box(*window.bounds),
    )


@dataclass(frozen=True)
class Changes:
    """The changes of a pair.

    Attributes:
        found: those that touch the pixels asked for, in the order of their ids.
        others: those near them that do not.
    """

    found: list[FoundChange]
    others: list[FoundChange]


def grouped(outlines: Sequence[Outline], distance: float) -> list[FoundChange]:
    """Return outlines as changes; those at most ``distance`` pixels apart are one, with 0 each is alone."""
    groups = [[number] for number in range(len(outlines))]
    if distance > 0:
        groups = group_regions([outline.region for outline in outlines], distance)
    return [FoundChange(tuple(outlines[number] for number in numbers)) for numbers in groups]


def large(changes: Iterable[OneChange], options: SceneOptions) -> list[OneChange]:
    """Return the changes that as a whole are as large as was asked for."""
    return [change for change in changes if change.area_m2 >= (options.min_area or 0.0)]


def in_order(changes: Iterable[OneChange]) -> list[OneChange]:
    """Return changes from north to south, then from west to east: the same input gives the same ids."""
    return sorted(changes, key=lambda change: (-change.geometry.bounds[3], change.geometry.bounds[0]))
