from itertools import product

import numpy as np
import pytest
import rasterio
from affine import Affine
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import Transformer
from rasterio.enums import Resampling
from rasterio.warp import calculate_default_transform, reproject
from rasters import ORIGIN, UTM, north_up, textured, write_scene
from scipy import ndimage

from tiling import (
    BandNotFound,
    BoundsInvalid,
    NoOverlap,
    NothingValid,
    PixelTypeUnsupported,
    Registration,
    ResolutionInvalid,
    ScaleInvalid,
    ScenePair,
    SceneTooLarge,
    Window,
)
from tiling.geodesy import on_map


def whole(pair):
    return pair.read(Window(0, 0, pair.grid.width, pair.grid.height))


def lonlat(x, y, crs=UTM):
    return Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(x, y)


def refused(error, before, after, *words, **options):
    with pytest.raises(error) as caught:
        ScenePair.open(before, after, **options)
    assert type(caught.value) is error and caught.value.exit_code == 2
    message = str(caught.value)
    assert "\n" not in message and "; " in message
    for word in words:
        assert word in message
    return message


@pytest.fixture
def scenes(tmp_path):
    """Two dates (60 rows, 90 columns) on one grid, and their pixels."""
    images = textured(60, 90), textured(60, 90, seed=1)
    names = "before.tif", "after.tif"
    return *(write_scene(tmp_path / n, i) for n, i in zip(names, images, strict=True)), *images


# --- one grid


def test_one_grid_gives_the_pixels_of_the_files(scenes):
    with ScenePair.open(*scenes[:2]) as pair:
        before, after, valid = whole(pair)
    assert np.array_equal(before, scenes[2]) and np.array_equal(after, scenes[3]) and valid.all()
    assert before.dtype == after.dtype == np.uint8 and valid.dtype == bool
    grid = pair.grid
    assert (grid.width, grid.height, grid.gsd, grid.transform) == (90, 60, 0.5, north_up())
    assert grid.crs.to_string() == UTM
    assert pair.stretch.kind == "none"


def test_a_window_that_sticks_out_is_padded(scenes):
    with ScenePair.open(*scenes[:2]) as pair:
        before, after, valid = pair.read(Window(-5, 50, 20, 30))
        assert before.shape == after.shape == (3, 30, 20) and valid.shape == (30, 20)
        assert np.array_equal(before[:, :10, 5:], scenes[2][:, 50:, :15])
        assert valid.sum() == 150 and valid[:10, 5:].all()
        assert not before[:, ~valid].any() and not after[:, ~valid].any()
        before, _, valid = pair.read(Window(500, 500, 4, 6))
        assert before.shape == (3, 6, 4) and not valid.any() and not before.any()


def test_grids_shifted_by_whole_pixels_are_not_resampled(tmp_path, scenes):
    after = write_scene(tmp_path / "moved.tif", scenes[3], transform=north_up(ORIGIN[0] + 10, ORIGIN[1] - 5))
    with ScenePair.open(scenes[0], after) as pair:
        before, moved, valid = whole(pair)
    assert (pair.grid.width, pair.grid.height) == (70, 50) and valid.all()
    assert np.array_equal(before, scenes[2][:, 10:, 20:]) and np.array_equal(moved, scenes[3][:, :50, :70])


# --- two grids


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


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_window_is_the_cut_of_the_whole(tmp_path_factory, data):
    kind = data.draw(st.sampled_from(["degrees", "half a pixel", "the next zone"]))
    before, after = _cached_scenes(tmp_path_factory, kind)
    with ScenePair.open(before, after, gsd=data.draw(st.sampled_from([None, 0.7, 1.6]))) as pair:
        all_of_it = whole(pair)
        for _ in range(4):
            col = data.draw(st.integers(0, pair.grid.width - 1))
            row = data.draw(st.integers(0, pair.grid.height - 1))
            width = data.draw(st.integers(1, pair.grid.width - col))
            height = data.draw(st.integers(1, pair.grid.height - row))
            for part, full in zip(pair.read(Window(col, row, width, height)), all_of_it, strict=True):
                assert np.array_equal(part, full[..., row : row + height, col : col + width])


_SCENES = {}


