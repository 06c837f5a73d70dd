"""Generate pairs of scenes (uint8 RGB, 0.5 m) of a painted suburb in which houses are built.

    python benchmarks/painted_pairs.py twin  [--folder runs/twin] [--share 1 0.05]
    python benchmarks/painted_pairs.py large [--folder runs/large] [--side 4000 12000] [--changed 0.5]

``twin`` writes for each share ``before_<percent>.tif`` and ``after_<percent>.tif`` of 1,070 x 1,230 pixels:
streets and trees stay, and 93 houses are built, or those of them that stand in a rectangle of that share of
the area. The dates differ in light, season, cars and noise too.
``large`` writes ``before_<side>.tif`` and ``after_<side>.tif``. Cells of 1,000 pixels are painted once and
laid out, flipped at random, the same way at both dates; in some an estate is built. They begin half a cell
outside the scene, so that an estate lies across every middle line.
Pixels are rounded to multiples of four, since the noise in the last bits would only fill the disk.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from rasterio.windows import Window
from shapely.geometry import LineString, Point, box
from shapely.ops import unary_union

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from demo_scene.layout import NEW_ROAD_WIDTH, ROAD_WIDTH, SETBACK, House, Layout, make_layout
from demo_scene.paint import AFTER, BEFORE, paint

GSD = 0.5
CRS = "EPSG:32614"
WEST, NORTH = 600_000.0, 3_380_000.0
BLOCK = 256
STEP = 4
SEED = 7

# Twin
WIDTH, HEIGHT = 1070, 1230
HOUSES = 93
# Plots a side of a street, and streets; more than are built on, since roads and old houses lie on some.
ACROSS, STREETS = 15, 4

# Large pairs
CELL, CELLS = 1000, 2
CACHE = 64 * 2**20


@dataclass(frozen=True)
class Pair:
    """Two scenes on one grid, and their number of pixels."""

    before: Path
    after: Path
    pixels: int

    @classmethod
    def of(cls, before: Path, after: Path) -> Pair:
        """Read the size from the header of ``before``."""
        with rasterio.open(before) as file:
            return cls(before.resolve(), after.resolve(), file.width * file.height)


@dataclass(frozen=True)
class Cell:
    """One painted suburb, (3, CELL, CELL) uint8: before, after with the estate, after without."""

    before: np.ndarray
    built: np.ndarray
    unbuilt: np.ndarray


def paint_cells(seed: int, count: int) -> list[Cell]:
    """Paint ``count`` different suburbs; the same seed gives the same pixels."""
    cells = []
    for one in np.random.SeedSequence(seed).spawn(count):
        layout_seed, ground, first, second = (int(number) for number in one.generate_state(4))
        layout = make_layout(np.random.default_rng(layout_seed), CELL * GSD, CELL * GSD)

        def view(season, after, chance, layout=layout, ground=ground):  # type: ignore[no-untyped-def]
            image = paint(layout, season, after=after, gsd=GSD, ground_seed=ground, date_seed=chance)
            return np.moveaxis(image, -1, 0) // STEP * STEP

        cells.append(Cell(view(BEFORE, False, first), view(AFTER, True, second), view(AFTER, False, second)))
    return cells


def raster_options(width: int, height: int) -> dict[str, Any]:
    """Return the options of rasterio to write a scene."""
    options = {"driver": "GTiff", "width": width, "height": height, "count": 3, "dtype": "uint8", "crs": CRS}
    options |= {"transform": Affine(GSD, 0, WEST, 0, -GSD, NORTH), "photometric": "RGB", "tiled": True}
    return options | {"blockxsize": BLOCK, "blockysize": BLOCK, "compress": "deflate", "predictor": 2}


def large_pair(folder: Path, side: int, *, changed: float = 0.5) -> Pair:
    """Return the pair of this side in pixels, made if it is missing, in little more memory than its cells.

    ``changed`` is the share of the cells in which the estate is built.
    """
    pair = Pair(folder / f"before_{side}.tif", folder / f"after_{side}.tif", side**2)
    if pair.before.exists() and pair.after.exists():
        return pair
    folder.mkdir(parents=True, exist_ok=True)
    cells, across = paint_cells(SEED, CELLS), side // CELL + 2
    chance = np.random.default_rng(SEED)
    which = chance.integers(0, len(cells), (across, across))
    turned = chance.integers(0, 2, (2, across, across)).astype(bool)
    built = chance.random((across, across)) < changed
    options = raster_options(side, side)
    with rasterio.Env(GDAL_CACHEMAX=CACHE, GDAL_NUM_THREADS="ALL_CPUS"):
        for path, is_after in ((pair.before, False), (pair.after, True)):
            with rasterio.open(path, "w", **options) as file:
                for top in range(0, side, BLOCK):
                    rows = np.arange(top, min(top + BLOCK, side)) + CELL // 2
                    strip = np.empty((3, len(rows), across * CELL), np.uint8)
                    for row in np.unique(rows // CELL):
                        mine = rows // CELL == row
                        for col in range(across):
                            cell = cells[which[row, col]]
                            after = cell.built if built[row, col] else cell.unbuilt
                            image = after if is_after else cell.before
                            flip = [slice(None, None, -1 if turn[row, col] else 1) for turn in turned]
                            part = image[:, flip[0], flip[1]][:, rows[mine] % CELL]
                            strip[:, mine, col * CELL : (col + 1) * CELL] = part
                    strip = strip[:, :, CELL // 2 : CELL // 2 + side]
                    file.write(strip, window=Window(0, top, side, len(rows)))
    return pair


def built_layout(seed: int, share: float) -> Layout:
    """Return a suburb in which new houses stand on the ``share`` of the area in the upper left.

    Args:
        seed: the same seed gives the same houses; a smaller share has some of those of a larger one.
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
    if len(plots) < HOUSES:
        raise ValueError(f"there is room for {len(plots)} houses, not for {HOUSES}")
    chosen = [plots[number] for number in sorted(chance.permutation(len(plots))[:HOUSES])]
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
    """Return one line through all rows, which turns outside the scene or at the end of the part."""
    ends = [
        (-20.0, y) if (number + end) % 2 else (width + 20.0, y)
        for number, y in enumerate(rows)
        for end in (1, 0)
    ]
    return LineString(ends)


