"""Right-angled outlines of buildings, in pixel coordinates.

The sides of the simplified outline run along the dominant direction or across it. Each becomes a straight
line at the mean offset of its pixels, so the area hardly changes; sides that are short for the tolerance
are removed, and their neighbours merged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon

# Least agreement of the sides' directions, 0 (round) to 1 (right-angled); discs have about 0.2.
LEAST_AGREEMENT = 0.5
# Bounds on a result; beyond them the outline is unchanged.
MOST_AREA_CHANGE = 0.1
LEAST_IOU = 0.8
# A later direction must improve the IoU by this much; less may be rounding.
BETTER_IOU = 0.01
# Largest distance of a corner from the outline in tolerances: the box around an oval has far corners.
MOST_OFF = 3.0
# Sides shorter than this many tolerances are removed.
JOG = 2.0
# An outline with more vertices after simplifying is no building.
MOST_VERTICES = 500


def regularized(polygon: Polygon | MultiPolygon, tolerance_px: float) -> Polygon | MultiPolygon:
    """Return the outline with right angles, along one direction for all its parts and holes.

    Details smaller than about ``tolerance_px`` pixels are straightened; below 1.5 some pixel steps stay. The
    outline is returned unchanged if its sides have no common direction (a pond, a bend of a road), or if
    right angles would change its area by more than 10 percent, give an IoU of 0.8 or less, or a corner
    farther away than three tolerances. The result is valid if the outline is.
    """
    simple = shapely.simplify(polygon, tolerance_px, preserve_topology=True)
    if simple.is_empty or shapely.get_num_coordinates(simple) > MOST_VERTICES:
        return polygon
    direction, agreement = _direction(simple)
    if agreement < LEAST_AGREEMENT:
        return polygon
    best, to_beat = polygon, LEAST_IOU
    # Along the pixels first: such buildings stay exact.
    for angle in (0.0, direction, _direction(shapely.minimum_rotated_rectangle(polygon))[0]):
        candidate = _along(polygon, simple, angle, tolerance_px)
        iou = _likeness(candidate, polygon, MOST_OFF * tolerance_px)
        if iou > to_beat:
            best, to_beat = candidate, iou + BETTER_IOU
    return best


def _likeness(candidate: Any, polygon: Polygon | MultiPolygon, most_off: float) -> float:
    """Return the IoU of an outline with its candidate; 0 if that is beyond the bounds."""
    if candidate.is_empty or not candidate.is_valid or candidate.geom_type not in ("Polygon", "MultiPolygon"):
        return 0.0
    corners = shapely.points(shapely.get_coordinates(candidate))
    if abs(candidate.area / polygon.area - 1) > MOST_AREA_CHANGE:
        return 0.0
    if shapely.distance(corners, polygon.boundary).max() > most_off:
        return 0.0
    return candidate.intersection(polygon).area / candidate.union(polygon).area


def _direction(polygon: Polygon | MultiPolygon) -> tuple[float, float]:
    """Return the direction of the sides in radians, modulo a right angle, and their agreement 0..1."""
    rings = shapely.get_rings(shapely.get_parts(polygon))
    sides = np.concatenate([np.diff(shapely.get_coordinates(ring), axis=0) for ring in rings]) @ (1, 1j)
    # Weighted by squared length; the factor 4 makes turns of 90 degrees equal.
    mean = (np.abs(sides) ** 2 * np.exp(4j * np.angle(sides))).sum() / (np.abs(sides) ** 2).sum()
    return float(np.angle(mean)) / 4, float(np.abs(mean))


def _along(
    polygon: Polygon | MultiPolygon, simple: Polygon | MultiPolygon, angle: float, tolerance: float
) -> Polygon | MultiPolygon:
    """Return the outline with all sides along ``angle`` or across it; may be empty or invalid."""
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    vertices = {tuple(point) for point in shapely.get_coordinates(simple)}
    parts = []
    for part in shapely.get_parts(polygon):
        shell, *holes = (
            Polygon(_right_angled(shapely.get_coordinates(ring)[:-1], vertices, turn, tolerance))
            for ring in shapely.get_rings(part)
        )
        if not all(ring.is_valid for ring in (shell, *holes)):
            return Polygon()
        parts.append(shell.difference(shapely.union_all(holes)))
    return shapely.union_all(parts)


@dataclass(frozen=True)
class _Side:
    """A straight line, along the row at a y or across it at an x, with the length of its outline."""

    along: bool
    offset: float
    length: float

    def merged(self, other: _Side) -> _Side:
        length = self.length + other.length
        return _Side(self.along, (self.offset * self.length + other.offset * other.length) / length, length)


def _right_angled(
    ring: np.ndarray, vertices: set[tuple[float, ...]], turn: np.ndarray, tolerance: float
) -> np.ndarray:
    """Return the corners of the right-angled ring, or of the box around ``ring`` (n, 2) below four sides.

    ``vertices`` are the points of the simplified outline, ``turn`` is the rotation to the direction.
    """
    corners = [number for number, point in enumerate(ring.tolist()) if tuple(point) in vertices]
    turned = ring @ turn.T
    sides = _without_jogs(_sides(turned, np.array(corners)), JOG * tolerance)
    if len(sides) < 4:
        return shapely.get_coordinates(shapely.box(*turned.min(axis=0), *turned.max(axis=0)))[:-1] @ turn
    points = []
    for number, side in enumerate(sides):
        before = sides[number - 1].offset
        points.append((before, side.offset) if side.along else (side.offset, before))
    return np.array(points) @ turn


def _sides(ring: np.ndarray, corners: np.ndarray) -> list[_Side]:
    """Return the sides of a ring, alternately along and across; none if all are of one kind.

    A line lies at the mean of all steps of the outline, not of its ends.
    """
    steps = np.roll(ring, -1, axis=0) - ring
    middles = ring + steps / 2
    chords = np.abs(np.roll(ring[corners], -1, axis=0) - ring[corners])
    along = chords[:, 0] >= chords[:, 1]
    changes = np.flatnonzero(along != np.roll(along, 1))
    sides = []
    for first, end in zip(changes, np.roll(changes, -1), strict=True):
        start, count = corners[first], (corners[end] - corners[first]) % len(ring)
        part = np.arange(start, start + count) % len(ring)
        axis = 0 if along[first] else 1
        weight = np.abs(steps[part, axis])
        offset = (weight * middles[part, 1 - axis]).sum() / weight.sum()
        sides.append(_Side(bool(along[first]), float(offset), float(weight.sum())))
    return sides


def _without_jogs(sides: list[_Side], least: float) -> list[_Side]:
    """Remove sides shorter than ``least``, the shortest first; four always remain."""
    while len(sides) > 4:
        lengths = [abs(side.offset - sides[k - 2].offset) for k, side in enumerate(sides)]  # of side k - 1
        shortest = min(range(len(sides)), key=lengths.__getitem__)
        if lengths[shortest] >= least:
            break
        before, _, after, *others = [*sides[shortest - 2 :], *sides[: shortest - 2]]
        sides = [before.merged(after), *others]
    return sides