def _cached_scenes(factory, kind):
    if kind not in _SCENES:
        folder, size = factory.mktemp("scenes"), (300, 700)
        noise = np.random.default_rng(0).integers(1, 255, (3, *size)).astype(np.uint8)
        crs, transform = GRIDS[kind]
        cols, rows = 700, 300
        if transform is None:
            transform, cols, rows = covering(crs, *size, margin=-20)
        other = np.random.default_rng(1).integers(1, 255, (3, rows, cols)).astype(np.uint8)
        _SCENES[kind] = (
            write_scene(folder / "before.tif", noise),
            write_scene(folder / "after.tif", other, crs=crs, transform=transform, nodata=9),
        )
    return _SCENES[kind]


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


@pytest.mark.parametrize("place", [(45.0, 0), (0, -30.0), (-45.0, 0), (1e5, 1e5)])
def test_no_overlap(tmp_path, scenes, place):
    transform = north_up(ORIGIN[0] + place[0], ORIGIN[1] + place[1])
    after = write_scene(tmp_path / "elsewhere.tif", scenes[3], transform=transform)
    refused(NoOverlap, scenes[0], after, "elsewhere.tif", "before.tif")


@pytest.mark.parametrize("crs", ["EPSG:32601", "EPSG:3857", "EPSG:32733", "EPSG:2263"])
def test_no_overlap_across_systems(tmp_path, scenes, crs):
    after = write_scene(tmp_path / "elsewhere.tif", scenes[3], crs=crs)
    refused(NoOverlap, scenes[0], after, "elsewhere.tif")


def test_a_scene_of_the_whole_earth_overlaps(tmp_path, scenes):
    world = Affine(0.5, 0, -180, 0, -0.5, 90)
    after = write_scene(
        tmp_path / "world.tif", np.full((3, 360, 720), 99, np.uint8), crs="EPSG:4326", transform=world
    )
    with ScenePair.open(scenes[0], after) as pair:
        _, moved, valid = whole(pair)
    assert (pair.grid.width, pair.grid.height) == (90, 60)
    assert valid.all() and (moved == 99).all()


@pytest.mark.parametrize("west", [-180.001, 179.999, 179.9985])
def test_scenes_at_the_antimeridian(tmp_path, west):
    """One in UTM, one in degrees that run past 180 or come from below -180."""

    def picture(crs, transform, height, width):
        cols, rows = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        lon, lat = Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(
            *on_map(transform, cols, rows)
        )
        east, north = (lon % 360 - 180) * 1e4, (lat - 60) * 1e4
        return np.rint(np.stack([128 + 100 * np.sin(east), 128 + 100 * np.cos(north), 128 + east])).astype(
            "uint8"
        )

    x, y = Transformer.from_crs("EPSG:4326", "EPSG:32601", always_xy=True).transform(180.0, 60.0)
    paths = []
    for crs, transform, size in (
        ("EPSG:32601", north_up(x - 22, y + 15), (60, 90)),
        ("EPSG:4326", Affine(5e-6, 0, west, 0, -5e-6, 60.001), (400, 500)),
    ):
        path = tmp_path / f"{len(paths)}.tif"
        paths.append(write_scene(path, picture(crs, transform, *size), crs=crs, transform=transform))
    with ScenePair.open(*paths) as pair:
        before, after, valid = whole(pair)
    assert (pair.grid.width, pair.grid.height) == (90, 60) and valid.all()
    assert np.abs(before.astype(int) - after).max() < 10


# --- the working grid


def test_degrees_become_the_utm_zone(tmp_path):
    transform, cols, rows = covering("EPSG:4326", 300, 300)
    image = draw("EPSG:4326", transform, rows, cols)
    paths = [
        write_scene(tmp_path / name, image, crs="EPSG:4326", transform=transform)
        for name in ("before.tif", "after.tif")
    ]
    with ScenePair.open(*paths) as pair:
        before, after, valid = whole(pair)
        assert pair.grid.crs.to_string() == UTM
        assert pair.grid.gsd == pair.grid.transform.a == pytest.approx(pair.before.gsd, rel=1e-3)
        assert pair.grid.transform.a == -pair.grid.transform.e
    assert valid.mean() > 0.95 and np.array_equal(before, after)
    ours = draw(UTM, pair.grid.transform, pair.grid.height, pair.grid.width)
    assert np.abs(ours.astype(int) - before)[:, valid].mean() < 2


@pytest.mark.parametrize(
    ("gsd", "resampled"), [(None, False), (0.5, False), (0.503, False), (0.52, True), (1, True)]
)
def test_the_resolution_is_kept_when_it_is_within_a_percent(scenes, gsd, resampled):
    with ScenePair.open(*scenes[:2], gsd=gsd) as pair:
        assert (pair.grid.gsd != 0.5) == resampled
        assert pair.grid.gsd == (gsd if resampled else 0.5)
        assert pair.grid.transform.a == pytest.approx(gsd if resampled else 0.5)
        assert pair.grid.width == pytest.approx(90 * 0.5 / pair.grid.gsd, abs=1)


