"""Makes pairs of dated scenes: stacks them by the ground they show, and pairs each stack by a rule."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain, groupby
from statistics import median
from typing import NamedTuple

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon
from shapely.geometry.polygon import orient

from tiling import polygons_in
from workflows.pairs.catalog import Scene, Skipped
from workflows.pairs.options import CatalogOptions, PairRule
from workflows.pairs.rows import PairRow, UnnamedPair
from workflows.report.geojson import joined, parts_of

_STEP = 1e-6
"""Precision of footprints in degrees, a tenth of a metre."""
_YEAR = 365.25
Days = Sequence[Sequence[Scene]]
Pair = tuple[Scene, Scene]


def pair_up(
    scenes: Sequence[Scene], options: CatalogOptions, *, root: str | None = None
) -> tuple[list[UnnamedPair], list[Skipped]]:
    """Return the pairs of ``scenes`` by site and date, and the scenes without a pair.

    Only scenes of one site that share enough ground are paired; with ``root``, also scenes that have no
    partner in their own site, as scenes of the site ``root``. A site with pairs in several places becomes
    several sites, named with the longitude and latitude of each.
    """
    found = _Paired({}, {}, set())
    ordered = sorted(scenes, key=lambda scene: (scene.site or "", scene.date, scene.name))
    for _, members in groupby(ordered, key=lambda scene: scene.site):
        _pair_site(found, list(members), options)
    if root is not None:
        lone = [replace(scene, site=root) for scene in ordered if found.is_lone(scene)]
        _pair_site(found, sorted(lone, key=lambda scene: (scene.date, scene.name)), options)
    used = {location for pair in found.pairs for location in pair}
    lone = [scene for scene in ordered if found.is_lone(scene)]
    skipped = [_skipped(scene, found, lone, options) for scene in ordered if scene.location not in used]
    return [pair_of(before, after) for before, after in found.pairs.values()], skipped


class _Paired(NamedTuple):
    """Pairs by the locations of their scenes; better scenes by location; and what has a partner."""

    pairs: dict[tuple[str, str], Pair]
    replaced: dict[str, Scene]
    has_partner: set[str]

    def is_lone(self, scene: Scene) -> bool:
        return scene.location not in self.has_partner and scene.location not in self.replaced


def _pair_site(found: _Paired, members: list[Scene], options: CatalogOptions) -> None:
    """Add the pairs of one site, whose scenes are in order of time."""
    share = options.min_overlap / 100
    by_place = []
    for stack in _stacks(members, share):
        thinned, dropped = _thinned(stack, _day, _clearest, share)
        found.replaced.update({scene.location: better for scene, better in dropped})
        found.has_partner.update(scene.location for pair in _consecutive(thinned, share) for scene in pair)
        by_place.append((stack[0].footprint, _RULES[options.pair](thinned, share)))
    several = sum(bool(pairs) for _, pairs in by_place) > 1
    for ground, pairs in by_place:
        for before, after in pairs:
            if several:
                place = place_words(ground)
                before = replace(before, site=f"{before.site}_{place}" if before.site else place)
            found.pairs.setdefault((before.location, after.location), (before, after))


def _day(scene: Scene) -> str:
    """Return the day of a scene; scenes of one month or year are not of one day."""
    return scene.date if len(scene.date) == 10 else f"{scene.date} {scene.location}"


def _in_order(one: Scene, other: Scene) -> bool:
    """Return whether the dates tell which of two scenes is earlier: 2019 and 2019-08 do not."""
    return not (one.date.startswith(other.date) or other.date.startswith(one.date))


def common_ground(
    one: Polygon | MultiPolygon, other: Polygon | MultiPolygon
) -> Polygon | MultiPolygon | None:
    """Return the overlap of two footprints, to a tenth of a metre; None without an overlap."""
    shared = shapely.set_precision(one.intersection(other), _STEP)
    parts = [orient(part) for part in polygons_in(shared)]
    return joined(parts) if parts else None


def pair_of(before: Scene, after: Scene) -> UnnamedPair:
    """Return the pair of two scenes; its footprint is None without an overlap."""
    dates = before.date or None, after.date or None
    ground = common_ground(before.footprint, after.footprint)
    row = PairRow(
        "", before.location, after.location, *dates, before.site, before.cloud, after.cloud, footprint=ground
    )
    return UnnamedPair(row, before.name, after.name)


def _stacks(scenes: Sequence[Scene], share: float) -> list[list[Scene]]:
    """Group scenes by the ground they show, in the given order.

    The first scene on new ground begins a stack; every later scene that shares enough ground with it joins.
    A large scene may be in several stacks of small ones.
    """
    shapes = np.array([scene.footprint for scene in scenes], dtype=object)
    areas = shapely.area(shapes)
    tree = shapely.STRtree(shapes)
    stacks: dict[int, list[Scene]] = {}
    is_first = np.zeros(len(scenes), dtype=bool)
    for number, scene in enumerate(scenes):
        near = tree.query(shapes[number])
        near = np.sort(near[is_first[near]])
        common = shapely.area(shapely.intersection(shapes[near], shapes[number]))
        joined_stacks = near[_enough(common, np.minimum(areas[near], areas[number]), share)]
        for first in joined_stacks:
            stacks[int(first)].append(scene)
        if not len(joined_stacks):
            stacks[number] = [scene]
            is_first[number] = True
    return list(stacks.values())


def _enough(common: np.ndarray, smaller: np.ndarray, share: float) -> np.ndarray:
    # Tolerates rounding: edges of scenes of one place rarely agree to the last digit.
    return (common > 0) & (common >= (share - 1e-6) * smaller)


def share_ground(one: Polygon | MultiPolygon, other: Polygon | MultiPolygon, share: float) -> bool:
    """Return whether two footprints share enough ground, as a share (0..1) of the smaller."""
    if one == other:
        return True
    common = np.array(one.intersection(other).area)
    return bool(_enough(common, np.array(min(one.area, other.area)), share))


def _share_ground(one: Scene, other: Scene, share: float) -> bool:
    return share_ground(one.footprint, other.footprint, share)


def _clearest(scene: Scene) -> tuple:
    """Sort key: fewest clouds first, then the most ground, then the name."""
    return (100.0 if scene.cloud is None else scene.cloud, -scene.footprint.area, scene.name)


def _thinned(
    stack: Sequence[Scene], period: Callable[[Scene], str], order: Callable[[Scene], tuple], share: float
) -> tuple[list[Scene], list[Pair]]:
    """Keep the first scene by ``order`` of each period and ground; ``stack`` is in order of time.

    Returns the kept scenes in order of time, and (dropped scene, kept scene) for the others.
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
    """Yield each scene, the days before it and the days after it, both nearest first."""
    days = [list(members) for _, members in groupby(scenes, key=lambda scene: scene.date)]
    for number, day in enumerate(days):
        earlier, later = days[:number][::-1], days[number + 1 :]
        yield from ((scene, earlier, later) for scene in day)


