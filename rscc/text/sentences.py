"""True sentences about a change: a small grammar over facts, in the words of people who write such captions.

Every sentence states all that came and all that is gone, their number, and nothing that the facts do not
hold. Several sentences say the same; which one comes first is decided by a preference, such as the words that
people chose for changes that measured alike (:mod:`rscc.text.phrasing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, product

from rscc.text.facts import BUILT, SOMETHING, ChangeFacts
from rscc.text.statements import SMALL_NUMBERS, number_class

Preference = Callable[[Sequence[str]], Sequence[float]]
"""Gives the preference of sentences, the higher the better."""

_WORDS = ("", *SMALL_NUMBERS)
ROUNDED_FROM = len(_WORDS)
"""Number of objects from which a sentence on a map says about how many there are..."""
MOSTLY_SURE = 0.85
"""...if this share of them is sure."""
_PICTURE_NUMBERS = {"one": ("a",), "two": ("two",), "some": ("some", "several"), "many": ("many",)}
_NOUNS = {"water": "pond", "pool": "swimming pool"}
"""Nouns of what is counted, where the class has another name."""
_MASSES = ("trees", "grass", "bare ground", "farmland")
"""Classes whose names take no article."""
_CLEARED = (*BUILT, "pool", "trees", "grass")
"""Classes that are removed; others only disappear."""
_COVERS = {
    "bare ground": ("on the bareland", "in the bareland", "on bareland", "on the bare land"),
    "trees": ("in the woods", "among the trees", "in the forest"),
    "grass": ("on the meadow", "on the grass"),
    "farmland": ("on the farmland",),
    "water": ("near the water",),
}
_BESIDE = {
    "road": ("along the road", "beside the road", "next to the road", "by the road", "near the road"),
    "building": ("near the houses", "beside the houses"),
    "parking lot": ("near the parking lot", "beside the parking lot"),
    "trees": ("near the trees",),
}
_MAP_COVERS = {
    "bare ground": "on open ground",
    "trees": "among trees",
    "grass": "on grass",
    "farmland": "on farmland",
    "water": "by the water",
}
_MAP_BESIDE = {
    "road": "beside the road",
    "parking lot": "next to the parking lot",
    "building": "near buildings",
    "trees": "near trees",
}
_BUILT_VERBS = (
    ("is built", "are built"),
    ("appears", "appear"),
    ("is constructed", "are constructed"),
    ("has been built", "have been built"),
)
_GROWN_VERBS = (("appears", "appear"), ("has appeared", "have appeared"))
_REMOVED_VERBS = (
    ("is removed", "are removed"),
    ("disappears", "disappear"),
    ("has been removed", "have been removed"),
)
_GONE_VERBS = (("disappears", "disappear"), ("has disappeared", "have disappeared"))
MOST = 5
"""Sentences about one change: the caption and its alternatives."""
SEVERAL_ROADS = 30
"""Buildings from which the road that came with them is several, by reading validation and training scenes."""
_ROUNDS = 3


def number_words(count: int, sure: int | None = None) -> str:
    """Return a number as an analyst writes it: in words to nine, then rounded, ``about 45``, ``about 110``.

    ``sure`` is how many of them are sure: where a sentence minds that these are fewer (:func:`least_number`)
    it is ``six or seven``, ``two to seven``, ``31 to 44``, ``130 to 170`` or, without any, ``up to seven``.
    """
    least = least_number(count, sure)
    if least == count:
        return f"about {_rounded(count, round)}" if count >= ROUNDED_FROM else _WORDS[count]
    if count < ROUNDED_FROM:
        first, last = _WORDS[least], _WORDS[count]
    else:  # how unsure they are, the range says already
        first, last = _rounded(least, math.floor, step=1), _rounded(count, math.ceil, step=1)
    return f"{first} {'or' if least == count - 1 else 'to'} {last}" if least else f"up to {last}"


def least_number(count: int, sure: int | None) -> int:
    """Return how many of some objects a sentence is sure of: all, where it rounds and most of them are."""
    if sure is None or (count >= ROUNDED_FROM and sure >= MOSTLY_SURE * count):
        return count
    return min(sure, count)


def _rounded(number: int, rounding: Callable[[float], int], step: int = 5) -> str:
    if number >= 100:
        step = 10 ** (len(str(number)) - 2)
    return str(rounding(number / step) * step)


def several_roads(names: Iterable[str], count: int | None) -> bool:
    """Return whether the road among what came, or is gone, with so many buildings is more than one."""
    return "building" in names and count is not None and count >= SEVERAL_ROADS


def map_name(name: str) -> str:
    """Return what a class is called on a map: the bareland of people is all that is open, dry grass too."""
    return "open ground" if name == "bare ground" else name


def doubtful(facts: ChangeFacts) -> bool:
    """Return whether too little is known of a change for words of its own."""
    return facts.direction is None


def map_sentences(facts: ChangeFacts) -> list[str]:
    """Return what an analyst would write of a change on a map, the fullest sentence first."""
    if doubtful(facts):
        return [SOMETHING]
    return _distinct(_map_sentences(facts))


def picture_sentences(facts: ChangeFacts, prefer: Preference | None = None) -> list[str]:
    """Return what people would say of a change in a picture, best first; numbers are a, two, some, many."""
    if doubtful(facts):
        return [SOMETHING]
    candidates = [_best(slots, prefer) for slots in _shapes(facts)]
    sentences = [sentence for several in candidates for sentence in several]
    if prefer is not None:
        values = prefer(sentences)
        sentences = [sentences[i] for i in sorted(range(len(sentences)), key=lambda i: -values[i])]
    return _distinct(sentences)


def grammar_words() -> frozenset[str]:
    """Return all words that sentences about pictures may have."""
    some: tuple[dict[str, float], ...] = (
        {"building": 1.0, "road": 1.0},
        {"trees": 1.0},
        {"parking lot": 1.0, "grass": 1.0},
        {},
    )
    covers, things = ([{name: 1.0} for name in words] for words in (_COVERS, _BESIDE))
    places = [(), ("middle",), *product(("top", "bottom", ""), ("left", "right", ""))]
    words: set[str] = set()
    for came, gone, count in product(some, some, (1, 2, 5, 12)):
        for before, beside, place in zip(cycle(covers), cycle(things), places, strict=False):
            for large in (False, True):
                facts = ChangeFacts(
                    came, gone, before, beside, count, place=tuple(filter(None, place)), large=large
                )
                if facts.direction is not None:
                    options = (option for slots in _shapes(facts) for slot in slots for option in slot)
                    words.update(word for option in options for word in option.split())
    return frozenset(words)


def _shapes(facts: ChangeFacts) -> Iterator[list[list[str]]]:
    """Yield the shapes of a sentence, each as slots with the words that may stand in them."""
    beside, covers = _ways(facts, facts.beside, _BESIDE), _ways(facts, facts.before, _COVERS)
    around = [beside, covers, _places(facts)]
    came, gone = _clauses(facts, gone=False), _clauses(facts, gone=True)
    if not facts.gone:
        yield [came, *around]
        yield [came, _places(facts), beside, covers]
    elif not facts.came:
        yield [gone, *around]
    else:
        yield [gone, ["and"], came, *around]
        if len(facts.gone) == 1:  # where a list follows, "and" might belong to either clause
            yield [came, *around, ["and"], gone]
        taken = listed([_taken(facts, name) for name in _ordered(facts.gone)])
        yield [came, *around, [f"to replace {taken}", f"in place of {taken}"]]
        subjects = _subjects(facts, gone=False)
        replacing = [f"{words} {'replace' if plural else 'replaces'} {taken}" for words, plural in subjects]
        yield [replacing, *around]


def _best(slots: list[list[str]], prefer: Preference | None) -> list[str]:
    """Return the sentences that remain when each slot in turn has taken the words that are preferred."""
    chosen = [options[0] for options in slots]
    if prefer is None:
        return [_joined(chosen), *(_joined([first, *chosen[1:]]) for first in slots[0][1:MOST])]
    values: dict[str, float] = {}
    for _ in range(_ROUNDS):
        before = list(chosen)
        for number, options in enumerate(slots):
            tried = [_joined([*chosen[:number], option, *chosen[number + 1 :]]) for option in options]
            fresh = [sentence for sentence in tried if sentence not in values]
            values.update(zip(fresh, prefer(fresh), strict=True) if fresh else ())
            chosen[number] = max(zip(options, tried, strict=True), key=lambda one: values[one[1]])[0]
        if chosen == before:
            break
    return sorted(values, key=lambda sentence: -values[sentence])[: MOST * 2]


def _clauses(facts: ChangeFacts, *, gone: bool) -> list[str]:
    verbs = _verbs(facts, gone=gone)
    return [f"{words} {verb[plural]}" for words, plural in _subjects(facts, gone=gone) for verb in verbs]


def _verbs(facts: ChangeFacts, *, gone: bool) -> tuple[tuple[str, str], ...]:
    """Return verbs that fit all that came or is gone, each in the singular and in the plural."""
    if gone:
        return _REMOVED_VERBS if all(name in _CLEARED for name in facts.gone) else _GONE_VERBS
    return _BUILT_VERBS if all(name in BUILT for name in facts.came) else _GROWN_VERBS


def _subjects(facts: ChangeFacts, *, gone: bool) -> list[tuple[str, bool]]:
    """Return noun phrases that name all that came or is gone, and whether they take a plural verb."""
    names = _ordered(facts.gone if gone else facts.came)
    if not names:
        return []
    count = _count(facts, gone=gone)
    subjects: list[tuple[str, bool]] = []
    for options in product(*(_options(facts, name, count, gone=gone) for name in names)):
        for order in (options, options[::-1]) if len(options) > 1 else (options,):
            subjects.append((listed(order), len(order) > 1 or _plural(order[0])))
        if names == ["building", "road"] and not gone:
            subjects.append((f"a road with {options[0]}", False))
    return subjects


def _ordered(names: Iterable[str]) -> list[str]:
    """Return classes with buildings, which are counted, first: readers of lists look there for a number."""
    return sorted(names, key=lambda name: name != "building")


def _count(facts: ChangeFacts, *, gone: bool) -> int | None:
    """Return the number of buildings that came or are gone; where both are, those that came are counted."""
    return None if gone and "building" in facts.came else facts.count


def _options(facts: ChangeFacts, name: str, count: int | None, *, gone: bool) -> tuple[str, ...]:
    if name == "building":
        if count is None:
            return ("buildings",) if facts.large else ("buildings", "houses")
        kind = number_class(count)
        nouns = ["building", "large building"] if facts.large else ["house", "building"]
        if kind != "one":
            nouns = [f"{noun}s" for noun in (nouns if facts.large else [*nouns, "villa"])]
        return tuple(f"{word} {noun}" for noun in nouns for word in _PICTURE_NUMBERS[kind])
    if name == "trees":
        return ("trees", "the trees", "some trees") if gone else ("trees", "some trees")
    if name in _MASSES:
        return (name,)
    return (f"a {_NOUNS.get(name, name)}", f"{_NOUNS.get(name, name)}s")


def _taken(facts: ChangeFacts, name: str) -> str:
    count = _count(facts, gone=True)
    if name == "building" and count is not None:
        one = "the building" if facts.large else "the house"
        return one if count == 1 else _options(facts, name, count, gone=True)[0]
    return "the buildings" if name == "building" else f"the {_NOUNS.get(name, name)}"


def _ways(facts: ChangeFacts, names: Iterable[str], words: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the ways to say the first of some names that stands there; an empty one without any."""
    return next((list(words[name]) for name in _standing(facts, names, words)), [""])


