"""States and dates of events, and their sentences."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapely.geometry import MultiPolygon, box

from workflows.monitor.events import KINDS, FoundEvent, Sighting
from workflows.monitor.history import history_of
from workflows.monitor.words import sentence_of, story_words

LETTERS = {"s": "seen", "a": "absent", "h": "hidden"}
AREA = MultiPolygon([box(0, 0, 1, 1)])


def sightings_of(letters):
    return [Sighting(f"{number}.tif", LETTERS[letter]) for number, letter in enumerate(letters)]


def history(letters, confirm=2):
    dates = {f"{number}.tif": f"2018-{number + 1:02}" for number in range(len(letters))}
    return history_of(sightings_of(letters), dates, confirm)


def event(letters="aass", kind="building", direction="appeared", count=None, area=100.0):
    return FoundEvent(AREA, kind, direction, tuple(sightings_of(letters)), 0.9, count, area)


@pytest.mark.parametrize(
    ("letters", "state", "last_absent", "first_seen", "confirmed_on", "ended_on"),
    [
        ("aas", "candidate", "2018-02", "2018-03", None, None),
        ("aass", "confirmed", "2018-02", "2018-03", "2018-04", None),
        ("ahhs", "candidate", "2018-01", "2018-04", None, None),
        ("ashs", "confirmed", "2018-01", "2018-02", "2018-04", None),
        ("assha", "confirmed", "2018-01", "2018-02", "2018-03", None),
        ("assaa", "ended", "2018-01", "2018-02", "2018-03", "2018-04"),
        ("assahha", "ended", "2018-01", "2018-02", "2018-03", "2018-04"),
        ("asaa", "dropped", "2018-01", "2018-02", None, None),
        ("asaaass", "confirmed", "2018-05", "2018-06", "2018-07", None),
        ("ss", "confirmed", None, "2018-01", "2018-02", None),
        ("aahh", "candidate", None, None, None, None),
    ],
)
def test_states_follow_the_usable_scenes(letters, state, last_absent, first_seen, confirmed_on, ended_on):
    found = history(letters)
    assert (found.state, found.last_absent, found.first_seen) == (state, last_absent, first_seen)
    assert (found.confirmed_on, found.ended_on) == (confirmed_on, ended_on)
    assert found.usable == len(letters) - letters.count("h")
    assert found.seen == letters.count("s")


def test_scenes_of_one_date_count_once():
    dates = {"0.tif": "2018-01", "1.tif": "2018-02", "2.tif": "2018-02"}
    found = history_of(sightings_of("ass"), dates, 2)
    assert (found.state, found.usable, found.seen) == ("candidate", 2, 1)


@given(st.text("sah", max_size=12), st.integers(1, 4))
def test_hidden_scenes_change_no_state(letters, confirm):
    plain = [turn.state for turn in history(letters.replace("h", ""), confirm).turns]
    assert [turn.state for turn in history(letters, confirm).turns] == plain


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["appeared", "disappeared", "changed"])
@pytest.mark.parametrize("letters", ["", "s", "as", "assss", "assaa", "asaa"])
def test_every_event_has_a_sentence(kind, direction, letters):
    for count in (None, 1, 3):
        text = sentence_of(event(letters, kind, direction, count), history(letters))
        assert not text[0].islower() and text.endswith(".") and "None" not in text and "{" not in text


def test_a_finders_own_sentence_is_used_and_others_are_named():
    facts = {
        "sentence": "Four houses and a road were built where there were trees.",
        "came": ["building", "road"],
    }
    found = replace(event(count=4), facts=facts)
    assert sentence_of(found, history("aass")) == (
        "Between February and March 2018 four houses and a road were built where there were trees; "
        "confirmed once since."
    )
    assert story_words([(found, history("as"))]) == "Four houses and a road were built by February 2018."


def test_a_date_that_is_only_a_year_is_said_whole():
    found = history_of(sightings_of("as"), {"0.tif": "2018", "1.tif": "2018-05"}, 1)
    assert sentence_of(event(count=1), found) == "A house was built between 2018 and May 2018."


def test_a_story_is_in_order_of_time():
    events = [(event(kind="trees", direction="disappeared", area=2e4), history("as"))]
    events.append((event(count=60), history("aass")))
    assert story_words(events) == (
        "Trees were cleared on 2.0 ha by February 2018, then about 60 houses were built by March 2018."
    )


def test_a_story_says_no_more_than_is_sure():
    for count, sure, words in (
        (1, 0, "Perhaps a house was built"),
        (4, 3, "Three or four houses were built"),
    ):
        found = replace(event(count=count), facts={"count_sure": sure})
        assert story_words([(found, history("aass"))]).startswith(words)
