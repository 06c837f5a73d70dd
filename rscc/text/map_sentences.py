"""Sentences of a report: a small grammar over the facts of a change on a map, in the past tense.

Every sentence states all that came and all that is gone, their number, and nothing else than the facts hold.
Several sentences state the same facts; the fullest comes first, the others are alternatives.
"""

from collections.abc import Iterable, Iterator
from itertools import cycle

from rscc.text.change_facts import BUILT, SOMETHING, ChangeFacts
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
    beside, place = _beside(facts), f"in the {'-'.join(facts.place)}" if facts.place else ""
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
