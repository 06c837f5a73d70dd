"""Sentences from facts: true of their facts, complete, and English."""

import re
import zlib
from dataclasses import replace
from itertools import combinations, pairwise, product
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stored import assert_as_stored

from rscc.text.change_facts import BuildingSize, ChangeFacts
from rscc.text.map_sentences import map_sentences
from rscc.text.picture_sentences import picture_sentences
from rscc.text.statements import number_class, read_statement
from rscc.text.wording import MOST, number_words

CHANGING = ("building", "road", "parking lot", "pool", "water", "trees", "grass", "bare ground", "farmland")
COVERS = ("trees", "grass", "bare ground", "farmland", "water")
STANDING = ("road", "building", "parking lot", "trees")
COMPASS = [
    (),
    *product(("north", "south")),
    *product(("east", "west")),
    *product(("north", "south"), ("east",)),
]
PICTURE = [
    *((), ("middle",), ("top",), ("bottom",), ("left",), ("right",)),
    *product(("top", "bottom"), ("left", "right")),
]

# A grammar of all that may be said, apart from the one that is tested.
ONE = (
    r"(?:perhaps a (?:house|building|large building)|"
    r"a (?:former )?(?:house|building|large building|road|parking lot|pond|swimming pool))"
)
MASS = r"(?:former )?(?:grass|bare ground|open ground|farmland)"
DIGITS = r"about [1-9]\d*[05]"
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RANGE = rf"(?:{'|'.join(WORDS[:-1])}|up|[1-9]\d*) (?:or|to) (?:{'|'.join(WORDS[1:])}|[1-9]\d*)"
SEVERAL = (
    rf"(?:{RANGE}|two|three|four|five|six|seven|eight|nine|some|several|many|{DIGITS}) "
    r"(?:houses|buildings|large buildings|villas)"
)
BARE = (
    r"(?:former )?(?:houses|buildings|trees)|large buildings|(?:some )?roads|parking lots|ponds|"
    r"swimming pools|(?:the|some) trees"
)
COUNTABLE = "house|building|buildings|road|parking lot|pond|swimming pool"
THE = rf"(?:{SEVERAL}|the (?:{COUNTABLE}|trees|grass|bare ground|open ground|farmland))"
SINGULAR = rf"(?:{ONE}|{MASS}|a road with (?:{ONE}|{SEVERAL}|houses|buildings))"
PLURAL = rf"(?:{SEVERAL}|{BARE})"
THING = rf"(?:{ONE}|{MASS}|{PLURAL})"
LISTED = rf"(?:{THING}(?:, {THING})* and {THING})"
THINGS = rf"(?:{THING}|{LISTED})"
TAKEN = rf"(?:{THINGS}|{THE}(?:(?:, {THE})* and {THE})?)"
BESIDE = {
    "road": r"along the road|beside the road|next to the road|by the road|near the road",
    "building": r"near the houses|beside the houses|near buildings",
    "parking lot": r"(?:near|beside|next to) the parking lot",
    "trees": r"near the trees|near trees",
}
ON = {
    "bare ground": r"(?:on|in) the bareland|on bareland|on the bare land|on open ground",
    "trees": r"in the woods|among the trees|in the forest|among trees",
    "grass": r"on the meadow|on the grass|on grass",
    "farmland": r"on the farmland|on farmland",
    "water": r"near the water|by the water",
}
FORMER = {"open ground": "bare ground"} | {name: name for name in COVERS if name != "bare ground"}
COVER = "|".join(FORMER)
WAS = rf"where there (?:were(?= trees)|was(?! trees)) (?:{COVER})(?:(?:, (?:{COVER}))* and (?:{COVER}))?"
SIDE = r"(?:top|bottom|left|right)"
PLACE = (
    r"in the middle of the scene|in the center|in the middle|"
    r"in the (?:north|south|east|west|centre)(?:-(?:east|west))?|"
    rf"(?:in|at) the {SIDE} {SIDE} corner|in the (?:upper|lower) (?:left|right) corner of the scene|"
    rf"in the {SIDE} {SIDE} of the scene|on the {SIDE} {SIDE}|(?:at|in) the {SIDE} of the scene|"
    rf"at the {SIDE}|on the {SIDE}(?: side)? of the scene|on the {SIDE}"
)
AROUND = "|".join((*BESIDE.values(), rf"(?:partly )?(?:{'|'.join(ON.values())})", PLACE))


