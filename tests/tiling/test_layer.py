"""One date on the working grid: nothing of what has no data gets into what has."""

from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from painted_ground import PLACES, Ground, View
from scipy.ndimage import distance_transform_edt

from tiling import Window, describe
from tiling.gridded import GriddedReader, GriddedScene
from tiling.working_grid import plan_grid

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
        return GriddedReader(layer, stack).read(Window(0, 0, layer.grid.width, layer.grid.height))


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
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    layer = GriddedScene.of(info, RGB, grid, shift)
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
