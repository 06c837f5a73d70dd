"""Features of a frozen trunk, computed once and stored."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import randomise, tiny_backbone, tiny_model
from training_runs import quick_config

from rscc.data import trunk_maps as features_module
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import FLIPS, flip_sample, read_pair
from rscc.data.trunk_maps import store_trunk_maps


def test_cached_features_are_those_of_the_turned_images(records, build, trunk, monkeypatch) -> None:
    monkeypatch.setattr(features_module, "_BATCH", 3)
    calls = []
    cache = build(records, progress=lambda *done: calls.append(done))
    assert calls == [(3, 8), (6, 8), (8, 8)]
    for index in (0, 5, 7):
        for view, flip in enumerate(FLIPS):
            turned = flip_sample(read_pair(records[index]), flip)
            images = torch.from_numpy(np.stack([turned.before, turned.after]))
            with torch.no_grad():
                direct = trunk(images)[-1].numpy()
            cached = cache.read(np.array([index]), np.array([view]))[0]
            assert cached.dtype == torch.float32
            np.testing.assert_allclose(cached, direct, rtol=2e-3, atol=2e-3)
    assert not np.allclose(cache.read(np.array([0]), np.array([0])), cache.read(np.array([0]), np.array([1])))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system reserves no room")
def test_a_disk_without_room_for_all_features_is_told_before_the_work(
    records, build, tmp_path, monkeypatch
) -> None:
    def full(file, offset, size):
        assert (offset, size) == (0, os.fstat(file).st_size)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(features_module, "read_pair", None)
    with pytest.raises(OSError):
        build(records)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_cache_is_opened_again_for_the_same_trunk_pairs_and_size_only(
    records, build, tmp_path, monkeypatch
) -> None:
    first = build(records)
    reads = []
    monkeypatch.setattr(
        features_module, "read_pair", lambda record: reads.append(record.id) or read_pair(record)
    )
    again = build(records)
    assert reads == []
    everything = (np.arange(8), np.arange(8) % 4)
    np.testing.assert_array_equal(first.read(*everything), again.read(*everything))
    other = tiny_backbone().eval()
    randomise(other, 5)
    store_trunk_maps(other, records, tmp_path, quick_config())
    swapped = [replace(record, after=record.before) for record in records]
    for part in (records[:4], swapped):
        build(part)
    build(records, size=32)
    build(records, flips=("none",))
    assert len(reads) == 8 + 4 + 8 + 8 + 8
    assert len(list(tmp_path.glob("*.npy"))) == 6


def test_the_changes_of_another_head_are_computed_anew(records, build, tmp_path) -> None:
    for seed in (1, 2, 1):
        build(records[:2], head=tiny_model("rdd", grounded=True, seed=seed).change_head)
    one, other = map(np.load, tmp_path.glob("change-*.npy"))
    assert not np.array_equal(one, other)


def test_an_image_that_changed_on_disk_is_not_taken_from_the_cache(copied_root, build) -> None:
    records = LevirCC(copied_root)[:2]
    first = build(records)
    records[0].after.write_bytes(records[0].before.read_bytes())
    again = build(records)
    views = (np.array([0, 1]), np.array([0, 0]))
    before, after = first.read(*views), again.read(*views)
    np.testing.assert_array_equal(before[1], after[1])
    assert not np.array_equal(before[0], after[0])
    np.testing.assert_array_equal(after[0, 0], after[0, 1])


def test_of_two_runs_at_once_one_computes_and_the_other_opens(records, build) -> None:
    computed: list[int] = []

    def built(number: int) -> np.ndarray:
        cache = build(records, progress=lambda *done: computed.append(number))
        return cache.read(np.arange(8), np.zeros(8, dtype=int))

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(built, range(2))
    np.testing.assert_array_equal(first, second)
    assert len(set(computed)) == 1
