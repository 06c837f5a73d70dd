"""A generated scene full of changes: 1,070 x 1,230 pixels of 0.5 m with 93 new houses, or fewer.

    python benchmarks/twin_scene.py [--folder runs/twin] [--share 1 0.05] [--check MODEL]

Writes for each share ``before_<percent>.tif`` and ``after_<percent>.tif`` (uint8 RGB, tiled, deflated): a
painted suburb (``examples/demo_scene``) whose streets and trees stay, and in which houses are built in a
rectangle of that share of the area, at the same density. The dates differ in light, season, cars and noise
too. With ``--check`` a model captions each pair, and a table tells how many changes and outlines it has.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import shapely
from large_pair import GSD, STEP, raster_options
from shapely.geometry import LineString, Point, box
from shapely.ops import unary_union

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from demo_scene.layout import NEW_ROAD_WIDTH, ROAD_WIDTH, SETBACK, House, Layout, make_layout
from demo_scene.paint import AFTER, BEFORE, paint

from rscc.markdown import table

WIDTH, HEIGHT = 1070, 1230
PLACES = 93
SEED = 7
# Plots a side of a street, and streets; more than are built on, since roads and old houses lie on some.
ACROSS, STREETS = 15, 4


@dataclasses.dataclass(frozen=True)
class Twin:
    """Two GeoTIFFs, and how many houses are new in the second."""

    before: Path
    after: Path
    places: int


def built_layout(seed: int, share: float) -> Layout:
    """Return a suburb in which new houses stand on the ``share`` of the area in the upper left.

    Args:
        seed: the same seed gives the same houses; those of a smaller share are among those of a larger one.
        share: of the area, 0..1.

    Raises:
        ValueError: there is no room for all houses.
    """
    width, height = WIDTH * GSD, HEIGHT * GSD
    chance = np.random.default_rng(seed)
    layout = make_layout(chance, width, height)
    taken = unary_union(
        [line.buffer(ROAD_WIDTH) for line in (*layout.roads, layout.track)]
        + [house.lot().buffer(3) for house in layout.old_houses]
    )
    plots = [house for house in _plots(layout.villas, width, height) if not house.lot().intersects(taken)]
    if len(plots) < PLACES:
        raise ValueError(f"there is room for {len(plots)} houses, not for {PLACES}")
    chosen = [plots[number] for number in sorted(chance.permutation(len(plots))[:PLACES])]
    part = box(0, 0, width * share**0.5, height * share**0.5)
    villas = [house for house in chosen if part.contains(Point(house.x, house.y))]
    street = _street(width * share**0.5, [y for y in _streets(height) if y < height * share**0.5])
    built = [shape for house in villas for shape in (house.footprint().buffer(1.5), house.driveway())]
    fallen = unary_union([street.buffer(NEW_ROAD_WIDTH / 2 + 1), *built])
    left = (
        tree
        for tree in layout.trees_before
        if not Point(tree.x, tree.y).buffer(tree.radius).intersects(fallen)
    )
    return dataclasses.replace(layout, villas=tuple(villas), new_road=street, trees_after=tuple(left))


def _streets(height: float) -> list[float]:
    return [height * (street + 0.5) / STREETS for street in range(STREETS)]


def _street(width: float, rows: Sequence[float]) -> LineString:
    """Return one line through all rows, which turns round outside the scene or at the end of the part."""
    ends = [
        (-20.0, y) if (number + end) % 2 else (width + 20.0, y)
        for number, y in enumerate(rows)
        for end in (1, 0)
    ]
    return LineString(ends)


def _plots(kinds: Sequence[House], width: float, height: float) -> list[House]:
    """Return houses of some kinds on both sides of the streets, more than are built."""
    found = []
    for number in range(2 * STREETS * ACROSS):
        street, place = divmod(number, 2 * ACROSS)
        side = -1 if place % 2 else 1
        kind = kinds[number % len(kinds)]
        front = min(wing.v - wing.half_v for wing in kind.wings)
        x = width * (place // 2 + 0.5) / ACROSS
        y = _streets(height)[street] + side * (SETBACK + ROAD_WIDTH / 2 - front)
        found.append(dataclasses.replace(kind, x=x, y=y, angle=0.0 if side > 0 else np.pi))
    return found


def make_twin(folder: Path, share: float = 1.0, *, seed: int = SEED) -> Twin:
    """Write the pair of a share where it is missing.

    Args:
        folder: where the files go.
        share: of the area that houses are built on, 0..1.
        seed: the same seed gives the same pixels.
    """
    layout = built_layout(seed, share)
    twin = Twin(*(folder / f"{date}_{100 * share:g}.tif" for date in ("before", "after")), len(layout.villas))
    if twin.before.exists() and twin.after.exists():
        return twin
    folder.mkdir(parents=True, exist_ok=True)
    for path, season, after in ((twin.before, BEFORE, False), (twin.after, AFTER, True)):
        image = paint(layout, season, after=after, gsd=GSD, ground_seed=seed, date_seed=seed + 1 + after)
        with rasterio.open(path, "w", **raster_options(WIDTH, HEIGHT)) as file:
            file.write(np.moveaxis(image, -1, 0) // STEP * STEP)
    return twin


def check(twins: Sequence[Twin], captioner: Any) -> str:
    """Caption the pairs; return a table of new houses, changes, and the outlines that the changes have."""
    from workflows import caption_scene

    rows = []
    for twin in twins:
        changes = caption_scene(twin.before, twin.after, captioner).changes
        outlines = sum(len(shapely.get_parts(change.geometry)) for change in changes)
        rows.append([twin.after.name, str(twin.places), str(len(changes)), str(outlines)])
    return table(["scene", "new houses", "changes", "outlines"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the pairs and, when asked for, look at them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/twin"))
    parser.add_argument("--share", type=float, nargs="+", default=[1.0, 0.05], help="of the area, 0 to 1")
    parser.add_argument("--check", metavar="MODEL", help="caption the pairs, too")
    options = parser.parse_args(arguments)
    twins = [make_twin(options.folder, share) for share in options.share]
    for twin in twins:
        print(f"{twin.before} {twin.after}: {twin.places} new houses")
    if options.check:
        from rscc.captioner import Captioner

        print(check(twins, Captioner.load(options.check)))


if __name__ == "__main__":
    main()
