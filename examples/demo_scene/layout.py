"""What stands where in the demo scene, before and after; metres from the upper left corner, y downwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from shapely import affinity
from shapely.geometry import LineString, Point, Polygon, box
from shapely.ops import unary_union

ROAD_WIDTH = 7.0
NEW_ROAD_WIDTH = 6.0
LOT_WIDTH = 21.0
SETBACK = 5.0
SMALLEST = (300.0, 260.0)


@dataclass(frozen=True)
class Wing:
    """One rectangle of a roof in the house's own axes: centre (u, v) and half sizes, in metres."""

    u: float
    v: float
    half_u: float
    half_v: float
    hipped: bool

    def polygon(self) -> Polygon:
        """The rectangle in the house's own axes."""
        return box(self.u - self.half_u, self.v - self.half_v, self.u + self.half_u, self.v + self.half_v)


@dataclass(frozen=True)
class House:
    """A house whose front (towards negative v) looks at its road.

    Attributes:
        x, y: centre in metres.
        angle: direction of the u axis in radians.
        wings: the roof's parts; together they are the footprint.
        pitch: rise over run of every face.
        tone: RGB reflectance of the shingles, 0..1.
        pool_u: where along the back yard a pool lies, in metres from the centre; None without one.
        driveway_u: where along the front the driveway starts, in metres from the centre.
    """

    x: float
    y: float
    angle: float
    wings: tuple[Wing, ...]
    pitch: float
    tone: tuple[float, float, float]
    driveway_u: float
    pool_u: float | None

    def place(self, shape: Polygon) -> Polygon:
        """Bring a shape from the house's own axes to the scene."""
        turned = affinity.rotate(shape, self.angle, origin=(0, 0), use_radians=True)
        return affinity.translate(turned, self.x, self.y)

    def footprint(self) -> Polygon:
        """Outline of the roof in the scene."""
        return self.place(unary_union([wing.polygon() for wing in self.wings]))

    def driveway(self) -> Polygon:
        """Concrete from the garage to the road."""
        front = min(wing.v - wing.half_v for wing in self.wings)
        return self.place(box(self.driveway_u - 2.2, front - SETBACK, self.driveway_u + 2.2, front + 1.5))

    def lot(self) -> Polygon:
        """The fenced back yard and the ground beside the house."""
        return self.place(box(-LOT_WIDTH / 2 + 0.4, -10.0, LOT_WIDTH / 2 - 0.4, 19.0))


@dataclass(frozen=True)
class Tree:
    """A crown: centre and radius in metres, ``seed`` for its shape, ``shade`` 0..1 from dark to light."""

    x: float
    y: float
    radius: float
    seed: int
    shade: float


@dataclass(frozen=True)
class Layout:
    """The whole scene; ``*_before`` and ``*_after`` differ, the rest is there at both dates."""

    width: float
    height: float
    roads: tuple[LineString, ...]
    track: LineString
    new_road: LineString
    old_houses: tuple[House, ...]
    villas: tuple[House, ...]
    trees_before: tuple[Tree, ...]
    trees_after: tuple[Tree, ...]

    def new_pavement(self) -> Polygon:
        """The new road with the driveways of the villas, without what was road before."""
        road = self.new_road.buffer(NEW_ROAD_WIDTH / 2)
        old = unary_union([line.buffer(ROAD_WIDTH / 2) for line in self.roads])
        return unary_union([road, *(villa.driveway() for villa in self.villas)]).difference(old)


def make_layout(rng: np.random.Generator, width: float, height: float) -> Layout:
    """Draw a scene.

    Args:
        rng: the only source of chance.
        width, height: of the scene in metres, at least ``SMALLEST``.

    Raises:
        ValueError: the scene is too small for an estate.
    """
    if width < SMALLEST[0] or height < SMALLEST[1]:
        raise ValueError(f"the demo scene needs at least {SMALLEST[0]:.0f} x {SMALLEST[1]:.0f} m")
    main = _curve((-20, 0.74 * height), (width + 20, 0.66 * height), 0.035 * height)
    junction = main.interpolate(main.project(Point(0.36 * width, 0.7 * height)))
    new_road = _curve((junction.x, junction.y), (junction.x - 0.03 * width, 0.25 * height), 0.010 * width)
    fork = main.interpolate(main.project(Point(0.80 * width, 0.66 * height)))
    side = _curve((fork.x, fork.y), (fork.x + 0.04 * width, height + 20), 0.015 * width)
    roads = (main, side)
    track = _curve((0.60 * width, -20), (0.745 * width, 0.655 * height), 0.03 * width)

    villas = _along(rng, new_road, -1, 26.0, new_road.length)
    villas += _along(rng, new_road, 1, 26.0, new_road.length)
    start = main.project(junction)
    villas += _along(rng, main, -1, start + 0.085 * width, start + 0.40 * width)
    old = _along(rng, main, 1, 0.08 * width, 0.42 * width) + _along(rng, side, 1, 26.0, side.length)
    villas = _without_overlaps(villas, [line.buffer(ROAD_WIDTH / 2 + 3) for line in roads])
    old = _without_overlaps(old, [new_road.buffer(12.0)])

    lots = unary_union([villa.lot() for villa in villas] + [new_road.buffer(NEW_ROAD_WIDTH)])
    kept_free = unary_union(
        [line.buffer(ROAD_WIDTH / 2 + 3.5) for line in roads]
        + [track.buffer(2.0)]
        + [house.footprint().buffer(2.5) for house in old]
        + [house.driveway().buffer(1.5) for house in old]
    )
    grove = new_road.interpolate(0.7, normalized=True).buffer(0.045 * width)
    trees = _trees(rng, width, height, grove, lots, kept_free)
    fallen = unary_union(
        [villa.footprint().buffer(1.5) for villa in villas]
        + [villa.driveway() for villa in villas]
        + [new_road.buffer(NEW_ROAD_WIDTH / 2 + 1)]
    )
    left = tuple(tree for tree in trees if not Point(tree.x, tree.y).buffer(tree.radius).intersects(fallen))
    return Layout(width, height, roads, track, new_road, tuple(old), tuple(villas), tuple(trees), left)


