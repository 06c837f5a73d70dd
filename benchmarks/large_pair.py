"""A pair of large generated scenes: cells of a painted suburb, some with a new estate and some without.

The cells are painted once and laid out turned over by chance, the same at both dates. They begin half a cell
outside the scene, so an estate lies across every middle line. Pixels are rounded to multiples of four, since
the noise in the last bits would only fill the disk.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from rasterio.windows import Window

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from demo_scene.layout import make_layout
from demo_scene.paint import AFTER, BEFORE, paint

GSD = 0.5
CRS = "EPSG:32614"
WEST, NORTH = 600_000.0, 3_380_000.0
CELL = 1000
BLOCK = 256
STEP = 4
CACHE = 64 * 2**20


@dataclass(frozen=True)
class LargePair:
    """Two GeoTIFFs of ``side`` x ``side`` pixels."""

    before: Path
    after: Path
    side: int


def pair_at(folder: Path, side: int) -> LargePair:
    """Return where the pair of a size lies in a folder, whether it is there or not."""
    return LargePair(folder / f"before_{side}.tif", folder / f"after_{side}.tif", side)


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


def load_cells(path: Path, seed: int, count: int) -> list[Cell]:
    """Return the cells kept at ``path`` (``.npz``), which are painted first when it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        stack = [[cell.before, cell.built, cell.unbuilt] for cell in paint_cells(seed, count)]
        np.savez_compressed(path, cells=np.array(stack))
    with np.load(path, allow_pickle=False) as kept:
        return [Cell(*views) for views in kept["cells"]]


def raster_options(width: int, height: int) -> dict[str, Any]:
    """Return what a generated scene of so many pixels is written with."""
    options = {"driver": "GTiff", "width": width, "height": height, "count": 3, "dtype": "uint8", "crs": CRS}
    options |= {"transform": Affine(GSD, 0, WEST, 0, -GSD, NORTH), "photometric": "RGB", "tiled": True}
    return options | {"blockxsize": BLOCK, "blockysize": BLOCK, "compress": "deflate", "predictor": 2}


def make_pair(folder: Path, side: int, *, cells: list[Cell], seed: int, changed: float = 0.5) -> LargePair:
    """Write a pair, which needs little more memory than its cells.

    Args:
        folder: where ``before_<side>.tif`` and ``after_<side>.tif`` go; it is made when it is not there.
        side: in pixels.
        cells: what the scene is laid out with.
        seed: of the layout.
        changed: share of the cells in which the estate is built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    across = side // CELL + 2
    chance = np.random.default_rng(seed)
    which = chance.integers(0, len(cells), (across, across))
    turned = chance.integers(0, 2, (2, across, across)).astype(bool)
    built = chance.random((across, across)) < changed
    pair = pair_at(folder, side)
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
                            image = _image(cells[which[row, col]], is_after, bool(built[row, col]))
                            flip = [slice(None, None, -1 if turn[row, col] else 1) for turn in turned]
                            part = image[:, flip[0], flip[1]][:, rows[mine] % CELL]
                            strip[:, mine, col * CELL : (col + 1) * CELL] = part
                    strip = strip[:, :, CELL // 2 : CELL // 2 + side]
                    file.write(strip, window=Window(0, top, side, len(rows)))
    return pair


def _image(cell: Cell, is_after: bool, built: bool) -> np.ndarray:
    if not is_after:
        return cell.before
    return cell.built if built else cell.unbuilt