def _plots(kinds: Sequence[House], width: float, height: float) -> list[House]:
    """Return plots with houses on both sides of the streets, more than are built on."""
    found = []
    for number in range(2 * STREETS * ACROSS):
        street, plot = divmod(number, 2 * ACROSS)
        side = -1 if plot % 2 else 1
        kind = kinds[number % len(kinds)]
        front = min(wing.v - wing.half_v for wing in kind.wings)
        x = width * (plot // 2 + 0.5) / ACROSS
        y = _streets(height)[street] + side * (SETBACK + ROAD_WIDTH / 2 - front)
        found.append(dataclasses.replace(kind, x=x, y=y, angle=0.0 if side > 0 else np.pi))
    return found


def make_twin(folder: Path, share: float = 1.0) -> tuple[Pair, int]:
    """Return the pair with new houses in a share of the area, 0..1, and their number; make it if missing."""
    layout = built_layout(SEED, share)
    paths = [folder / f"{date}_{100 * share:g}.tif" for date in ("before", "after")]
    folder.mkdir(parents=True, exist_ok=True)
    for path, season, after in zip(paths, (BEFORE, AFTER), (False, True), strict=True):
        if not path.exists():
            image = paint(layout, season, after=after, gsd=GSD, ground_seed=SEED, date_seed=SEED + 1 + after)
            with rasterio.open(path, "w", **raster_options(WIDTH, HEIGHT)) as file:
                file.write(np.moveaxis(image, -1, 0) // STEP * STEP)
    return Pair(*paths, WIDTH * HEIGHT), len(layout.villas)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the pairs and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=("twin", "large"))
    parser.add_argument("--folder", type=Path, help="default: runs/twin or runs/large")
    parser.add_argument("--share", type=float, nargs="+", default=[1.0, 0.05], help="of the area, 0 to 1")
    parser.add_argument("--side", type=int, nargs="+", default=[4000], help="in pixels")
    parser.add_argument("--changed", type=float, default=0.5, help="share of the cells with a new estate")
    options = parser.parse_args(arguments)
    folder = options.folder or Path("runs", options.kind)
    if options.kind == "large":
        for pair in (large_pair(folder, side, changed=options.changed) for side in options.side):
            print(pair.before, pair.after)
        return
    for twin, houses in (make_twin(folder, share) for share in options.share):
        print(f"{twin.before} {twin.after}: {houses} new houses")


if __name__ == "__main__":
    main()
