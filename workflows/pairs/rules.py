"""Dated scenes made into pairs: stacks of scenes that show the same ground, and rules of who follows whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain, groupby
from statistics import median

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon
from shapely.geometry.polygon import orient

from workflows.pairs.catalog import Scene, Skipped
from workflows.pairs.options import CatalogOptions, PairRule
from workflows.pairs.rows import Draft, PairRow
from workflows.report.geojson import joined, parts_of, polygons_in

# Degrees: a tenth of a metre is enough to look at, and what a table keeps.
_STEP = 1e-6
_YEAR = 365.25
Days = Sequence[Sequence[Scene]]
Pair = tuple[Scene, Scene]


def pair_up(
    scenes: Sequence[Scene], options: CatalogOptions, *, label_places: bool = False
) -> tuple[list[Draft], list[Skipped]]:
    """Return the pairs of ``scenes`` in order of site and date, and the scenes that are in none of them.

    Only scenes of one site are paired, and only where they share enough ground. With ``label_places`` a site
    whose scenes lie in several places is several sites, named with the longitude and latitude of each.
    """
    share = options.min_overlap / 100
    pairs: dict[tuple[str, str], Pair] = {}
    doubles: dict[str, Scene] = {}
    linked: set[str] = set()
    ordered = sorted(scenes, key=lambda scene: (scene.site or "", scene.date, scene.name))
    for _, members in groupby(ordered, key=lambda scene: scene.site):
        stacks = _stacks(list(members), share)
        for stack in stacks:
            thinned, dropped = _thinned(stack, lambda scene: scene.date, _clearest, share)
            doubles |= {scene.location: first for scene, first in dropped}
            linked |= {scene.location for pair in _consecutive(thinned, share) for scene in pair}
            for before, after in _RULES[options.pair](thinned, share):
                if label_places and len(stacks) > 1:
                    before = replace(before, site=_labelled(before.site, stack[0].footprint))
                pairs.setdefault((before.location, after.location), (before, after))
    used = {location for pair in pairs for location in pair}
    skipped = [
        _left_out(scene, doubles.get(scene.location), scene.location in linked, options)
        for scene in ordered
        if scene.location not in used
    ]
    return [draft_of(before, after) for before, after in pairs.values()], skipped


def common_ground(
    one: Polygon | MultiPolygon, other: Polygon | MultiPolygon
) -> Polygon | MultiPolygon | None:
    """Return where two footprints overlap, to a tenth of a metre; None where they do not."""
    shared = shapely.set_precision(one.intersection(other), _STEP)
    parts = [orient(part) for part in polygons_in(shared)]
    return joined(parts) if parts else None


def draft_of(before: Scene, after: Scene) -> Draft:
    """Return the pair of two scenes; its footprint is None where they do not overlap."""
    dates = before.date or None, after.date or None
    ground = common_ground(before.footprint, after.footprint)
    row = PairRow("", before.location, after.location, *dates, before.site, before.cloud, after.cloud, ground)
    return Draft(row, before.name, after.name)


def _stacks(scenes: Sequence[Scene], share: float) -> list[list[Scene]]:
    """Group scenes by the ground they show, in the order given.

    The first scene on new ground begins a stack; every later one that shares enough with it belongs there. A
    large scene may belong to several stacks of small ones.
    """
    shapes = np.array([scene.footprint for scene in scenes], dtype=object)
    areas = shapely.area(shapes)
    tree = shapely.STRtree(shapes)
    stacks: dict[int, list[Scene]] = {}
    begins = np.zeros(len(scenes), dtype=bool)
    for number, scene in enumerate(scenes):
        near = tree.query(shapes[number])
        near = np.sort(near[begins[near]])
        common = shapely.area(shapely.intersection(shapes[near], shapes[number]))
        homes = near[_enough(common, np.minimum(areas[near], areas[number]), share)]
        for home in homes:
            stacks[int(home)].append(scene)
        if not len(homes):
            stacks[number] = [scene]
            begins[number] = True
    return list(stacks.values())


def _enough(common: np.ndarray, smaller: np.ndarray, share: float) -> np.ndarray:
    # Scenes of the same place rarely have the same edges to the last digit.
    return (common > 0) & (common >= (share - 1e-6) * smaller)


def _share_ground(one: Scene, other: Scene, share: float) -> bool:
    if one.footprint == other.footprint:
        return True
    common = np.array(one.footprint.intersection(other.footprint).area)
    return bool(_enough(common, np.array(min(one.footprint.area, other.footprint.area)), share))


def _clearest(scene: Scene) -> tuple:
    """Sort the scene first that shows most: few clouds, then much ground; the name decides the rest."""
    return (100.0 if scene.cloud is None else scene.cloud, -scene.footprint.area, scene.name)


def _thinned(
    stack: Sequence[Scene], period: Callable[[Scene], str], order: Callable[[Scene], tuple], share: float
) -> tuple[list[Scene], list[Pair]]:
    """Keep of each period the first scene by ``order`` on its ground; the stack is in order of time.

    Returns those kept, in order of time, and of each other one what was kept in its place.
    """
    thinned, dropped = [], []
    for _, members in groupby(stack, key=period):
        clearest: list[Scene] = []
        for scene in sorted(members, key=order):
            first = next((other for other in clearest if _share_ground(other, scene, share)), None)
            if first is None:
                clearest.append(scene)
            else:
                dropped.append((scene, first))
        thinned += sorted(clearest, key=lambda scene: (scene.date, scene.name))
    return thinned, dropped


def _by_time(scenes: Iterable[Scene]) -> Iterator[tuple[Scene, Days, Days]]:
    """Yield each scene with the days before it, the nearest first, and those after it, the nearest first."""
    days = [list(members) for _, members in groupby(scenes, key=lambda scene: scene.date)]
    for number, day in enumerate(days):
        earlier, later = days[:number][::-1], days[number + 1 :]
        yield from ((scene, earlier, later) for scene in day)


def _first_sharing(scene: Scene, days: Iterable[Sequence[Scene]], share: float) -> list[Scene]:
    """Return the scenes of the first of ``days`` that has any on the ground of ``scene``."""
    for day in days:
        sharing = [other for other in day if _share_ground(scene, other, share)]
        if sharing:
            return sharing
    return []


def _in_time(pairs: Iterable[Pair]) -> list[Pair]:
    unique = {(before.location, after.location): (before, after) for before, after in pairs}
    return sorted(unique.values(), key=lambda pair: [(scene.date, scene.name) for scene in pair])


def _consecutive(scenes: Iterable[Scene], share: float) -> list[Pair]:
    """Pair each scene with the next and the one before: where scenes cover parts, both ways find more."""
    pairs: list[Pair] = []
    for scene, earlier, later in _by_time(scenes):
        pairs += [(scene, other) for other in _first_sharing(scene, later, share)]
        pairs += [(other, scene) for other in _first_sharing(scene, earlier, share)]
    return _in_time(pairs)


def _first_last(scenes: Iterable[Scene], share: float) -> list[Pair]:
    """Pair each scene that has none before it with the last, each that has none after it with the first."""
    pairs: list[Pair] = []
    for scene, earlier, later in _by_time(scenes):
        if not _first_sharing(scene, earlier, share):
            pairs += [(scene, other) for other in _first_sharing(scene, later[::-1], share)]
        if not _first_sharing(scene, later, share):
            pairs += [(other, scene) for other in _first_sharing(scene, earlier[::-1], share)]
    return _in_time(pairs)


def _all(scenes: Iterable[Scene], share: float) -> list[Pair]:
    return _in_time(
        (scene, other)
        for scene, _, later in _by_time(scenes)
        for other in chain(*later)
        if _share_ground(scene, other, share)
    )


def _yearly(scenes: Sequence[Scene], share: float) -> list[Pair]:
    """Take of each year the clearest scene, of equals the one nearest to the usual season."""
    usual = median([day for day in map(_day_of_year, scenes) if day is not None] or [0.0])

    def order(scene: Scene) -> tuple:
        clouds, *rest = _clearest(scene)
        day = _day_of_year(scene)
        apart = 0.0 if day is None else abs(day - usual)
        return (clouds, min(apart, _YEAR - apart), *rest)

    chosen, _ = _thinned(scenes, lambda scene: scene.date[:4], order, share)
    return _consecutive(chosen, share)


def _day_of_year(scene: Scene) -> float | None:
    return float(date.fromisoformat(scene.date).timetuple().tm_yday) if len(scene.date) == 10 else None


_RULES: dict[PairRule, Callable[[Sequence[Scene], float], list[Pair]]] = {
    "consecutive": _consecutive,
    "first-last": _first_last,
    "all": _all,
    "yearly": _yearly,
}

# What becomes of scenes that have a partner but are not asked for.
_PASSED_OVER: dict[PairRule, str] = {
    "first-last": "between the first and the last",
    "yearly": "of years with a clearer scene",
}


def _labelled(site: str | None, footprint: Polygon | MultiPolygon) -> str:
    # Cut at 180 degrees, a footprint has its middle on the other side of the Earth.
    place = max(parts_of(footprint), key=lambda part: part.area).envelope.centroid
    words = (
        f"{abs(place.y):.3f}{'N' if place.y >= 0 else 'S'}{abs(place.x):.3f}{'E' if place.x >= 0 else 'W'}"
    )
    return f"{site}_{words}" if site else words


def _left_out(scene: Scene, first: Scene | None, linked: bool, options: CatalogOptions) -> Skipped:
    if first is not None:
        return Skipped(
            "of the same place and day as another",
            f"{scene.name}: left out for {first.name}, of the same place and day",
        )
    if linked:
        return Skipped(_PASSED_OVER.get(options.pair, "in no pair"), None)
    return Skipped(
        "without another date",
        f"{scene.name}: left out, no other date shows {options.min_overlap:g} percent of its ground",
    )