def _curve(start: tuple[float, float], end: tuple[float, float], bend: float) -> LineString:
    """A gentle S from start to end that leaves the straight line by ``bend`` metres at most."""
    along = np.linspace(0.0, 1.0, 60)
    first, last = np.array(start), np.array(end)
    direction = (last - first) / np.linalg.norm(last - first)
    normal = np.array([-direction[1], direction[0]])
    points = first + along[:, None] * (last - first) + (bend * np.sin(2 * np.pi * along))[:, None] * normal
    return LineString(points)


def _along(rng: np.random.Generator, line: LineString, side: int, first: float, last: float) -> list[House]:
    """Houses on one side of a road from first to last metre; side 1 is to the right of its direction."""
    houses = []
    for metre in np.arange(first, last - LOT_WIDTH / 2, LOT_WIDTH):
        point, ahead = line.interpolate(metre), line.interpolate(metre + 1.0)
        angle = np.arctan2(ahead.y - point.y, ahead.x - point.x)
        normal = side * np.array([-np.sin(angle), np.cos(angle)])
        wings = _wings(rng)
        front = min(wing.v - wing.half_v for wing in wings)
        away = ROAD_WIDTH / 2 + SETBACK - front + rng.uniform(-0.3, 0.8)
        centre = np.array([point.x, point.y]) + away * normal
        turned = angle if side > 0 else angle + np.pi
        houses.append(
            House(
                x=float(centre[0]),
                y=float(centre[1]),
                angle=float(turned + rng.normal(0, 0.02)),
                wings=wings,
                pitch=float(rng.uniform(0.5, 0.72)),
                tone=_tone(rng),
                driveway_u=float(rng.choice([-1, 1]) * (wings[0].half_u - 3.4)),
                pool_u=float(rng.uniform(-5, 5)) if rng.random() < 0.15 else None,
            )
        )
    return houses


def _wings(rng: np.random.Generator) -> tuple[Wing, ...]:
    """A main roof, mostly with a wing to the front or back, and a small gable over the entrance."""
    half_u, half_v = rng.uniform(7.7, 9.3), rng.uniform(5.8, 7.4)
    wings = [Wing(0.0, 0.0, half_u, half_v, bool(rng.random() < 0.75))]
    side = float(rng.choice([-1, 1]))
    if rng.random() < 0.85:
        wide, deep = rng.uniform(3.4, 4.6), rng.uniform(4.0, 5.5)
        wings.append(Wing(side * (half_u - wide), -half_v, wide, deep, bool(rng.random() < 0.5)))
    if rng.random() < 0.55:
        wide, deep = rng.uniform(3.2, 4.5), rng.uniform(3.5, 4.5)
        wings.append(Wing(-side * (half_u - wide), half_v, wide, deep, bool(rng.random() < 0.6)))
    if rng.random() < 0.7:
        wings.append(Wing(-side * rng.uniform(0.5, 3.0), -half_v + 1.0, 2.0, 2.2, False))
    return tuple(wings)


def _tone(rng: np.random.Generator) -> tuple[float, float, float]:
    """Shingles: mostly greys, some brown."""
    grey = rng.uniform(0.30, 0.43)
    warm = rng.uniform(-0.01, 0.03) if rng.random() < 0.87 else rng.uniform(0.04, 0.08)
    return (grey + warm, grey + 0.4 * warm, grey - 0.6 * warm)


def _without_overlaps(houses: list[House], barriers: list[Polygon]) -> list[House]:
    taken = unary_union(barriers)
    kept = []
    for house in houses:
        if not house.footprint().buffer(1.2).intersects(taken):
            kept.append(house)
            taken = taken.union(house.footprint())
    return kept


def _trees(
    rng: np.random.Generator, width: float, height: float, grove: Polygon, lots: Polygon, kept_free: Polygon
) -> list[Tree]:
    """Woods at two edges, a grove that the estate will cut into, scattered trees elsewhere."""
    trees = []
    bends = rng.uniform(0, 2 * np.pi, 3)
    for _ in range(int(0.030 * width * height)):
        x, y = float(rng.uniform(-5, width + 5)), float(rng.uniform(-5, height + 5))
        west = (
            0.17 * width + 0.035 * width * np.sin(y / 23 + bends[0]) + 0.02 * width * np.sin(y / 9 + bends[1])
        )
        east = 0.78 * width + 0.05 * width * np.sin(y / 31 + bends[2])
        wooded = x < west or (x > east and y < 0.58 * height)
        chance = 0.85 if wooded else 0.03
        radius = float(np.clip(rng.gamma(9.0, 0.33), 1.4, 5.6))
        seed, shade, draw = int(rng.integers(1 << 31)), float(rng.random()), rng.random()
        crown = Point(x, y).buffer(0.85 * radius)
        if grove.contains(crown):
            chance = 0.8
        elif crown.intersects(lots):
            chance = 0.55 if wooded else 0.03
        if draw < chance and not crown.intersects(kept_free):
            trees.append(Tree(x, y, radius, seed, shade))
    return trees
