"""What is one change of a report: outlines as written, grouped, and whole where they leave the box."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from statistics import median
from typing import Any, TypeVar

import numpy as np
import shapely
from shapely.affinity import affine_transform
from shapely.geometry import MultiPolygon, Polygon

from rscc.inference.objects import both_sizes
from tiling import (
    ChangeRegion,
    Frame,
    ScenePair,
    Window,
    geodesic_area_m2,
    group_regions,
    regularized,
    to_wgs84,
)
from workflows.options import SceneOptions
from workflows.report.change import Change
from workflows.report.geojson import bbox_of, joined, parts_of, polygons_in, rounded
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import burnt
from workflows.scene.detection import Detection, find_regions, outline_of, touching
from workflows.scene.layout import arrangement, compass_words
from workflows.scene.opening import grown

# Pixels: what is smaller is straightened where outlines get right angles.
REGULAR_TOLERANCE = 2.0
# Metres per pixel up to which a building has a shape, by which those that touch are parted.
PARTED_GSD = 2.0
# Pixels of the box around an outline up to which it is looked at for objects; a larger one counts as one.
LARGEST_PARTED = 4096**2
SURE, PART = 0.86, 0.5
"""Mean probability of change of an outline, and share of the area of the largest object in it, from which its
objects are sure. On validation scenes 322 of 323 outlines without others hold the number that is counted, of
the rest 9 of 21."""
# A change that leaves the pixels looked at is followed so many times, each time twice as far.
MOST_STEPS = 4


@dataclass(frozen=True)
class Place:
    """A region with its outline as it is written (WGS84, rounded) and the geodesic area of that outline.

    Attributes:
        kind: ``change`` of what the change head found, else what it is, see
            :class:`rscc.inference.lone_changes.LoneKind`.
    """

    region: ChangeRegion
    geometry: Polygon | MultiPolygon
    area_m2: float
    kind: str = "change"

    @property
    def objects_m2(self) -> tuple[float, ...]:
        """Square metres of each object in it: buildings that touch are parted."""
        return self._objects[0]

    @property
    def sure(self) -> int:
        """How many objects it has for certain, see :data:`SURE` and :data:`PART`."""
        if self.region.mean_probability < SURE:
            return 0
        areas, surer = self._objects
        return sum(area >= PART * max(areas) for area in surer)

    @cached_property
    def _objects(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Square metres of each object, and of those that are parted for certain."""
        alone = (self.area_m2,)
        if self.kind != "change":
            return alone, alone
        outline = self.region.pixel_polygon
        window = window_around(outline)
        if self.area_m2 > PARTED_GSD**2 * outline.area or window.width * window.height > LARGEST_PARTED:
            return alone, alone
        areas, surer = (
            tuple((self.area_m2 * sizes / sizes.sum()).tolist())
            for sizes in both_sizes(burnt([outline], window))
        )
        return areas, surer

    def redrawn(self, region: ChangeRegion, pair: ScenePair | Frame, min_area: float) -> Place:
        """Return the place with the outline of ``region``, or as it is where that is too small."""
        return (places_of([region], pair, min_area) or [self])[0]


@dataclass(frozen=True)
class Event:
    """One change of the report: a place, or places near each other."""

    places: tuple[Place, ...]

    @property
    def kind(self) -> str:
        """What was found: all its places are of one kind."""
        return self.places[0].kind

    @property
    def regions(self) -> list[ChangeRegion]:
        """The regions of its places."""
        return [place.region for place in self.places]

    @cached_property
    def geometry(self) -> Polygon | MultiPolygon:
        """What is written: the outline of the place, or all outlines as one geometry."""
        if len(self.places) == 1:
            return self.places[0].geometry
        return rounded(shapely.union_all([place.geometry for place in self.places]))

    @property
    def area_m2(self) -> float:
        """Geodesic area in square metres."""
        if len(self.places) == 1:
            return self.places[0].area_m2
        return geodesic_area_m2(self.geometry)

    @cached_property
    def objects_m2(self) -> tuple[float, ...]:
        """Square metres of each of its objects."""
        return tuple(area for place in self.places for area in place.objects_m2)

    @property
    def count(self) -> int:
        """How many objects it has."""
        return len(self.objects_m2)

    @property
    def sure(self) -> int:
        """How many of its objects are sure."""
        return sum(place.sure for place in self.places)

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
        """How its outlines lie, see :mod:`workflows.scene.layout`; None of one outline of several objects.

        And of a road or a clearing: its outlines are parts of one thing.
        """
        outlines = [region.pixel_polygon for region in self.regions]
        parts = self.kind != "change" or len(outlines) == 1 < self.count
        return None if parts else arrangement(outlines)

    @property
    def probability(self) -> float:
        """Mean probability of change of its pixels, 0..1."""
        pixels = [region.area_px for region in self.regions]
        return float(np.average([region.mean_probability for region in self.regions], weights=pixels))

    @cached_property
    def outline(self) -> MultiPolygon:
        """All its outlines in pixels."""
        return outline_of(self.regions)

    def measured(self, ground: Polygon | MultiPolygon | None) -> dict[str, Any]:
        """Return the attributes of a change that its outlines tell; ``ground`` is what was searched."""
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
        }


