from __future__ import annotations

import pytest
from captioners import BrightnessCaptioner, captioned, card
from rasterio._env import get_gdal_config
from scene_pairs import make_pair

from tiling import TileGrid
from workflows.errors import MemoryTooSmall
from workflows.scene.network import memory
from workflows.scene.network.memory import MB, MIB, Batches, plan
from workflows.scenes import CACHE_BYTES, bounded_cache


@pytest.fixture(autouse=True)
def small_process(monkeypatch):
    """What this process holds, after many other tests, is not what a run does."""
    monkeypatch.setattr(memory, "resident_bytes", lambda: 0)


GRID = TileGrid(12_000, 9_000, 256, 64)
CARD = card(tile_size=256)


def test_a_smaller_cap_gives_a_smaller_batch_that_keeps_it():
    sizes = []
    for limit in (2000, 1200, 1100, 1000, 950):
        made = plan(limit * MIB, GRID, CARD, batch_size=16)
        assert made.expected <= limit * MIB
        sizes.append(made.batch_size)
    assert sizes[0] == 16 and sizes[-1] < 16
    assert sizes == sorted(sizes, reverse=True)


def test_a_cap_that_cannot_be_kept_is_refused_with_the_least_that_can():
    with pytest.raises(MemoryTooSmall) as caught:
        plan(100 * MB, GRID, CARD, batch_size=16)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    assert plan(least * MB, GRID, CARD, batch_size=16).batch_size == 1
    with pytest.raises(MemoryTooSmall):
        plan((least - 1) * MB, GRID, CARD, batch_size=16)
    assert caught.value.exit_code == 2


def test_a_run_bounds_the_cache_while_it_reads_and_records_its_plan(tmp_path):
    caches = set()

    class Watching(BrightnessCaptioner):
        def predict_change(self, before, after):
            caches.add(get_gdal_config("GDAL_CACHEMAX"))
            return super().predict_change(before, after)

        def caption(self, *arguments, **options):
            caches.add(get_gdal_config("GDAL_CACHEMAX"))
            return super().caption(*arguments, **options)

    made = make_pair(tmp_path, [(20, 20, 30, 30, 240)])
    before = get_gdal_config("GDAL_CACHEMAX")
    with bounded_cache(40 * MIB):
        assert get_gdal_config("GDAL_CACHEMAX") == 40 * MIB
        report = captioned(made, Watching(), batch_size=3)
        assert get_gdal_config("GDAL_CACHEMAX") == 40 * MIB
    assert caches == {CACHE_BYTES}
    assert get_gdal_config("GDAL_CACHEMAX") == before
    assert report.run["memory"] == {"limit": None, "batch_size": 3}
    with pytest.raises(MemoryTooSmall):
        captioned(made, memory=1000)


def test_a_batch_that_does_not_fit_is_halved_in_the_crops_of_its_tiles():
    sizes, batches = [], Batches(64)

    def call(part):
        sizes.append(len(part))
        if len(part) > 4:
            raise MemoryError("out of memory")
        return part

    assert [one for part, _ in batches.run(range(20), call, weight=4) for one in part] == [*range(20)]
    assert sizes == [16, 8, 4, 4, 4, 4, 4] and batches.size == 16