def grammar(singular: str, plural: str, replaces: str, replace: str) -> re.Pattern[str]:
    """All sentences with these verbs; both tenses have "replaced by"."""
    clause = rf"(?:{SINGULAR} (?:{singular})|(?:{PLURAL}|{LISTED}) (?:{plural}))"
    be_singular, be_plural = singular.partition(" ")[0], plural.partition(" ")[0]
    turn = (
        rf"(?:(?:{SINGULAR} {be_singular}|(?:{PLURAL}|{LISTED}) {be_plural}) replaced by {THINGS}|"
        rf"(?:{SINGULAR} {replaces}|(?:{PLURAL}|{LISTED}) {replace}) {TAKEN})"
    )
    where = rf"(?: (?:{AROUND}))*"
    return re.compile(
        rf"{clause}(?: in place of {TAKEN})?{where}"
        rf"(?: {WAS}| (?:in place of|to replace) {TAKEN}| and {clause}{where})?|{turn}{where}"
    )


DONE = "(?:built|constructed|removed)"
PAST = grammar(
    f"was {DONE}|(?:dis)?appeared", f"were {DONE}|(?:dis)?appeared", replaces="replaced", replace="replaced"
)
PRESENT = grammar(
    f"is {DONE}|has been {DONE}|(?:dis)?appears|has (?:dis)?appeared",
    f"are {DONE}|have been {DONE}|(?:dis)?appear|have (?:dis)?appeared",
    replaces="replaces",
    replace="replace",
)


def classes(names, most: int = 3):
    """Up to some classes with probabilities; their order is what the heads were surest of."""
    keys = st.lists(st.sampled_from(names), max_size=most, unique=True)
    return keys.map(lambda chosen: dict.fromkeys(chosen, 0.9))


def facts(places=PICTURE):
    """Any facts: a number where buildings came or are gone, if it is known."""
    return st.builds(
        lambda count, missing, **fields: ChangeFacts(
            count=count if "building" in {**fields["came"], **fields["gone"]} else None,
            sure=None if missing is None or count is None else max(0, count - missing),
            **fields,
        ),
        came=classes(CHANGING),
        gone=classes(CHANGING),
        before=classes(COVERS),
        beside=classes(STANDING),
        count=st.none() | st.integers(1, 15) | st.integers(1, 2500),
        missing=st.none() | st.integers(0, 9),
        place=st.sampled_from(places),
        size=st.sampled_from(get_args(BuildingSize)),
    )


def told(names, count=None, place=(), **fields) -> ChangeFacts:
    """Facts of one sort: what came, unless ``fields`` name others."""
    probabilities = {key: dict.fromkeys(value, 0.9) for key, value in fields.items()}
    return ChangeFacts(came=dict.fromkeys(names, 0.9), count=count, place=place, **probabilities)


