import json
from dataclasses import replace

import numpy as np
import pytest
from evaluation_pairs import SIDE, BrightnessCaptioner
from PIL import Image

from rscc.data.pairs import PairRecord
from rscc.evaluation.robustness import (
    DISTURBANCES,
    IDENTICAL,
    called_changed,
    measure_robustness,
    shift_by_one,
    speaks_of_construction,
    swapped,
)
from rscc.evaluation.rows import Share
from rscc.structures import Caption

BUILT = ("two houses are built", "some houses appear on the bare land")
DARK, BRIGHT = 60, 200


@pytest.fixture
def records(tmp_path) -> list[PairRecord]:
    made = []
    for name, after, captions in (
        ("built", BRIGHT, BUILT),
        ("faint", DARK + 20, BUILT),
        ("same", DARK, ("there is no difference",)),
    ):
        paths = [tmp_path / f"{name}_{date}.png" for date in (1, 2)]
        for path, value in zip(paths, (DARK, after), strict=True):
            Image.fromarray(np.full((24, 40, 3), value, np.uint8)).save(path)
        made.append(PairRecord(name, *paths, captions=captions, changed=name != "same"))
    return made


def test_pairs_shown_backwards_are_counted_by_their_words(records) -> None:
    found = measure_robustness(BrightnessCaptioner(), records, disturbances={})
    assert found.removal == found.still_changed == Share.of(1, 2), "the faint pair is not seen"
    blind = BrightnessCaptioner()
    blind.caption = lambda before, after, *, beams: [Caption("a house is built", 0.5, True)] * len(before)
    found = measure_robustness(blind, records, disturbances={})
    assert (found.removal, found.still_changed) == (Share.of(0, 2), Share.of(2, 2))


def test_each_date_stands_beside_itself_and_its_disturbed_self(records) -> None:
    captioner = BrightnessCaptioner(changed_threshold=0.35)
    found = measure_robustness(
        captioner,
        records,
        batch_size=4,
        disturbances={"none": lambda image, rng: image, "light": lambda image, rng: image // 2},
    )
    assert found.unchanged["none"] == Share.of(6, 6)
    assert found.unchanged["light"] == Share.of(4, 6), "half of 60 is no change, half of 80 and of 200 is one"
    assert found.all_unchanged == Share.of(10, 12)
    assert {shape[1:] for shape in captioner.shapes} == {(3, SIDE, SIDE)}
    assert max(shape[0] for shape in captioner.shapes) == 4


def test_the_shipped_disturbances_change_the_image_and_not_what_is_seen(records) -> None:
    found = measure_robustness(BrightnessCaptioner(changed_threshold=0.4), records)
    assert list(found.unchanged) == [IDENTICAL, "haze", "tint", "blur", "jpeg", "shift by 1 pixel"]
    assert found.unchanged[IDENTICAL] == Share.of(6, 6)
    sharp = BrightnessCaptioner(changed_threshold=0.1)
    assert measure_robustness(sharp, records) == measure_robustness(sharp, records), "repeatable"
    image = np.random.default_rng(3).integers(0, 256, (3, SIDE, SIDE), dtype=np.uint8)
    for name, change in DISTURBANCES.items():
        once, twice = (change(image, np.random.default_rng(4)) for _ in range(2))
        assert once.shape == image.shape and once.dtype == np.uint8
        assert (once == twice).all(), f"{name} is seeded"
        assert (once == image).all() == (name == IDENTICAL)


def test_a_shift_is_by_one_pixel_in_any_of_eight_directions() -> None:
    image = np.zeros((3, 9, 11), np.uint8)
    image[:, 4, 5] = 255
    moves = set()
    for seed in range(200):
        (place,) = np.argwhere(shift_by_one(image, np.random.default_rng(seed))[0])
        moves.add(tuple(place - (4, 5)))
    assert moves == {(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)} - {(0, 0)}


@pytest.mark.parametrize(
    ("captions", "construction"),
    [
        (("two houses are built", "a road appears beside the trees"), True),
        (("houses replace the trees",), True),
        (("two houses are built", "the old house is removed"), False),
        (("many trees are removed",), False),
        (("there is no difference",), False),
        (("some trees appear", "a house is built", "more bushes appear"), False),
        ((), False),
    ],
)
def test_construction_only_is_told_by_the_references(captions, construction) -> None:
    assert speaks_of_construction(captions) is construction


def test_swapped_pairs_have_neither_mask_nor_references(records) -> None:
    back = swapped(replace(records[0], mask=records[0].before))
    assert (back.before, back.after) == (records[0].after, records[0].before)
    assert (back.mask, back.captions) == (None, ())


def test_a_model_without_a_probability_is_asked_for_captions() -> None:
    images = np.full((2, 3, SIDE, SIDE), DARK, np.uint8)
    brighter = np.stack([images[0], images[1] + 100])
    at_the_threshold = BrightnessCaptioner(changed_threshold=1.0)
    at_the_threshold.caption = None  # is not asked for
    assert called_changed(at_the_threshold, images, brighter) == [False, True]
    speaks = BrightnessCaptioner(changed_threshold=0.0)
    assert called_changed(speaks, images, brighter) == [True, True], "as it says"
    assert speaks.shapes == [], "without a probability, captions are asked for alone"


def test_shares_have_wilsons_interval_and_are_json() -> None:
    assert Share.of(0, 0).value is None and Share.of(0, 0).interval is None
    values = json.loads(json.dumps(Share.of(20, 20).as_dict("pairs")))
    assert (values["right"], values["pairs"], values["share"]) == (20, 20, 1)
    assert values["interval"] == pytest.approx([0.8389, 1], abs=1e-4)
