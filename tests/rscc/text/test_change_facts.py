"""Facts of a change: the direction that follows from what came and what is gone."""

import pytest

from rscc.text.change_facts import ChangeFacts, building_size, is_large


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


@pytest.mark.parametrize(
    ("area", "largest", "median", "sure", "size"),
    [
        (600.0, 300.0, 300.0, 2, "house"),
        (6000.0, 890.0, 250.0, 20, "house"),
        (6000.0, 910.0, 250.0, 20, "building"),  # one of them is no house
        (600.0, 300.0, 300.0, 1, "building"),  # perhaps they are one
        (460.0, 460.0, 460.0, 0, "building"),
        (1600.0, 1600.0, 1600.0, 1, "large building"),
        (900.0, None, None, None, "house"),
    ],
)
def test_the_noun_of_a_building_follows_from_its_size(area, largest, median, sure, size) -> None:
    assert building_size(area, largest, median, sure) == size
