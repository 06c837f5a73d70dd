"""The comparison in benchmarks/caption_focus.py, on made scenes and with a captioner of known behaviour."""

from __future__ import annotations

import json

import caption_focus
import numpy as np
import pytest
from caption_focus import Said, ask, directions, make, number_is_right, outcome, report, scenes
from fakes import BrightnessCaptioner
from PIL import Image

from rscc.structures import Caption
from workflows import focus

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
    images = []
    for number, (place, split, trust, houses) in enumerate(
        [
            ((0, 0), "val", "pattern", HOUSES),
            ((0, 1), "val", "pattern", [(200, 30), (20, 20)]),
            ((1, 1), "val", "matched", HOUSES),
            ((0, 0), "train", "pattern", HOUSES),
            ((0, 0), "test", "pattern", HOUSES),
        ]
    ):
        name = f"{number}.png"
        for kind, pixels in zip(("A", "B", "label"), crop(number, houses), strict=True):
            folder = tmp_path / "images" / split / kind
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / name)
        cut = {"image": "one.png", "row": place[0], "col": place[1]}
        images.append({"filename": name, "split": split, "trust": trust, "levir_cd": cut})
    (tmp_path / "LevirCCcaptions.json").write_text(json.dumps({"images": images}))
    return tmp_path


def test_crops_lie_in_their_scene_where_they_were_cut_and_only_those_of_the_split(data):
    ((name, before, after, label),) = scenes(data, "val")
    assert name == "one.png" and before.shape == after.shape == (3, 2 * SIDE, 2 * SIDE)
    left, right = crop(0, HOUSES), crop(1, [(200, 30), (20, 20)])
    np.testing.assert_array_equal(after[:, :SIDE, :SIDE], left[1].transpose(2, 0, 1))
    np.testing.assert_array_equal(before[:, :SIDE, SIDE:], right[0].transpose(2, 0, 1))
    np.testing.assert_array_equal(label[:SIDE, SIDE:], right[2] > 0)
    assert not before[:, SIDE:].any() and not label[SIDE:].any()


def test_half_of_the_neighbourhoods_go_backwards(data):
    ((name, before, after, label),) = scenes(data, "val")
    made = make(name, before, after, label, seed=1)
    assert made is not None and made.buildings.max() == 8
    assert 0 < made.removed[1:].sum() < 8 and not made.removed[0]
    for number in range(1, 9):
        inside = made.buildings == number
        dates = [date[:, inside].mean() for date in (made.before, made.after)]
        assert (dates[0] > 150 and dates[1] < 150) == made.removed[number]
        assert abs(dates[0] - dates[1]) > 50
    assert make(name, before, after, np.zeros_like(label), seed=1) is None


@pytest.mark.parametrize(
    ("caption", "found"),
    [
        ("some houses are built along the road", (True, False)),
        ("the houses have been demolished", (False, True)),
        ("a house replaces the trees", (True, False)),
        ("the house is replaced by trees", (False, True)),
        ("a house is built and a building is removed", (True, True)),
        ("many trees are removed and a road appears", (True, False)),
        ("the trees are gone", (False, False)),
        ("almost of the scene is the same as before", (False, False)),
    ],
)
def test_what_a_caption_says_of_built_things(caption, found):
    assert directions(caption) == found


@pytest.mark.parametrize(
    ("removed", "caption", "whose"),
    [
        (False, "a house is built", "this"),
        (True, "a house is built", "neighbour"),
        (True, "a house is removed", "this"),
        (False, "a house is removed", "neighbour"),
        (True, "a house is built and a house is removed", "both"),
        (False, "trees grow", "neither"),
    ],
)
def test_whose_change_a_caption_is_about(removed, caption, whose):
    assert outcome(Said(removed, 1, True, caption)) == whose


def test_the_number_of_the_first_subject():
    assert number_is_right(Said(False, 1, True, "a house is built beside many houses"))
    assert not number_is_right(Said(False, 1, True, "some houses are built"))
    assert number_is_right(Said(False, 3, True, "some houses are built"))
    assert not number_is_right(Said(False, 1, True, "nothing to see"))


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
    removed = np.zeros(9, bool)
    removed[[3, 5, 7]] = True  # the middle of the upper row, the outer two of the lower
    monkeypatch.setattr(caption_focus, "_neighbourhoods_backwards", lambda *_: removed[1:])
    made = make(name, before, after, label, seed=1)
    assert made is not None
    captioner = Majority(tile_size=128)
    found = ask(made, captioner, ["mask", "weight", "none"], [10.0])
    assert list(found) == ["mask", "weight", "none"]
    for way, said in found.items():
        assert len(said) == 8 and all(one.buildings == 1 for one in said)
        assert sorted(one.removed for one in said) == [False] * 5 + [True] * 3
        right = [outcome(one) == "this" for one in said if one.mixed]
        assert len(right) == 6
        assert all(right) == (way != "none")
    text = report(found)
    assert text.count("| none") == 2 and "| mask   |        6 | 100.0 (100.0 to 100.0)" in text
