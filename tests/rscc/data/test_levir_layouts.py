"""Later data sets in layouts like LEVIR-CC's, on small copies of their official layouts."""

from __future__ import annotations

import pytest
from datasets import CHANGED, LATER

from rscc.data.benchmarks.levir_cc import ForestChange, LevirCDC, SecondCC, WhuCDC
from rscc.data.pairs import read_pair, truly_changed
from rscc.errors import SplitMissing

READERS = {"levir_cdc": LevirCDC, "whu_cdc": WhuCDC, "forest_change": ForestChange, "second_cc": SecondCC}


@pytest.mark.parametrize(("name", "reader"), READERS.items())
def test_every_split_is_read_with_captions_and_masks(name, reader, tmp_path):
    root = LATER[name](tmp_path)
    for split, count in (("train", 8), ("val", 4), ("test", 2)):
        records = reader(root, split)
        assert len(records) == count and records[0].captions == CHANGED[0]
        assert [truly_changed(record) for record in records] == [True, False] * (count // 2)
        pair = read_pair(records[0])
        assert pair.before.shape == pair.after.shape == (3, 64, 64)
        # The maps of land cover of SECOND-CC are no masks.
        assert (pair.mask is None) == (name == "second_cc")
        assert pair.mask is None or pair.mask.any()
    assert records[0].gsd == {"levir_cdc": 0.5, "whu_cdc": 0.075}.get(name)


@pytest.mark.parametrize("reader", READERS.values())
def test_a_folder_without_the_captions_is_refused(reader, tmp_path):
    with pytest.raises(SplitMissing, match=reader.title):
        reader(tmp_path)
