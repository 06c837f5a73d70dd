from __future__ import annotations

import dataclasses
import os
import random
import zipfile

import numpy as np
import pytest
from captioned import captioned
from fakes import BrightnessCaptioner
from lasting_records import without_times
from scene_pairs import make_pair
from slow_captioner import SlowCaptioner

from tiling import Band, Window
from workflows.errors import TileCacheBusy, TileCacheUnusable
from workflows.scene.tile_cache import TileCache

# Over the seams of the rows of tiles, and far apart.
SPOTS = [(row, 20 + (row * 7) % 130, 20, 30, 180 + row % 70) for row in range(15, 560, 45)]
SIZE = (600, 210)


class Stopped(Exception):
    pass


class Counting(SlowCaptioner):
    """Stops the run after ``most`` tiles; what it finds depends, in the last bits, on the batch."""

    def __init__(self, most=10**9, **values):
        super().__init__(0, **values)
        self.most = most

    def predict_change(self, before, after):
        if self.seen + len(before) > self.most:
            raise Stopped
        return super().predict_change(before, after)


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, SPOTS, size=SIZE)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def lasting(run):
    """Leave out of a run record what two runs may differ in."""
    return without_times(run, "resumed_tiles")


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def stopped_after(pair, folder, tiles, **options):
    with pytest.raises(Stopped):
        captioned(pair, Counting(tiles), tile_cache=folder, **options)


@pytest.mark.slow
def test_a_stopped_run_goes_on_with_the_finished_rows(pair, tmp_path):
    for overlap in (None, 31):
        calm = captioned(pair, Counting(), overlap=overlap, batch_size=4, group_distance=0)
        total = calm.run["tiling"]["tiles"]
        assert len(calm.changes) == len(SPOTS)
        for tiles in (1, 17, total - 1):  # two batches run side by side: either of them may be stopped
            folder = tmp_path / f"{overlap}_{tiles}"
            stopped_after(pair, folder, tiles, overlap=overlap, batch_size=4)
            model = Counting()
            asked = {"overlap": overlap, "batch_size": 4, "group_distance": 0}
            report = captioned(pair, model, tile_cache=folder, **asked)
            assert report.changes == calm.changes
            assert lasting(report.run) == lasting(calm.run)
            assert report.run["resumed_tiles"] == total - model.seen
            assert (report.run["resumed_tiles"] > 0) == (tiles > 12)
            written = report.write(tmp_path / "report.geojson", overwrite=True)
            assert files(folder) == [] and written.exists()


def test_a_finished_search_is_not_repeated_until_the_report_is_written(pair, cache, tmp_path):
    first = captioned(pair, Counting(), tile_cache=cache)
    model = Counting()
    second = captioned(pair, model, tile_cache=cache)
    assert model.seen == 0 and second.changes == first.changes
    assert second.run["resumed_tiles"] == second.run["tiling"]["tiles"]
    second.write(tmp_path / "report.geojson")
    first.write(tmp_path / "first.geojson")  # there is nothing left to take away
    assert files(cache) == []


@pytest.mark.parametrize(
    "other",
    [{"threshold": 0.7}, {"overlap": 20, "bands": (3, 2, 1)}, {"batch_size": 5}, {"normalize": True}],
)
def test_other_settings_start_anew(pair, cache, other):
    stopped_after(pair, cache, 60)
    assert captioned(pair, tile_cache=cache, **other).run["resumed_tiles"] == 0
    assert captioned(pair, tile_cache=cache).run["resumed_tiles"] > 0


@pytest.mark.slow
def test_settings_of_the_outlines_and_words_go_on_and_changed_inputs_or_another_model_start_anew(pair, cache):
    stopped_after(pair, cache, 60)
    other = Counting(weights_sha256="1" * 64)
    assert captioned(pair, other, tile_cache=cache).run["resumed_tiles"] == 0
    options = {"min_area": 120, "simplify": 0, "beams": 1}
    report = captioned(pair, Counting(), tile_cache=cache, **options)
    assert report.run["resumed_tiles"] > 0
    assert report.changes == captioned(pair, Counting(), **options).changes
    os.utime(pair.after, ns=(1, 1))
    assert captioned(pair, tile_cache=cache).run["resumed_tiles"] == 0


def test_another_scene_in_an_archive_of_the_same_name_starts_anew(pair, cache, tmp_path):
    archive = tmp_path / "after.zip"

    def zipped(after):
        with zipfile.ZipFile(archive, "w") as file:
            file.write(after, "after.tif")
        return dataclasses.replace(pair, after=archive)

    captioned(zipped(pair.after), tile_cache=cache)
    assert captioned(dataclasses.replace(pair, after=archive), tile_cache=cache).run["resumed_tiles"] > 0
    (tmp_path / "other").mkdir()
    other = make_pair(tmp_path / "other", SPOTS[2:], size=SIZE)
    report = captioned(zipped(other.after), tile_cache=cache, group_distance=0)
    assert report.run["resumed_tiles"] == 0 and len(report.changes) == len(SPOTS) - 2


