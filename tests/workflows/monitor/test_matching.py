"""Ids of events: given once, kept for ever."""

from dataclasses import replace

from shapely.geometry import MultiPolygon, box

from workflows.monitor.events import FoundEvent, Sighting
from workflows.monitor.matching import continue_events

DATES = {"a": "2018-01", "b": "2018-02", "c": "2018-03"}


def event(*boxes, kind="building", direction="appeared", states=("absent", "seen", "seen")):
    sightings = tuple(Sighting(name, state) for name, state in zip(DATES, states, strict=True))
    return FoundEvent(
        MultiPolygon([box(*each) for each in boxes]), kind, direction, sightings, 0.9, None, 1.0
    )


def run(*rounds):
    stored = []
    for found in rounds:
        stored = continue_events(found, stored, DATES)
    return {one.number: one for one in stored}


def test_ids_follow_the_outlines_and_not_the_order():
    left, right, new = event((0, 0, 10, 10)), event((20, 0, 30, 10)), event((40, 0, 50, 10))
    stored = run([left, right], [new, replace(right, probability=0.5), left])
    assert [stored[number].found.geometry.bounds[0] for number in (1, 2, 3)] == [0, 20, 40]
    assert stored[2].found.probability == 0.5


def test_the_assignment_is_the_best_of_all_and_not_the_first():
    # The second round's first outline overlaps both, its second only the first of the stored ones.
    stored = run(
        [event((0, 0, 10, 10)), event((10, 0, 20, 10))],
        [event((5, 0, 17, 10)), event((-1, 0, 6, 10))],
    )
    assert {number: one.found.geometry.bounds[0] for number, one in stored.items()} == {1: -1, 2: 5}


def test_a_part_of_an_outline_and_an_outline_around_it_continue_it():
    whole, part = event((0, 0, 10, 10)), event((0, 0, 10, 1.5))
    assert list(run([whole], [part])) == list(run([part], [whole])) == [1]
    assert list(run([whole], [event((-20, 0, 1, 10))])) == [1, 2]


def test_a_withdrawn_event_keeps_its_id_and_gets_it_back():
    house = event((0, 0, 10, 10))
    stored = run([house], [], [event((50, 0, 60, 10))])
    assert (stored[1].live, stored[2].live) == (False, True)
    again = run([house], [], [event((50, 0, 60, 10))], [event((50, 0, 60, 10)), house])
    assert [again[number].live for number in (1, 2)] == [True, True]
    other = run([house], [], [event((0, 0, 10, 10), kind="road")])
    assert (other[1].live, other[2].found.kind) == (False, "road")


def test_a_new_event_is_no_part_of_one_that_was_withdrawn():
    whole, parts = event((0, 0, 10, 10)), [event((0, 0, 3, 3)), event((6, 6, 9, 9))]
    assert run([whole], parts)[2].split_from == (1,)
    withdrawn = run([whole], [], [event((0, 0, 3, 3)), event((6, 6, 9, 9))])
    assert all(not one.split_from for one in withdrawn.values())


def test_of_two_that_are_nearly_as_near_the_one_that_was_not_withdrawn_goes_on():
    stored = run([event((0, 0, 10, 10))], [event((7.5, 0, 17.5, 10))], [event((3, 0, 13, 10))])
    assert {number: one.live for number, one in stored.items()} == {1: False, 2: True}


def test_splits_and_mergers_keep_their_lineage():
    whole, parts = event((0, 0, 20, 10)), [event((0, 0, 14, 10)), event((15, 0, 20, 10))]
    split = run([whole], parts)
    assert split[2].split_from == (1,) and split[1].live
    merged = run(parts, [whole])
    assert merged[2].merged_into == (1,) and not merged[2].live and merged[1].live
    felled = run(parts, [event((0, 0, 20, 10), kind="trees", direction="disappeared")])
    assert not any(one.merged_into for one in felled.values())


def test_two_events_of_the_same_ground_are_told_apart_by_what_and_when():
    trees = event((0, 0, 10, 10), kind="trees", direction="disappeared")
    house = event((0, 0, 10, 10), states=("absent", "absent", "seen"))
    stored = run([trees, house], [house, trees])
    assert [stored[number].found.kind for number in (1, 2)] == ["trees", "building"]