def _first_sharing(scene: Scene, days: Iterable[Sequence[Scene]], share: float) -> list[Scene]:
    """Return the scenes on the ground of ``scene`` from the first of ``days`` that has any."""
    for day in days:
        sharing = [other for other in day if _in_order(scene, other) and _share_ground(scene, other, share)]
        if sharing:
            return sharing
    return []


def _in_time(pairs: Iterable[Pair]) -> list[Pair]:
    unique = {(before.location, after.location): (before, after) for before, after in pairs}
    return sorted(unique.values(), key=lambda pair: [(scene.date, scene.name) for scene in pair])


def _consecutive(scenes: Iterable[Scene], share: float) -> list[Pair]:
    """Pair each scene with its next and its previous: for partial scenes, both directions find more."""
    pairs: list[Pair] = []
    for scene, earlier, later in _by_time(scenes):
        pairs += [(scene, other) for other in _first_sharing(scene, later, share)]
        pairs += [(other, scene) for other in _first_sharing(scene, earlier, share)]
    return _in_time(pairs)


def _first_last(scenes: Iterable[Scene], share: float) -> list[Pair]:
    """Pair each first scene of its ground with the last, and each last scene with the first."""
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
        if _in_order(scene, other) and _share_ground(scene, other, share)
    )


def _yearly(scenes: Sequence[Scene], share: float) -> list[Pair]:
    """Keep the clearest scene of each year, among equals the nearest to the usual season; pair these."""
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

# Why scenes that have a partner are in no pair, by rule.
_NOT_PAIRED: dict[PairRule, str] = {
    "first-last": "between the first and the last",
    "yearly": "of years with a clearer scene",
}


def place_words(footprint: Polygon | MultiPolygon) -> str:
    """Return the longitude and latitude of a footprint as a name: ``93.500W44.123N``."""
    # The largest part: a footprint cut at 180 degrees has its centre on the other side of the Earth.
    place = max(parts_of(footprint), key=lambda part: part.area).envelope.centroid
    return f"{abs(place.x):.3f}{'E' if place.x >= 0 else 'W'}{abs(place.y):.3f}{'N' if place.y >= 0 else 'S'}"


def _skipped(scene: Scene, found: _Paired, lone: Sequence[Scene], options: CatalogOptions) -> Skipped:
    """Return why a scene is in no pair; ``lone`` are the scenes without a partner."""
    better = found.replaced.get(scene.location)
    if better is not None:
        return Skipped(
            "of the same place and day as another",
            scene.name,
            f"left out for {better.name}, of the same place and day",
        )
    if scene.location in found.has_partner:
        return Skipped(_NOT_PAIRED.get(options.pair, "in no pair"))
    share = options.min_overlap / 100
    near = (other for other in lone if other is not scene and not _in_order(scene, other))
    if any(_share_ground(scene, other, share) for other in near):
        return Skipped(
            "of an unclear order",
            scene.name,
            f"left out, its date {scene.date} does not tell whether it is earlier than another scene of this "
            "place; put the month and day into the file names",
        )
    return Skipped(
        "without another date",
        scene.name,
        f"left out, no scene of another date shows {options.min_overlap:g} percent of its ground",
    )
