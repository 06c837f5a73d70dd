"""Batches of crops, images and cached features."""

import multiprocessing
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from datasets import write_image
from training_runs import quick_config

from rscc.data import sources
from rscc.data.pairs import FLIPS, PairRecord, flip_words, read_pair
from rscc.data.sources import CaptionText, FeatureCaptionSource, ImageCaptionSource, MaskSource, all_forms
from rscc.text.vocabulary import Vocabulary


def epoch(source, number) -> list:
    """Everything in the batches of an epoch, comparable."""
    return [
        (name, value.numpy().tobytes() if isinstance(value, torch.Tensor) else value)
        for batch in source.epoch(number)
        for name, value in vars(batch).items()
    ]


def text_of(records) -> CaptionText:
    segments = {caption: (caption, caption[::-1]) for caption in all_forms(records)}
    return CaptionText(Vocabulary.build(all_forms(records), min_count=1), max_words=12, segments=segments)


def reversible(record, number):
    """Give a pair a sentence for the way back, in other words than its own; every other pair."""
    said = (f"pair {number} is gone on the left", f"pair {number} was at the top")
    return replace(record, reversed_captions=said) if number % 2 else record


def mask_source(records, **values) -> MaskSource:
    return MaskSource(records, quick_config(**{"batch_size": 4, "size": 32, "scales": (1.0, 1.0), **values}))


@pytest.fixture
def make_source(records, build):
    """Makes a source of some pairs; with a share every other pair can be shown backwards."""

    def make(kind, *, batch_size=3, count=8, size=32, augment=True, flips=FLIPS, share=None, seed=1):
        train, settings = records[:count], {"batch_size": batch_size, "seed": seed}
        settings |= {"size": size, "augment": augment}
        if share is not None:
            train = [reversible(record, number) for number, record in enumerate(train)]
            settings["reversed"] = share
        if kind == "masks":
            return mask_source(train, **settings)
        if kind == "images":
            return ImageCaptionSource(train, text_of(train), quick_config(**settings))
        cache = build(train, flips=flips)
        return FeatureCaptionSource(train, text_of(train), quick_config(**settings), cache)

    return make


kinds = pytest.mark.parametrize("kind", ["masks", "images", "features"])


def test_both_dates_are_augmented(records, make_source) -> None:
    sample = make_source("images")._sample(records[0], "none", np.random.default_rng(0))
    plain = make_source("images", augment=False)._sample(records[0], "none", np.random.default_rng(0))
    assert not np.array_equal(sample.before, plain.before)
    assert not np.array_equal(sample.after, plain.after)


@kinds
def test_batches_depend_on_seed_and_epoch_alone(kind, make_source) -> None:
    source = make_source(kind)
    first, second = epoch(source, 0), epoch(source, 1)
    assert len(list(source.epoch(0))) == len(list(source.epoch(1))) == source.steps() == 3
    assert first != second
    orders = [np.concatenate(source.batches(number)).tolist() for number in (0, 1)]
    assert orders[0] != orders[1]
    torch.manual_seed(99)
    np.random.seed(99)
    other = make_source(kind)
    assert epoch(other, 1) == second, "an epoch can be reached without those before it"
    assert epoch(other, 0) == first
    assert epoch(make_source(kind, seed=2), 0) != first


@kinds
@pytest.mark.parametrize("count", [1, 8])
def test_a_pair_looks_different_in_every_epoch(kind, count, make_source) -> None:
    """Not only the order changes: one batch of all pairs, sorted, is another one; and so is a pair alone."""
    source = make_source(kind, batch_size=8, count=count)
    contents = set()
    for number in range(9):
        (batch,) = source.epoch(number)
        maps = batch.features if kind == "features" else batch.before
        contents.add(tuple(sorted(one.numpy().tobytes() for one in maps)))
    assert len(contents) == (len(FLIPS) if (kind, count) == ("features", 1) else 9)