def _standing(facts: ChangeFacts, names: Iterable[str], known: Container[str]) -> list[str]:
    """Return those of some names that are known and did not change themselves."""
    return [name for name in names if name in known and name not in facts.came and name not in facts.gone]


def _places(facts: ChangeFacts) -> list[str]:
    vertical = next((word for word in facts.place if word in ("top", "bottom")), "")
    horizontal = next((word for word in facts.place if word in ("left", "right")), "")
    if vertical and horizontal:
        other = {"top": "upper", "bottom": "lower"}[vertical]
        ways = [
            f"in the {vertical} {horizontal} corner",
            f"at the {vertical} {horizontal} corner",
            f"in the {other} {horizontal} corner of the scene",
            f"in the {vertical} {horizontal} of the scene",
            f"on the {vertical} {horizontal}",
        ]
    elif vertical:
        ways = [f"at the {vertical} of the scene", f"at the {vertical}", f"in the {vertical} of the scene"]
    elif horizontal:
        ways = [
            f"on the {horizontal} of the scene",
            f"on the {horizontal}",
            f"on the {horizontal} side of the scene",
        ]
    elif "middle" in facts.place:
        ways = ["in the middle of the scene", "in the center", "in the middle"]
    else:
        ways = []
    return ["", *ways]


def _map_sentences(facts: ChangeFacts) -> Iterator[str]:
    covers = _standing(facts, facts.before, _MAP_COVERS)
    beside = _map_beside(facts)
    on = " ".join(_MAP_COVERS[name] for name in covers)
    place = _map_place(facts)
    around = [beside, on, place]
    if facts.came and not facts.gone:
        were = "were" if covers[:1] == ["trees"] else "was"
        on = f"where there {were} {listed([map_name(name) for name in covers])}" if covers else ""
        around = [beside, place, on]
    elif on and facts.came and any(name in _MAP_COVERS for name in facts.gone):
        on = f"partly {on}"  # the rest of it was what is gone
        around = [beside, on, place]
    details: list[list[str]] = [around, [beside, on], [place], []] * 2
    for words, some in zip(cycle(_map_changes(facts)), details, strict=False):
        yield _joined([words, *some])


