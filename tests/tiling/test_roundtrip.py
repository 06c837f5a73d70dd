"""What is painted at a known place of the ground is found there, whatever the maps, turns and pixel sizes."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from painted_ground import BRIGHT, DARK, PLACES, Ground, View, disc, nothing
from scipy.ndimage import binary_erosion
from shapely.geometry import Point

from tiling import Band, ScenePair, Window, geodesic_area_m2, polygonize, to_wgs84

ANGLES = st.one_of(st.just(0.0), st.sampled_from([90.0, 180.0, 270.0]), st.floats(0, 360))
# Hypothesis reruns a test in one folder; every run writes its files anew.
REWRITES = [HealthCheck.function_scoped_fixture]


@st.composite
def views(draw, place, gsd, bent=True):
    return View(
        crs=draw(st.sampled_from(PLACES[place])),
        gsd=gsd,
        angle=draw(ANGLES),
        shear=draw(st.sampled_from([0.0, 0.0, 0.3])),
        mirrored=draw(st.booleans()),
        south_up=draw(st.booleans()),
        bent=draw(st.sampled_from([None, None, 0.0, 0.02])) if bent else None,
        width=draw(st.integers(120, 180)),
        height=draw(st.integers(120, 180)),
        centre=tuple(draw(st.floats(-5, 5)) * gsd for _ in range(2)),
    )


@st.composite
def pairs(draw, bent=True):
    """A place, how each date looks at it, and the metres per pixel to work at."""
    place = draw(st.sampled_from(list(PLACES)))
    fine = draw(st.floats(0.2, 1.0))
    coarse = fine * draw(st.floats(1, 2))
    sizes = draw(st.permutations([fine, coarse]))
    before, after = (draw(views(place, gsd, bent)) for gsd in sizes)
    working = draw(st.sampled_from([None, 0.7, 1.0, 1.3]))
    return Ground(*place), before, after, working and working * coarse


def found_in(folder, ground, before, after, gsd, figure):
    """Return the grid and the polygons (degrees) of what differs between two painted scenes."""
    first = before.write(folder / "before.tif", ground, before.paint(ground, nothing))
    second = after.write(folder / "after.tif", ground, after.paint(ground, figure))
    with ScenePair.open(first, second, gsd=gsd) as pair:
        grid = pair.grid
        one, other, valid = pair.read(Window(0, 0, grid.width, grid.height))
    difference = other[1].astype(np.float32) - one[1]
    band = Band(0, (difference / (BRIGHT - DARK)).clip(0, 1), valid)
    regions = polygonize([band], 0.5, transform=grid.transform)
    return grid, [to_wgs84(region.polygon, grid.crs) for region in regions]


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=REWRITES)
@given(
    pair=pairs(),
    place=st.tuples(st.floats(-8, 8), st.floats(-8, 8)),
    half=st.tuples(st.floats(8, 12), st.floats(8, 12)),
)
@example(  # a corner that is missed by 0.77 pixels of the grid: the later date is the coarser one
    pair=(
        Ground(18.5, -34.0),
        View("EPSG:2048", gsd=0.7, width=130, height=152, centre=(-2.8, 3.19)),
        View("EPSG:2048", gsd=1.3, angle=90.0, width=135, height=120, centre=(-6.5, -3.9)),
        None,
    ),
    place=(3.97, 8.0),
    half=(9.7, 8.0),
)
@example(  # a grid finer than both dates: edges are no better known than their pixels
    pair=(
        Ground(15, 50),
        View("EPSG:32633", gsd=0.2265625, width=120, height=120),
        View("EPSG:32633", gsd=0.2265625, width=120, height=120),
        0.15859375,
    ),
    place=(3.3125, 0),
    half=(8, 8),
)
@pytest.mark.parametrize("shape", ["disc", "rectangle"])
def test_a_painted_change_comes_back_where_it_was_painted(tmp_path, shape, pair, place, half):
    ground, before, after, gsd = pair
    pixel = max(gsd or before.gsd, after.gsd)
    x, y = place[0] * pixel, place[1] * pixel
    if shape == "disc":
        figure, outline = disc(x, y, half[0] * pixel), Point(x, y).buffer(half[0] * pixel, 256)
    else:
        wide, high = half[0] * pixel, half[1] * pixel
        outline = shapely.box(x - wide, y - high, x + wide, y + high)

        def figure(east, north):
            return (np.abs(east - x) <= wide) & (np.abs(north - y) <= high)

    grid, polygons = found_in(tmp_path, ground, before, after, gsd, figure)
    assert len(polygons) == 1, "a nodata pixel, an edge or a border was taken for a change"
    drawn = ground.plane(polygons[0])
    # An edge is painted in pixels of the later date and read in pixels of the grid: it is known to half a
    # pixel of the coarser. Those of a rectangle may all be off to the same side.
    tolerance = 0.5 * max(grid.gsd, after.gsd)
    off = np.subtract(drawn.centroid.coords[0], outline.centroid.coords[0])
    assert np.abs(off).max() < tolerance
    assert geodesic_area_m2(polygons[0]) == pytest.approx(outline.area, abs=outline.length * tolerance)
    # The outline follows the edges of pixels; what it says is which pixels it holds.
    cols, rows = np.meshgrid(np.arange(grid.width) + 0.5, np.arange(grid.height) + 0.5)
    to_map = grid.transform
    centres = ground.of_map(grid.crs.to_wkt(), to_map.a * cols + to_map.c, to_map.e * rows + to_map.f)
    shapely.prepare([drawn, outline])
    held, inside = shapely.contains_xy(drawn, *centres), shapely.contains_xy(outline, *centres)
    points = shapely.points(*centres)
    # A corner pixel counts as changed where the shares that its two edges leave of it come to a half: each of
    # sqrt(1/2), which two mixed pixels of the coarser date reach at most 0.42 pixels inside; painting by
    # quarters of a pixel adds 1/8.
    missed = tolerance if shape == "disc" else 1.1 * tolerance
    assert shapely.distance(points[held & ~inside], outline).max(initial=0) < tolerance
    assert shapely.distance(points[inside & ~held], outline.boundary).max(initial=0) < missed


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=REWRITES)
@given(pair=pairs(), data=st.data())
def test_a_window_is_the_cut_of_the_whole_whatever_the_grids(tmp_path, pair, data):
    ground, before, after, gsd = pair
    noise = np.random.default_rng(0)
    paths = [
        view.write(
            tmp_path / f"{n}.tif",
            ground,
            noise.integers(1, 255, (3, view.height, view.width)).astype(np.uint8),
            nodata=9,
        )
        for n, view in enumerate((before, after))
    ]
    with ScenePair.open(*paths, gsd=gsd) as scenes:
        width, height = scenes.grid.width, scenes.grid.height
        whole = scenes.read(Window(0, 0, width, height))
    with ScenePair.open(*paths, gsd=gsd) as scenes:
        for _ in range(3):
            col, row = data.draw(st.integers(-20, width - 1)), data.draw(st.integers(-20, height - 1))
            window = Window(col, row, data.draw(st.integers(1, width)), data.draw(st.integers(1, height)))
            inside = window.intersection(Window(0, 0, width, height))
            there, part = inside.slices(Window(0, 0, width, height)), inside.slices(window)
            for full, read in zip(whole, scenes.read(window), strict=True):
                assert np.array_equal(read[..., *part], full[..., *there])


CUTS = {
    "as it is": (View("EPSG:32633", width=700, height=500), None),
    "resampled": (View("EPSG:32633", width=700, height=500), 0.8),
    "averaged": (View("EPSG:32633", width=700, height=500), 1.7),
    "turned": (View("EPSG:32633", angle=20, width=700, height=500), None),
    "bottom up": (View("EPSG:32633", south_up=True, width=700, height=500), 0.7),
    "degrees": (View("EPSG:4326", width=700, height=500), None),
    "web mercator": (View("EPSG:3857", width=700, height=500), 0.6),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CUTS)
def test_a_scene_that_begins_elsewhere_has_the_same_pixels(tmp_path, kind):
    """Both dates are cut by 13 columns and 29 rows: the pixels that are left do not change."""
    view, gsd = CUTS[kind]
    ground = Ground(15.0, 50.0)
    other = replace(view, crs="EPSG:32632", gsd=0.45, width=900, height=700)
    noise = np.random.default_rng(0)
    images = [noise.integers(0, 255, (3, v.height, v.width)).astype(np.uint8) for v in (view, other)]
    second = other.write(tmp_path / "after.tif", ground, images[1])
    read = []
    for cut in (False, True):
        cols, rows = (13, 29) if cut else (0, 0)
        transform = view.transform(ground) * view.transform(ground).translation(cols, rows)
        first = view.write(tmp_path / f"{cut}.tif", ground, images[0][:, rows:, cols:], transform=transform)
        with ScenePair.open(first, second, gsd=gsd) as pair:
            read.append((pair.grid, *pair.read(Window(0, 0, pair.grid.width, pair.grid.height))))
    (whole, *full), (small, *part) = read
    assert small.transform.almost_equals(
        whole.transform * whole.transform.translation(*np.subtract(small.anchor, whole.anchor)), 1e-6
    )
    moved = Window(*np.subtract(small.anchor, whole.anchor).tolist(), small.width, small.height)
    assert kind != "as it is" or moved == Window(13, 29, whole.width - 13, whole.height - 29)
    both = Window(0, 0, whole.width, whole.height).intersection(moved)
    there, here = both.slices(Window(0, 0, whole.width, whole.height)), both.slices(moved)
    valid = full[2][there] & part[2][here]
    assert valid.sum() > 0.9 * full[2].sum() * (1 - 29 / 500) * (1 - 13 / 700)
    # Along the cut a pixel is mixed from fewer pixels than before.
    inner = binary_erosion(valid, iterations=4)
    for one, two in zip(full[:2], part[:2], strict=True):
        assert np.array_equal(one[..., *there][:, inner], two[..., *here][:, inner])
