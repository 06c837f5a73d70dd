import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from levir_cc_fixture import CHANGED, UNCHANGED, sentences, write_change_masks, write_image, write_levir_cc
from tiny_models import randomise, tiny_backbone

from rscc.data import features as features_module
from rscc.data.augmentation import augment_for_masks, jitter_colour, random_crop, shift_image
from rscc.data.change_masks import ChangeMasks
from rscc.data.features import FeatureCache, build_feature_cache, pooled_features
from rscc.data.levir_cc import SPLITS, LevirCC
from rscc.data.pairs import (
    FLIPS,
    PairRecord,
    PairSample,
    collate,
    flip_array,
    flip_sample,
    flip_words,
    read_mask,
    read_pair,
    read_rgb,
    resize,
)
from rscc.data.sources import (
    CaptionText,
    FeatureCaptionSource,
    ImageCaptionSource,
    MaskSource,
    all_forms,
)
from rscc.errors import DatasetLayoutInvalid
from rscc.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_levir_cc(tmp_path_factory.mktemp("levir_cc"))


@pytest.fixture
def own_root(root, tmp_path):
    """A copy that a test may break."""
    return shutil.copytree(root, tmp_path / "levir_cc")


def edit_captions(root, change) -> None:
    path = root / "LevirCCcaptions.json"
    content = json.loads(path.read_text())
    change(content["images"])
    path.write_text(json.dumps(content))


def sample(captions=("a house on the left",), *, height=24, width=40, seed=0) -> PairSample:
    rng = np.random.default_rng(seed)
    before, after = (rng.integers(0, 256, (3, height, width), dtype=np.uint8) for _ in range(2))
    return PairSample("one", before, after, rng.random((height, width)) > 0.5, tuple(captions), True)


# The LEVIR-CC reader


@pytest.mark.parametrize(("split", "count"), [("train", 8), ("val", 4), ("test", 2)])
def test_a_split_holds_its_pairs_in_order(root, split, count) -> None:
    data = LevirCC(root, split)
    assert len(data) == len(data.records) == count
    assert [r.id for r in data.records] == [f"{split}_{n:06d}.png" for n in range(count)]
    assert [r.changed for r in data.records] == [n % 2 == 0 for n in range(count)]
    assert data.records[0].captions == CHANGED[0]
    assert data.records[1].captions == UNCHANGED
    assert all(r.gsd == 0.5 for r in data.records)
    assert all(r.mask == root / "images" / split / "label" / r.id for r in data.records)


def test_an_item_has_images_mask_and_captions(root) -> None:
    data = LevirCC(root, "train")
    changed, unchanged = data[0], data[1]
    assert changed.before.shape == changed.after.shape == (3, 64, 64)
    assert changed.before.dtype == np.uint8
    assert changed.mask.dtype == bool
    assert 0 < changed.mask.mean() < 0.5
    assert np.all(changed.after[:, changed.mask] == 230), "the mask lies on what is new"
    assert not unchanged.mask.any()
    assert changed.captions == CHANGED[0]


@pytest.mark.parametrize(
    ("trust", "numbers"),
    [
        ((), range(8)),
        (("pattern",), (0, 1, 4, 7)),
        (("matched",), (0, 2, 5)),
        (("named", "pattern", "matched"), range(8)),
    ],
)
def test_trust_keeps_the_named_values_and_pairs_without_the_field(root, trust, numbers) -> None:
    records = LevirCC(root, "train", trust=trust).records
    assert [r.id for r in records] == [f"train_{n:06d}.png" for n in numbers]


def test_captions_are_read_in_lower_case(own_root) -> None:
    edit_captions(own_root, lambda images: images[0].update(sentences=sentences(("A House", "ONE house"))))
    assert LevirCC(own_root).records[0].captions == ("a house", "one house")


def test_pairs_without_labels_or_flags_have_none(own_root) -> None:
    shutil.rmtree(own_root / "images" / "train" / "label")
    edit_captions(own_root, lambda images: [image.pop("changeflag") for image in images])
    data = LevirCC(own_root)
    assert {(r.mask, r.changed) for r in data.records} == {(None, None)}
    assert data[0].mask is None


def test_an_unknown_split_is_refused(root) -> None:
    with pytest.raises(DatasetLayoutInvalid, match="train, val, test"):
        LevirCC(root, "validation")


def test_a_folder_without_captions_is_refused(tmp_path) -> None:
    with pytest.raises(DatasetLayoutInvalid, match=r"LevirCCcaptions\.json"):
        LevirCC(tmp_path)


