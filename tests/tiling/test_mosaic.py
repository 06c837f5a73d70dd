import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rasters import grids

from tiling import ChangeMosaic, TileGrid, Window, mosaic


def cut(array, window, fill=0):
    """The window of an array, padded where it sticks out."""
    out = np.full((window.height, window.width), fill, array.dtype)
    part = array[window.row_off : window.row_end, window.col_off : window.col_end]
    out[: part.shape[0], : part.shape[1]] = part
    return out


def blend(grid, probability, valid):
    """The bands of tiles whose values ``probability`` and ``valid`` return."""
    blended, bands = ChangeMosaic(grid), []
    for tile in grid:
        bands += blended.add(tile, probability(tile), valid(tile))
    return [*bands, *blended.finish()]


def blend_cut(grid, probability, valid):
    return blend(grid, lambda tile: cut(probability, tile.window), lambda tile: cut(valid, tile.window))


def predict(scene, window):
    """What a network may say: it depends on the place in the tile and on all that the tile shows."""
    seen = cut(scene, window)
    place = np.arange(window.width, dtype=np.float32) / window.width
    return (0.6 * seen + 0.2 * place + 0.2 * seen.mean(dtype=np.float32)).astype(np.float32)


def blend_predicted(grid, scene, valid):
    return whole(blend(grid, lambda tile: predict(scene, tile.window), lambda tile: cut(valid, tile.window)))


def whole(bands):
    return np.concatenate([b.probability for b in bands]), np.concatenate([b.valid for b in bands])


@given(grids(), st.integers(0, 2**32 - 1))
def test_tiled_equals_whole(grid, seed):
    rng = np.random.default_rng(seed)
    probability = rng.random((grid.height, grid.width)).astype(np.float32)
    valid = rng.random((grid.height, grid.width)) < 0.8
    blended, seen = whole(blend_cut(grid, probability, valid))
    inside = grid.area.slices(Window(0, 0, grid.width, grid.height))
    probability, valid = probability[inside], valid[inside]
    assert blended.dtype == np.float32
    np.testing.assert_array_equal(seen, valid)
    np.testing.assert_allclose(blended, np.where(valid, probability, 0), atol=1e-6, rtol=0)
    assert (blended[~valid] == 0).all()


@given(grids(), st.sampled_from([1, 50, 2**19]))
def test_bands_cover_every_row_of_the_area_once_and_in_order(grid, most):
    ones = np.ones((grid.height, grid.width), np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mosaic, "BAND_PX", most)
        bands = blend_cut(grid, ones, ones > 0)
    starts = [band.row_off for band in bands]
    ends = [band.row_off + len(band.probability) for band in bands]
    assert starts[0] == grid.area.row_off and ends[-1] == grid.area.row_end
    assert starts[1:] == ends[:-1]
    for band in bands:
        assert band.probability.shape == band.valid.shape == (len(band.valid), grid.area.width)
        assert band.col_off == grid.area.col_off
        assert len(band.valid) == 1 or band.valid.size <= most


@given(grids(), st.integers(0, 2**32 - 1))
def test_an_area_has_the_values_of_the_whole_to_the_last_bit(grid, seed):
    rng = np.random.default_rng(seed)
    scene = rng.random((grid.height, grid.width)).astype(np.float32)
    valid = rng.random(scene.shape) < 0.9
    everything = TileGrid(
        grid.width, grid.height, grid.tile, grid.overlap, anchor=grid.anchor, least=grid.least
    )
    inside = grid.area.slices(everything.area)
    for part, all_of_it in zip(
        blend_predicted(grid, scene, valid), blend_predicted(everything, scene, valid), strict=True
    ):
        np.testing.assert_array_equal(part, all_of_it[inside])


@given(grids(), st.integers(0, 2**32 - 1))
def test_a_tile_without_values_is_one_of_zeros(grid, seed):
    rng = np.random.default_rng(seed)
    scene, asked = rng.random((grid.height, grid.width)).astype(np.float32), rng.random(len(grid)) < 0.5

    def blended(nothing):
        given = [cut(scene, tile.window) if asked[tile.index] else nothing(tile) for tile in grid]
        return whole(blend(grid, lambda tile: given[tile.index], lambda tile: None))

    sparse = blended(lambda tile: None)
    full = blended(lambda tile: np.zeros((tile.window.height, tile.window.width), np.float32))
    for one, other in zip(sparse, full, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_one_tile_calls_invalid_is_invalid_whatever_its_probability():
    grid = TileGrid(48, 32, tile=32, overlap=16)
    blended, full = ChangeMosaic(grid), np.ones((32, 32), np.float32)
    holed = full > 0
    holed[5, 3] = False
    list(blended.add(grid[0], full, full > 0))
    list(blended.add(grid[1], np.where(holed, full, np.nan), holed))
    [band] = blended.finish()
    assert not band.valid[5, 19] and band.probability[5, 19] == 0
    assert band.valid.sum() == band.valid.size - 1
    assert np.isfinite(band.probability).all()


def peak_of(grid):
    """The most memory that blending takes beside the tiles."""
    probability, valid = np.zeros((grid.tile, grid.tile), np.float32), np.ones((grid.tile, grid.tile), bool)
    tracemalloc.start()
    blended = ChangeMosaic(grid)
    for tile in grid:
        for _ in blended.add(tile, probability, valid):
            pass
    for _ in blended.finish():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_height():
    low, high = (peak_of(TileGrid(600, height, tile=64, overlap=16)) for height in (200, 6000))
    assert high < low + 200_000  # a scene of 6000 rows would be 14 MB