def test_worker_processes_give_the_same_batches_of_masks_and_share_what_was_read_once(
    records, monkeypatch
) -> None:
    alone, read = mask_source(records), []
    expected = [epoch(alone, number) for number in range(2)]
    monkeypatch.setattr(sources, "read_pair", lambda record: read.append(record.id) or read_pair(record))
    source = mask_source(records, workers=1)
    assert [epoch(source, number) for number in range(2)] == expected
    if multiprocessing.get_start_method() == "fork":  # others share no memory
        assert sorted(read) == sorted(record.id for record in records)


@kinds
def test_an_epoch_takes_every_pair_once_and_no_batch_of_one(kind, make_source) -> None:
    sizes = {3: [3, 3, 2], 7: [7], 8: [8], 20: [8]}
    for batch_size, expected in sizes.items():
        source = make_source(kind, batch_size=batch_size)
        batches = list(source.epoch(0))
        assert source.steps() == len(expected)
        assert [len(b.changed if kind != "masks" else b.before) for b in batches] == expected
        assert kind != "features" or expected != [8] or batches[0].changed.sum() == 4
    assert mask_source([]).steps() == 0


SWAPPED = {"batch_size": 8, "size": 64, "augment": False, "flips": ("none", "horizontal")}


@pytest.mark.parametrize("kind", ["images", "features"])
def test_pairs_shown_backwards_say_so(kind, make_source) -> None:
    source = make_source(kind, **SWAPPED, share=1.0)
    vocabulary = source.text.vocabulary
    forwards = {}  # both dates in one order to (pair, flip, whether that order is the swapped one)
    for i, record in enumerate(source.records):
        for view, flip in enumerate(FLIPS[:2]):
            if kind == "images":
                pair = read_pair(record)
                dates = np.stack([pair.before, pair.after])
            else:
                dates = source.cache.read(np.array([i]), np.array([view]))[0].numpy()
            forwards[dates.tobytes()] = (record, flip if kind == "features" else "none", False)
            forwards[dates[::-1].tobytes()] = (record, flip if kind == "features" else "none", True)
    swaps = Counter()
    for number in range(3):
        (batch,) = source.epoch(number)
        both = batch.features if kind == "features" else torch.stack([batch.before, batch.after], 1)
        for i in range(8):
            record, flip, swapped = forwards[both[i].numpy().tobytes()]
            true = record.reversed_captions if swapped else record.captions
            sentences = [flip_words(caption, flip) for caption in true]
            assert batch.nouns[i] == vocabulary.decode(batch.tokens[i]) in sentences
            assert bool(batch.changed[i]) == record.changed, "a pair shown backwards changed as much"
            if record.changed:  # the dates of an unchanged pair look alike both ways round
                swaps[bool(record.reversed_captions), swapped] += 1
    assert swaps[False, True] == 0, "without such captions a pair is never shown backwards"
    assert swaps[True, False] == 0


def test_crops_of_one_date_show_no_change(records) -> None:
    def alike(share: float) -> list[bool]:
        (batch,) = mask_source(records, batch_size=8, augment=False, one_date=share).epoch(0)
        same = [torch.equal(*pair) for pair in zip(batch.before, batch.after, strict=True)]
        assert not batch.mask[same].any()
        return same

    assert all(alike(1.0))
    assert 0 < sum(alike(0.5)) < 8
    assert not any(alike(0.0))


def test_crops_show_as_much_ground_as_the_scales_say(tmp_path) -> None:
    """An image of 64 px is a crop of 32 px at scale 2, and a square in it has half of its side there."""
    mask = np.zeros((64, 64), np.uint8)
    mask[24:40, 24:40] = 255
    image, marked = tmp_path / "a.png", tmp_path / "m.png"
    write_image(image, np.full((64, 64, 3), 90, np.uint8))
    write_image(marked, mask)
    record = PairRecord("same", image, image, marked, gsd=0.5)

    def seen(scale: float) -> set[int]:
        source = mask_source([record], batch_size=1, seed=0, scales=(scale, scale))
        return {int(batch.mask.sum()) for number in range(20) for batch in source.epoch(number)}

    assert seen(2.0) == {8 * 8}
    assert max(seen(1.0)) == 16 * 16
    record = replace(record, gsd=0.25)  # twice as fine as the model's: the same ground has twice the pixels
    assert seen(1.0) == {8 * 8}