def test_an_empty_split_is_refused(own_root) -> None:
    edit_captions(own_root, lambda images: [image.update(split="train") for image in images])
    assert len(LevirCC(own_root)) == 14
    with pytest.raises(DatasetLayoutInvalid, match="'val'"):
        LevirCC(own_root, "val")


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"images": 3}', '{"images": {"a": 1}}', '{"images": ["a.png"]}', "null"]
)
def test_other_files_are_no_captions_files(tmp_path, text) -> None:
    (tmp_path / "LevirCCcaptions.json").write_text(text)
    with pytest.raises(DatasetLayoutInvalid, match="not a LEVIR-CC captions file") as caught:
        LevirCC(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("key", ["filename", "sentences"])
def test_an_entry_that_lacks_something_is_refused(own_root, key) -> None:
    edit_captions(own_root, lambda images: images[3].pop(key))
    with pytest.raises(DatasetLayoutInvalid, match=key):
        LevirCC(own_root)


def test_a_missing_image_is_named(own_root) -> None:
    missing = own_root / "images" / "train" / "B" / "train_000002.png"
    missing.unlink()
    data = LevirCC(own_root)
    assert data[0].id == "train_000000.png"
    with pytest.raises(DatasetLayoutInvalid, match="train_000002"):
        data[2]


def test_a_file_that_is_no_image_is_named(own_root) -> None:
    path = own_root / "images" / "train" / "A" / "train_000001.png"
    path.write_text("no image")
    with pytest.raises(DatasetLayoutInvalid, match="train_000001"):
        LevirCC(own_root)[1]


@pytest.mark.parametrize("part", ["B", "label"])
def test_sizes_that_differ_are_refused(own_root, part) -> None:
    path = own_root / "images" / "train" / part / "train_000000.png"
    write_image(path, np.zeros((32, 64, 3), np.uint8))
    with pytest.raises(DatasetLayoutInvalid, match="differ in size"):
        LevirCC(own_root)[0]


@pytest.mark.real
def test_the_real_data_have_the_numbers_of_their_description(shared_data) -> None:
    root = shared_data / "data" / "levir_cc"
    expected = {"named": 18, "pattern": 423, "matched": 424, "approximate": 507}
    for trust, count in expected.items():
        assert len(LevirCC(root, "train", trust=(trust,))) == count, trust
    train, val, test = (LevirCC(root, split).records for split in SPLITS)
    assert (len(train), len(val), len(test)) == (sum(expected.values()), 109, 130)
    assert [sum(r.changed for r in part) for part in (train, val, test)] == [861, 70, 62]
    for part in (train, val, test):
        assert all(len(r.captions) == 5 and all(r.captions) for r in part)
    ids = [Counter(r.before for r in part) for part in (train, val, test)]
    assert not (ids[0] & ids[1]) | (ids[0] & ids[2]) | (ids[1] & ids[2])
    one = read_pair(test[0])
    assert one.before.shape == (3, 256, 256)
    assert one.mask is not None


# Change masks


@pytest.fixture(scope="module")
def masks(tmp_path_factory):
    return write_change_masks(tmp_path_factory.mktemp("masks"))


def test_change_masks_count_crops_by_ground(masks) -> None:
    records = ChangeMasks(masks, size=64).records
    assert [(r.id, r.crops, r.gsd) for r in records] == [
        ("a.png", 2, 0.5),
        ("b.png", 1, 1.0),
        ("c.png", 4, 1.0),
    ]
    assert [r.crops for r in ChangeMasks(masks, size=256).records] == [1, 1, 1]
    assert all(r.changed is None and r.captions == () for r in records)


def test_change_masks_are_chosen_by_collection(masks) -> None:
    data = ChangeMasks(masks, datasets=("coarse",))
    assert [r.id for r in data.records] == ["c.png"]
    assert data[0].mask.shape == data[0].before.shape[1:] == (192, 192)
    with pytest.raises(DatasetLayoutInvalid, match="other"):
        ChangeMasks(masks, datasets=("other",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dataset,file,width,height\nfine,a.png,64,64\n", "gsd_m"),
        ("dataset,file,width,height,gsd_m\nfine,a.png,wide,64,0.5\n", "wide"),
        ("dataset,file,width,height,gsd_m\nfine,a.png,64\n", "number"),
    ],
)
def test_a_bad_index_is_refused(tmp_path, text, reason) -> None:
    (tmp_path / "index.csv").write_text(text)
    with pytest.raises(DatasetLayoutInvalid, match=reason):
        ChangeMasks(tmp_path)


def test_no_index_is_refused(tmp_path) -> None:
    with pytest.raises(DatasetLayoutInvalid, match=r"index\.csv"):
        ChangeMasks(tmp_path)


@pytest.mark.parametrize("values", [(0, 255), (0, 1), (0, 0)])
def test_masks_of_either_range_are_read(tmp_path, values) -> None:
    array = np.full((4, 6), values[0], np.uint8)
    array[1:3, 2:5] = values[1]
    write_image(tmp_path / "mask.png", array)
    mask = read_mask(tmp_path / "mask.png")
    assert mask.dtype == bool
    assert mask.sum() == (6 if values[1] else 0)


def test_grey_and_transparent_images_are_read_as_rgb(tmp_path) -> None:
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6)
    write_image(tmp_path / "grey.png", grey)
    write_image(tmp_path / "rgba.png", np.dstack([grey, grey, grey, 255 - grey]))
    for name in ("grey.png", "rgba.png"):
        np.testing.assert_array_equal(read_rgb(tmp_path / name), np.stack([grey] * 3))


