import threading

import numpy as np
import pytest
from rasters import textured, write_scene

from tiling import SceneDamaged, ScenePair, TileGrid, read_tiles
from tiling.gridded import GriddedReader


@pytest.fixture
def pair(tmp_path):
    blocks = {"tiled": True, "blockxsize": 64, "blockysize": 64}
    before = write_scene(tmp_path / "before.tif", textured(200, 330), **blocks)
    after = write_scene(tmp_path / "after.tif", textured(200, 330, seed=1))
    with ScenePair.open(before, after) as opened:
        yield opened


def assert_same(tile, before, after, valid):
    assert np.array_equal(tile.before, before) and np.array_equal(tile.after, after)
    assert np.array_equal(tile.valid, valid)


def grid_of(pair):
    return TileGrid(pair.grid.width, pair.grid.height, tile=64, overlap=16)


def reading_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("read-date")]


@pytest.mark.parametrize("ahead", [1, 2, 8, 100])
@pytest.mark.slow
def test_tiles_come_in_order_and_as_read_alone(pair, ahead):
    grid = grid_of(pair)
    tiles = list(read_tiles(pair, grid, ahead=ahead))
    assert [tile.tile for tile in tiles] == list(grid)
    for tile in tiles:
        assert_same(tile, *pair.read(tile.tile.window))
    assert reading_threads() == []


@pytest.mark.parametrize("numbers", [[], [4, 9]])
def test_only_the_tiles_that_are_asked_for_are_read(pair, numbers):
    tiles = read_tiles(pair, grid_of(pair), numbers=numbers)
    assert [tile.tile.index for tile in tiles] == numbers


def test_an_error_comes_at_its_tile_and_ends_the_threads(pair, monkeypatch):
    grid = grid_of(pair)
    read = GriddedReader.read

    def failing(self, window):
        if self.layer.info.path == pair.after.path and window == grid[5].window:
            raise SceneDamaged("after.tif: broken")
        return read(self, window)

    monkeypatch.setattr(GriddedReader, "read", failing)
    seen = []
    with pytest.raises(SceneDamaged):
        for tile in read_tiles(pair, grid):
            seen.append(tile.tile.index)
    assert seen == [0, 1, 2, 3, 4]
    assert reading_threads() == []
