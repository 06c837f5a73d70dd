import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiling import ChangeMosaic, TileGrid


@st.composite
def grids(draw):
    tile = draw(st.integers(1, 24))
    size = st.integers(1, 70)
    return TileGrid(draw(size), draw(size), tile=tile, overlap=draw(st.integers(0, tile - 1)))


def cut(array, window, fill=0):
    """The window of an array, padded where it sticks out."""
    out = np.full((window.height, window.width), fill, array.dtype)
    part = array[window.row_off : window.row_end, window.col_off : window.col_end]
    out[: part.shape[0], : part.shape[1]] = part
    return out


def blend(grid, probability, valid):
    mosaic = ChangeMosaic(grid)
    bands = []
    for tile in grid:
        bands += mosaic.add(tile, cut(probability, tile.window), cut(valid, tile.window))
    bands += mosaic.finish()
    return bands


def whole(bands):
    return np.concatenate([b.probability for b in bands]), np.concatenate([b.valid for b in bands])


@given(grids(), st.integers(0, 2**32 - 1))
def test_tiled_equals_whole(grid, seed):
    rng = np.random.default_rng(seed)
    probability = rng.random((grid.height, grid.width)).astype(np.float32)
    valid = rng.random((grid.height, grid.width)) < 0.8
    found, seen = whole(blend(grid, probability, valid))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(seen, valid)
    np.testing.assert_allclose(found, np.where(valid, probability, 0), atol=1e-6, rtol=0)
    assert (found[~valid] == 0).all()


@given(grids(), st.floats(0, 1, width=32))
def test_a_constant_stays_itself(grid, value):
    probability = np.full((grid.height, grid.width), value, np.float32)
    found, _ = whole(blend(grid, probability, np.ones(probability.shape, bool)))
    np.testing.assert_array_equal(found, probability)


@given(grids())
def test_bands_cover_every_row_once_and_in_order(grid):
    ones = np.ones((grid.height, grid.width), np.float32)
    bands = blend(grid, ones, ones > 0)
    starts = [band.row_off for band in bands]
    ends = [band.row_off + len(band.probability) for band in bands]
    assert starts[0] == 0 and ends[-1] == grid.height
    assert starts[1:] == ends[:-1]
    assert all(band.probability.shape == band.valid.shape == (len(band.valid), grid.width) for band in bands)


def test_a_band_comes_with_the_last_tile_of_its_row():
    grid = TileGrid(100, 90, tile=32, overlap=8)
    mosaic, full = ChangeMosaic(grid), np.ones((32, 32), np.float32)
    for tile in grid:
        bands = list(mosaic.add(tile, full, full > 0))
        last = tile.col == grid.shape[1] - 1 and tile.row < grid.shape[0] - 1
        assert len(bands) == int(last)
        if last:
            assert bands[0].row_off + len(bands[0].valid) == grid.rows.starts[tile.row + 1]


def test_neighbours_that_disagree_fade_into_each_other():
    grid = TileGrid(56, 32, tile=32, overlap=8)
    mosaic, full = ChangeMosaic(grid), np.ones((32, 32), np.float32)
    for tile, value in zip(grid, (0.0, 1.0), strict=True):
        assert list(mosaic.add(tile, full * value, full > 0)) == []
    [band] = mosaic.finish()
    line = band.probability[7]
    assert (np.diff(line) >= 0).all() and np.diff(line).max() < 0.25
    assert line[20] == 0 and line[35] == 1 and line[24:32].std() > 0


def test_what_one_tile_calls_invalid_is_invalid_whatever_its_probability():
    grid = TileGrid(48, 32, tile=32, overlap=16)
    mosaic, full = ChangeMosaic(grid), np.ones((32, 32), np.float32)
    holed = full > 0
    holed[5, 3] = False
    list(mosaic.add(grid[0], full, full > 0))
    list(mosaic.add(grid[1], np.where(holed, full, np.nan), holed))
    [band] = mosaic.finish()
    assert not band.valid[5, 19] and band.probability[5, 19] == 0
    assert band.valid.sum() == band.valid.size - 1
    assert np.isfinite(band.probability).all()


def test_tiles_come_in_order():
    grid = TileGrid(100, 90, tile=32, overlap=8)
    mosaic, full = ChangeMosaic(grid), np.ones((32, 32), np.float32)
    with pytest.raises(ValueError, match="expected 0, got 1"):
        mosaic.add(grid[1], full, full > 0)
    mosaic.add(grid[0], full, full > 0)
    with pytest.raises(ValueError, match="expected 1, got 0"):
        mosaic.add(grid[0], full, full > 0)
    with pytest.raises(ValueError, match="only 1 of"):
        list(mosaic.finish())
    with pytest.raises(ValueError, match="expected"):
        mosaic.add(grid[1], full[:5], full > 0)


def test_memory_does_not_grow_with_the_height():
    def peak(height):
        grid = TileGrid(600, height, tile=64, overlap=16)
        probability, valid = np.zeros((64, 64), np.float32), np.ones((64, 64), bool)
        tracemalloc.start()
        mosaic = ChangeMosaic(grid)
        for tile in grid:
            for _ in mosaic.add(tile, probability, valid):
                pass
        for _ in mosaic.finish():
            pass
        measured = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return measured

    peak(100)
    low = peak(200)
    assert peak(6000) < low + 200_000  # a scene of 6000 rows would be 14 MB