# Flips and words


@pytest.mark.parametrize("flip", FLIPS)
def test_a_flip_twice_changes_nothing(flip) -> None:
    one = sample(("a house on the left of the upper road", "trees at the bottom-right corner, to the east"))
    twice = flip_sample(flip_sample(one, flip), flip)
    assert twice.captions == one.captions
    for name in ("before", "after", "mask"):
        np.testing.assert_array_equal(getattr(twice, name), getattr(one, name))


@pytest.mark.parametrize("flip", FLIPS)
def test_words_go_where_the_pixels_go(flip) -> None:
    """A bright spot in one corner, named by its corner: after any flip the words still name its corner."""
    for row, vertical in ((0, "top"), (-1, "bottom")):
        for column, horizontal in ((0, "left"), (-1, "right")):
            one = sample((f"a spot in the {vertical} {horizontal} corner", f"the {vertical}-{horizontal}"))
            for part in (one.before, one.after):
                part[:] = 0
                part[:, row, column] = 255
            one.mask[:] = False
            one.mask[row, column] = True
            turned = flip_sample(one, flip)
            for part in (turned.before[0], turned.after[1], turned.mask):
                y, x = np.argwhere(part)[0]
                where = ("top" if y == 0 else "bottom", "left" if x == 0 else "right")
                assert turned.captions == (
                    f"a spot in the {where[0]} {where[1]} corner",
                    f"the {where[0]}-{where[1]}",
                )


def test_words_inside_other_words_stay() -> None:
    caption = "brightness, leftover lots, a bungalow and a topping"
    assert all(flip_words(caption, flip) == caption for flip in FLIPS)
    assert (
        flip_words("upper left, north of the lower west", "vertical") == "lower left, south of the upper west"
    )


def test_flips_are_all_four_and_independent_copies() -> None:
    array = np.arange(12).reshape(1, 3, 4)
    seen = {flip_array(array, flip).tobytes() for flip in FLIPS}
    assert len(seen) == 4
    turned = flip_array(array, "horizontal")
    assert turned.flags.c_contiguous
    turned[:] = 0
    assert array.max() == 11


# Augmentation


def test_resize_keeps_masks_binary_and_images_in_range() -> None:
    one = sample()
    assert resize(one.before, (32, 48)).shape == (3, 32, 48)
    mask = resize(one.mask, (32, 48))
    assert (mask.dtype, mask.shape) == (bool, (32, 48))
    assert resize(one.mask, one.mask.shape) is one.mask
    flat = np.full((3, 8, 8), 77, np.uint8)
    assert np.all(resize(flat, (20, 12)) == 77)


def test_a_crop_takes_images_and_mask_from_one_place() -> None:
    one = sample(height=60, width=80)
    place = np.arange(60 * 80).reshape(60, 80)
    marked = replace(
        one,
        before=np.stack([place % 256] * 3).astype(np.uint8),
        after=np.stack([place % 256] * 3).astype(np.uint8),
        mask=place % 2 == 0,
    )
    corners = set()
    for seed in range(20):
        cut = random_crop(marked, 32, 32, np.random.default_rng(seed))
        assert cut.before.shape == (3, 32, 32)
        np.testing.assert_array_equal(cut.before, cut.after)
        np.testing.assert_array_equal(cut.mask, cut.before[0] % 2 == 0)
        corners.add(int(cut.before[0, 0, 0]))
    assert len(corners) > 10
    small = random_crop(sample(height=24, width=40), 64, 32, np.random.default_rng(0))
    assert small.before.shape == (3, 32, 32)