def _stood_there(facts: ChangeFacts) -> bool:
    """Return whether what is gone stood where something came, and not only around it."""
    return all(name in BUILT or name in facts.before for name in facts.gone)


def _map_changes(facts: ChangeFacts) -> list[str]:
    """Return what came and is gone, in several ways."""
    came, old = _map_subject(facts, gone=False), _map_subject(facts, gone=True)
    if not (facts.came and facts.gone):
        words, plural = old if facts.gone else came
        return [f"{words} {verb[plural]}" for verb in _verbs(facts, gone=bool(facts.gone))]
    appear = f"{came[0]} {_verbs(facts, gone=False)[0][came[1]]}"
    disappear = f"{old[0]} {_verbs(facts, gone=True)[0][old[1]]}"
    if not _stood_there(facts):
        return [f"{disappear} and {appear}"]
    instead = f"{appear} in place of {listed(_map_things(facts, gone=True))}"
    turns = [
        f"{disappear} and {appear}",
        f"{old[0]} {'are' if old[1] else 'is'} replaced by {came[0]}",
        f"{came[0]} {'replace' if came[1] else 'replaces'} {old[0]}",
    ]
    built = any(name in BUILT for name in facts.came)
    return [instead, *turns] if built else [*turns, instead]


def _map_subject(facts: ChangeFacts, *, gone: bool) -> tuple[str, bool]:
    things = _map_things(facts, gone=gone)
    return listed(things), len(things) > 1 or any(map(_plural, things))


