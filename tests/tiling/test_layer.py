"""One date on the working grid: nothing of what has no data gets into what has."""

from contextlib import ExitStack

import numpy as np
import pytest
from affine import Affine
from grounds import PLACES, Ground, View
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rasterio.enums import Resampling
from rasters import ORIGIN, north_up, textured, write_scene
from scipy.ndimage import distance_transform_edt
from virtual_rasters import band, source, write_bands

from tiling import Window, describe
from tiling import layer as layers
from tiling.frame import plan_grid
from tiling.layer import Layer, LayerReader

RGB = (1, 2, 3)
LEVELS = np.array([100, 110, 120])
# How a scene says where it has no data: type, and nodata value or kind of mask.
WAYS = [
    ("uint8", 0),
    ("uint8", 255),
    ("uint16", 0),
    ("uint16", 65535),
    ("int16", -32768),
    ("int32", -(2**31)),
    ("uint32", 2**32 - 1),
    ("float32", -3.4028234663852886e38),
    ("float32", np.nan),
    ("float64", 1e300),
    ("float32", "not finite"),
    ("uint8", "mask"),
    ("uint16", "mask"),
    ("float32", "mask"),
    ("uint8", "alpha"),
    ("uint16", "alpha"),
    ("int8", -128),
]


def read_all(layer):
    with ExitStack() as stack:
        return LayerReader(layer, stack).read(Window(0, 0, layer.grid.width, layer.grid.height))


def holes(rng, height, width):
    """Where there are data: not in some rectangles, thin lines and single pixels."""
    valid = np.ones((height, width), bool)
    for _ in range(3):
        row, col = rng.integers(0, height), rng.integers(0, width)
        valid[row : row + rng.integers(1, 30), col : col + rng.integers(1, 30)] = False
    valid[rng.integers(0, height)] = False
    valid[rng.integers(0, height, 20), rng.integers(0, width, 20)] = False
    return valid


