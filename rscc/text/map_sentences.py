"""Sentences of a report: a small grammar over the facts of a change on a map, in the past tense.

Every sentence states all that came and all that is gone, their number, and nothing else than the facts hold.
Several sentences state the same facts; the fullest comes first, the others are alternatives. A change of land
cover is what grew, was lost or was flooded, on how many hectares.
"""

from collections.abc import Iterable, Iterator
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context
from itertools import cycle

from rscc.text.change_facts import BUILT, PLANTS, SOMETHING, ChangeFacts
from rscc.text.wording import (
    CLEARED,
    MASSES,
    NOUNS,
    building_count,
    buildings_first,
    distinct,
    is_plural,
    joined,
    listed,
    number_words,
    standing,
)

_COVERS = {
    "bare ground": "on open ground",
    "trees": "among trees",
    "grass": "on grass",
    "farmland": "on farmland",
    "water": "by the water",
}
_BESIDE = {
    "road": "beside the road",
    "parking lot": "next to the parking lot",
    "building": "near buildings",
    "trees": "near trees",
}
# Each verb in the singular and in the plural.
_BUILT_VERBS = (
    ("was built", "were built"),
    ("appeared", "appeared"),
    ("was constructed", "were constructed"),
)
_GROWN_VERBS = (("appeared", "appeared"),)
_REMOVED_VERBS = (("was removed", "were removed"), ("disappeared", "disappeared"))
_GONE_VERBS = (("disappeared", "disappeared"),)
_DESTROYED_VERBS = (("is gone or was destroyed", "are gone or were destroyed"),)
_HECTARE = 10_000.0
_SMALL_M2 = 1000.0  # areas below are given in square metres
_LEAST_SHARE = 0.001  # smaller shares of the scene are not mentioned
SEVERAL_ROADS = 30
"""Number of buildings from which the road that came with them counts as several roads."""


def map_sentences(facts: ChangeFacts) -> list[str]:
    """Return the sentences about a change on a map, the fullest first; each starts with a capital letter."""
    if facts.direction is None:
        return [SOMETHING]
    return distinct(map(sentence_case, _sentences(facts)))