def check_truth(sentence: str, known: ChangeFacts) -> None:
    """Hold all that a sentence states against the facts."""
    read = read_statement(sentence)
    assert read.came == set(known.came), sentence
    assert read.gone == set(known.gone), sentence
    assert read.number == (known.count and number_class(known.count)), sentence
    corner = {"corner"} if len(known.place) == 2 else {"middle"} if known.place == ("centre",) else set()
    assert read.places <= {*known.place, *corner}, sentence
    for compass in re.findall(r"in the ((?:north|south|east|west|centre)\S*)", sentence):
        assert tuple(compass.split("-")) == known.place, sentence
    for number in re.findall(r"about (\d+) ", sentence):
        assert abs(int(number) - known.count) <= max(2, 0.05 * known.count), sentence
    for least, joint, most in re.findall(rf"\b({'|'.join(WORDS)}|up) (or|to) ({'|'.join(WORDS)}) ", sentence):
        assert 1 + WORDS.index(most) == known.count > known.sure, sentence
        if least == "up":
            assert known.sure == 0, sentence
        else:
            assert 1 + WORDS.index(least) == known.sure, sentence
            assert (joint == "or") == (known.count - known.sure == 1), sentence
    for first, most in re.findall(r"\b(\w+) (?:or|to) (\d+) ", sentence):
        least = 0 if first == "up" else int(first)
        assert known.sure < 0.85 * known.count and least <= known.sure < known.count <= int(most), sentence
        assert int(most) - known.count < (0.1 * known.count if known.count >= 100 else 1), sentence
        assert known.sure - least < (0.1 * known.sure if known.sure >= 100 else 1), sentence
    assert ("perhaps" in sentence) <= (known.count == 1 and known.sure == 0), sentence
    unmoved = re.sub(rf"(?:in place of|to replace|replace[sd]?|replaced by) {TAKEN}", "", sentence)
    for names, held in ((BESIDE, known.beside), (ON, {**known.before, **known.beside})):
        for name, phrases in names.items():
            assert name in held or not re.search(rf" (?:{phrases})(?= |$)", unmoved), sentence
    for list_ in re.findall(r"where there (?:was|were) (.+)$", sentence):
        assert {FORMER[word] for word in re.split(", | and ", list_)} <= set(known.before), sentence


def check_english(sentence: str, tense: re.Pattern[str]) -> None:
    """A sentence of a grammar: articles, agreement, lists; no word twice in a row."""
    assert tense.fullmatch(sentence), sentence
    assert all(word != following for word, following in pairwise(re.findall(r"\w+", sentence))), sentence


def check_all(sentences: list[str], known: ChangeFacts, tense: re.Pattern[str] = PRESENT) -> None:
    if known.direction is None:
        assert sentences == ["something changed"]
        return
    assert 1 <= len(sentences) <= MOST
    assert len(set(sentences)) == len(sentences)
    for sentence in sentences:
        check_truth(sentence, known)
        check_english(sentence, tense)


def check_map(known: ChangeFacts) -> str:
    """Check the sentences of a change on a map, which start with a capital; return the first."""
    sentences = map_sentences(known)
    assert all(sentence[0].isupper() or sentence[0].isdigit() for sentence in sentences)
    check_all([sentence[0].lower() + sentence[1:] for sentence in sentences], known, PAST)
    return sentences[0]


@pytest.mark.slow
@settings(max_examples=100)
@given(facts(COMPASS))
@example(told(["building", "road", "trees"], 12, gone=["building", "trees"], beside=STANDING))
@example(told(["trees"], 3, gone=["building"], before=["grass"], place=("north", "east")))
def test_a_sentence_on_a_map_states_the_facts(known) -> None:
    check_map(known)


@settings(max_examples=60)
@given(facts(), st.none() | st.integers(0, 99))
def test_a_sentence_on_a_picture_states_the_facts_whatever_is_preferred(known, seed) -> None:
    def prefer(sentences):
        return [zlib.crc32(f"{seed} {sentence}".encode()) for sentence in sentences]

    check_all(picture_sentences(known, None if seed is None else prefer), known)


@pytest.mark.parametrize("place", [("top", "left"), ("bottom",), ("right",), ("middle",)])
def test_some_sentences_on_a_picture_say_where(place) -> None:
    def prefer_long(sentences):
        return [len(sentence) for sentence in sentences]

    longest = picture_sentences(told(["building"], 3, place=place), prefer_long)[0]
    assert read_statement(longest).places & {*place, "corner"}, longest


