"""Facts of a change: the direction that follows from what came and what is gone."""

import pytest

from rscc.text.facts import ChangeFacts, is_large


@pytest.mark.parametrize(
    ("came", "gone", "direction"),
    [
        (("building",), (), "appeared"),
        (("building",), ("trees",), "appeared"),
        (("building", "trees"), ("trees",), "appeared"),
        (("road",), ("building",), "replaced"),
        ((), ("parking lot",), "disappeared"),
        ((), ("trees",), "disappeared"),
        (("trees",), ("building",), "disappeared"),
        (("grass",), ("trees",), "replaced"),
        (("trees",), (), "appeared"),
        ((), (), None),
    ],
)
def test_direction_is_that_of_what_is_built_where_something_is(came, gone, direction) -> None:
    facts = ChangeFacts(came=dict.fromkeys(came, 0.9), gone=dict.fromkeys(gone, 0.9))
    assert facts.direction == direction


def test_what_stands_around_is_no_change() -> None:
    facts = ChangeFacts(before={"trees": 0.9}, beside={"road": 0.9}, count=3, place=("top",))
    assert facts.direction is None and facts.probability == 0


def test_the_probability_is_that_all_changes_hold() -> None:
    facts = ChangeFacts(came={"building": 0.9, "road": 0.5}, gone={"trees": 0.8}, before={"grass": 0.1})
    assert facts.probability == pytest.approx(0.9 * 0.5 * 0.8)


@pytest.mark.parametrize(
    ("area", "largest", "median", "large"),
    [
        (1350.0, 460.0, 450.0, True),
        (1340.0, 460.0, 449.9, False),
        (675.0, 450.0, 225.0, True),  # a hall and a shed
        (676.0, 450.0, 225.0, False),
        (449.0, 449.0, 449.0, False),
        (900.0, None, None, False),
    ],
)
def test_buildings_are_no_houses_where_the_median_or_most_of_it_is_large(
    area, largest, median, large
) -> None:
    assert is_large(area, largest, median) is large
