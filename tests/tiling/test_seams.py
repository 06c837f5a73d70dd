"""Polygons do not depend on how a scene was cut, even with a network to which the tiling matters."""

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from shapely import affinity
from shapely.geometry import box

from tiling import ChangeMosaic, TileGrid, polygonize

TILE, OVERLAP = 32, 8


def ground(seed, height=150, width=170):
    """Smooth changes of some ten pixels, 0..1."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).random((height, width)), 4)
    return ((noise - noise.min()) / np.ptp(noise)).astype(np.float32)


def predict(scene, window):
    """Change that depends on the pixel, on its place in the tile and on all that the tile shows."""
    seen = scene[window.row_off : window.row_end, window.col_off : window.col_end]
    place = np.abs(np.arange(window.width, dtype=np.float32) / window.width - 0.4)
    return (0.7 * seen + 0.2 * place + 0.3 * seen.mean(dtype=np.float32)).astype(np.float32)


def regions_of(scene, grid, threshold=0.55, predict=predict, min_area_px=5):
    mosaic, valid = ChangeMosaic(grid), np.ones((grid.tile, grid.tile), bool)

    def bands():
        for tile in grid:
            yield from mosaic.add(tile, predict(scene, tile.window), valid)
        yield from mosaic.finish()

    return polygonize(bands(), threshold, min_area_px=min_area_px, simplify_px=1.0)


def keyed(regions, inside, cols=0, rows=0):
    """The regions inside a box of the whole scene, moved by columns and rows, as comparable values."""
    keys = set()
    for region in regions:
        outline = affinity.translate(region.pixel_polygon, cols, rows)
        if inside.contains_properly(outline):
            keys.add((shapely.normalize(outline).wkb, region.mean_probability, region.area_px))
    return keys


@pytest.fixture(scope="module")
def scene():
    return ground(0)


@pytest.fixture(scope="module")
def regions(scene):
    return regions_of(scene, TileGrid(170, 150, TILE, OVERLAP, anchor=(1000, 77)))


@settings(max_examples=10)
@given(st.sampled_from([0, 1, 13, 17, 29, 53]), st.sampled_from([0, 1, 7, 19, 23, 47]))
def test_a_scene_cut_by_a_prime_number_has_the_same_polygons_away_from_the_cut(scene, regions, cols, rows):
    part = TileGrid(170 - cols, 150 - rows, TILE, OVERLAP, anchor=(1000 + cols, 77 + rows))
    part_regions = regions_of(scene[rows:, cols:], part)
    away = box(cols + TILE if cols else -1, rows + TILE if rows else -1, 171, 151)
    assert keyed(part_regions, away, cols, rows) == keyed(regions, away)
    assert len(keyed(regions, away)) >= 3


@settings(max_examples=12)
@given(
    st.floats(0.01, 0.99),
    st.integers(0, 200),
    st.integers(0, 200),
    st.integers(15, 40),
    st.sampled_from([0, 1, 7]),
)
def test_a_probability_at_the_threshold_is_change_however_tiles_are_blended(
    threshold, cols, rows, tile, overlap
):
    grid = TileGrid(61, 47, tile, overlap, anchor=(cols, rows))
    for value, areas in (
        (np.float32(threshold), [61 * 47]),
        (np.nextafter(np.float32(threshold), np.float32(0)), []),
    ):
        flat = np.full((tile, tile), value, np.float32)
        regions = regions_of(None, grid, threshold, lambda scene, window, flat=flat: flat, 0)
        assert [region.area_px for region in regions] == areas