def masked(rng, valid, dtype, way):
    """An even picture with rubbish where it has no data, and how to write it."""
    image = np.broadcast_to(LEVELS[:, None, None], (3, *valid.shape)).astype(dtype)
    limits = np.iinfo(dtype) if np.dtype(dtype).kind in "ui" else np.finfo("float32")
    rubbish = rng.choice(np.array([limits.min, limits.max, 0], dtype), image.shape)
    if way == "not finite":
        rubbish, options = rng.choice(np.array([np.nan, np.inf, -np.inf], dtype), image.shape), {}
    elif way == "mask":
        options = {"mask": valid}
    elif way == "alpha":
        options = {"alpha": np.where(valid, limits.max, rng.integers(0, limits.max * 9 // 10, valid.shape))}
    else:
        rubbish, options = np.full_like(image, way), {"nodata": way}
    return np.where(valid, image, rubbish), options


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "way"), WAYS)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_has_no_data_leaks_into_nothing(tmp_path, dtype, way, data):
    place = data.draw(st.sampled_from([(15.0, 50.0), (180.0, -17.0), (-45.0, 82.0)]))
    ground = Ground(*place)
    view = View(
        crs=data.draw(st.sampled_from(PLACES[place])),
        gsd=0.5,
        angle=data.draw(st.sampled_from([0.0, 0.0, 27.0, 180.0])),
        south_up=data.draw(st.booleans()),
        width=130,
        height=100,
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    valid = holes(rng, view.height, view.width)
    image, options = masked(rng, valid, dtype, way)
    info = describe(view.write(tmp_path / "scene.tif", ground, image, **options))
    grid = plan_grid(info, info, data.draw(st.sampled_from([None, 0.3, 0.8, 1.3])))
    shift = data.draw(st.sampled_from([(0.0, 0.0), (0.4, -0.7)]))
    layer = Layer.of(info, RGB, grid, shift)
    values, seen = read_all(layer)
    even = np.broadcast_to(LEVELS[:, None, None], values.shape)
    assert values.dtype == dtype
    tolerance = 1e-4 if np.dtype(dtype).kind == "f" else 0
    assert np.abs(values[:, seen].astype(float) - even[:, seen]).max() <= tolerance
    # Nor is more given up than a pixel is mixed from.
    cols, rows = np.meshgrid(np.arange(grid.width) + 0.5 - shift[0], np.arange(grid.height) + 0.5 - shift[1])
    to_map = grid.transform
    there = ground.of_map(grid.crs.to_wkt(), to_map.a * cols + to_map.c, to_map.e * rows + to_map.f)
    col, row = (~view.transform(ground)) * np.array(ground.to_map(view.crs, *there))
    inside = (col > 0) & (col < view.width) & (row > 0) & (row < view.height)
    far = distance_transform_edt(np.pad(valid, 1))[1:-1, 1:-1]
    distance = np.zeros(seen.shape)
    distance[inside] = far[row[inside].astype(int), col[inside].astype(int)]
    assert seen[distance > 2 + 1.5 * grid.gsd / view.gsd].all()
    assert not seen[inside & (distance == 0)].any()


@pytest.mark.parametrize("kind", ["same", "flipped", "warped"])
def test_a_layer_can_be_displaced(tmp_path, kind):
    image = textured(80, 100)
    plain = north_up()
    transform = Affine(0.5, 0, plain.c, 0, 0.5, plain.f - 40) if kind == "flipped" else plain
    pixels = image[:, ::-1] if kind == "flipped" else image
    info = describe(write_scene(tmp_path / "a.tif", pixels, transform=transform))
    other = plain if kind != "warped" else north_up(ORIGIN[0] + 0.2, ORIGIN[1])
    before = describe(write_scene(tmp_path / "b.tif", image, transform=other))
    grid = plan_grid(before, info)
    still = read_all(Layer.of(info, RGB, grid))
    moved = read_all(Layer.of(info, RGB, grid, (3.0, -2.0)))
    assert np.array_equal(moved[0][:, :-2, 3:], still[0][:, 2:, :-3])
    assert not moved[1][:, :2].any() and not moved[1][-2:].any()
    assert (Layer.of(info, RGB, grid, (3.0, -2.0)).offset is None) == (kind == "warped")
    if kind == "warped":
        return  # what was mixed already is not mixed once more
    half = read_all(Layer.of(info, RGB, grid, (0.5, 0.0)))
    mean = (still[0][:, :, 5:-5].astype(float) + still[0][:, :, 4:-6]) / 2
    assert np.abs(half[0][:, :, 5:-5] - mean).max() <= 1


def test_flipped_scenes_are_read_pixel_by_pixel(tmp_path):
    image = textured(60, 90)
    plain = describe(write_scene(tmp_path / "a.tif", image))
    grid, to_map = plan_grid(plain, plain), plain.transform
    for rows, cols in ((-1, 1), (1, -1), (-1, -1)):
        x, y = to_map.c + 45 * (cols < 0), to_map.f - 30 * (rows < 0)
        transform = Affine(0.5 * cols, 0, x, 0, -0.5 * rows, y)
        path = write_scene(tmp_path / "flipped.tif", image[:, ::rows, ::cols], transform=transform)
        layer = Layer.of(describe(path), RGB, grid)
        values, seen = read_all(layer)
        assert layer.offset == (0, 0) and seen.all() and np.array_equal(values, image)
        with ExitStack() as stack:
            part, _ = LayerReader(layer, stack).read(Window(7, 11, 20, 30))
        assert np.array_equal(part, image[:, 11:41, 7:27])


def test_a_band_with_a_nodata_value_of_its_own(tmp_path):
    """A mosaic of bands may say for each what is nodata; where the first has none, the others may."""
    image = textured(60, 90, dtype="uint16") * 10
    image[1, 20:30] = 7777
    write_scene(tmp_path / "a.tif", image)
    nodata = {2: "<NoDataValue>7777</NoDataValue>"}
    bands = "".join(band(n, nodata.get(n, "") + source("a.tif", n), "UInt16") for n in RGB)
    write_bands(tmp_path / "a.vrt", bands, (90, 60))
    info = describe(tmp_path / "a.vrt")
    values, seen = read_all(Layer.of(info, RGB, plan_grid(info, info)))
    assert not seen[20:30].any() and seen.sum() == seen.size - 900
    assert np.array_equal(values[:, seen], image[:, seen])


def test_grey_and_repeated_bands_are_read_once(tmp_path):
    image = textured(60, 90, bands=4)
    info = describe(write_scene(tmp_path / "a.tif", image))
    for bands in ((1, 1, 1), (4, 2, 4), (3, 1, 1)):
        layer = Layer.of(info, bands, plan_grid(info, info))
        assert len(layer.picture.bands) == len(set(bands))
        assert np.array_equal(read_all(layer)[0], image[[band - 1 for band in bands]])


@pytest.mark.parametrize(
    ("gsd", "method"), [(0.25, Resampling.bilinear), (0.9, Resampling.bilinear), (1.1, Resampling.average)]
)
def test_much_coarser_pixels_are_averaged(tmp_path, gsd, method):
    info = describe(write_scene(tmp_path / "a.tif", textured(60, 90)))
    assert Layer.of(info, RGB, plan_grid(info, info, gsd)).resampling is method


def test_a_turned_scene_is_not_blurred(tmp_path):
    """Blocks of a turned scene need more source pixels; that is no reason to mix more of them."""
    ground, image = Ground(15.0, 50.0), np.zeros((3, 200, 200), np.uint8)
    image[:, 100, 100] = 200
    views = [View("EPSG:32633", angle=angle, width=200, height=200) for angle in (0.0, 45.0)]
    infos = [describe(view.write(tmp_path / f"{n}.tif", ground, image)) for n, view in enumerate(views)]
    values, _ = read_all(Layer.of(infos[1], RGB, plan_grid(infos[0], infos[1])))
    assert values[0].max() > 60 and (values[0] > 0).sum() <= 5


@pytest.mark.parametrize("ratio", [2.5, 12, 60])
def test_a_block_is_made_of_a_bounded_number_of_pixels(tmp_path, ratio):
    info = describe(write_scene(tmp_path / "a.tif", textured(700, 900), transform=north_up(cell=0.1)))
    layer = Layer.of(info, RGB, plan_grid(info, info, 0.1 * ratio))
    height, width = layers._blocks(layer)[0]
    assert max(height, width) * ratio <= 2048
    values, seen = read_all(layer)
    assert seen.mean() > 0.8
    assert values[0][seen].mean() == pytest.approx(textured(700, 900)[0].mean(), abs=15)
