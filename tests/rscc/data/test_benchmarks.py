"""The readers of the benchmarks on fixtures in their official layouts."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from datasets import CLEVR_CHANGED, CLEVR_KINDS, CLEVR_UNCHANGED, COUNTS, edit_json, frames, numbers

from rscc.data.benchmarks.annotations import SPLITS
from rscc.data.benchmarks.registry import DATASETS
from rscc.data.pairs import read_pair
from rscc.errors import DatasetLayoutInvalid

OTHERS = [name for name in DATASETS if name != "levir_cc"]


FILES = {
    "levir_cc": ["LevirCCcaptions.json"],
    "dubai_cc": ["description_jsontr_te_val/Train_Dubai_CC.json"],
    "clevr_change": ["splits.json", "type_mapping.json", "change_captions.json", "no_change_captions.json"],
    "clevr_dc": ["split.json", "captions.json"],
    "spot_the_diff": ["train.json"],
    "spot_the_diff_multi": ["train.json"],
    "image_editing_request": ["train.json"],
}


each_file = pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name, files in FILES.items() for file in files]
)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("split", ["train", "val"])
def test_a_split_is_read_whole(written, name, split) -> None:
    data = DATASETS[name](written[name], split, trust=("named",))
    assert len(data) == COUNTS[split] * (2 if name == "clevr_change" else 1)
    assert len({record.id for record in data}) == len(data)
    for record in data:
        sample = read_pair(record)
        assert (sample.id, sample.captions, sample.changed) == (record.id, record.captions, record.changed)
        assert sample.captions
        assert sample.before.dtype == sample.after.dtype == np.uint8
        assert sample.before.shape == sample.after.shape
        assert sample.mask is None
        assert all(caption == caption.lower().strip() for caption in sample.captions)


@pytest.mark.parametrize("name", DATASETS)
def test_dates_are_not_swapped_and_splits_not_shared(written, name) -> None:
    """The new square is in the second date: its mean is higher wherever something changed."""
    ids = Counter()
    for split in SPLITS:
        data = DATASETS[name](written[name], split)
        ids.update({(str(record.before), str(record.after), record.id) for record in data})
        for sample in map(read_pair, data):
            brighter = sample.after.mean() - sample.before.mean()
            assert (brighter > 5) == sample.changed
    assert set(ids.values()) == {1}


@each_file
def test_a_missing_annotation_file_is_named(copied, name, file) -> None:
    root = copied(name)
    (root / file).unlink()
    with pytest.raises(DatasetLayoutInvalid, match=Path(file).name):
        DATASETS[name](root)


@pytest.mark.parametrize(
    ("name", "file", "key"),
    [
        ("spot_the_diff", "train.json", "img_id"),
        ("image_editing_request", "train.json", "img0"),
        ("image_editing_request", "train.json", "img1"),
        ("dubai_cc", "description_jsontr_te_val/Train_Dubai_CC.json", "filename"),
    ],
)
def test_names_that_lead_out_of_the_folder_are_refused(copied, name, file, key) -> None:
    root = copied(name)
    for value in ("../a.png", "a/b.png", "..", "", "a\\b.png", 3):

        def lead(content, value=value) -> None:
            (content if name != "dubai_cc" else content["images"])[0].update({key: value})

        edit_json(root / file, lead)
        with pytest.raises(DatasetLayoutInvalid):
            DATASETS[name](root)


def test_clevr_change_gives_a_changed_and_an_unchanged_pair_of_each_image(written) -> None:
    root = written["clevr_change"]
    records = DATASETS["clevr_change"](root, "val")
    for number, moved, still in zip(numbers()["val"], records[::2], records[1::2], strict=True):
        assert moved.before == still.before == root / "images" / f"CLEVR_default_{number:06d}.png"
        assert moved.after == root / "sc_images" / f"CLEVR_semantic_{number:06d}.png"
        assert still.after == root / "nsc_images" / f"CLEVR_nonsemantic_{number:06d}.png"
        assert (moved.id, still.id) == (moved.after.name, still.after.name)
        assert (moved.changed, moved.kind, moved.captions) == (
            True,
            CLEVR_KINDS[number % 5],
            CLEVR_CHANGED[number % 2],
        )
        assert (still.changed, still.kind, still.captions) == (False, "", CLEVR_UNCHANGED)


def test_clevr_dc_knows_unchanged_pairs_by_their_captions(copied) -> None:
    root = copied("clevr_dc")
    records = DATASETS["clevr_dc"](root)
    assert [r.id for r in records] == [f"{n}.png" for n in numbers()["train"]]
    assert [r.changed for r in records] == [n % 3 > 0 for n in numbers()["train"]]
    edit_json(root / "captions.json", lambda c: [c.update({k.removesuffix(".png"): c.pop(k)}) for k in [*c]])
    assert DATASETS["clevr_dc"](root) == records


def test_spot_the_diff_keeps_entries_of_one_image_apart(written) -> None:
    single, multi = (
        DATASETS[name](written["spot_the_diff"], "val") for name in ("spot_the_diff", "spot_the_diff_multi")
    )
    assert [record.id for record in single] == ["101", "101 (2)", "102", "103"]
    assert single[0].before == single[1].before
    assert single[2].after.name == "102_2.png"
    assert {record.changed for record in single} == {True}
    assert single[1].captions == CLEVR_CHANGED[1], "the empty sentence is left out"
    assert [record.captions for record in multi] == [(" . ".join(one.captions),) for one in single]
    assert [record.id for record in multi] == [record.id for record in single]


def test_edited_images_are_resized_to_the_first(written) -> None:
    data = DATASETS["image_editing_request"](written["image_editing_request"])
    first, second = map(read_pair, data[:2])
    assert first.before.shape == first.after.shape == (3, 40, 64)
    assert second.before.shape == (3, 40, 80)
    np.testing.assert_array_equal(
        first.before, frames(0, changed=True, height=40, width=64)[0].transpose(2, 0, 1)
    )
    assert data[0].captions == ("add a bench",)
    assert len(DATASETS["image_editing_request"](written["image_editing_request"], "val")[0].captions) == 3


def test_one_sentence_on_a_change_makes_a_tile_of_dubai_changed(written) -> None:
    data = DATASETS["dubai_cc"](written["dubai_cc"])
    assert [record.changed for record in data] == [False, True, True, False, True, True]
    assert data[1].captions == ("the bench is gone.", "nothing was modified")
    assert {record.gsd for record in data} == {30.0}
    assert read_pair(data[0]).before.shape == (3, 50, 50)
    assert data[0].before.parent.name == "500_2000"
    assert data[0].after.parent.name == "500_2010"