def test_enlarging_interpolates(scenes):
    with ScenePair.open(*scenes[:2], gsd=0.25) as pair:
        before, _, valid = whole(pair)
    assert (pair.grid.width, pair.grid.height) == (180, 120) and valid.all()
    expected = np.empty_like(before)
    grids = {"src_transform": north_up(), "dst_transform": north_up(cell=0.25)}
    reproject(scenes[2], expected, **grids, src_crs=UTM, dst_crs=UTM, resampling=Resampling.bilinear)
    assert np.abs(before.astype(int) - expected).max() <= 1


def test_shrinking_averages(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (3, 120, 200)).astype(np.uint8)
    path = write_scene(tmp_path / "a.tif", noise)
    with ScenePair.open(path, path, gsd=2.0) as pair:
        before, _, valid = whole(pair)
    blocks = noise.reshape(3, 30, 4, 50, 4).mean((2, 4))
    assert valid.all() and np.abs(before - blocks).max() <= 1


def test_feet_and_web_mercator_are_measured_on_the_ground(tmp_path):
    for crs, place, cell in (
        ("EPSG:2263", (985_000, 200_000), 2.0),
        ("EPSG:3857", (1_670_000, 8_399_738), 1.0),
    ):
        path = write_scene(tmp_path / "a.tif", textured(60, 90), crs=crs, transform=north_up(*place, cell))
        with ScenePair.open(path, path, gsd=1.0) as pair:
            grid = pair.grid
        first, second = (on_map(grid.transform, col, 10) for col in (40, 41))
        lon, lat = np.array([lonlat(*first, crs=grid.crs), lonlat(*second, crs=grid.crs)]).T
        assert np.hypot(np.diff(lon) * np.cos(np.radians(lat[0])), np.diff(lat))[
            0
        ] * 111_320 == pytest.approx(1, rel=5e-3)


@pytest.mark.parametrize("gsd", [0, -1.0, float("nan"), float("inf")])
def test_impossible_resolutions(scenes, gsd):
    refused(ResolutionInvalid, *scenes[:2], gsd=gsd)


def test_a_grid_beyond_the_limit(scenes):
    refused(SceneTooLarge, *scenes[:2], "before.tif", gsd=1e-5)


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


def test_bounds_larger_than_the_scene_change_nothing(scenes):
    for bounds in ((14, 49, 17, 52), (-180, -90, 180, 90)):
        with ScenePair.open(*scenes[:2], bounds=bounds) as pair:
            assert (pair.grid.width, pair.grid.height, pair.grid.transform) == (90, 60, north_up())
            assert pair.focus == Window(0, 0, 90, 60)


@pytest.mark.parametrize(
    "bounds",
    [
        (15.1, 50, 14.9, 51),
        (14, 51, 15, 50),
        (14, 50, 14, 51),
        (14, 50, 15, 50),
        (-190, 1, 0, 2),
        (1, 2, 3, 95),
        (float("nan"), 1, 2, 3),
    ],
)
def test_impossible_bounds(scenes, bounds):
    refused(BoundsInvalid, *scenes[:2], ",".join(f"{value:g}" for value in bounds), "give", bounds=bounds)


def test_bounds_elsewhere(scenes):
    refused(NoOverlap, *scenes[:2], "100,10,101,11", bounds=(100, 10, 101, 11))
    refused(NoOverlap, *scenes[:2], bounds=(-164, -51, -163, -50))  # the other side of the Earth


def test_bounds_across_the_antimeridian(tmp_path):
    x, y = Transformer.from_crs("EPSG:4326", "EPSG:32601", always_xy=True).transform(180.0, 60.0)
    path = write_scene(
        tmp_path / "a.tif", textured(60, 90), crs="EPSG:32601", transform=north_up(x - 22, y + 15)
    )
    with ScenePair.open(path, path, bounds=(179.9999, 59.9, -179.9999, 60.1)) as pair:
        assert 20 < pair.focus.width < 40 and pair.focus.height == 60


# --- bands