def test_augmentation_for_masks_keeps_the_mask_on_the_change() -> None:
    mask = np.zeros((32, 32), bool)
    mask[4:12, 18:28] = True
    before = np.full((3, 32, 32), 60, np.uint8)
    after = before.copy()
    after[:, mask] = 200
    swapped = 0
    for seed in range(40):
        one = augment_for_masks(PairSample("x", before, after, mask, (), None), np.random.default_rng(seed))
        assert one.before.dtype == one.after.dtype == np.uint8
        assert one.mask.sum() == mask.sum()
        dates = [one.before.astype(int).mean(0), one.after.astype(int).mean(0)]
        contrast = [abs(date[one.mask].mean() - date[~one.mask].mean()) for date in dates]
        swapped += contrast[0] > contrast[1]
        assert max(contrast) > 10 * min(contrast), "one date has the square, at the mask"
    assert 10 < swapped < 30


def test_jitter_and_shift_are_small_and_reproducible() -> None:
    image = sample(height=32, width=32).before
    rng = np.random.default_rng
    np.testing.assert_array_equal(jitter_colour(image, rng(3), 0.3), jitter_colour(image, rng(3), 0.3))
    assert not np.array_equal(jitter_colour(image, rng(3), 0.3), jitter_colour(image, rng(4), 0.3))
    assert np.abs(jitter_colour(image, rng(3), 0.0).astype(int) - image).max() <= 1
    moved = shift_image(image, rng(5), 2)
    assert moved.shape == image.shape
    matches = [
        np.array_equal(np.roll(image, (-dy, -dx), (1, 2))[:, 2:-2, 2:-2], moved[:, 2:-2, 2:-2])
        for dy in range(-2, 3)
        for dx in range(-2, 3)
    ]
    assert sum(matches) == 1


# Batches


def test_collate_pads_captions_and_marks_what_is_known() -> None:
    vocabulary = Vocabulary.build(["a house on the left", "many trees"], min_count=1)
    one, two = (
        sample(("a house on the left",)),
        replace(sample(("many trees",), seed=1), mask=None, changed=None),
    )
    segments = {"a house on the left": ("a house", ""), "many trees": ("many trees", "")}
    batch = collate(
        [one, two], vocabulary=vocabulary, chosen=["a house on the left", "many trees"], segments=segments
    )
    assert batch.before.shape == batch.after.shape == (2, 3, 24, 40)
    assert batch.before.dtype == torch.uint8
    assert batch.mask_known.tolist() == [True, False]
    assert batch.mask.dtype == torch.float32
    np.testing.assert_array_equal(batch.mask[0].numpy() > 0, one.mask)
    assert not batch.mask[1].any()
    assert batch.changed.tolist() == [1, 0]
    assert batch.changed_known.tolist() == [True, False]
    assert batch.tokens.dtype == torch.int64
    assert [vocabulary.decode(row) for row in batch.tokens] == ["a house on the left", "many trees"]
    assert batch.tokens[1].tolist()[-3:] == [vocabulary.pad] * 3
    assert (batch.nouns, batch.verbs) == (["a house", "many trees"], ["", ""])
    bare = collate([replace(one, mask=None), two])
    assert bare.mask is bare.mask_known is bare.tokens is bare.nouns is None


def test_long_captions_keep_their_end() -> None:
    vocabulary = Vocabulary.build(["a b c d e f"], min_count=1)
    batch = collate([sample()], vocabulary=vocabulary, chosen=["a b c d e f"], max_words=5)
    assert batch.tokens.tolist()[0][-1] == vocabulary.eos
    assert batch.tokens.shape == (1, 5)


# The feature cache


@pytest.fixture(scope="module")
def trunk():
    trunk = tiny_backbone().eval()
    randomise(trunk, 4)
    return trunk


def test_cached_features_are_those_of_the_turned_images(root, trunk, tmp_path) -> None:
    records = LevirCC(root, "train").records
    calls = []
    cache = build_feature_cache(
        trunk, records, tmp_path, size=64, batch_size=3, bf16=False, progress=lambda *done: calls.append(done)
    )
    assert calls == [(3, 8), (6, 8), (8, 8)]
    for index in (0, 5, 7):
        for view, flip in enumerate(FLIPS):
            turned = flip_sample(read_pair(records[index]), flip)
            images = torch.from_numpy(np.stack([turned.before, turned.after]))
            with torch.no_grad():
                direct = trunk(images)[-1].numpy()
            cached = cache.read(np.array([index]), np.array([view]))[0]
            assert cached.dtype == np.float32
            np.testing.assert_allclose(cached, direct, rtol=2e-3, atol=2e-3)
    assert not np.allclose(cache.read(np.array([0]), np.array([0])), cache.read(np.array([0]), np.array([1])))


