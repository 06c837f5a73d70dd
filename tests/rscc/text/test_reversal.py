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