OneChange = TypeVar("OneChange", Event, Change)
"""A change found, or written in a report."""


@dataclass(frozen=True)
class Events:
    """The changes of a scene.

    Attributes:
        events: the changes that touch what was asked for.
        others: what lies near those but not in what was asked for.
        counts: as :class:`~workflows.scene.detection.Detection` has them.
        warnings: what is not as it should be, one line each.
        refinement: what became of the outlines, as the run record has it; None where none were redrawn.
    """

    events: list[Event]
    others: list[Event]
    counts: dict[str, int]
    warnings: list[str]
    refinement: dict[str, Any] | None = None


class Grouping:
    """Turns regions into events; ``frame`` has the grid that they lie on, and the pixels asked for."""

    def __init__(self, frame: ScenePair | Frame, options: SceneOptions) -> None:
        self.frame, self.options = frame, options

    def events_of(
        self, regions: Iterable[ChangeRegion], kind: str = "change"
    ) -> tuple[list[Event], list[Event]]:
        """Return what touches the pixels asked for, and what does not; of outlines that are large enough."""
        places = places_of(regions, self.frame, self.options.least_outline_for(self.frame.grid.gsd), kind)
        if not places:
            return [], []
        events = self.grouped(places)
        touches = touching([event.outline for event in events], self.frame.focus)
        return list(compress(events, touches)), list(compress(events, ~touches))

    def grouped(self, places: Sequence[Place]) -> list[Event]:
        """Return places, one at least, as events: those near each other are one."""
        groups = [[number] for number in range(len(places))]
        if self.reach > 0:
            groups = group_regions([place.region for place in places], self.reach)
        return [Event(tuple(places[number] for number in group)) for group in groups]

    def leaves(self, event: Event, area: Window) -> bool:
        """Return whether an event continues, or may continue, beyond the pixels looked at."""
        reached = grown(self.frame, window_around(event.outline), 1 + self.distance)
        return reached != reached.intersection(area)

    @property
    def reach(self) -> float:
        """Pixels up to which outlines are one change."""
        gsd = self.frame.grid.gsd
        return self.options.group_distance_for(gsd) / gsd

    @property
    def distance(self) -> int:
        """The same in whole pixels."""
        return math.ceil(self.reach)


class Search(Grouping):
    """Turns the regions of a run into events, and follows those that leave the pixels looked at."""

    def __init__(self, run: OpenRun) -> None:
        super().__init__(run.pair, run.options)
        self.run = run

    def events(self, detection: Detection) -> Events:
        """Return the changes among the regions of the run that touch what was asked for of the pair."""
        whole: list[Event] = []
        warnings: list[str] = []
        area = self.run.grid.area
        requested, others = self.events_of(detection.regions)
        for event in requested:
            followed = event
            if self.leaves(event, area):
                followed, complete = self._followed(event)
                if not complete:
                    warnings.append(cut_warning(followed))
            # Two parts of one change may each have left the area: it is one change then.
            if followed is event or all(other.geometry != followed.geometry for other in whole):
                whole.append(followed)
        return Events(whole, others, detection.counts, warnings)

    def _followed(self, event: Event) -> tuple[Event, bool]:
        """Return an event with all that belongs to it beyond the area, and whether its end was found.

        The pixels around it are searched anew. Tiles are fixed to the ground, so they are the same.
        """
        halo = self.run.card.tile_size + self.distance
        for step in range(MOST_STEPS):
            area = grown(self.frame, window_around(event.outline), halo * 2**step)
            regions = find_regions(self.run, area).regions
            seed = event.outline
            near = [other for other in self.events_of(regions)[0] if other.outline.intersects(seed)]
            if not near:  # looked at in other batches it may fall below the least area
                return event, False
            event = max(near, key=lambda other: other.outline.intersection(seed).area)
            if not self.leaves(event, area):
                return event, True
        return event, False