def test_weighted_means_of_maps_are_sums_over_positions(root, trunk, tmp_path) -> None:
    records = LevirCC(root, "train").records
    weights = np.random.default_rng(0).random((8, 4, 4)).astype(np.float32)
    weights[2] = 0  # nothing to look at: the whole map
    cache = build_feature_cache(trunk, records, tmp_path, size=64, bf16=False)
    maps = cache.read(np.arange(8), np.zeros(8, dtype=int))  # (8, 2, C, 4, 4)
    for given in (None, weights):
        slow = np.zeros(maps.shape[:3])
        for pair in range(8):
            own = np.ones((4, 4)) if given is None or pair == 2 else given[pair]
            for row, column in np.ndindex(4, 4):
                slow[pair] += own[row, column] * maps[pair, ..., row, column] / own.sum()
        np.testing.assert_allclose(cache.pooled(given), slow, rtol=1e-3, atol=1e-4)
        again = pooled_features(trunk, records, size=64, batch_size=3, bf16=False, weights=given)
        np.testing.assert_allclose(again, slow, rtol=2e-3, atol=2e-3)


def test_a_cache_is_opened_again_for_the_same_trunk_pairs_and_size_only(
    root, trunk, tmp_path, monkeypatch
) -> None:
    records = LevirCC(root, "train").records
    first = build_feature_cache(trunk, records, tmp_path, size=64, bf16=False)
    reads = []
    monkeypatch.setattr(
        features_module, "read_pair", lambda record: reads.append(record.id) or read_pair(record)
    )
    again = build_feature_cache(trunk, records, tmp_path, size=64, bf16=False)
    assert reads == []
    everything = (np.arange(8), np.arange(8) % 4)
    np.testing.assert_array_equal(first.read(*everything), again.read(*everything))
    other = tiny_backbone().eval()
    randomise(other, 5)
    build_feature_cache(other, records, tmp_path, size=64, bf16=False)
    build_feature_cache(trunk, records[:4], tmp_path, size=64, bf16=False)
    swapped = [replace(record, after=record.before) for record in records]
    build_feature_cache(trunk, swapped, tmp_path, size=64, bf16=False)
    build_feature_cache(trunk, records, tmp_path, size=32, bf16=False)
    build_feature_cache(trunk, records, tmp_path, size=64, bf16=False, flips=("none",))
    assert len(reads) == 8 + 4 + 8 + 8 + 8
    assert len(list(tmp_path.iterdir())) == 6


def test_an_image_that_changed_on_disk_is_not_taken_from_the_cache(root, trunk, tmp_path) -> None:
    shutil.copytree(root, tmp_path / "data")
    records = LevirCC(tmp_path / "data", "train").records[:2]
    first = build_feature_cache(trunk, records, tmp_path, size=64, bf16=False)
    records[0].after.write_bytes(records[0].before.read_bytes())
    again = build_feature_cache(trunk, records, tmp_path, size=64, bf16=False)
    views = (np.array([0, 1]), np.array([0, 0]))
    before, after = first.read(*views), again.read(*views)
    np.testing.assert_array_equal(before[1], after[1])
    assert not np.array_equal(before[0], after[0])
    np.testing.assert_array_equal(after[0, 0], after[0, 1])


def test_a_stopped_cache_is_made_again(root, trunk, tmp_path, monkeypatch) -> None:
    records = LevirCC(root, "train").records

    def stop(done, total) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_feature_cache(trunk, records, tmp_path, size=64, batch_size=2, bf16=False, progress=stop)
    assert not list(tmp_path.glob("*.npy"))
    cache = build_feature_cache(trunk, records, tmp_path, size=64, bf16=False)
    assert all(np.any(cache.read(np.array([i]), np.array([3]))) for i in range(8))
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]


# Sources


def fingerprint(batch) -> list:
    """Everything in a batch, comparable."""
    return [
        (name, value.numpy().tobytes() if isinstance(value, torch.Tensor) else value)
        for name, value in vars(batch).items()
    ]


def epoch(source, number) -> list:
    return [fingerprint(batch) for batch in source.epoch(number)]


