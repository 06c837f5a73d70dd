"""What the fact heads say of changes: the evidence at the positions of an outline, pooled.

The heads answer for every position; the answer for a region is a mean of those of its positions
(:mod:`rscc.facts.heads`). So the maps hold all that is needed, whatever outlines are asked about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage
from scipy.special import expit
from shapely.geometry import MultiPolygon

from rscc.facts.answers import ANSWERS
from rscc.facts.ground_after import MEASURES, is_clear
from rscc.text.change_facts import LARGE_BUILDING
from workflows.scene.map_description import ROADS
from workflows.scene.maps import ChangeMaps
from workflows.scene.pixels import Neighbours, PositionAnswers, window_around

if TYPE_CHECKING:
    from rscc.facts.road_head import RoadEvidence

SURROUNDINGS = 24
"""Pixels around a change that belong to it: its yard, its drive, the road along it."""
ROAD_REACH = 50
"""Pixels around a change in which roads are looked for: across a front garden, 25 m at 0.5 m a pixel."""
LARGE = 256
"""Pixels from which a change is large: a road so far from one of its houses is not beside the change."""
ROOF_REACH = 160
"""Pixels around a change in which the roofs that it may be a fragment of are looked for, 80 m at 0.5 m."""
STANDS = 0.5
"""Probability of a building that came or is gone from which a position is ground of one."""
FRAGMENT = 1 / 3
"""Share of such ground up to which outlines are fragments of larger buildings. On validation scenes, where
they are whole, it is 0.39 and more."""
UNKNOWN = -30.0
"""Logit of what the network was not asked about, such as a tile that the scout ruled out."""


@dataclass(frozen=True)
class Evidence:
    """What the heads say of one change.

    Attributes:
        logits: (len(ANSWERS),), of its outlines and their surroundings, without those of other changes.
        covers: the share that each land cover had of the ground in the outlines alone.
        roads: near the change; None without a road head, or where it is not asked.
        cleared: whether the ground in the outlines is clear after, see :mod:`rscc.facts.ground_after`.
    """

    logits: np.ndarray
    covers: dict[str, float]
    roads: RoadEvidence | None = None
    cleared: bool = True


def evidence_of(
    outlines: Sequence[MultiPolygon],
    maps: ChangeMaps,
    numbers: Sequence[int],
    *,
    with_roads: bool = False,
    bare: Collection[int] = (),
) -> Iterator[Evidence]:
    """Yield the evidence for some of the outlines (in pixels), by their numbers; the others are neighbours.

    Args:
        with_roads: also look for roads beside them.
        bare: numbers of those that are judged without their surroundings.
    """
    from rscc.facts.heads import bag_logits

    assert maps.rules is not None
    with_roads = with_roads and ROADS[0] in maps.about["answers"]
    neighbours = Neighbours(outlines)
    for number in numbers:
        reach = _road_reach(outlines[number]) if with_roads else SURROUNDINGS
        # With roads one position more on every side, which decides whether a road beside it is new.
        margin = reach + maps.position if with_roads else reach
        found = maps.answers(window_around(outlines[number], margin).intersection(maps.area))
        own, others = neighbours.masks(number, found.pixels)
        apart = _squared_distances(own)
        known = ~np.isnan(found.values[0])
        logits = found.values[: len(ANSWERS)][:, known].astype(np.float64)
        near = found.weights(own if number in bare else (apart <= SURROUNDINGS**2) & ~others)[known]
        pooled = bag_logits(logits, near) if near.any() else np.full(len(ANSWERS), UNKNOWN)
        covers = maps.rules.covers(logits, found.weights(own)[known])
        roads = None
        if with_roads:
            beside = known & (found.weights(apart <= reach**2) > 0)
            roads = _roads(found, known, beside, maps.position * maps.frame.grid.gsd)
        yield Evidence(pooled, covers, roads, _is_cleared(found, own, maps))


def wholes_of(
    outlines: Sequence[MultiPolygon], maps: ChangeMaps, numbers: Sequence[int]
) -> Iterator[tuple[float, ...] | None]:
    """Yield the square metres of each building that an outline is a fragment of; None where it is whole.

    A building is the ground, joined to the outline, of positions where a building came or is gone. A square
    of area A touches positions of side s on about (sqrt(A) + s)^2, which is solved for A.
    """
    rules = maps.rules
    assert rules is not None
    buildings = [ANSWERS.index(name) for name in ("came building", "gone building")]
    neighbours = Neighbours(outlines)
    for number in numbers:
        found = maps.answers(window_around(outlines[number], ROOF_REACH).intersection(maps.area))
        own, others = map(found.weights, neighbours.masks(number, found.pixels))
        stands = np.maximum(*(rules.probability(one, found.values[one]) for one in buildings)) >= STANDS
        labels, _ = ndimage.label(stands | (own > 0))
        joined = np.unique(labels[own > 0])
        sides = np.sqrt(ndimage.sum(found.shares, labels, joined)) - 1  # in positions
        ground = float((sides.clip(0) ** 2).sum())
        outlined = float(ndimage.sum(own + others, labels, joined).sum())
        area = ground * (maps.position * maps.frame.grid.gsd) ** 2
        is_whole = outlined >= FRAGMENT * ground or area < LARGE_BUILDING * len(joined)
        yield None if is_whole else (area / len(joined),) * len(joined)


def _roads(found: PositionAnswers, known: np.ndarray, beside: np.ndarray, metres: float) -> RoadEvidence:
    """Return what the positions ``beside`` a change say about roads."""
    from rscc.facts.road_head import BESIDE_METRES, CHANNELS, road_evidence, road_maps

    logits = found.values[len(ANSWERS) : len(ANSWERS) + CHANNELS]
    standing, new = road_maps(np.where(known, logits, np.float32(UNKNOWN)))[:, beside]
    return road_evidence(standing, new, metres, BESIDE_METRES, found.shares[beside])


def _is_cleared(found: PositionAnswers, own: np.ndarray, maps: ChangeMaps) -> bool:
    """Return whether the ground of an outline is clear after; True for maps that do not tell."""
    names = maps.about["answers"]
    if MEASURES[0] not in names:
        return True
    shares = found.weights(own)
    measured = found.values[[names.index(name) for name in MEASURES]]
    shares = np.where(np.isnan(measured[0]), 0, shares)
    if not shares.any():
        return False
    roughness, greenness = (np.nansum(one * shares) / shares.sum() for one in measured)
    return is_clear(roughness, greenness)


def _road_reach(outline: MultiPolygon) -> int:
    left, top, right, bottom = outline.bounds
    return ROAD_REACH if max(right - left, bottom - top) <= LARGE else SURROUNDINGS


def _squared_distances(own: np.ndarray) -> np.ndarray:
    """Return the square of the pixels from each pixel to the nearest of those of (h, w) bool."""
    if not own.any():
        return np.full(own.shape, np.iinfo(np.int32).max)
    rows, cols = ndimage.distance_transform_edt(~own, return_distances=False, return_indices=True)
    rows -= np.arange(own.shape[0], dtype=rows.dtype)[:, None]
    cols -= np.arange(own.shape[1], dtype=cols.dtype)
    squares: np.ndarray = rows**2 + cols**2
    return squares


NEAR = 24
"""Pixels around a change whose blocks count as its own."""


def scene_familiarity(maps: ChangeMaps) -> float | None:
    """Return the familiarity of all that the network looked at, 0..1; None where it was not measured."""
    logit = _scene_logit(maps)
    return None if logit is None else float(expit(logit))


def familiarities(outlines: Iterable[MultiPolygon], maps: ChangeMaps) -> Sequence[float | None]:
    """Return the familiarity of the ground of each of some outlines in pixels, 0..1; None likewise."""
    outlines, scene = list(outlines), _scene_logit(maps)
    if scene is None:
        return [None] * len(outlines)
    own = [_mean(maps.familiarity(window_around(one, NEAR).intersection(maps.area))) for one in outlines]
    return [float(expit(scene if logit is None else (logit + scene) / 2)) for logit in own]


def _scene_logit(maps: ChangeMaps) -> float | None:
    return _mean(maps.familiarity(maps.area)) if maps.has_familiarity else None


def _mean(logits: np.ndarray) -> float | None:
    """Return the mean of the logits that are known; None without any."""
    known = logits[~np.isnan(logits)]
    return float(known.mean()) if len(known) else None
