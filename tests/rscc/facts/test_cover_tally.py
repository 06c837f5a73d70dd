"""Counts of decided pixels become facts where one way is clear, and nothing else."""

import numpy as np
import pytest

from rscc.facts.cover_tally import CoverTally
from rscc.facts.grounded_captions import map_caption

SIZE = (10, 10)


def grid(*parts):
    """100 pixels in rows, of (number, value); the rest is 0."""
    values = np.concatenate([np.full(number, value) for number, value in parts])
    return np.concatenate([values, np.zeros(100 - len(values))]).astype(np.int8).reshape(SIZE)


def first_rows(count):
    return np.arange(100).reshape(SIZE) < 10 * count


BARE = grid((100, -1))
ALL, NONE = first_rows(10), first_rows(0)


def facts_of(burnt=NONE, **decisions):
    tally = CoverTally()
    tally.add(ALL, ALL, {name.replace("_", " "): dates for name, dates in decisions.items()}, burnt)
    return tally.facts(area_m2=10_000, ground_m2=1e6, place=("north",))


def test_the_area_is_that_of_the_pixels_that_changed():
    facts = facts_of(vegetation=(grid((60, 1), (40, -1)), grid((34, -1), (26, 1), (40, -1))))
    assert (dict(facts.came), list(facts.gone)) == ({}, ["vegetation"])
    assert facts.gone["vegetation"] == pytest.approx(0.34)
    assert facts.area_m2 == pytest.approx(3400) and facts.share == pytest.approx(0.0034)
    assert (facts.direction, facts.before, facts.place) == ("disappeared", {"vegetation": 0.6}, ("north",))


@pytest.mark.parametrize(
    ("lost", "grown", "said"), [(24, 0, False), (25, 0, True), (30, 10, True), (14, 9, False), (0, 60, True)]
)
def test_a_quarter_of_the_pixels_must_go_one_way(lost, grown, said):
    before, after = grid((lost, 1), (grown, -1)), grid((lost, -1), (grown, 1))
    facts = facts_of(vegetation=(before, after))
    assert (facts.direction is not None) == said
    if said:
        assert facts.direction == ("disappeared" if lost else "appeared")
    else:
        assert facts.area_m2 is None and map_caption(facts).text == "Something changed"
        assert not map_caption(facts).confident and facts.place == ("north",)


@pytest.mark.parametrize(
    ("lost", "grown", "both"), [(30, 11, True), (15, 10, True), (20, 9, False), (14, 10, False)]
)
def test_what_went_both_ways_is_told_where_each_is_a_tenth_and_both_a_quarter(lost, grown, both):
    before, after = grid((lost, 1), (grown, -1)), grid((lost, -1), (grown, 1))
    facts = facts_of(water=(before, after), vegetation=(BARE, BARE))
    assert (facts.back_m2 is not None) == both
    if both:
        assert (facts.area_m2, facts.back_m2) == (pytest.approx(100 * grown), pytest.approx(100 * lost))
        assert (list(facts.came), list(facts.gone), facts.direction) == (["water"], ["water"], "replaced")
        assert facts.probability == pytest.approx(1), "all that was decided went one way or the other"
        assert "Water spread over" in map_caption(facts).text and "retreated from" in map_caption(facts).text
        assert map_caption(facts).score == facts.probability
    lost_plants = (grid((100, 1)), grid((26, -1), (74, 1)))
    first = facts_of(water=(before, after), vegetation=lost_plants)
    assert list(first.gone) == (["water"] if both else ["vegetation"]), "water comes first"
    green = facts_of(green_cover=(before, after))
    assert green.back_m2 is None, "greener is mostly light"


FLOOD = (BARE, grid((40, 1), (60, -1)))


@pytest.mark.parametrize(
    ("water", "vegetation", "came", "gone"),
    [
        (FLOOD, (grid((30, 1), (70, -1)), BARE), ["water"], ["vegetation"]),
        (FLOOD, (grid((10, 1), (90, -1)), BARE), ["water"], []),
        (FLOOD, (grid((40, -1), (60, 1)), BARE), ["water"], []),  # plants that were lost elsewhere
        ((grid((80, 1), (20, -1)), BARE), (BARE, grid((60, 1), (40, -1))), ["vegetation"], ["water"]),
    ],
)
def test_water_comes_before_plants_and_tells_what_it_covers_or_leaves(water, vegetation, came, gone):
    facts = facts_of(water=water, vegetation=vegetation)
    assert (list(facts.came), list(facts.gone)) == (came, gone)
    assert facts.direction == ("replaced" if gone else "appeared")
    assert facts.area_m2 == pytest.approx(4000 if water is FLOOD else 8000), "of the water, not of the plants"
    assert ("water" in facts.before) == (water is not FLOOD)


def test_most_of_the_lost_plants_must_look_burnt():
    lost = (grid((60, 1)), grid((60, -1)))
    facts = facts_of(first_rows(3), vegetation=lost)
    assert dict(facts.came) == {"burnt ground": 0.5} and list(facts.gone) == ["vegetation"]
    assert dict(facts_of(first_rows(2), vegetation=lost).came) == {}


@pytest.mark.parametrize(("open_before", "open_after", "said"), [(2, 2, False), (3, 3, True), (0, 6, True)])
def test_the_area_is_a_least_one_where_undecided_pixels_may_have_changed_alike(open_before, open_after, said):
    before = grid((50, 1), (open_before, 0), (open_after, 1))
    after = grid((50, -1), (open_before, -1), (open_after, 0))
    facts = facts_of(vegetation=(before, after))
    assert facts.area_m2 == pytest.approx(5000) and facts.at_least == said
