from __future__ import annotations

import pytest
from captioned import captioned
from fakes import BrightnessCaptioner, card
from rasterio._env import get_gdal_config
from scene_pairs import make_pair

from tiling import TileGrid
from workflows.errors import MemoryTooSmall
from workflows.scene.memory import CACHES, LOADED, MB, MIB, bounded_cache, plan, resident_bytes

GRID = TileGrid(12_000, 9_000, 256, 64)
CARD = card(tile_size=256)


def test_without_a_cap_the_batch_is_as_asked_for():
    made = plan(None, GRID, CARD, batch_size=16, held=LOADED)
    assert (made.limit, made.batch_size, made.gdal_cache) == (None, 16, CACHES[0])
    assert LOADED < made.expected < 2 * LOADED + 600 * MIB


def test_a_smaller_cap_gives_a_smaller_batch_that_keeps_it():
    sizes = []
    for limit in (2000, 1200, 1000, 900, 850):
        made = plan(limit * MIB, GRID, CARD, batch_size=16, held=LOADED)
        assert made.expected <= limit * MIB
        sizes.append(made.batch_size)
    assert sizes[0] == 16 and sizes[-1] < 16
    assert sizes == sorted(sizes, reverse=True)


def test_a_cap_that_cannot_be_kept_is_refused_with_the_least_that_can():
    with pytest.raises(MemoryTooSmall, match=r"memory is 100 MB.*at least (\d+) MB") as caught:
        plan(100 * MB, GRID, CARD, held=LOADED)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    assert plan(least * MB, GRID, CARD, held=LOADED).batch_size == 1
    with pytest.raises(MemoryTooSmall):
        plan((least - 1) * MB, GRID, CARD, held=LOADED)
    assert caught.value.exit_code == 2


def test_the_plan_does_not_depend_on_the_height():
    expected = {
        plan(None, TileGrid(4000, height, 256, 64), CARD, held=0).expected for height in (300, 4000, 90_000)
    }
    assert len(expected) == 1


def test_a_model_on_another_device_leaves_the_batch_alone():
    limit = plan(None, GRID, CARD, batch_size=4, held=LOADED).expected
    assert plan(limit, GRID, CARD, batch_size=64, held=LOADED).batch_size < 64
    assert plan(limit, GRID, CARD, batch_size=64, held=LOADED, on_cpu=False).batch_size == 64


def test_this_process_holds_something():
    assert 20 * MIB < resident_bytes() < 2**40


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
    assert caches == {CACHES[0]}
    assert get_gdal_config("GDAL_CACHEMAX") == before
    assert report.run["memory"] == {"limit": None, "batch_size": 3, "ahead": 8, "gdal_cache": CACHES[0]}
    with pytest.raises(MemoryTooSmall, match="brightness"):
        captioned(made, memory=1000)
