"""Captions of pairs shown backwards. The sentences are made up for these tests."""

import pytest
from stored import assert_as_stored, stored

from rscc.text.clauses import read_clauses
from rscc.text.reversal import describes_removal, reverse_caption


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


@pytest.mark.parametrize(
    ("caption", "start", "end"),
    [
        ("a new hangar is built beside the canal", "a hangar", "beside the canal"),
        ("seven more hangars appear beside the canal", "seven hangars", "beside the canal"),
        ("another hangar shows up in the upper left", "a hangar", "in the upper left"),
        ("two barns are built on the bare land along a canal", "two barns", "along a canal"),
        ("two barns are built in the former orchard near a canal", "two barns", "near a canal"),
        ("two barns are added to the farm", "two barns", "from the farm"),
    ],
)
def test_what_appears_is_removed_and_keeps_its_place(caption, start, end) -> None:
    text = reverse_caption(caption)
    assert text.startswith(start)
    assert end in text
    assert "bare land" not in text and "former" not in text
    assert [clause.kind for clause in read_clauses(text)] == ["vanish"]
    assert describes_removal(text)
    assert not describes_removal(caption)


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("the pond has become a meadow", "the meadow turns into a pond"),
        ("all of the hedges were removed", "many hedges"),
        ("half of the woods disappeared", "woods"),
        ("an old hangar at the top is demolished", "a hangar at the top"),
        ("a car park is added to the school", "a car park"),
        ("the hourglass pond disappeared", "an hourglass pond"),
    ],
)
def test_what_vanished_is_new(caption, expected) -> None:
    assert reverse_caption(caption).startswith(expected)


@pytest.mark.parametrize(
    "caption",
    [
        "four garages replace most of the hedges",
        "most of the hedges have been replaced by four garages",
        "four new garages are built to replace most of the hedges",
        "four garages appear in place of most of the hedges",
    ],
)
def test_a_replacement_is_turned_round(caption) -> None:
    turned = {"many hedges replace four garages", "four garages are replaced by many hedges"}
    assert reverse_caption(caption) in turned


def test_captions_are_turned_round_or_left_out() -> None:
    assert_as_stored("reversal", {caption: reverse_caption(caption) for caption in stored("reversal")})


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