def test_bands_by_number_by_colour_and_by_order(tmp_path):
    image = textured(20, 30, bands=4)
    cases = {
        "undefined": (["gray", "undefined", "undefined", "undefined"], None, (0, 1, 2)),
        "rgb": (["red", "green", "blue", "undefined"], None, (0, 1, 2)),
        "bgr": (["blue", "green", "red", "undefined"], None, (2, 1, 0)),
        "chosen": (["red", "green", "blue", "undefined"], (4, 1, 2), (3, 0, 1)),
        "repeated": (["red", "green", "blue", "undefined"], (2, 2, 2), (1, 1, 1)),
    }
    for name, (colors, bands, expected) in cases.items():
        path = write_scene(tmp_path / f"{name}.tif", image, colors=colors, photometric="MINISBLACK")
        with ScenePair.open(path, path, bands=bands) as pair:
            assert np.array_equal(whole(pair)[0], image[list(expected)]), name


@pytest.mark.parametrize("bands", [(1, 2, 4), (0, 1, 2), (1, -1, 2)])
def test_bands_that_are_not_there(scenes, bands):
    refused(BandNotFound, *scenes[:2], "before.tif", "1 to 3", bands=bands)


def test_complex_pixels(tmp_path, scenes):
    path = write_scene(
        tmp_path / "radar.tif", textured(60, 90).astype(np.complex64), colors=["undefined"] * 3
    )
    refused(PixelTypeUnsupported, path, scenes[1], "radar.tif", "complex")


# --- nodata


@pytest.mark.parametrize("way", ["nodata", "mask", "alpha"])
@pytest.mark.parametrize("grid", ["same", "shifted"])
@pytest.mark.parametrize("date", [0, 1])
def test_what_either_date_lacks_is_zero_on_both(tmp_path, way, grid, date):
    images = [textured(60, 90), textured(60, 90, seed=1)]
    options = [{}, {}]
    hole = np.zeros((60, 90), bool)
    hole[20:30, 40:60] = True
    if way == "nodata":
        images[date][:, hole] = 0
        options[date]["nodata"] = 0
    else:
        images[date][:, hole] = 200  # what is masked must not shine through
        options[date][way] = ~hole if way == "mask" else np.where(hole, 0, 255)
    shift = 0.2 if grid == "shifted" else 0
    transforms = north_up(), north_up(ORIGIN[0] + shift, ORIGIN[1] - shift)
    paths = [
        write_scene(tmp_path / f"{n}.tif", image, transform=transform, **option)
        for n, (image, transform, option) in enumerate(zip(images, transforms, options, strict=True))
    ]
    with ScenePair.open(*paths) as pair:
        before, after, valid = whole(pair)
    assert not valid[21:29, 41:59].any()
    assert valid[2:18, 2:-2].all() and valid[32:-2, 2:-2].all()
    assert not before[:, ~valid].any() and not after[:, ~valid].any()
    if grid == "same":
        assert np.array_equal(valid, ~hole)
    else:
        # Nothing of the hole was mixed into its surroundings.
        clean = [textured(60, 90), textured(60, 90, seed=1)]
        same = [
            write_scene(tmp_path / f"c{n}.tif", c, transform=t)
            for n, (c, t) in enumerate(zip(clean, transforms, strict=True))
        ]
        with ScenePair.open(*same) as pair:
            expected = whole(pair)
        assert np.array_equal(before[:, valid], expected[0][:, valid])
        assert np.array_equal(after[:, valid], expected[1][:, valid])


def test_a_dark_band_is_not_nodata(tmp_path):
    image = textured(60, 90)
    image[0, 10:20] = 0
    image[:, 40] = 0
    path = write_scene(tmp_path / "a.tif", image, nodata=0)
    with ScenePair.open(path, path) as pair:
        before, _, valid = whole(pair)
    assert not valid[40].any() and valid.sum() == valid.size - 90
    assert np.array_equal(before, image)


def test_one_band_without_data_is_enough_where_the_value_cannot_be_a_measurement(tmp_path):
    image = textured(60, 90, dtype="int16") * 10
    image[1, 10:20] = -9999
    path = write_scene(tmp_path / "a.tif", image, nodata=-9999)
    with ScenePair.open(path, path) as pair:
        _, _, valid = whole(pair)
    assert not valid[10:20].any() and valid.sum() == valid.size - 900


