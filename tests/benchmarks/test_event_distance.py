"""The fit in benchmarks/event_distance.py, on labels with known gaps."""

from __future__ import annotations

import numpy as np
import pytest
from event_distance import chosen, place_of, report, scattered, sizes, wholeness

SIDE = 512
HOUSE = 20


def place(houses):
    """The buildings of a label with houses of 20 pixels (10 m) at these rows and columns."""
    label = np.zeros((SIDE, SIDE), bool)
    for row, col in houses:
        label[row : row + HOUSE, col : col + HOUSE] = True
    return place_of(label)


# In the first crop two rows of six, 4 pixels apart in a row and 40 pixels, 20 m, over the street.
ESTATE = [(row, 20 + 24 * n) for row in (60, 60 + HOUSE + 40) for n in range(6)]
LONE = [(10, 10), (10, 400), (400, 10), (400, 100)]


def test_the_street_decides_how_far_apart_the_houses_of_an_estate_may_be():
    estate = place(ESTATE)
    assert [len(members) for members in estate.estates] == [12]
    assert np.unique(estate.nearest) == pytest.approx([2])
    assert wholeness([estate], 19.5) == (0.5, 2)
    assert wholeness([estate], 20.5) == (1, 1)
    assert chosen([estate]) == 20


def test_lone_houses_are_no_estate_and_those_near_each_other_become_one_event():
    lone = place(LONE)
    assert lone.estates == []
    assert scattered([lone, place(ESTATE), place(LONE[:1]), place([])]) == [lone]
    # 70 pixels between the last two.
    assert sorted(sizes([lone], 34)) == [1, 1, 1, 1]
    assert sorted(sizes([lone], 35)) == [1, 1, 2, 2]


def test_what_is_too_small_for_a_report_is_no_building():
    label = np.zeros((SIDE, SIDE), bool)
    label[10:18, 10:19] = True
    label[40:50, 40:50] = True
    assert len(place_of(label).regions) == 1


def test_the_tables_say_what_was_chosen():
    text = report([place(ESTATE), place(LONE)])
    assert "1 estates; 1 scattered scenes with 4 buildings" in text
    assert "chosen: 20 m" in text