def test_any_device_of_a_kind_goes_on(pair, cache):
    for device, resumed in (("cuda:0", False), ("cpu", False), ("cuda:1", True)):
        model = Counting()
        model.device = device
        report = captioned(pair, model, tile_cache=cache)
        assert (report.run["resumed_tiles"] > 0) == resumed


def test_a_damaged_file_is_computed_again(pair, cache):
    calm = captioned(pair, Counting(), batch_size=4)
    stopped_after(pair, cache, 50, batch_size=4)
    stored = sorted(cache.rglob("row_*.zip"))
    assert len(stored) > 3
    stored[2].write_bytes(stored[2].read_bytes()[:-30])
    stored[3].write_bytes(b"nonsense")
    model = Counting()
    report = captioned(pair, model, batch_size=4, tile_cache=cache)
    total = calm.run["tiling"]["tiles"]
    # Those after the damaged ones are taken, and so is all but a few rows.
    assert report.run["resumed_tiles"] == total - model.seen > 20
    assert report.changes == calm.changes and lasting(report.run) == lasting(calm.run)


def test_two_runs_on_one_cache_are_refused(pair, cache):
    class Nested(BrightnessCaptioner):
        def predict_change(self, before, after):
            with pytest.raises(TileCacheBusy, match=r"cache: another run .*; wait for it"):
                captioned(pair, tile_cache=cache)
            return super().predict_change(before, after)

    report = captioned(pair, Nested(), tile_cache=cache, group_distance=0)
    assert len(report.changes) == len(SPOTS)


def test_a_cache_that_cannot_be_written_is_said_in_one_line(pair, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TileCacheUnusable, match=r"file: finished tiles cannot be kept there") as caught:
        captioned(pair, tile_cache=tmp_path / "file")
    assert caught.value.exit_code == 1


def test_only_changed_pixels_are_kept(tmp_path):
    probability = np.array([[0.2, 0.5, 0.9], [0.7, 0.1, 1.0]], np.float32)
    valid = np.array([[True, True, True], [True, True, False]])
    with TileCache(tmp_path, {"a": 1}, 0.5) as cache:
        bands = [Band(7, probability[:1], valid[:1], 3), Band(8, probability[1:], valid[1:], 3)]
        assert list(cache.keep(iter(bands), {"tiles": 4}, {})) == bands
        assert cache.has(7) and not cache.has(8)
        with cache.finished(7) as (kept, counts, _):
            first, second = kept
    assert counts == {"tiles": 4}
    assert (first.row_off, second.row_off, first.col_off) == (7, 8, 3)
    assert first.probability.tolist() == [[0, 0.5, np.float32(0.9)]]
    assert second.probability.tolist() == [[np.float32(0.7), 0, 0]]
    assert second.valid.tolist() == [[True, False, False]]


def test_no_damage_is_taken_for_finished_rows(tmp_path):
    probability = np.random.default_rng(0).uniform(0.4, 1, (8, 30)).astype(np.float32)
    chance = random.Random(4)
    with TileCache(tmp_path, {"a": 1}, 0.5) as cache:
        maps = {Window(0, 7, 64, 64): np.arange(60, dtype=np.float16).reshape(15, 2, 2)}
        list(cache.keep([Band(7, probability, probability > 0, 3)], {"tiles": 4}, maps))
        [file] = cache.path.glob("row_*.zip")
        sound = file.read_bytes()
        for _ in range(300):
            damaged = bytearray(sound)
            place = chance.randrange(len(sound))
            damaged[place] ^= chance.randrange(1, 256)
            file.write_bytes(damaged if chance.random() < 0.7 else sound[:place])
            if cache.has(7):  # a byte of the archive that says nothing, as a time
                with cache.finished(7) as (bands, counts, facts):
                    [band] = bands
                [(window, kept)] = facts.items()
                assert window in maps and np.array_equal(kept, maps[window])
                assert counts == {"tiles": 4} and band.row_off == 7
                assert np.array_equal(band.probability, np.where(probability >= 0.5, probability, 0))


def test_what_others_fill_too_is_not_locked(tmp_path):
    def shared():
        return TileCache(tmp_path, {"a": 1}, 0.5, shared=True)

    with shared() as one, shared() as two, TileCache(tmp_path, {"a": 1}, 0.5) as whole:
        assert [cache.batch_size(size) for cache, size in ((two, 3), (one, 5), (whole, 7))] == [3] * 3
    for damaged in ("3 tiles", "[3]", "[" * 100_000):
        (whole.path / "batch_size.json").write_text(damaged)
        with pytest.raises(TileCacheUnusable, match="give another"):
            whole.batch_size(3)
        band = Band(0, np.ones((2, 3), np.float32), np.ones((2, 3), bool))
        for part in (one.keep([band], {"tiles": 1}, {}), two.keep([band], {"tiles": 1}, {})):
            assert list(part) == [band]
        with whole.finished(0) as (bands, counts, _):
            assert [band.probability.tolist() for band in bands] == [[[1] * 3] * 2] and counts == {"tiles": 1}
    assert not [path for path in files(tmp_path) if path.suffix == ".tmp"]
