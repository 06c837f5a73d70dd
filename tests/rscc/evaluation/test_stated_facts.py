"""What captions state of changed pairs, against references and masks that were counted by hand."""

import numpy as np
import pytest
from PIL import Image

from rscc.data.pairs import PairRecord
from rscc.errors import DatasetLayoutInvalid
from rscc.evaluation.baselines import template_caption
from rscc.evaluation.facts import FactScorer, direction, places_hold, stated_numbers, true_places
from rscc.evaluation.rows import PEOPLE
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


def square(top: int, left: int, side: int = 4, size: int = 20) -> np.ndarray:
    mask = np.zeros((size, size), bool)
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


def test_the_only_reference_of_a_pair_is_its_truth(records) -> None:
    pytest.importorskip("spacy")
    alone = PairRecord("alone", "", "", captions=("two houses are built",), changed=True)
    scorer = FactScorer([alone, records[3]])
    scores = scorer.score("model", ["two villas appear beside the road", "a house is built"])
    assert counts(scores) == {"direction": (1, 1), "number": (1, 1), "place": (0, 0)}
    assert tallies(scores) == {"building": (1, 1, 0), "road": (0, 1, 0)}
    assert (scores.other_objects.right, scores.other_objects.counted) == (1, 2)
    assert set(counts(scorer.people()).values()) == {(0, 0)}, "nobody to agree with"
    assert "building" not in tallies(FactScorer([alone]).people())


def test_distinct_sentences_of_people_are_those_of_one_person(records) -> None:
    two = [records[0], PairRecord("more", "", "", captions=(BUILT[0], "a road is built"), changed=True)]
    scorer = FactScorer(two, objects=False)
    assert scorer.people().distinct == 1.5, "one sentence first, two second"
    assert scorer.score("x", ["a house is built"] * 2).distinct == 1
    assert (
        scorer.people().objects is None
        and scorer.people().other_objects is None
        and not scorer.people().by_class
    )


def test_without_a_changed_pair_there_is_nothing_to_score(records) -> None:
    scorer = FactScorer(records[2:3], objects=False)
    for score in (scorer.people, lambda: scorer.score("x", ["a house is built"])):
        with pytest.raises(DatasetLayoutInvalid, match="no score"):
            score()


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


def test_numbers_stated_equally_often_are_each_right() -> None:
    def stated(*captions):
        return stated_numbers([read_statement(caption) for caption in captions])

    assert stated(*REMOVED) == {"one", "two"}
    assert stated(*REMOVED, "a house is built") == {"one"}
    assert stated("a house is built", "two houses are built", "houses are built") == frozenset()


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


def test_a_half_holds_from_six_in_ten_pixels() -> None:
    mask = np.zeros((10, 4), bool)
    mask[2, :3] = mask[7, :2] = True
    assert {"top"} == true_places(mask) & {"top", "bottom"}, "3 of 5"
    mask[7, :3] = True
    assert not true_places(mask) & {"top", "bottom"}, "3 of 6"
    assert true_places(np.zeros((4, 4), bool)) is None


def test_every_word_must_hold_and_opposite_ones_together() -> None:
    assert places_hold(frozenset({"top", "left"}), frozenset({"top", "left", "edge"}))
    assert not places_hold(frozenset({"top", "right"}), frozenset({"top", "left"}))
    both = frozenset({"left", "right"})
    assert places_hold(both, frozenset({"top"})), "a part on either side"
    assert not places_hold(both, frozenset({"left"}))


@pytest.mark.parametrize(
    ("patches", "caption"),
    [
        (0, NO_CHANGE_SENTENCES[0]),
        (1, "a house is built"),
        (2, "two houses are built"),
        (3, "some houses are built along the road"),
        (10, "many houses are built along the road"),
    ],
)
def test_the_template_counts_patches_of_sixty_pixels(patches, caption) -> None:
    mask = np.zeros((20, 120), bool)
    for number in range(patches):
        mask[:6, 12 * number : 12 * number + 10] = True  # 60 pixels
    mask[10:17, 0:8], mask[17, :3] = True, True  # 59 pixels: too small
    assert template_caption(mask) == caption


def test_patches_that_touch_at_a_corner_are_one() -> None:
    assert template_caption(square(0, 0, 8) | square(8, 8, 8)) == "a house is built"
