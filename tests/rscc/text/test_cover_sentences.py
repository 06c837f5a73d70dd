"""Sentences about land cover: hectares with two digits, and nothing that the facts do not hold."""

import pytest

from rscc.text.change_facts import ChangeFacts
from rscc.text.map_sentences import cover_sentences


def said(came=(), gone=(), area=340_000.0):
    came, gone = (dict.fromkeys(names, 0.9) for names in (came, gone))
    return cover_sentences(ChangeFacts(came, gone, place=("north",), area_m2=area, share=0.021))


@pytest.mark.parametrize(
    ("came", "gone", "first", "second"),
    [
        (
            (), ("vegetation",),
            "34 ha of vegetation disappeared in the north",
            "Vegetation disappeared from 34 ha in the north, 2.1 percent of the scene",
        ),
        (
            ("burnt ground",), ("vegetation",),
            "34 ha of vegetation disappeared in the north and most of it looked burnt",
            "Vegetation disappeared from 34 ha in the north, 2.1 percent of the scene, "
            "and most of it looked burnt",
        ),
        (
            ("dense vegetation",), (),
            "34 ha of dense vegetation grew in the north",
            "Dense vegetation grew on 34 ha in the north, 2.1 percent of the scene",
        ),
        (
            ("water",), ("vegetation",),
            "Water spread over 34 ha in the north, most of it where there was vegetation",
            "Water spread over 34 ha in the north, 2.1 percent of the scene, most of it "
            "where there was vegetation",
        ),
        (
            ("vegetation",), ("water",),
            "34 ha of water disappeared in the north and vegetation grew on most of it",
            "Water retreated from 34 ha in the north, 2.1 percent of the scene, "
            "and vegetation grew on most of it",
        ),
        (
            (), ("water",),
            "34 ha of water disappeared in the north",
            "Water retreated from 34 ha in the north, 2.1 percent of the scene",
        ),
    ],
)  # fmt: skip
def test_each_kind_has_its_sentences(came, gone, first, second):
    sentences = said(came, gone)
    assert sentences[:2] == [first, second] and len(set(sentences)) == 3
    for name in (*came, *gone):
        assert all(name.partition(" ")[0] in sentence.lower() for sentence in sentences)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        (
            "water",
            "Water spread over 34 ha and retreated from 1 ha in the north",
            "1 ha of water disappeared and 34 ha came under water in the north",
        ),
        (
            "vegetation",
            "1 ha of vegetation disappeared and 34 ha grew in the north",
            "Vegetation disappeared from 1 ha and grew on 34 ha in the north",
        ),
    ],
)
def test_what_came_here_and_is_gone_there_is_told_with_both_areas(name, first, second):
    facts = ChangeFacts({name: 0.5}, {name: 0.1}, place=("north",), area_m2=340_000.0, back_m2=10_000.0)
    assert cover_sentences(facts) == [first, second]


@pytest.mark.parametrize(
    ("area", "words"),
    [
        (345.0, "340 m2 of"),
        (999.0, "1,000 m2 of"),
        (1_040.0, "0.1 ha of"),
        (12_345.0, "1.2 ha of"),
        (340_000.0, "34 ha of"),
        (123_456_789.0, "12,000 ha of"),
    ],
)
def test_areas_have_two_digits_that_count(area, words):
    assert said(gone=("vegetation",), area=area)[0].startswith(words)


def test_an_area_that_may_be_larger_is_never_rounded_up():
    """At least 12.9 hectares are at least 12, not at least 13."""
    facts = ChangeFacts({}, {"vegetation": 0.9}, area_m2=129_600.0, at_least=True)
    assert cover_sentences(facts)[0] == "At least 12 ha of vegetation disappeared"
