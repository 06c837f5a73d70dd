import gc
import threading
import time
import warnings

import numpy as np
import pytest
from rasters import textured, write_scene

from tiling import SceneDamaged, ScenePair, TileGrid, Window, read_tiles, reader


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
    return [thread for thread in threading.enumerate() if thread.name.startswith("read-tiles")]


@pytest.mark.parametrize(("threads", "ahead"), [(1, 1), (2, 8), (4, 2), (3, 100)])
def test_tiles_come_in_order_and_as_read_alone(pair, monkeypatch, threads, ahead):
    monkeypatch.setattr(reader, "THREADS", threads)
    grid = grid_of(pair)
    tiles = list(read_tiles(pair, grid, ahead=ahead))
    assert [tile.tile for tile in tiles] == list(grid)
    for tile in tiles:
        assert_same(tile, *pair.read(tile.tile.window))
    assert reading_threads() == []


def test_every_thread_has_its_own_files_and_they_are_closed_at_the_end(pair):
    assert len(pair._handles) == 1  # the thread that opened the pair
    tiles = read_tiles(pair, grid_of(pair))
    next(tiles)
    assert 1 < len(pair._handles) <= 1 + reader.THREADS
    list(tiles)
    assert len(pair._handles) == 1
    pair.close()
    assert len(pair._handles) == 0


def test_closing_early_stops_the_threads(pair):
    tiles = read_tiles(pair, grid_of(pair))
    next(tiles)
    assert reading_threads()
    tiles.close()
    assert reading_threads() == [] and len(pair._handles) == 1


@pytest.mark.slow
def test_nothing_is_left_behind(tmp_path):
    path = write_scene(tmp_path / "a.tif", textured(100, 100))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with ScenePair.open(path, path) as pair:
            tiles = read_tiles(pair, grid_of(pair))
            next(tiles)
            del tiles
            gc.collect()
            assert reading_threads() == []
        gc.collect()


def test_the_threads_do_not_run_away(pair, monkeypatch):
    started = []
    read = ScenePair.read
    monkeypatch.setattr(ScenePair, "read", lambda self, window: started.append(window) or read(self, window))
    tiles = read_tiles(pair, grid_of(pair), ahead=3)
    next(tiles)
    time.sleep(0.2)
    assert len(started) <= 4  # the one given out and three in advance
    tiles.close()


def test_an_error_comes_at_its_tile_and_ends_the_threads(pair, monkeypatch):
    grid = grid_of(pair)
    read = ScenePair.read

    def failing(self, window):
        if window == grid[5].window:
            raise SceneDamaged("before.tif: broken")
        return read(self, window)

    monkeypatch.setattr(ScenePair, "read", failing)
    seen = []
    with pytest.raises(SceneDamaged, match="broken"):
        for tile in read_tiles(pair, grid):
            seen.append(tile.tile.index)
    assert seen == [0, 1, 2, 3, 4]
    assert reading_threads() == []


def test_a_closed_pair_cannot_be_read(pair):
    pair.close()
    with pytest.raises(ValueError, match="closed"):
        pair.read(grid_of(pair)[0].window)


@pytest.mark.parametrize("first", [0, 7, 27, 28, 40])
def test_reading_may_begin_at_any_tile(pair, first):
    grid = grid_of(pair)
    assert len(grid) == 28
    assert [tile.tile for tile in read_tiles(pair, grid, first=first)] == list(grid)[first:]


def test_an_area_is_read_as_it_is_in_the_whole(pair):
    size = {"tile": 64, "overlap": 16, "anchor": (13, 29)}
    grid = TileGrid(pair.grid.width, pair.grid.height, **size)
    area = TileGrid(pair.grid.width, pair.grid.height, **size, area=Window(150, 90, 60, 20))
    whole = {tile.tile.window: tile for tile in read_tiles(pair, grid)}
    tiles = list(read_tiles(pair, area))
    assert 1 < len(tiles) < len(whole)
    for tile in tiles:
        same = whole[tile.tile.window]
        assert_same(tile, same.before, same.after, same.valid)