def sentence_case(text: str) -> str:
    """Return a clause with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def map_name(name: str) -> str:
    """Return the name of a class on a map, where "bare ground" includes dry grass and is "open ground"."""
    return "open ground" if name == "bare ground" else name


def several_roads(names: Iterable[str], count: int | None) -> bool:
    """Return whether a road among ``names`` that came or went with ``count`` buildings is more than one."""
    return "building" in names and count is not None and count >= SEVERAL_ROADS


def _sentences(facts: ChangeFacts) -> Iterator[str]:
    covers = standing(facts, facts.before, _COVERS)
    beside, place = _beside(facts), _place(facts).strip()
    on = " ".join(_COVERS[name] for name in covers)
    around = [beside, on, place]
    if facts.came and not facts.gone:
        were = "were" if covers[:1] == ["trees"] else "was"
        on = f"where there {were} {listed([map_name(name) for name in covers])}" if covers else ""
        around = [beside, place, on]
    elif on and facts.came and any(name in _COVERS for name in facts.gone):
        on = f"partly {on}"  # the cover that is gone was on the rest of the ground
        around = [beside, on, place]
    details: list[list[str]] = [around, [beside, on], [place], []] * 2
    for words, some in zip(cycle(_changes(facts)), details, strict=False):
        yield joined([words, *some])


def _changes(facts: ChangeFacts) -> list[str]:
    came, old = _subject(facts, gone=False), _subject(facts, gone=True)
    if not (facts.came and facts.gone):
        words, plural = old if facts.gone else came
        return [f"{words} {verb[plural]}" for verb in _verbs(facts, gone=bool(facts.gone))]
    appeared = f"{came[0]} {_verbs(facts, gone=False)[0][came[1]]}"
    removed = f"{old[0]} {_verbs(facts, gone=True)[0][old[1]]}"
    both = f"{removed} and {appeared}"
    # What is gone stood on the changed ground itself, and not only around it.
    stood_there = all(name in BUILT or name in facts.before for name in facts.gone)
    if not stood_there:
        return [both]
    instead = f"{appeared} in place of {listed(_things(facts, gone=True))}"
    turns = [
        both,
        f"{old[0]} {'were' if old[1] else 'was'} replaced by {came[0]}",
        f"{came[0]} replaced {old[0]}",
    ]
    built = any(name in BUILT for name in facts.came)
    return [instead, *turns] if built else [*turns, instead]


def _verbs(facts: ChangeFacts, *, gone: bool) -> tuple[tuple[str, str], ...]:
    if gone:
        if not facts.cleared and "building" in facts.gone:
            return _DESTROYED_VERBS
        return _REMOVED_VERBS if all(name in CLEARED for name in facts.gone) else _GONE_VERBS
    return _BUILT_VERBS if all(name in BUILT for name in facts.came) else _GROWN_VERBS


def _subject(facts: ChangeFacts, *, gone: bool) -> tuple[str, bool]:
    things = _things(facts, gone=gone)
    return listed(things), len(things) > 1 or any(map(is_plural, things))


def _things(facts: ChangeFacts, *, gone: bool) -> list[str]:
    """Return a noun phrase for each class that came or is gone; an uncertain one ("perhaps") comes last."""
    names = buildings_first(facts.gone if gone else facts.came)
    return sorted(
        (_thing(facts, name, gone) for name in names), key=lambda thing: thing.startswith("perhaps ")
    )


def _thing(facts: ChangeFacts, name: str, gone: bool) -> str:
    former = "former " if gone and name in facts.came else ""
    if name == "building":
        return _buildings(facts, former, gone)
    if name in MASSES:
        return former + map_name(name)
    names = facts.gone if gone else facts.came
    if name == "road" and not former and several_roads(names, building_count(facts, gone=gone)):
        return "some roads"  # "about 30 houses and roads" could mean 30 of both
    return f"a {former}{NOUNS.get(name, name)}"


def _buildings(facts: ChangeFacts, former: str, gone: bool) -> str:
    noun = "building" if former else facts.size
    count = building_count(facts, gone=gone)
    if count is None:
        return f"a {former}{noun}" if former and facts.count == 1 else f"{former}{noun}s"
    if count > 1:
        return f"{number_words(count, facts.sure)} {noun}s"
    return f"perhaps a {noun}" if facts.sure == 0 else f"a {noun}"


def _beside(facts: ChangeFacts) -> str:
    """Return what stands beside a change; trees only where no buildings do."""
    names = standing(facts, _BESIDE, facts.beside)
    return joined([_BESIDE[name] for name in names if name != "trees" or "building" not in names])


def cover_sentences(facts: ChangeFacts) -> list[str]:
    """Return the sentences about a change of land cover, the fullest first.

    ``facts.area_m2`` is the area of water that came or is gone, else of plants; where one class came and is
    gone, it is the area that came, and ``facts.back_m2`` the area that is gone.
    """
    if facts.area_m2 is None:
        return [SOMETHING]
    area, _ = cover_area(facts.area_m2, at_least=facts.at_least)
    if facts.back_m2 is not None:
        lost, _ = cover_area(facts.back_m2, at_least=facts.at_least)
        clauses = _both_ways(facts, area, lost)
    else:
        clauses = _one_way(facts, area)
    return list(dict.fromkeys(map(sentence_case, clauses)))


def _both_ways(facts: ChangeFacts, area: str, lost: str) -> list[str]:
    place, plants = _place(facts), _plants(facts)
    if "water" in facts.came:
        return [
            f"water spread over {area} and retreated from {lost}{place}",
            f"{lost} of water disappeared and {area} came under water{place}",
        ]
    return [
        f"{lost} of {plants} disappeared and {area} grew{place}",
        f"{plants} disappeared from {lost} and grew on {area}{place}",
    ]


def _one_way(facts: ChangeFacts, area: str) -> list[str]:
    place, plants, share = _place(facts), _plants(facts), _share(facts)
    if "water" in facts.came:
        over = f", most of it where there was {plants}" if plants else ""
        return [
            f"water spread over {area}{place}{over}",
            f"water spread over {area}{place}{share}{over}",
            f"{area} came under water{over}",
        ]
    before_and = "," if share else ""
    if "water" in facts.gone:
        grown = f" and {plants} grew on most of it" if plants else ""
        return [
            f"{area} of water disappeared{place}{grown}",
            f"water retreated from {area}{place}{share}{before_and if grown else ''}{grown}",
            f"{area} of water disappeared{grown}",
        ]
    if facts.gone:
        burnt = " and most of it looked burnt" if "burnt ground" in facts.came else ""
        return [
            f"{area} of {plants} disappeared{place}{burnt}",
            f"{plants} disappeared from {area}{place}{share}{before_and if burnt else ''}{burnt}",
            f"{area} lost {plants}{burnt}",
        ]
    return [
        f"{area} of {plants} grew{place}",
        f"{plants} grew on {area}{place}{share}",
        f"{area} of {plants} grew",
    ]


def _place(facts: ChangeFacts) -> str:
    return f" in the {'-'.join(facts.place)}" if facts.place else ""


def _plants(facts: ChangeFacts) -> str:
    return next((name for name in PLANTS if name in facts.came or name in facts.gone), "")


def _share(facts: ChangeFacts) -> str:
    if facts.share is None or facts.share < _LEAST_SHARE:
        return ""
    return f", {_two_digits(100 * facts.share)} percent of the scene"


def cover_area(square_metres: float, *, at_least: bool) -> tuple[str, bool]:
    """Return an area in words, with two significant digits, and whether its verb is plural."""
    least = "at least " if at_least else ""
    if square_metres < _SMALL_M2:
        return f"{least}{_two_digits(square_metres, down=at_least)} m2", True
    words = _two_digits(square_metres / _HECTARE, down=at_least)
    return f"{least}{words} ha", words != "1"


def _two_digits(value: float, *, down: bool = False) -> str:
    context = Context(prec=2, rounding=ROUND_FLOOR if down else ROUND_HALF_EVEN)
    return f"{float(context.create_decimal(f'{value:.9g}')):,.10g}"
