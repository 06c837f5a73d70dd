"""The edge of what a date shows is never a change: nodata, masks, clouds cut out by alpha, the border.

Under every hidden pixel lies white on one date and black on the other, no polygon is too small to be
reported, and nothing changed: whatever is reported comes from an edge.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from demo_scene.layout import make_layout
from demo_scene.paint import BEFORE, paint
from judging import outlines, run_command
from kind import EUROPE
from make_demo_scene import CRS, GSD, NORTH, WEST, compressed
from rasterio.enums import ColorInterp
from rasterio.features import shapes
from rasterio.warp import transform_geom
from rasters import write_scene
from scene_pairs import run_here
from scenes import Date, Drawing, write
from scipy.ndimage import uniform_filter
from shapely.geometry import shape

JPEG = Date(layout="jpeg in tiff", nodata="mask")
RGBA = ("red", "green", "blue", "alpha")
MARKS = {
    "one value": (Date(nodata=0), Date(nodata=0)),
    "two values": (Date(nodata=0), Date(nodata=255)),
    "a value of the other date": (Date(nodata=90), Date(nodata=130)),
    "masks": (Date(nodata="mask"), Date(nodata="mask")),
    "alpha": (Date(bands=RGBA, nodata="alpha"), Date(bands=RGBA, nodata="alpha")),
    "mask and alpha": (Date(nodata="external mask"), Date(bands=RGBA, nodata="alpha")),
    "NaN": (Date(dtype="float32", nodata="unsaid nan"), Date(dtype="float32", nodata="nan")),
    "floats": (Date(dtype="float32", nodata=-9999), Date(dtype="float32", nodata="unsaid nan")),
    "int16": (Date(dtype="int16", nodata=-32768), Date(dtype="int16", nodata=0)),
    "uint16 and uint8": (Date(dtype="uint16", nodata=0), Date(nodata=255)),
    "JPEG with masks": (JPEG, JPEG),
    "palettes": (Date(bands=("palette",), nodata=0), Date(bands=("palette",), nodata=7)),
    "COG with masks": (Date(layout="cog", nodata="mask"), Date(layout="cog", nodata="mask")),
    "nothing, the border only": (Date(), Date()),
}  # fmt: skip
# Pixels a side that four tiles of the default model cover.
FOUR_TILES = 448
# How AFTER lies against BEFORE: its border, too, runs through BEFORE.
LIES = {
    "on the same pixels": {},
    "cut, on the same pixels": {"size": (100, 130), "moved": (3.0, -2.0)},
    "between the pixels": {"size": (120, 150), "moved": (1.13, 0.87)},
    "finer": {"gsd": 0.17, "size": (380, 480)},
    "coarser": {"gsd": 0.9, "size": (70, 90)},
    "turned": {"rotation": 24.0, "size": (150, 190)},
    "south-up in another zone": {"crs": "EPSG:32634", "flip": "rows", "size": (120, 160)},
    "in degrees": {"crs": "EPSG:4326", "size": (110, 170)},
}


# Each mark in two positions, other ones for the next mark.
COMBINATIONS = [
    (marks, list(LIES)[(number + step) % len(LIES)]) for number, marks in enumerate(MARKS) for step in (0, 5)
]


@pytest.mark.slow
@pytest.mark.parametrize(("marks", "lies"), COMBINATIONS)
def test_no_edge_is_a_change(marks, lies, tmp_path, capfd):
    before, after = MARKS[marks]
    if before.nodata != "":
        before, after = (dataclasses.replace(d, hide=h) for d, h in ((before, "clouds"), (after, "east")))
    after = dataclasses.replace(after, **LIES[lies])
    paths = [
        write(tmp_path, "before", before, Drawing(EUROPE, after=False)),
        write(tmp_path, "after", after, Drawing(EUROPE, after=True, full=0)),
    ]
    run = run_command(capfd, *paths, tmp_path, ("--min-area", "0"))
    assert (run.code, run.warnings) == (0, [])
    assert [str(one) for one in outlines(run, EUROPE)] == []


@pytest.mark.parametrize("lies", ["on the same pixels", "between the pixels", "turned"])
def test_a_soft_rim_of_clouds_is_no_change(lies, tmp_path, capfd):
    """Towards the middle of a cloud its pixels are whiter and more transparent."""
    paths = []
    for name, after, hide in (("before", False, "clouds"), ("after", True, "other clouds")):
        date = Date(bands=RGBA, nodata="alpha", hide=hide, **(LIES[lies] if after else {}))
        paths.append(write(tmp_path, name, date, Drawing(EUROPE, after, full=0)))
        with rasterio.open(paths[-1], "r+") as file:
            bands = file.read().astype(float)
            opaque = bands[3] / 255
            for _ in range(6):
                opaque = uniform_filter(opaque, 3, mode="nearest")
            white = 255 * (1 - opaque) + bands[:3] * opaque
            clouded = np.where(opaque < 0.98, white, bands[:3])
            alpha = np.where(opaque < 0.98, 240 * opaque, 255)
            file.write(np.rint(np.concatenate([clouded, alpha[None]])).astype(np.uint8))
            file.colorinterp = [ColorInterp[name] for name in RGBA]
    run = run_command(capfd, *paths, tmp_path, ("--min-area", "0"))
    assert (run.code, run.warnings) == (0, [])
    assert [str(one) for one in outlines(run, EUROPE)] == []


def test_the_same_without_masks_is_a_change(tmp_path, capfd):
    """The tests above can fail: what is under the masks is seen when the files do not speak of it."""
    paths = [
        write(tmp_path, "before", Date(hide="clouds"), Drawing(EUROPE, after=False)),
        write(tmp_path, "after", Date(hide="east"), Drawing(EUROPE, after=True, full=0)),
    ]
    run = run_command(capfd, *paths, tmp_path, ("--min-area", "0", "--group-distance", "0"))
    assert run.code == 0 and len(outlines(run, EUROPE)) >= 2


@pytest.fixture(scope="module")
def estate():
    """Pixels (3, FOUR_TILES, FOUR_TILES) uint8 of the date before of a generated scene, and their place."""
    seeds = [int(number) for number in np.random.SeedSequence(5).generate_state(3)]
    layout = make_layout(np.random.default_rng(seeds[0]), 600 * GSD, 520 * GSD)
    image = paint(layout, BEFORE, after=False, gsd=GSD, ground_seed=seeds[1], date_seed=seeds[2])
    place = {"crs": CRS, "transform": Affine(GSD, 0, WEST, 0, -GSD, NORTH)}
    return compressed(np.moveaxis(image, -1, 0))[:, :FOUR_TILES, :FOUR_TILES], place


def clouds(height, width, seed):
    """Where a date is hidden: ragged clouds and one ragged side."""
    random = np.random.default_rng(seed)
    rows, cols = np.mgrid[:height, :width]
    angle_noise = 6 * np.sin(cols / 3.1) + 5 * np.sin(rows / 2.3)
    covered = cols < 25 + angle_noise if seed % 2 else rows > height - 25 + angle_noise
    for _ in range(5):
        row, col, radius = random.uniform(0, height), random.uniform(0, width), random.uniform(20, 55)
        covered = covered | (np.hypot(rows - row, cols - col) < radius + angle_noise)
    return covered


@pytest.mark.slow
@pytest.mark.parametrize("marks", ["alpha", "mask", "value"])
def test_the_default_model_sees_no_change_at_a_rim(estate, marks, tmp_path, capfd):
    """The date before twice, darker the second time; other parts of each hidden, white and black under it."""
    image, place = estate
    hidden, paths = [], []
    for name, seed, under in (("before", 1, 255), ("after", 2, 0)):
        covered = clouds(*image.shape[1:], seed)
        shown = image if name == "before" else np.rint(image * 0.93 + 4).astype(np.uint8)
        pixels = np.where(covered, under, np.where(shown == under, abs(under - 1), shown)).astype(np.uint8)
        mark = {
            "alpha": {"alpha": np.where(covered, 0, 255)},
            "mask": {"mask": ~covered},
            "value": {"nodata": under},
        }[marks]
        paths.append(write_scene(tmp_path / f"{name}.tif", pixels, **place, **mark))
        hidden.append(covered)
    target = tmp_path / "report.geojson"
    code, _, err = run_here(capfd, "caption", *paths, "-o", target, "--min-area", "0", "--quiet")
    assert code == 0, err
    covered = (hidden[0] | hidden[1]).astype(np.uint8)
    rim = shapely.union_all(
        [
            shape(transform_geom(place["crs"], "OGC:CRS84", geometry))
            for geometry, value in shapes(covered, mask=covered > 0, transform=place["transform"])
        ]
    ).buffer(3e-5)
    found = [shape(feature["geometry"]) for feature in json.loads(target.read_text())["features"]]
    assert not [str(one) for one in found if one.intersects(rim)]