def large(changes: Iterable[OneChange], options: SceneOptions) -> list[OneChange]:
    """Return the changes, whole ones, that are as large as was asked for."""
    return [one for one in changes if one.area_m2 >= (options.min_area or 0.0)]


def in_order(changes: Iterable[OneChange]) -> list[OneChange]:
    """Return changes from north to south, then from west to east: the same input gives the same ids."""
    return sorted(changes, key=lambda one: (-one.geometry.bounds[3], one.geometry.bounds[0]))


def right_angled(pair: ScenePair | Frame, events: Iterable[Event], min_area: float) -> list[Event]:
    """Give outlines right angles where that hardly changes them, see :func:`tiling.regularized`.

    An outline that would fall below ``min_area`` square metres stays as it was.
    """

    def straightened(place: Place) -> Place:
        outline = regularized(place.region.pixel_polygon, REGULAR_TOLERANCE)
        if outline is place.region.pixel_polygon:
            return place
        return place.redrawn(_with_outline(place.region, outline, pair), pair, min_area)

    return [Event(tuple(straightened(place) for place in event.places)) for event in events]


def cut_out(
    pair: ScenePair | Frame, event: Event, others: MultiPolygon | Polygon, min_area: float
) -> Event | None:
    """Return an event without ground, in pixels, that others have; None where no outline is left.

    An outline that is parted by it is several, of at least ``min_area`` square metres each.
    """
    regions = [
        _with_outline(replace(region, area_px=max(1, round(part.area))), part, pair)
        for region in event.regions
        for part in polygons_in(region.pixel_polygon.difference(others))
    ]
    places = places_of(regions, pair, min_area, event.kind)
    return Event(tuple(places)) if places else None


def _with_outline(
    region: ChangeRegion, outline: Polygon | MultiPolygon, pair: ScenePair | Frame
) -> ChangeRegion:
    """Return a region with another outline in pixels."""
    polygon = affine_transform(outline, pair.grid.transform.to_shapely())
    return replace(region, pixel_polygon=outline, polygon=polygon)


def places_of(
    regions: Iterable[ChangeRegion], pair: ScenePair | Frame, min_area: float, kind: str = "change"
) -> list[Place]:
    """Return the regions whose outline, as it is written, has at least ``min_area`` square metres."""
    places = []
    for region in regions:
        geometry = _written(to_wgs84(region.polygon, pair.grid.crs), min_area)
        if not geometry.is_empty and (area := geodesic_area_m2(geometry)) >= min_area:
            places.append(Place(region, geometry, area, kind))
    return places


def _written(outline: Polygon | MultiPolygon, min_area: float) -> Polygon | MultiPolygon:
    """Return an outline in degrees as it is written: one, without scraps, where rounding splits it."""
    written = rounded(outline)
    if isinstance(outline, MultiPolygon) or isinstance(written, Polygon):
        return written
    parts = [(part, geodesic_area_m2(part)) for part in parts_of(written)]
    least = min(min_area, max((area for _, area in parts), default=0.0))
    return joined([part for part, area in parts if area >= least])


def window_around(outline: Polygon | MultiPolygon) -> Window:
    """Return the pixels that an outline in pixels touches."""
    left, top, right, bottom = outline.bounds
    col, row = math.floor(left), math.floor(top)
    return Window(col, row, math.ceil(right) - col, math.ceil(bottom) - row)


def cut_warning(event: Event) -> str:
    """Say that an event goes on beyond what was looked at."""
    west, south, east, north = bbox_of(event.geometry)
    return (
        f"the change within {west:.5f},{south:.5f},{east:.5f},{north:.5f} reaches far beyond the box asked "
        "for and is cut off; give a larger --bbox to see it whole"
    )