def _map_things(facts: ChangeFacts, *, gone: bool) -> list[str]:
    """Return noun phrases of all that came or is gone; what is so perhaps comes last."""
    things = [_map_thing(facts, name, gone) for name in _ordered(facts.gone if gone else facts.came)]
    return sorted(things, key=lambda thing: thing.startswith("perhaps "))


def _map_thing(facts: ChangeFacts, name: str, gone: bool) -> str:
    again = "former " if gone and name in facts.came else ""
    if name == "building":
        noun = "building" if facts.large or again else "house"
        count = _count(facts, gone=gone)
        if count is None:
            return f"a {again}{noun}" if again and facts.count == 1 else f"{again}{noun}s"
        if count > 1:
            return f"{number_words(count, facts.sure)} {noun}s"
        return f"perhaps a {noun}" if facts.sure == 0 else f"a {noun}"
    if name in _MASSES:
        return again + map_name(name)
    names = facts.gone if gone else facts.came
    if name == "road" and not again and several_roads(names, _count(facts, gone=gone)):
        return "some roads"  # "about 30 houses and roads" might be 30 of both
    return f"a {again}{_NOUNS.get(name, name)}"


def _map_beside(facts: ChangeFacts) -> str:
    """Return what stands beside a change, always in one order: near buildings, or else near trees."""
    names = _standing(facts, _MAP_BESIDE, facts.beside)
    return _joined([_MAP_BESIDE[name] for name in names if name != "trees" or "building" not in names])


def _map_place(facts: ChangeFacts) -> str:
    return f"in the {'-'.join(facts.place)}" if facts.place else ""


def _plural(phrase: str) -> bool:
    return phrase.endswith("s") and not phrase.endswith("grass")


def listed(phrases: Sequence[str]) -> str:
    """Return phrases as one: "a house, a road and trees"."""
    return " and ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases)


def _joined(words: Sequence[str]) -> str:
    return " ".join(word for word in words if word)


def _distinct(sentences: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(sentences))[:MOST]
