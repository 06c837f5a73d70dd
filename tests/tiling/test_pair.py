"""Two scenes on one grid: which grid it is, and that the pixels lie on it."""

from itertools import product

import numpy as np
import pytest
from pyproj import Transformer
from rasterio.warp import calculate_default_transform
from rasters import ORIGIN, UTM, lonlat, north_up, read_pair, refused_pair, whole, write_scene

from tiling import NoOverlap, ScenePair, Window
from tiling.geodesy import on_map


def test_one_grid_gives_the_pixels_of_the_files(scenes):
    with ScenePair.open(*scenes[:2]) as pair:
        before, after, valid = whole(pair)
    assert np.array_equal(before, scenes[2]) and np.array_equal(after, scenes[3]) and valid.all()
    assert before.dtype == after.dtype == np.uint8 and valid.dtype == bool
    grid = pair.grid
    assert (grid.width, grid.height, grid.gsd, grid.transform) == (90, 60, 0.5, north_up())
    assert grid.crs.to_string() == UTM
    assert pair.stretch.kind == "none"


GRIDS = {
    "half a pixel": (UTM, north_up(ORIGIN[0] - 3.25, ORIGIN[1] + 2.25)),
    "finer": (UTM, north_up(ORIGIN[0] - 2, ORIGIN[1] + 2, 0.3)),
    "coarser": (UTM, north_up(ORIGIN[0] - 2, ORIGIN[1] + 2, 0.8)),
    "degrees": ("EPSG:4326", None),
    "the next zone": ("EPSG:32634", None),
    "web mercator": ("EPSG:3857", None),
}


def pattern(x, y):
    """A smooth picture of the ground, in UTM metres, so that it can be drawn on any grid."""
    u, v = x - ORIGIN[0], y - ORIGIN[1]
    return np.stack(
        [128 + 90 * np.sin(u / 9) * np.cos(v / 7), 120 + 80 * np.cos(u / 8), 110 + 70 * np.sin(v / 6)]
    )


def draw(crs, transform, height, width):
    cols, rows = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    x, y = on_map(transform, cols, rows)
    if crs != UTM:
        x, y = Transformer.from_crs(crs, UTM, always_xy=True).transform(x, y)
    return np.rint(pattern(x, y)).astype(np.uint8)


def covering(crs, height, width, cell=0.5, margin=10):
    """A grid in ``crs`` that covers the scene of ``height`` x ``width`` pixels of ``cell`` at ORIGIN."""
    left, top = ORIGIN[0] - margin, ORIGIN[1] + margin
    right, bottom = ORIGIN[0] + width * cell + margin, ORIGIN[1] - height * cell - margin
    return calculate_default_transform(UTM, crs, 400, 400, left, bottom, right, top)


@pytest.fixture(params=GRIDS)
def two_grids(tmp_path, request):
    """A scene in UTM and one of the same ground on another grid that covers it all."""
    height, width = 300, 700
    before = write_scene(tmp_path / "before.tif", draw(UTM, north_up(), height, width))
    crs, transform = GRIDS[request.param]
    cols, rows = 1250, 560
    if transform is None:
        transform, cols, rows = covering(crs, height, width)
    after = write_scene(
        tmp_path / "after.tif", draw(crs, transform, rows, cols), crs=crs, transform=transform
    )
    return before, after


def test_the_second_grid_comes_onto_the_first(two_grids):
    with ScenePair.open(*two_grids) as pair:
        before, after, valid = whole(pair)
    assert pair.grid.transform == north_up() and (pair.grid.width, pair.grid.height) == (700, 300)
    assert valid.all()
    difference = np.abs(before.astype(int) - after)
    assert difference.mean() < 2 and difference.max() < 12


def test_partial_overlap_becomes_the_intersection(tmp_path, scenes):
    # 90 x 60 pixels of 0.5 m; the other lies 20 m east and 12 m north, on pixels of its own.
    after = write_scene(
        tmp_path / "moved.tif", scenes[3], transform=north_up(ORIGIN[0] + 20.2, ORIGIN[1] + 12.1)
    )
    with ScenePair.open(scenes[0], after) as pair:
        before, _, valid = whole(pair)
    grid = pair.grid
    assert (grid.transform.c, grid.transform.f) == (ORIGIN[0] + 20, ORIGIN[1])
    assert (grid.width, grid.height) == (50, 36)
    assert np.array_equal(before[:, valid], scenes[2][:, :36, 40:][:, valid])
    assert valid[1:-1, 1:-1].all()


def test_no_overlap(tmp_path, scenes):
    steps = (45.0, 0), (0, -30.0), (-45.0, 0), (1e5, 1e5)
    elsewhere = [{"transform": north_up(ORIGIN[0] + x, ORIGIN[1] + y)} for x, y in steps]
    elsewhere += [{"crs": crs} for crs in ("EPSG:32601", "EPSG:3857", "EPSG:32733", "EPSG:2263")]
    for place in elsewhere:
        after = write_scene(tmp_path / "elsewhere.tif", scenes[3], **place)
        refused_pair(NoOverlap, scenes[0], after, "elsewhere.tif", "before.tif")


@pytest.mark.parametrize(
    ("gsd", "resampled"), [(None, False), (0.5, False), (0.503, False), (0.52, True), (1, True)]
)
def test_the_resolution_is_kept_when_it_is_within_a_percent(scenes, gsd, resampled):
    with ScenePair.open(*scenes[:2], gsd=gsd) as pair:
        assert (pair.grid.gsd != 0.5) == resampled
        assert pair.grid.gsd == (gsd if resampled else 0.5)
        assert pair.grid.transform.a == pytest.approx(gsd if resampled else 0.5)
        assert pair.grid.width == pytest.approx(90 * 0.5 / pair.grid.gsd, abs=1)


def test_shrinking_averages(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (3, 120, 200)).astype(np.uint8)
    path = write_scene(tmp_path / "a.tif", noise)
    before, _, valid = read_pair(path, gsd=2.0)
    blocks = noise.reshape(3, 30, 4, 50, 4).mean((2, 4))
    assert valid.all() and np.abs(before - blocks).max() <= 1


def test_bounds_are_the_focus_and_change_no_pixel(scenes):
    corners = [lonlat(ORIGIN[0] + x, ORIGIN[1] - y) for x, y in product((10, 25), (5, 20))]
    lons, lats = zip(*corners, strict=True)
    with ScenePair.open(*scenes[:2]) as pair:
        everything = whole(pair)
        assert pair.focus == Window(0, 0, 90, 60)
    with ScenePair.open(*scenes[:2], bounds=(min(lons), min(lats), max(lons), max(lats))) as pair:
        focus = pair.focus
        assert all(np.array_equal(*images) for images in zip(everything, whole(pair), strict=True))
    assert abs(focus.col_off - 20) <= 1 and abs(focus.row_off - 10) <= 1
    assert abs(focus.width - 30) <= 1 and abs(focus.height - 30) <= 1
