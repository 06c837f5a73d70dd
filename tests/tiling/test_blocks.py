import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from rasters import ORIGIN, north_up, textured, write_scene

from tiling import ScenePair, TileGrid, read_tiles
from tiling.blocks import BlockCache
from tiling.layer import LayerReader


def block_of(size, value=0):
    """A block of two times ``size`` bytes."""
    return np.full(size, value, np.uint8), np.ones(size, bool)


def test_a_block_is_computed_once_and_the_oldest_goes():
    computed = []

    def maker(key):
        return lambda: computed.append(key) or block_of(1, key * 10)

    cache = BlockCache(4)
    got = [int(cache.get(key, maker(key))[0][0]) for key in (1, 2, 1, 3, 1, 2)]
    assert got == [10, 20, 10, 30, 10, 20]
    assert computed == [1, 2, 3, 2] and len(cache._blocks) == 2


def test_blocks_are_kept_by_their_size():
    cache = BlockCache(20)
    for key, size in (("a", 4), ("b", 5), ("c", 1), ("d", 3)):
        assert len(cache.get(key, lambda size=size: block_of(size))[0]) == size
    computed = []
    for key in "dcba":
        cache.get(key, lambda key=key: computed.append(key) or block_of(4))
    assert computed == ["a"]
    assert len(cache.get("heavy", lambda: block_of(11))[0]) == 11 and len(cache._blocks) == 0


def test_threads_wait_for_the_one_that_computes():
    block = block_of(1)
    cache, started, go_on, computed = BlockCache(4), threading.Event(), threading.Event(), []

    def slow():
        started.set()
        assert go_on.wait(10)
        computed.append(1)
        return block

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache.get, "key", slow)
        assert started.wait(10)
        others = [pool.submit(cache.get, "key", slow) for _ in range(3)]
        assert not any(other.done() for other in others)
        go_on.set()
        assert [future.result(10) for future in (first, *others)] == [block] * 4
    assert computed == [1]


def test_an_error_is_raised_and_not_kept():
    cache, sound = BlockCache(4), block_of(1)

    def broken():
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        cache.get("key", broken)
    assert len(cache._blocks) == 0 and cache.get("key", lambda: sound) is sound


def test_threads_share_the_warped_blocks_of_a_pair(tmp_path, monkeypatch):
    before = write_scene(tmp_path / "a.tif", textured(500, 1100))
    after = write_scene(tmp_path / "b.tif", textured(500, 1100), transform=north_up(ORIGIN[0] + 0.2))
    warped = []
    read = LayerReader._read

    def counted(self, window):
        if self.layer.offset is None:
            warped.append(window)
        return read(self, window)

    monkeypatch.setattr(LayerReader, "_read", counted)
    with ScenePair.open(before, after) as pair:
        grid = TileGrid(pair.grid.width, pair.grid.height, tile=128, overlap=64)
        tiles = list(read_tiles(pair, grid))
        assert len(warped) == len(set(warped)) == 4 * 3
        for tile in tiles[::7]:
            assert np.array_equal(pair.read(tile.tile.window)[1], tile.after)