def make_source(kind, root, trunk, folder, *, seed=1, batch_size=3):
    train = LevirCC(root, "train").records
    text = CaptionText(
        Vocabulary.build(all_forms(train), min_count=1),
        max_words=12,
        segments={caption: (caption, caption[::-1]) for caption in all_forms(train)},
    )
    if kind == "masks":
        return MaskSource(train, batch_size=batch_size, size=32, gsd=0.5, augment=True, seed=seed)
    if kind == "images":
        return ImageCaptionSource(train, text, batch_size=batch_size, size=32, augment=True, seed=seed)
    cache = build_feature_cache(trunk, train, folder, size=64, bf16=False)
    return FeatureCaptionSource(train, cache, text, batch_size=batch_size, seed=seed)


kinds = pytest.mark.parametrize("kind", ["masks", "images", "features"])


@kinds
def test_batches_depend_on_seed_and_epoch_alone(kind, root, trunk, tmp_path) -> None:
    source = make_source(kind, root, trunk, tmp_path)
    first, second = epoch(source, 0), epoch(source, 1)
    assert len(first) == len(second) == source.steps() == 3
    assert first != second
    torch.manual_seed(99)
    np.random.seed(99)
    other = make_source(kind, root, trunk, tmp_path)
    assert epoch(other, 1) == second, "an epoch can be reached without those before it"
    assert epoch(other, 0) == first
    assert epoch(make_source(kind, root, trunk, tmp_path, seed=2), 0) != first


@kinds
def test_a_pair_looks_different_in_every_epoch(kind, root, trunk, tmp_path) -> None:
    """Not only the order changes: one batch of all pairs, sorted, is another one each time."""
    source = make_source(kind, root, trunk, tmp_path, batch_size=8)
    contents = set()
    for number in range(4):
        (batch,) = source.epoch(number)
        arrays = batch.features if kind == "features" else batch.before
        contents.add(tuple(sorted(one.numpy().tobytes() for one in arrays)))
    assert len(contents) == 4


def test_batches_of_masks_are_the_same_from_worker_processes(root) -> None:
    records = LevirCC(root, "train").records
    settings = {"batch_size": 4, "size": 32, "gsd": 0.5, "augment": True, "seed": 1}
    alone = MaskSource(records, **settings)
    helped = MaskSource(records, **settings, workers=1)
    assert epoch(alone, 1) == epoch(helped, 1)


@kinds
def test_an_epoch_takes_every_pair_once_and_no_batch_of_one(kind, root, trunk, tmp_path) -> None:
    sizes = {3: [3, 3, 2], 7: [7], 8: [8], 20: [8]}
    for batch_size, expected in sizes.items():
        source = make_source(kind, root, trunk, tmp_path, batch_size=batch_size)
        batches = list(source.epoch(0))
        assert source.steps() == len(expected)
        assert [len(b.changed if kind != "masks" else b.before) for b in batches] == expected
    if kind == "features":
        source = make_source(kind, root, trunk, tmp_path, batch_size=8)
        (batch,) = source.epoch(0)
        assert batch.changed.sum() == 4


def test_no_pairs_give_no_batches() -> None:
    source = MaskSource([], batch_size=4, size=32, gsd=0.5, augment=True, seed=1)
    assert source.steps() == 0


def test_cached_pairs_come_with_captions_turned_like_their_features(root, trunk, tmp_path) -> None:
    """The pair of a feature map is found by its values; its caption must be one of that flip's."""
    source = make_source("features", root, trunk, tmp_path)
    records, vocabulary = source.records, source.text.vocabulary
    everything = {
        source.cache.read(np.array([i]), np.array([v])).tobytes(): (records[i], flip)
        for i in range(len(records))
        for v, flip in enumerate(FLIPS)
    }
    flips = Counter()
    for number in range(6):
        for batch in source.epoch(number):
            for i in range(len(batch.changed)):
                record, flip = everything[batch.features[i : i + 1].numpy().tobytes()]
                said = vocabulary.decode(batch.tokens[i])
                assert said in {flip_words(caption, flip) for caption in record.captions}
                assert bool(batch.changed[i]) == record.changed
                assert batch.nouns[i] == said
                flips[flip] += 1
    assert set(flips) == set(FLIPS)


def reversible(record, number):
    """Give a pair a sentence for the way back, in other words than its own; every other pair."""
    said = (f"pair {number} is gone on the left", f"pair {number} was at the top")
    return replace(record, reversed_captions=said) if number % 2 else record