@pytest.mark.parametrize("shift", [0, 0.2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_nodata(tmp_path, shift, value):
    image = textured(60, 90, dtype="float32") / 255
    image[1, 10:20, 5:9] = value
    before = write_scene(tmp_path / "a.tif", image)
    after = write_scene(
        tmp_path / "b.tif", textured(60, 90, dtype="float32") / 255, transform=north_up(ORIGIN[0] + shift)
    )
    with ScenePair.open(after, before) as pair:
        first, second, valid = whole(pair)
    assert not valid[10:20, 5:9].any() and valid.mean() > 0.95
    assert not first[:, ~valid].any() and not second[:, ~valid].any()
    assert second[:, valid].std() > 20


def test_an_alpha_band_that_is_looked_at_is_no_mask(tmp_path):
    near_infrared = textured(60, 90, seed=5)[0]
    near_infrared[:30] = 0
    path = write_scene(tmp_path / "a.tif", textured(60, 90), alpha=near_infrared)
    with ScenePair.open(path, path, bands=(4, 1, 2)) as pair:
        before, _, valid = whole(pair)
    assert valid.all() and np.array_equal(before[0], near_infrared)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_near_infrared_that_is_called_alpha_is_no_mask(tmp_path, dtype):
    image = textured(200, 300, dtype=dtype)
    near_infrared = textured(200, 300, seed=5)[0].astype(dtype) * (1 if dtype == "uint8" else 100)
    near_infrared[:20] = 0
    picture = write_scene(tmp_path / "a.tif", image, alpha=near_infrared)
    with ScenePair.open(picture, picture) as pair:
        assert pair.before.masked_by == "alpha" and whole(pair)[2].all()
    full = np.iinfo(dtype).max
    feathered = np.linspace(0, full, 9)[np.clip(np.arange(300) - 100, 0, 8)][None, :].repeat(200, 0)
    mask = write_scene(tmp_path / "b.tif", image, alpha=feathered)
    with ScenePair.open(mask, mask) as pair:
        valid = whole(pair)[2]
    assert not valid[:, :108].any() and valid[:, 108:].all()


@pytest.mark.parametrize("shift", [0, 0.2])
@pytest.mark.parametrize("date", [0, 1])
def test_all_nodata(tmp_path, scenes, shift, date):
    empty = write_scene(
        tmp_path / "empty.tif",
        np.zeros((3, 60, 90), np.uint8),
        nodata=0,
        transform=north_up(ORIGIN[0] + shift),
    )
    paths = [scenes[0], scenes[1]]
    paths[date] = empty
    refused(NothingValid, *paths, "empty.tif", "nodata")


def test_data_only_where_the_other_has_none(tmp_path):
    images = textured(60, 90), textured(60, 90)
    images[0][:, :30] = 0
    images[1][:, 30:] = 0
    paths = [
        write_scene(tmp_path / f"{n}.tif", image, nodata=0) for n, image in zip("ab", images, strict=True)
    ]
    refused(NothingValid, *paths, "a.tif", "b.tif")


def test_a_speck_of_data_in_a_large_scene_is_found(tmp_path):
    image = np.zeros((3, 2000, 3000), np.uint16)
    image[:, 1111:1115, 2222:2226] = np.arange(48).reshape(3, 4, 4) + 500
    path = write_scene(tmp_path / "a.tif", image, nodata=0, compress="deflate", tiled=True)
    with ScenePair.open(path, path) as pair:
        before, _, valid = pair.read(Window(2200, 1100, 40, 40))
    assert valid.sum() == 16 and before[:, valid].max() == 255
    assert pair.stretch.before.low[0] < 503 and pair.stretch.before.high[2] > 543


# --- radiometry


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32"])
def test_one_stretch_for_both_dates_and_all_windows(tmp_path, dtype):
    image = textured(300, 400, dtype="float64")
    scale = 1 / 255 if dtype == "float32" else 20
    before = write_scene(tmp_path / "before.tif", (image * scale).astype(dtype))
    darker = image * 0.5
    darker[:, :100] = image[:, :100]  # a third of the ground did not change
    after = write_scene(tmp_path / "after.tif", (darker * scale).astype(dtype))
    with ScenePair.open(before, after) as pair:
        first, second, valid = whole(pair)
        part = pair.read(Window(50, 60, 70, 80))[0]
        assert pair.stretch.kind == "shared"
    assert valid.all() and np.array_equal(first[:, :100], second[:, :100])
    assert np.array_equal(part, first[:, 60:140, 50:120])
    assert first[:, 100:].mean() - second[:, 100:].mean() > 40
    assert (first == 255).mean() < 0.06 and (second == 0).mean() < 0.06
    assert first.max() == 255 and second.min() == 0


def test_the_stretch_leaves_out_nodata(tmp_path):
    image = textured(300, 400, dtype="uint16") * 20
    spoilt = image.copy()
    spoilt[:, 100:200] = 60_000
    before = write_scene(tmp_path / "before.tif", spoilt, nodata=60_000)
    after = write_scene(tmp_path / "after.tif", image)
    with ScenePair.open(before, after) as pair:
        assert max(pair.stretch.before.high) < 5000
        assert np.array_equal(*whole(pair)[:2])


def test_scenes_of_different_types_look_alike(tmp_path):
    image = textured(300, 400)
    before = write_scene(tmp_path / "before.tif", image)
    after = write_scene(tmp_path / "after.tif", image.astype(np.uint16) * 37 + 1000)
    with ScenePair.open(before, after) as pair:
        first, second, _ = whole(pair)
    assert np.array_equal(first, image)
    assert pair.stretch.kind == "per type"
    assert np.abs(first.astype(int) - second).mean() < 1


def test_the_first_failure_closes_the_files(tmp_path, scenes, monkeypatch):
    opened = []
    monkeypatch.setattr(
        ScenePair, "close", lambda self, close=ScenePair.close: (opened.append(self), close(self))
    )
    empty = write_scene(tmp_path / "empty.tif", np.zeros((3, 60, 90), np.uint8), nodata=0)
    with pytest.raises(NothingValid):
        ScenePair.open(scenes[0], empty)
    assert len(opened) == 1 and opened[0].open_handles == 0


@pytest.mark.parametrize("scale", [(0, 5000), "reflectance"])
def test_a_scale_that_was_asked_for(tmp_path, scale):
    image = textured(60, 90, dtype="uint16") * 10
    path = write_scene(tmp_path / "a.tif", image)
    with ScenePair.open(path, path, scale=scale) as pair:
        top = 5000 if scale != "reflectance" else 3000
        shown = whole(pair)[1].astype(float)
        assert np.abs(shown - (image / top * 255).clip(0, 255)).max() <= 0.51
        assert pair.stretch.kind == ("reflectance" if scale == "reflectance" else "given")
        assert not pair.notes


def test_a_scale_that_hides_the_scene_is_told(tmp_path, scenes):
    with ScenePair.open(*scenes[:2], scale=(220, 260)) as pair:
        assert len(pair.notes) == 2 and "before.tif" in pair.notes[0] and "black or white" in pair.notes[0]
    refused(ScaleInvalid, *scenes[:2], "reflectance", scale=(5, 5))
    refused(ScaleInvalid, *scenes[:2], "before.tif", "uint8", scale="reflectance")


@pytest.mark.parametrize(
    ("dtype", "fill"), [("float32", -9999), ("uint16", 65535), ("float32", -3.4028235e38)]
)
def test_undeclared_nodata_is_told_and_fits_no_stretch(tmp_path, dtype, fill):
    image = textured(200, 200, dtype="uint16").astype(dtype) * 10
    before = write_scene(tmp_path / "before.tif", image)
    filled = image.copy()
    filled[:, :, :30] = fill
    after = write_scene(tmp_path / "after.tif", filled)
    with ScenePair.open(before, after) as pair, ScenePair.open(before, before) as sound:
        (note,) = pair.notes
        said = float(note.partition("-a_nodata ")[2].partition(":")[0])
        assert note.startswith(f"{after}: about 1") and "% of its pixels are " in note
        assert said == np.array(fill, dtype)
        assert np.allclose(pair.stretch.after.low, sound.stretch.after.low, rtol=0.1)
        assert np.allclose(pair.stretch.after.high, sound.stretch.after.high, rtol=0.1)
        assert not sound.notes
    with ScenePair.open(before, write_scene(tmp_path / "said.tif", filled, nodata=fill)) as pair:
        assert not pair.notes


@pytest.mark.parametrize(("dtype", "value"), [("uint8", 0), ("uint8", 77), ("float32", 0.5)])
def test_a_date_that_shows_nothing_is_told(tmp_path, dtype, value):
    image = textured(60, 90)
    before = write_scene(tmp_path / "before.tif", image)
    after = write_scene(tmp_path / "after.tif", np.full(image.shape, value, dtype))
    with ScenePair.open(before, after) as pair:
        (note,) = pair.notes
        assert note.startswith(f"{after}: all its pixels on the common ground are {value:g}, so nothing")


# --- alignment and light


def town(height=420, width=520, seed=0):
    """Pixels (3, height, width) uint8 with detail of a few pixels, 20..235."""
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=(3, height, width)), (0, 1.5, 1.5))
    return (128 + 30 * noise / noise.std()).clip(20, 235).astype(np.uint8)


