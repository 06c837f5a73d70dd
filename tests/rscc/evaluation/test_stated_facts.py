"""What captions state of changed pairs, against references and masks that were counted by hand."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from rscc.data.pairs import PairRecord
from rscc.evaluation.evaluation_report import facts_tables
from rscc.evaluation.score_rows import PEOPLE
from rscc.evaluation.stated_facts import FactScorer, direction, true_places
from rscc.text.no_change import NO_CHANGE_SENTENCES
from rscc.text.statements import read_statement

BUILT = (
    "two houses are built on the left",
    "two villas appear beside the road",
    "a house is built",
    "some trees are removed and two houses are built",
    "houses replace the trees",
)
REMOVED = (
    "a house is removed",
    "two houses are removed",
    "one house is removed",
    "two buildings disappear",
    "the road is gone",
)
AT_ODDS = ("a house is built", "a road is removed")
SAID = (
    "two houses are built along the road at the top left corner",
    "many houses are built on the left",
    "a house is built",
    "there is no difference",
)


def square(top: int, left: int, side: int = 4) -> np.ndarray:
    mask = np.zeros((20, 20), bool)
    mask[top : top + side, left : left + side] = True
    return mask


@pytest.fixture
def records(tmp_path) -> list[PairRecord]:
    """Houses at the top left, some gone in the middle, an unchanged pair, one of which two people differ."""
    masks = [square(0, 0, 8), square(8, 8), square(0, 0, 0)]
    for number, mask in enumerate(masks):
        Image.fromarray(mask.astype(np.uint8) * 255).save(tmp_path / f"{number}.png")
    return [
        PairRecord("built", "", "", mask=tmp_path / "0.png", captions=BUILT, changed=True),
        PairRecord("removed", "", "", mask=tmp_path / "1.png", captions=REMOVED, changed=True),
        PairRecord("same", "", "", mask=tmp_path / "2.png", captions=NO_CHANGE_SENTENCES, changed=False),
        PairRecord("at odds", "", "", captions=AT_ODDS, changed=True),
    ]


def counts(scores) -> dict[str, tuple[int, int]]:
    return {fact: (share.right, share.counted) for fact, share in scores.shares.items()}


def tallies(scores) -> dict[str, tuple[int, int, int]]:
    return {name: (one.right, one.wrong, one.missed) for name, one in scores.by_class.items()}


def test_captions_are_held_against_what_two_people_state(records) -> None:
    """The first is right; the second wrong in direction, number and place; the last pair has no truth."""
    pytest.importorskip("spacy")
    scores = FactScorer(records).score("model", SAID)
    assert (scores.name, scores.pairs, scores.distinct) == ("model", 3, 3)
    assert counts(scores) == {"direction": (1, 2), "number": (1, 2), "place": (1, 2)}
    assert scores.shares["number"].interval == pytest.approx((0.0945, 0.9055), abs=1e-4), "Wilson's of 1 of 2"
    assert tallies(scores) == {"building": (2, 0, 0), "road": (0, 1, 0), "trees": (0, 0, 1)}
    lines = facts_tables([scores, replace(scores, name=PEOPLE)])[1].split("\n")
    pairs = {
        cells[0]: cells[1] for line in lines if len(cells := line.strip("| ").replace(" ", "").split("|")) > 1
    }
    assert (pairs["building"], pairs["road"], pairs["trees"]) == ("2", "0", "1"), "pairs that have it"
    objects = scores.objects
    assert objects.values == pytest.approx({"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3})
    low, high = objects.intervals["f1"]
    assert low < 2 / 3 < high
    assert scores.by_class["trees"].values == {"precision": None, "recall": 0, "f1": 0}
    assert scores.as_dict()["objects_by_class"]["road"]["precision"] == 0
    assert (scores.other_objects.right, scores.other_objects.counted) == (0, 2), "a reference names the road"


def test_people_are_held_against_each_other(records) -> None:
    """Of the first pair "a house" and "houses" miss the number; of the second every number is outvoted."""
    pytest.importorskip("spacy")
    people = FactScorer(records).people()
    assert (people.name, people.pairs) == (PEOPLE, 3)
    assert counts(people) == {"direction": (10, 10), "number": (3, 10), "place": (1, 1)}
    assert tallies(people) == {"building": (9, 1, 1), "road": (0, 3, 0), "trees": (0, 2, 3)}
    assert people.objects.values == pytest.approx({"precision": 9 / 15, "recall": 9 / 13, "f1": 18 / 28})
    low, high = people.shares["number"].interval
    assert (low, high) == pytest.approx((0, 0.6)), "from draws of the second pair alone to the first alone"
    others = people.as_dict()["other_objects"]
    assert (others["wrong"], others["captions"]) == (4, 12), (
        "two roads of their own, and both that are at odds"
    )


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a house is built", "appeared"),
        ("trees are removed and a road is built", "appeared"),
        ("the trees are cut down", "disappeared"),
        ("a barn house is removed and trees appear", "disappeared"),
        ("a parking lot replaces the building", "replaced"),
        ("trees appear", "appeared"),
        ("the meadow turns into bare ground", None),
        ("there is no difference", None),
    ],
)
def test_direction_is_that_of_what_is_built_else_of_trees(caption, expected) -> None:
    assert direction(read_statement(caption)) == expected


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (square(0, 0), {"top", "left", "corner", "edge"}),
        (square(15, 8), {"bottom", "edge"}),  # its last row lies 7.5 percent from the border
        (square(8, 8), {"middle"}),
        (square(3, 3), {"top", "left", "corner"}),  # centre at a quarter, 15 percent from the border
        (square(9, 6, side=5), {"bottom", "left", "middle", "corner"}),  # 16 of 25 in one quarter
        (square(0, 0) | square(16, 16), {"middle", "edge"}),  # half here, half there: in neither
        (square(0, 0, side=20), {"middle", "edge"}),
    ],
)
def test_words_of_place_that_hold(mask, expected) -> None:
    assert true_places(mask) == expected
