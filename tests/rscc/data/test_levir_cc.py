"""The readers of LEVIR-CC and of folders of change masks."""

import numpy as np
import pytest
from datasets import CHANGED, UNCHANGED, edit_json, write_change_masks, write_image

from rscc.data.benchmarks.change_masks import change_masks
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import read_pair
from rscc.errors import DatasetLayoutInvalid


def edit_captions(root, change) -> None:
    edit_json(root / "LevirCCcaptions.json", lambda content: change(content["images"]))


@pytest.mark.parametrize(("split", "count"), [("train", 8), ("val", 4), ("test", 2)])
def test_a_split_holds_its_pairs_in_order(root, split, count) -> None:
    data = LevirCC(root, split)
    assert len(data) == count
    assert [r.id for r in data] == [f"{split}_{n:06d}.png" for n in range(count)]
    assert [r.changed for r in data] == [n % 2 == 0 for n in range(count)]
    assert data[0].captions == CHANGED[0]
    assert data[1].captions == UNCHANGED
    assert all(r.gsd == 0.5 for r in data)
    assert all(r.mask == root / "images" / split / "label" / r.id for r in data)


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
    records = LevirCC(root, "train", trust=trust)
    assert [r.id for r in records] == [f"train_{n:06d}.png" for n in numbers]


@pytest.mark.parametrize("flag", ["no", "", 2, -1, 0.5])
def test_a_flag_that_is_neither_is_refused(copied_root, flag) -> None:
    edit_captions(copied_root, lambda images: images[3].update(changeflag=flag))
    with pytest.raises(DatasetLayoutInvalid, match=r"train_000003\.png"):
        LevirCC(copied_root)


@pytest.mark.parametrize("key", ["filename", "sentences"])
def test_an_entry_that_lacks_something_is_refused(copied_root, key) -> None:
    edit_captions(copied_root, lambda images: images[3].pop(key))
    with pytest.raises(DatasetLayoutInvalid, match=key):
        LevirCC(copied_root)


def test_a_name_that_occurs_twice_is_refused(copied_root) -> None:
    edit_captions(copied_root, lambda images: images[1].update(filename=images[0]["filename"]))
    with pytest.raises(DatasetLayoutInvalid, match="occurs 2 times"):
        LevirCC(copied_root)


@pytest.mark.parametrize("part", ["B", "label"])
def test_sizes_that_differ_are_refused(copied_root, part) -> None:
    path = copied_root / "images" / "train" / part / "train_000000.png"
    write_image(path, np.zeros((32, 64, 3), np.uint8))
    with pytest.raises(DatasetLayoutInvalid):
        read_pair(LevirCC(copied_root)[0])


@pytest.fixture(scope="module")
def masks(tmp_path_factory):
    return write_change_masks(tmp_path_factory.mktemp("masks"))


def test_change_masks_count_crops_by_ground(masks) -> None:
    records = change_masks(masks, size=64)
    assert [(r.id, r.crops, r.gsd) for r in records] == [
        ("a.png", 2, 0.5),
        ("b.png", 1, 1.0),
        ("c.png", 4, 1.0),
    ]
    assert [r.crops for r in change_masks(masks, size=256)] == [1, 1, 1]
    assert all(r.changed is None and r.captions == () for r in records)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "dataset,file,width,height\nfine,a.png,64,64\n",
        "dataset,file,width,height,gsd_m\nfine,a.png,wide,64,0.5\n",
        "dataset,file,width,height,gsd_m\nfine,a.png,64\n",
        *(f"dataset,file,width,height,gsd_m\nfine,a.png,64,64,{gsd}\n" for gsd in ("0", "inf", "nan")),
        "dataset,file,width,height,gsd_m\nfine,\xe4.png,64,64,1\n",
    ],
)
def test_a_bad_index_is_refused(tmp_path, text) -> None:
    if text is not None:
        (tmp_path / "index.csv").write_text(text, encoding="latin-1")
    with pytest.raises(DatasetLayoutInvalid, match=r"index\.csv"):
        change_masks(tmp_path)