def displaced(image, cols, rows):
    moved = ndimage.shift(image.astype(float), (0, rows, cols), order=3, mode="nearest")
    return moved.clip(0, 255).round().astype(np.uint8)


def test_a_shift_is_told_and_with_align_taken_back(tmp_path):
    image = town()
    before = write_scene(tmp_path / "before.tif", image)
    after = write_scene(tmp_path / "after.tif", np.roll(image, (-2, 3), (1, 2)))
    with ScenePair.open(before, after) as pair:
        found = pair.registration
        assert (found.cols, found.rows) == pytest.approx((3, -2), abs=0.1)
        assert found.applied is None and found.metres == pytest.approx(1.8, abs=0.05)
        (note,) = pair.notes
        assert "after.tif" in note and "3.6 pixels (1.8 m)" in note and "--align" in note
        assert np.abs(whole(pair)[0].astype(int) - whole(pair)[1]).mean() > 20
    with ScenePair.open(before, after, align=True) as pair:
        assert pair.registration.applied == (-3, 2) and pair.layers[1].shift == (-3, 2)
        assert np.hypot(*pair.registration.left) < 0.1 and not pair.notes
        assert (pair.registration.cols, pair.registration.rows) == pytest.approx((3, -2), abs=0.1)
        first, second, valid = whole(pair)
    assert valid.mean() > 0.98 and not valid[:2].any() and not valid[:, -3:].any()
    # Whole pixels are not interpolated.
    assert np.array_equal(first[:, 4:-4, 4:-4], second[:, 4:-4, 4:-4])


