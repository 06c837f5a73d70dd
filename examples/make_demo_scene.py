"""Render a georeferenced pair of scenes, before and after a new estate is built, and the truth about it.

Usage: python examples/make_demo_scene.py [FOLDER] [--seed 7] [--series]

Writes ``before_2016.tif`` and ``after_2019.tif`` (uint8 RGB, 0.5 m, UTM zone 14 north), ``truth.tif`` (uint8:
0 unchanged, 1 villa, 2 road or driveway, 3 clearing) and ``truth.geojson`` (the same as WGS84 polygons).
With ``--series`` it writes three scenes for ``rscc monitor`` instead: ``2016-03-14.tif`` before the estate is
built, ``2018-04-02.tif`` with the first half of its houses, ``2019-10-05.tif`` with all of them.

Light, season, cars and the gardens of the new lots differ too, but count as unchanged in the truth.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import rasterio
import shapely
from demo_scene.layout import Layout, make_layout
from demo_scene.paint import AFTER, BEFORE, paint
from rasterio.features import rasterize, shapes
from rasterio.io import MemoryFile
from rasterio.transform import Affine
from rasterio.warp import transform_geom
from shapely.geometry import mapping, shape

GSD = 0.5
CRS = "EPSG:32614"
WEST, NORTH = 612_480.0, 3_371_904.0
SITE_APART = 2_000.0
CLASSES = {1: "villa", 2: "road", 3: "clearing"}
SMALLEST_TRUTH_PX = 4


@dataclass(frozen=True)
class DemoScene:
    """Files of a rendered scene."""

    before: Path
    after: Path
    truth_raster: Path
    truth_polygons: Path


def make_scene(
    folder: Path | str, seed: int = 7, size: tuple[int, int] = (1024, 768), *, site: int = 0
) -> DemoScene:
    """Render the pair and its truth into a folder, which is created if it does not exist.

    Args:
        folder: target; existing files are replaced.
        seed: the same seed gives the same pixels.
        size: width and height in pixels of 0.5 m, at least 600 x 520.
        site: number of the position on the map; sites are 2 km apart.

    Raises:
        ValueError: the size is too small for an estate.
    """
    width, height = size
    seeds = [int(number) for number in np.random.SeedSequence(seed).generate_state(4)]
    layout = make_layout(np.random.default_rng(seeds[0]), width * GSD, height * GSD)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    scene = DemoScene(
        folder / "before_2016.tif", folder / "after_2019.tif", folder / "truth.tif", folder / "truth.geojson"
    )
    transform = Affine(GSD, 0, WEST + site * SITE_APART, 0, -GSD, NORTH)
    views = (
        (scene.before, BEFORE, False, seeds[2], "2016:03:14 11:20:00"),
        (scene.after, AFTER, True, seeds[3], "2019:10:05 10:40:00"),
    )
    for path, season, is_after, date_seed, moment in views:
        image = paint(layout, season, after=is_after, gsd=GSD, ground_seed=seeds[1], date_seed=date_seed)
        _write(path, compressed(np.moveaxis(image, -1, 0)), transform, moment)
    truth = true_change(layout, (height, width))
    _write(scene.truth_raster, truth[None], transform, None)
    scene.truth_polygons.write_text(json.dumps(_truth_collection(truth, transform)), encoding="utf-8")
    return scene


def make_series(folder: Path | str, seed: int = 7, size: tuple[int, int] = (1024, 768)) -> list[Path]:
    """Render three dates of the place into a folder, made if it does not exist; return their paths.

    Args:
        folder, seed, size: see :func:`make_scene`.
    """
    width, height = size
    seeds = [int(number) for number in np.random.SeedSequence(seed).generate_state(5)]
    layout = make_layout(np.random.default_rng(seeds[0]), width * GSD, height * GSD)
    half = replace(layout, villas=layout.villas[: len(layout.villas) // 2])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    dates = (
        ("2016-03-14", layout, BEFORE, False, seeds[2]),
        ("2018-04-02", half, AFTER, True, seeds[4]),
        ("2019-10-05", layout, AFTER, True, seeds[3]),
    )
    paths = []
    for date, there, season, is_after, date_seed in dates:
        image = paint(there, season, after=is_after, gsd=GSD, ground_seed=seeds[1], date_seed=date_seed)
        paths.append(folder / f"{date}.tif")
        transform = Affine(GSD, 0, WEST, 0, -GSD, NORTH)
        _write(
            paths[-1], compressed(np.moveaxis(image, -1, 0)), transform, f"{date.replace('-', ':')} 11:00:00"
        )
    return paths


def true_change(layout: Layout, shape_px: tuple[int, int]) -> np.ndarray:
    """Return (rows, columns) uint8 with the classes of the ground that changed.

    A pixel is a clearing if a crown covered it before and not after, and nothing was built there.
    """
    to_metres = Affine.scale(GSD)

    def burn(geometries: list[shapely.Geometry]) -> np.ndarray:
        if not geometries:
            return np.zeros(shape_px, bool)
        return rasterize(geometries, out_shape=shape_px, transform=to_metres).astype(bool)

    kept = set(layout.trees_after)
    fallen = [tree for tree in layout.trees_before if tree not in kept]
    crowns = [
        [shapely.Point(t.x, t.y).buffer(t.radius) for t in trees] for trees in (fallen, layout.trees_after)
    ]
    truth = np.zeros(shape_px, np.uint8)
    truth[burn(crowns[0]) & ~burn(crowns[1])] = 3
    truth[burn([layout.new_pavement()])] = 2
    truth[burn([villa.footprint() for villa in layout.villas])] = 1
    return truth


def compressed(image: np.ndarray, quality: int = 88) -> np.ndarray:
    """Compress an image as JPEG and decode it, like most imagery of this kind."""
    options = {"width": image.shape[2], "height": image.shape[1], "count": 3, "dtype": "uint8"}
    # rasterio warns if a file has no transform.
    options["transform"] = Affine.scale(GSD)
    with MemoryFile() as memory:
        with memory.open(driver="JPEG", quality=quality, **options) as written:
            written.write(image)
        with memory.open() as read:
            return read.read()


def _write(path: Path, bands: np.ndarray, transform: Affine, moment: str | None) -> None:
    options = {"driver": "GTiff", "crs": CRS, "transform": transform}
    options |= {"count": bands.shape[0], "height": bands.shape[1], "width": bands.shape[2], "dtype": "uint8"}
    options |= {"tiled": True, "blockxsize": 256, "blockysize": 256, "compress": "deflate", "predictor": 2}
    if bands.shape[0] == 3:
        options["photometric"] = "RGB"
    with rasterio.open(path, "w", **options) as target:
        target.write(bands)
        if moment:
            target.update_tags(TIFFTAG_DATETIME=moment)


def _truth_collection(truth: np.ndarray, transform: Affine) -> dict[str, object]:
    features = []
    for geometry, value in shapes(truth, mask=truth > 0, transform=transform):
        polygon = shape(geometry)
        if polygon.area < SMALLEST_TRUTH_PX * GSD**2:
            continue
        lonlat = shape(transform_geom(CRS, "OGC:CRS84", geometry))
        rounded = shapely.set_precision(lonlat, 1e-7, mode="pointwise")
        oriented = shapely.geometry.polygon.orient(rounded)
        features.append(
            {
                "type": "Feature",
                "properties": {"class": CLASSES[int(value)], "area_m2": round(polygon.area, 2)},
                "geometry": mapping(oriented),
            }
        )
    return {"type": "FeatureCollection", "features": features}


def main() -> None:
    """Render into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", default="demo", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--series", action="store_true", help="three dated scenes instead of a pair")
    options = parser.parse_args()
    if options.series:
        print("\n".join(map(str, make_series(options.folder, seed=options.seed))))
        return
    scene = make_scene(options.folder, seed=options.seed)
    print(f"{scene.before}\n{scene.after}\n{scene.truth_polygons}")


if __name__ == "__main__":
    main()