def test_all_small_sets_of_facts_are_told_apart_and_read_back() -> None:
    """Every set of up to two classes that came, and that are gone, with every number class."""
    kinds = ("building", "road", "parking lot", "trees")
    some = [(), *((name,) for name in kinds), *combinations(kinds, 2)]
    first, pictures, known = set(), set(), 0
    for came, gone, before, beside in product(some, some, ((), ("grass",)), ((), ("road",))):
        if not (came or gone) or ("road" in (*came, *gone) and beside):
            continue
        for count in (1, 2, 4, 30) if "building" in (*came, *gone) else (None,):
            one = told(came, count, gone=gone, before=before, beside=beside)
            first.add(check_map(one))
            pictures.update(picture_sentences(one))
            known += 1
    assert len(first) == known > 500
    assert_as_stored("sentences", {"map": sorted(first)[::9], "picture": sorted(pictures)[::41]})


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (
            told(["building", "road"], 113, before=["trees"]),
            "About 110 houses and some roads were built where there were trees",
        ),
        (told(["building", "road"], 29), "About 30 houses and a road were built"),
        (told(["building", "road"], 30), "About 30 houses and some roads were built"),
        (told(["road"], 40, gone=["building"]), "A road was built in place of about 40 houses"),
        (
            told(["road"], 40, gone=["building", "road"]),
            "A road was built in place of about 40 houses and a former road",
        ),
        (told([], 40, gone=["building", "road"]), "About 40 houses and some roads were removed"),
        (told(["building"], 1, beside=["road"]), "A house was built beside the road"),
        (told([], 3, gone=["building"]), "Three houses were removed"),
        (
            replace(told([], 3, ("north", "east"), gone=["building"]), size="building"),
            "Three buildings were removed in the north-east",
        ),
        (
            told(["building"], 12, gone=["trees"], before=["trees"]),
            "About 10 houses were built in place of trees",
        ),
        (
            told(["building"], 12, gone=["trees"], before=["bare ground"]),
            "Trees were removed and about 10 houses were built partly on open ground",
        ),
        (
            told(["parking lot"], 2, gone=["building", "trees"]),
            "Two houses and trees were removed and a parking lot was built",
        ),
        (told(["building"], 2, gone=["building"]), "Two houses were built in place of former buildings"),
        (told(["building"], 1, gone=["building"]), "A house was built in place of a former building"),
        (replace(told(["building", "trees"], 1), sure=0), "Trees and perhaps a house appeared"),
        (replace(told([], 1, gone=["building"]), sure=0), "Perhaps a house was removed"),
        (
            told(["parking lot"], beside=["trees", "building", "road"]),
            "A parking lot was built beside the road near buildings",
        ),
        (replace(told(["building"], 6), sure=5), "Five or six houses were built"),
        (replace(told([], 4, gone=["building"]), sure=0), "Up to four houses were removed"),
        (told(["building", "trees"], 1), "A house and trees appeared"),
        (told(["trees"], gone=["road"]), "A road was removed and trees appeared"),
        (told(["water"], before=["grass", "trees"]), "A pond appeared where there was grass and trees"),
        (
            told(["building"], 1, before=["trees", "bare ground"]),
            "A house was built where there were trees and open ground",
        ),
        (told(["road"], place=("centre",)), "A road was built in the centre"),
    ],
)
def test_an_analyst_would_write(known, sentence) -> None:
    assert map_sentences(known)[0] == sentence


@pytest.mark.parametrize(
    ("count", "sure", "words"),
    [
        (2, 0, "up to two"), (2, 1, "one or two"), (2, 2, "two"), (9, 8, "eight or nine"),
        (9, 7, "seven to nine"), (9, 4, "four to nine"), (9, 0, "up to nine"), (12, 3, "3 to 12"),
        (12, 0, "up to 12"), (12, 11, "about 10"), (10, 8, "8 to 10"), (85, 71, "71 to 85"),
        (85, 73, "about 85"), (104, 88, "88 to 110"), (134, 103, "100 to 140"), (98, 83, "83 to 98"),
    ],
)  # fmt: skip
def test_where_some_are_not_sure_a_number_is_a_range(count, sure, words) -> None:
    assert number_words(count, sure) == words
    for sentence in (f"{words} houses are built", f"trees are replaced by {words} houses and a road"):
        assert count == 1 or read_statement(sentence).number == number_class(count)
