"""Captions of pairs shown backwards. The sentences are made up for these tests."""

import pytest
from hypothesis import strategies as st

from rscc.text.clauses import read_clauses
from rscc.text.reversal import describes_removal, reverse_caption


def kinds(caption: str) -> list[str]:
    return [clause.kind for clause in read_clauses(caption)]


# Reading clauses


@pytest.mark.parametrize(
    "clauses",
    [
        ["a barn|appears||appear"],
        ["four bungalows|have been newly built|by a canal|appear"],
        ["the orchard|is cut down||vanish", "a car park|shows up|near a mill|appear"],
        ["hedges|are replaced by|a lane and a shed and a pond dries out|replaced"],
        ["the pond|has turned into|a meadow|turned"],
        ["some hangars with a gate built beside|replaced|the orchard|replace"],
        ["the lane|has been widened||other"],
    ],
)
def test_clauses_are_subject_verb_rest_and_kind(clauses) -> None:
    expected = [tuple(clause.split("|")) for clause in clauses]
    caption = " and ".join(" ".join(filter(None, parts[:3])) for parts in expected)
    assert [(one.subject, one.verb, one.rest, one.kind) for one in read_clauses(caption)] == expected


# Reversing


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a new hangar is built beside the canal", "a hangar beside the canal is removed"),
        ("seven more hangars appear beside the canal", "seven hangars beside the canal have been removed"),
        ("another hangar shows up in the upper left", "a hangar in the upper left has disappeared"),
        ("two barns are built on the bare land along a canal", "two barns along a canal are removed"),
        (
            "two barns are built in the former orchard near a canal",
            "two barns near a canal have been removed",
        ),
        ("two barns are added to the farm", "two barns disappear from the farm"),
        ("the barns are built on the bare land", "the barns are replaced by bareland"),
        ("many barns appear on the large open space", "many barns disappear"),
        ("the pond has become a meadow", "the meadow turns into a pond"),
        ("the pond at the top has turned into meadows", "meadows at the top turn into a pond"),
        ("the middle of the meadow turns into a lane", ""),
        ("all of the hedges were removed", "many hedges appear"),
        ("half of the woods disappeared", "woods have appeared"),
        ("some of the meadow disappears", "a meadow appears"),
        ("most of the woods are cut down", "woods appear"),
        ("the hedges disappear on the left", "some hedges on the left appear"),
        ("this hedge vanishes", "a hedge appears"),
        ("the vegetation is removed", "vegetation appears"),
        ("the three barns are demolished", "three barns are built"),
        ("an old hangar at the top is demolished", "a hangar at the top appears"),
        ("a car park is added to the school", "a car park is removed from the school"),
        ("four garages replace most of the hedges", "many hedges replace four garages"),
        ("most of the hedges have been replaced by four garages", "many hedges replace four garages"),
        ("a garage is built where the hedge stood", ""),
        ("four new garages are built to replace the hedge", "four garages are replaced by a hedge"),
        ("an orchard is planted again densely on the bare land", "an orchard is removed"),
        ("a lane with trees disappears", "a lane with trees appears"),
        ("the one at the top is removed", ""),
        (
            "the old barn and the pond are gone and a mill is built near it",
            "a barn and the pond are built and a mill near it disappears",
        ),
        (
            "a mill is built near the former one and a hedge disappears",
            "a mill near the other one is removed and a hedge appears",
        ),
        ("a lake appears and the lane is widened", "a lake disappears"),
        (
            "a lake appears and hedges are cut down at the bottom",
            "a lake disappears and hedges at the bottom have appeared",
        ),
        (
            "a house and some trees are built at the top of the scene and a lake",
            "a house and some trees have been removed at the top of the scene and a lake",
        ),
        ("a barn are built near some original trees", "a barn near some trees have disappeared"),
        ("some completed barns come up between the canals", ""),
        ("hedges are replaced by", ""),
        ("trees are replaced by a lane in the middle", "a lane in the middle is replaced by trees"),
    ],
)
def test_a_caption_is_turned_round_or_left_out(caption, expected) -> None:
    assert reverse_caption(caption) == expected


def test_removal_is_that_of_something_built() -> None:
    removals = (
        *("two barns have been torn down", "a pond replaces the garage", "the lane turns into grass"),
        *("trees and a lane are removed", "hedges appear in place of a warehouse"),
    )
    others = (
        *("the hedge is replaced by a pond", "the lane turns into a street", "a barn is built"),
        *("trees beside the lane are removed", "there is no difference"),
    )
    assert [one for one in (*removals, *others) if describes_removal(one)] == list(removals)


PLACES = ("", " at the top", " in the lower right corner", " on the left of a canal", " along the lane")
sentences = st.builds(
    lambda count, noun, verb, place: f"{count} {noun} {verb}{place}",
    st.sampled_from(("two", "several", "some", "many")),
    st.sampled_from(("barns", "hedges", "red garages", "rows of trees", "lanes with hedges")),
    st.sampled_from(("appear", "are built", "have appeared", "are removed", "disappear", "have vanished")),
    st.sampled_from(PLACES),
)


# The pairs of a run