def swapped_source(kind, root, trunk, folder, share):
    train = [reversible(r, n) for n, r in enumerate(LevirCC(root, "train").records)]
    text = CaptionText(Vocabulary.build(all_forms(train), min_count=1), max_words=12)
    settings = {"batch_size": 8, "seed": 1, "reversed_share": share}
    if kind == "images":
        return ImageCaptionSource(train, text, size=64, augment=False, **settings)
    cache = build_feature_cache(trunk, train, folder, size=64, flips=("none", "horizontal"), bf16=False)
    return FeatureCaptionSource(train, cache, text, **settings)


@pytest.mark.parametrize("kind", ["images", "features"])
def test_pairs_shown_backwards_say_so(kind, root, trunk, tmp_path) -> None:
    source = swapped_source(kind, root, trunk, tmp_path, 1.0)
    vocabulary = source.text.vocabulary
    forwards = {}  # both dates in one order to (pair, flip, whether that order is the swapped one)
    for i, record in enumerate(source.records):
        for view, flip in enumerate(FLIPS[:2]):
            if kind == "images":
                pair = read_pair(record)
                dates = np.stack([pair.before, pair.after])
            else:
                dates = source.cache.read(np.array([i]), np.array([view]))[0]
            forwards[dates.tobytes()] = (record, flip if kind == "features" else "none", False)
            forwards[dates[::-1].tobytes()] = (record, flip if kind == "features" else "none", True)
    swaps = Counter()
    for number in range(3):
        (batch,) = source.epoch(number)
        both = batch.features if kind == "features" else torch.stack([batch.before, batch.after], 1)
        for i in range(8):
            record, flip, swapped = forwards[both[i].numpy().tobytes()]
            true = record.reversed_captions if swapped else record.captions
            assert batch.references[i] == [flip_words(caption, flip) for caption in true]
            assert vocabulary.decode(batch.tokens[i]) in batch.references[i]
            assert bool(batch.changed[i]) == record.changed, "a pair shown backwards changed as much"
            if record.changed:  # the dates of an unchanged pair look alike both ways round
                swaps[bool(record.reversed_captions), swapped] += 1
            assert not (swapped and not record.reversed_captions) or not record.changed
    assert swaps[False, True] == 0, "without such captions a pair is never shown backwards"
    assert swaps[True, False] == 0


@pytest.mark.parametrize("kind", ["images", "features"])
def test_sources_that_swap_nothing_are_as_they_were(kind, root, trunk, tmp_path) -> None:
    """With share 0 the captions for the way back are not even looked at; with 0.5 some pairs are swapped."""
    plain, half = (swapped_source(kind, root, trunk, tmp_path, share) for share in (0.0, 0.5))
    bare = swapped_source(kind, root, trunk, tmp_path, 0.0)
    bare.records = [replace(record, reversed_captions=()) for record in bare.records]
    assert epoch(plain, 1) == epoch(bare, 1)
    assert epoch(half, 1) != epoch(plain, 1)
    assert epoch(half, 1) == epoch(swapped_source(kind, root, trunk, tmp_path, 0.5), 1)


def test_joined_caches_read_as_their_parts(root, trunk, tmp_path) -> None:
    records = LevirCC(root, "train").records
    first = build_feature_cache(trunk, records[:5], tmp_path, size=64, bf16=False)
    second = build_feature_cache(trunk, records[5:], tmp_path, size=64, flips=("none",), bf16=False)
    joined = FeatureCache.join([second, first])
    assert (len(joined), joined.flips, joined.grid) == (8, FLIPS, first.grid)
    indices = np.array([0, 2, 3, 7])
    assert joined.views(indices).tolist() == [1, 1, 4, 4]
    views = np.array([0, 0, 3, 2])
    expected = [*second.read(np.array([0, 2]), np.array([0, 0])), *first.read(np.array([0, 4]), views[2:])]
    np.testing.assert_array_equal(joined.read(indices, views), np.stack(expected))
    np.testing.assert_array_equal(joined.pooled(), np.concatenate([second.pooled(), first.pooled()]))
    with pytest.raises(IndexError):
        joined.read(np.array([8]), np.array([0]))