@pytest.mark.parametrize("by", [(0.45, -0.4), (1.5, 0.5), (-9.3, 12.6)])
def test_parts_of_pixels_are_taken_back(tmp_path, by):
    image = town()
    before = write_scene(tmp_path / "before.tif", image)
    after = write_scene(tmp_path / "after.tif", displaced(image, *by))
    with ScenePair.open(before, after, align=True) as pair:
        assert np.hypot(*pair.registration.left) < 0.2
        first, second, valid = whole(pair)
    inner = np.s_[:, 20:-20, 20:-20]
    assert valid[inner[1:]].all()
    assert np.abs(first[inner].astype(int) - second[inner]).mean() < 6


def test_what_cannot_be_aligned_stays_in_its_place(tmp_path):
    paths = [write_scene(tmp_path / f"{seed}.tif", town(seed=seed)) for seed in (1, 2)]
    with ScenePair.open(*paths, align=True) as pair:
        assert pair.layers[1].shift == (0, 0) and pair.registration.applied is None
        (note,) = pair.notes
        assert "2.tif" in note and "cannot be told" in note
    with ScenePair.open(*paths) as pair:
        assert not pair.notes


def test_a_shift_that_does_not_get_smaller_is_not_applied(tmp_path, scenes, monkeypatch):
    wrong = Registration(5.0, 0.0, 2.5, 9, 5, 5, 0.1)
    monkeypatch.setattr("tiling.pair.measure", lambda *_: wrong)
    with ScenePair.open(*scenes[:2], align=True) as pair:
        assert pair.registration == wrong and pair.layers[1].shift == (0, 0)
        assert "5.0 pixels" in pair.notes[0] and "could not be corrected" in pair.notes[0]
        assert np.array_equal(whole(pair)[1], scenes[3])


def test_other_light_is_taken_back(tmp_path):
    image = town()
    darker = (image * np.array([0.6, 0.7, 0.8])[:, None, None] + 25).astype(np.uint8)
    darker[:, 100:200, 100:300] = 230  # built
    before = write_scene(tmp_path / "before.tif", image)
    after = write_scene(tmp_path / "after.tif", darker)
    with ScenePair.open(before, after) as pair:
        assert pair.normalization is None
    with ScenePair.open(before, after, normalize=True) as pair:
        first, second, _ = whole(pair)
        assert pair.normalization.gain == pytest.approx((1 / 0.6, 1 / 0.7, 1 / 0.8), rel=0.05)
    assert np.abs(first[:, 220:].astype(int) - second[:, 220:]).mean() < 3
    assert second[:, 110:190, 110:290].min() > 240
    for dtype in ("uint16", "float32"):
        images = [(part * 30.0).astype(dtype) for part in (image, darker)]
        paths = [write_scene(tmp_path / f"{dtype}{n}.tif", part) for n, part in enumerate(images)]
        with ScenePair.open(*paths, normalize=True) as pair:
            first, second, _ = whole(pair)
        assert np.abs(first[:, 220:].astype(int) - second[:, 220:]).mean() < 4


