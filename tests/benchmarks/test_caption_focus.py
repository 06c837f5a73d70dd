"""The comparison in benchmarks/caption_focus.py, on made scenes and with a captioner of known behaviour."""

from __future__ import annotations

import json

import caption_focus
import numpy as np
import pytest
from caption_focus import ask, make, outcome, report, scenes
from fakes import BrightnessCaptioner
from levir_cc_fixture import write_image

from rscc.structures import Caption
from workflows.scene import crops as focus

SIDE = 256


def crop(seed, houses):
    """Both dates (H, W, 3) and label of one crop: bright houses on grey ground."""
    rng = np.random.default_rng(seed)
    dates = rng.integers(90, 110, (2, SIDE, SIDE, 3)).astype(np.uint8)
    label = np.zeros((SIDE, SIDE), np.uint8)
    for row, col in houses:
        dates[1, row : row + 14, col : col + 14] = 230
        label[row : row + 14, col : col + 14] = 255
    return dates[0], dates[1], label


HOUSES = [(40, 40), (40, 80), (40, 120), (150, 40), (150, 80), (150, 120)]


@pytest.fixture
def data(tmp_path):
    """One scene of one crop of the validation split."""
    for kind, pixels in zip(("A", "B", "label"), crop(0, HOUSES), strict=True):
        write_image(tmp_path / "images" / "val" / kind / "0.png", pixels)
    cut = {"image": "one.png", "row": 0, "col": 0}
    images = [{"filename": "0.png", "split": "val", "trust": "pattern", "levir_cd": cut}]
    (tmp_path / "LevirCCcaptions.json").write_text(json.dumps({"images": images}))
    return tmp_path


class Majority(BrightnessCaptioner):
    """Says what most of the changed pixels of a crop do, weighed by the focus."""

    def caption(self, before, after, *, beams=3, assume_changed=False, placeless=False, focus=None):
        moved = after.astype(int).mean(1) - before.astype(int).mean(1)
        moved = np.where(np.abs(moved) > 60, moved, 0) * (1 if focus is None else focus)
        words = ["a house is built" if total > 0 else "a house is removed" for total in moved.sum((1, 2))]
        return [Caption(text, 0.5, True) for text in words]


def test_a_captioner_that_goes_with_the_majority_is_right_where_it_sees_this_change_alone(data, monkeypatch):
    pytest.importorskip("spacy")
    monkeypatch.setattr(focus, "SURROUNDINGS", 10.0)
    ((name, before, after, label),) = scenes(data, "val")
    removed = np.zeros(7, bool)
    removed[[1, 3, 5]] = True  # the middle of the upper row, the outer two of the lower
    monkeypatch.setattr(caption_focus, "_neighbourhoods_backwards", lambda *_: removed[1:])
    made = make(name, before, after, label, seed=1)
    assert made is not None
    captioner = Majority(tile_size=128)
    found = ask(made, captioner, ["mask", "weight", "none"], [10.0])
    assert list(found) == ["mask", "weight", "none"]
    for way, said in found.items():
        assert len(said) == 6 and all(one.buildings == 1 for one in said)
        assert sorted(one.removed for one in said) == [False] * 3 + [True] * 3
        right = [outcome(one) == "this" for one in said if one.mixed]
        assert len(right) == 6
        assert all(right) == (way != "none")
    text = report(found)
    assert text.count("| none") == 1 and "| mask   |        6 | 100.0 (100.0 to 100.0)" in text