def test_pairs_with_one_view_are_never_turned(root, trunk, tmp_path) -> None:
    records = LevirCC(root, "train").records
    parts = [
        build_feature_cache(trunk, part, tmp_path, size=64, flips=flips, bf16=False)
        for part, flips in ((records[:4], FLIPS), (records[4:], FLIPS[:1]))
    ]
    text = CaptionText(Vocabulary.build(all_forms(records), min_count=1), max_words=12)
    cache = FeatureCache.join(parts)
    source = FeatureCaptionSource(records, cache, text, batch_size=8, seed=1)
    as_they_are = {cache.read(np.array([i]), np.array([0])).tobytes() for i in range(4, 8)}
    turned = 0
    for number in range(4):
        (batch,) = source.epoch(number)
        seen = [one.numpy().tobytes() for one in batch.features]
        assert len(as_they_are & set(seen)) == 4
        turned += len(set(seen) - as_they_are)
    assert turned == 16


def test_pairs_of_one_name_in_two_folders_are_two_pairs(tmp_path) -> None:
    records = []
    for name, value in (("one", 40), ("two", 200)):
        for file in ("a.png", "m.png"):
            write_image(tmp_path / name / file, np.full((32, 32, 3), value, np.uint8))
        paths = (tmp_path / name / "a.png", tmp_path / name / "a.png")
        records.append(PairRecord("same", *paths, mask=tmp_path / name / "m.png"))
    source = MaskSource(records, batch_size=2, size=32, gsd=0.5, augment=False, seed=0)
    (batch,) = source.epoch(0)
    assert sorted(batch.before.float().mean((1, 2, 3)).tolist()) == [40, 200]


def test_an_entrys_kind_is_read(own_root) -> None:
    edit_captions(own_root, lambda images: images[0].update(kind="removal"))
    assert [r.kind for r in LevirCC(own_root).records[:2]] == ["removal", ""]


def test_images_come_with_captions_turned_like_them(tmp_path) -> None:
    """A pair bright on the left says so, whatever way it is turned."""
    captions = ("bright on the left and at the top",)
    image = np.full((32, 32, 3), 20, np.uint8)
    image[:16, :16] = 240
    for name in ("a.png", "b.png"):
        write_image(tmp_path / name, image)
    record = PairRecord("a", tmp_path / "a.png", tmp_path / "b.png", captions=captions, changed=True)
    vocabulary = Vocabulary.build(all_forms([record]), min_count=1)
    source = ImageCaptionSource(
        [record] * 8, CaptionText(vocabulary, max_words=12), batch_size=8, size=32, augment=True, seed=3
    )
    (batch,) = source.epoch(0)
    said = [vocabulary.decode(row) for row in batch.tokens]
    assert len(set(said)) > 2
    for images in (batch.before, batch.after):
        for one, words in zip(images.float().mean(1), said, strict=True):
            left, top = one[:, :15].mean() > one[:, 17:].mean(), one[:15].mean() > one[17:].mean()
            where = ("left" if left else "right", "top" if top else "bottom")
            assert words == f"bright on the {where[0]} and at the {where[1]}"
    assert batch.nouns is None


def test_without_augmentation_images_stay_as_they_are(root) -> None:
    records = LevirCC(root, "train").records
    text = CaptionText(Vocabulary.build(all_forms(records), min_count=1), max_words=12)
    source = ImageCaptionSource(records, text, batch_size=8, size=64, augment=False, seed=1)
    (batch,) = source.epoch(0)
    originals = {read_pair(r).before.tobytes() for r in records}
    assert {image.numpy().tobytes() for image in batch.before} == originals
    assert batch.mask_known.all()


def test_all_forms_hold_every_flip_of_every_caption(root) -> None:
    records = LevirCC(root, "train").records
    forms = all_forms(records)
    assert "a house appears on the right" in forms
    assert "trees are removed at the bottom left" in forms
    assert forms == sorted(set(forms))
    assert set(forms) == {flip_words(one, flip) for one in forms for flip in FLIPS}, "closed under flips"


def test_crops_are_taken_at_the_models_resolution(tmp_path) -> None:
    """At 1 m a crop of 32 px at 0.5 m covers 16 px, enlarged."""
    steps = np.arange(64, dtype=np.uint8)
    image = np.repeat(np.repeat(steps[None, :], 64, 0)[..., None], 3, 2)
    for name in ("a.png", "b.png"):
        write_image(tmp_path / name, image)
    write_image(tmp_path / "m.png", np.zeros((64, 64), np.uint8))
    for gsd, expected in ((0.5, 63), (1.0, 31)):
        record = PairRecord("a", tmp_path / "a.png", tmp_path / "b.png", mask=tmp_path / "m.png", gsd=gsd)
        source = MaskSource([record], batch_size=1, size=64, gsd=0.5, augment=False, seed=0)
        (batch,) = source.epoch(0)
        span = int(batch.before.max()) - int(batch.before.min())
        assert abs(span - expected) <= 1, gsd