def test_light_that_cannot_be_compared_is_left_alone(tmp_path):
    paths = [write_scene(tmp_path / f"{seed}.tif", town(seed=seed)) for seed in (1, 2)]
    with ScenePair.open(*paths, normalize=True) as pair:
        assert pair.normalization is None and "2.tif" in pair.notes[0] and "light" in pair.notes[0]
        assert np.array_equal(whole(pair)[1], town(seed=2))


def test_a_box_has_the_pixels_of_the_whole(tmp_path):
    image = town()
    after = (displaced(image, 2.4, -1.2) * 0.7 + 20).astype(np.uint16) * 9
    paths = [
        write_scene(tmp_path / "a.tif", image.astype(np.uint16) * 11),
        write_scene(tmp_path / "b.tif", after),
    ]
    west, north = lonlat(ORIGIN[0] + 40, ORIGIN[1] - 30)
    east, south = lonlat(ORIGIN[0] + 100, ORIGIN[1] - 90)
    box = (west, south, east, north)
    with ScenePair.open(*paths, align=True, normalize=True) as pair:
        everything = whole(pair)
    with ScenePair.open(*paths, align=True, normalize=True, bounds=box) as pair:
        focus = pair.focus
        part = pair.read(focus)
    assert focus.width < 140 and focus.height < 140
    for all_, some in zip(everything, part, strict=True):
        assert np.array_equal(all_[..., focus.row_off : focus.row_end, focus.col_off : focus.col_end], some)


# --- real scenes


@pytest.mark.real
@pytest.mark.parametrize(
    ("before", "after", "crs", "gsd", "valid"),
    [
        ("joplin_tornado/before", "joplin_tornado/after", "EPSG:26915", 0.6, 0.95),
        ("levir_test_1/before", "levir_test_1/after", "EPSG:32614", 0.55, 0.95),
        (
            "naip_4709963/m_4709963_se_14_1_20090818",
            "naip_4709963/m_4709963_se_14_1_20140720",
            "EPSG:26914",
            5,
            0.99,
        ),
        ("oscd_beirut/20150820", "oscd_beirut/20171003", "EPSG:32636", 10, 0.9),
        ("pucallpa_landsat/1985", "pucallpa_landsat/2020", "EPSG:32718", 89, 0.98),
    ],
)
def test_real_scenes_open_at_their_own_resolution(shared_data, before, after, crs, gsd, valid):
    folder = shared_data / "data" / "scenes"
    with ScenePair.open(folder / f"{before}.tif", folder / f"{after}.tif") as pair:
        first, second, seen = whole(pair)
    assert pair.grid.crs.to_string() == crs and pair.grid.gsd == pytest.approx(gsd, rel=0.02)
    assert seen.mean() > valid
    assert first[:, seen].std() > 15 and second[:, seen].std() > 15
    assert np.abs(first[:, seen].mean() - second[:, seen].mean()) < 60


@pytest.mark.real
def test_the_two_dates_of_joplin_lie_on_each_other(shared_data):
    """The roads did not move: shifting one date against the other only makes the edges agree less."""
    folder = shared_data / "data" / "scenes" / "joplin_tornado"
    with ScenePair.open(folder / "before.tif", folder / "after.tif") as pair:
        before, after, valid = whole(pair)
    assert (pair.grid.width, pair.grid.height) == pytest.approx((881, 565), abs=3)

    def edges(image):
        grey = image.mean(0)
        return np.hypot(*np.gradient(grey)).clip(0, 40)

    # The road along the south is hardly covered by debris.
    rows, cols = slice(460, 545), slice(40, 840)
    one, other = edges(before), edges(after)
    assert valid[rows, cols].mean() > 0.95
    scores = {
        (dy, dx): np.corrcoef(one[rows, cols].ravel(), np.roll(other, (dy, dx), (0, 1))[rows, cols].ravel())[
            0, 1
        ]
        for dy, dx in product(range(-12, 13, 2), range(-12, 13, 2))
    }
    best = max(scores, key=scores.get)
    assert max(map(abs, best)) <= 6, f"shifted by {best} pixels of 0.6 m"


def test_rasterio_reads_what_the_factory_wrote(tmp_path):
    image = textured(7, 5, bands=4)
    path = write_scene(tmp_path / "a.tif", image, nodata=3, tags={"A": "b"}, mask=image[0] > 100)
    with rasterio.open(path) as file:
        assert np.array_equal(file.read(), image) and file.nodata == 3 and file.tags()["A"] == "b"
