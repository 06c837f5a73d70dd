"""Sentences about pairs of pictures in the style of benchmark captions: present tense, lower case.

Every sentence states all that came and all that is gone, their number in rough words, and nothing else than
the facts hold. Several sentences state the same facts; a preference decides which comes first, such as the
n-grams that people used for changes with similar measurements (:mod:`rscc.text.phrasing`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, product

from rscc.text.change_facts import BUILT, SOMETHING, BuildingSize, ChangeFacts
from rscc.text.statements import number_class
from rscc.text.wording import (
    CLEARED,
    MASSES,
    MOST,
    NOUNS,
    building_count,
    buildings_first,
    distinct,
    is_plural,
    joined,
    listed,
    standing,
)

Preference = Callable[[Sequence[str]], Sequence[float]]
"""Scores sentences; higher is better."""

_NUMBERS = {"one": ("a",), "two": ("two",), "some": ("some", "several"), "many": ("many",)}
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
# Each verb in the singular and in the plural.
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
_ROUNDS = 3


def picture_sentences(facts: ChangeFacts, prefer: Preference | None = None) -> list[str]:
    """Return sentences about a change in a picture, best first; numbers are a, two, some, many."""
    if facts.direction is None:
        return [SOMETHING.lower()]
    sentences = [sentence for slots in _shapes(facts) for sentence in _best(slots, prefer)]
    if prefer is not None:
        values = prefer(sentences)
        sentences = [sentences[i] for i in sorted(range(len(sentences)), key=lambda i: -values[i])]
    return distinct(sentences)


def grammar_words() -> frozenset[str]:
    """Return all words that sentences about pictures can contain."""
    some: tuple[dict[str, float], ...] = (
        {"building": 1.0, "road": 1.0},
        {"trees": 1.0},
        {"parking lot": 1.0, "grass": 1.0},
        {},
    )
    covers, things = ([{name: 1.0} for name in words] for words in (_COVERS, _BESIDE))
    places = [(), ("middle",), *product(("top", "bottom", ""), ("left", "right", ""))]
    sizes: tuple[BuildingSize, ...] = ("house", "building")
    words: set[str] = set()
    for came, gone, count in product(some, some, (1, 2, 5, 12)):
        for before, beside, place in zip(cycle(covers), cycle(things), places, strict=False):
            for size in sizes:
                where = tuple(filter(None, place))
                facts = ChangeFacts(came, gone, before, beside, count, place=where, size=size)
                words.update(_words_of(facts))
    return frozenset(words)


def _words_of(facts: ChangeFacts) -> Iterator[str]:
    if facts.direction is not None:
        for slots in _shapes(facts):
            for options in slots:
                for option in options:
                    yield from option.split()


def _shapes(facts: ChangeFacts) -> Iterator[list[list[str]]]:
    """Yield the shapes of a sentence, each as slots with the words that may fill them."""
    beside, covers = _first_of(facts, facts.beside, _BESIDE), _first_of(facts, facts.before, _COVERS)
    around = [beside, covers, _places(facts)]
    came, gone = _clauses(facts, gone=False), _clauses(facts, gone=True)
    if not facts.gone:
        yield [came, *around]
        yield [came, _places(facts), beside, covers]
    elif not facts.came:
        yield [gone, *around]
    else:
        yield [gone, ["and"], came, *around]
        if len(facts.gone) == 1:  # after a list, "and" could belong to either clause
            yield [came, *around, ["and"], gone]
        taken = listed([_taken(facts, name) for name in buildings_first(facts.gone)])
        yield [came, *around, [f"to replace {taken}", f"in place of {taken}"]]
        subjects = _subjects(facts, gone=False)
        replacing = [f"{words} {'replace' if plural else 'replaces'} {taken}" for words, plural in subjects]
        yield [replacing, *around]


def _best(slots: list[list[str]], prefer: Preference | None) -> list[str]:
    """Fill one slot after the other with its preferred words; return all sentences tried, best first."""
    chosen = [options[0] for options in slots]
    if prefer is None:
        return [joined(chosen), *(joined([first, *chosen[1:]]) for first in slots[0][1:MOST])]
    values: dict[str, float] = {}
    for _ in range(_ROUNDS):
        before = list(chosen)
        for number, options in enumerate(slots):
            tried = [joined([*chosen[:number], option, *chosen[number + 1 :]]) for option in options]
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
    if gone:
        return _REMOVED_VERBS if all(name in CLEARED for name in facts.gone) else _GONE_VERBS
    return _BUILT_VERBS if all(name in BUILT for name in facts.came) else _GROWN_VERBS


def _subjects(facts: ChangeFacts, *, gone: bool) -> list[tuple[str, bool]]:
    """Return noun phrases for all that came or is gone, and whether each is plural."""
    names = buildings_first(facts.gone if gone else facts.came)
    if not names:
        return []
    subjects: list[tuple[str, bool]] = []
    for options in product(*(_options(facts, name, gone=gone) for name in names)):
        for order in (options, options[::-1]) if len(options) > 1 else (options,):
            subjects.append((listed(order), len(order) > 1 or is_plural(order[0])))
        if names == ["building", "road"] and not gone:
            subjects.append((f"a road with {options[0]}", False))
    return subjects


def _options(facts: ChangeFacts, name: str, *, gone: bool) -> tuple[str, ...]:
    if name == "building":
        return _buildings(facts, building_count(facts, gone=gone))
    if name == "trees":
        return ("trees", "the trees", "some trees") if gone else ("trees", "some trees")
    if name in MASSES:
        return (name,)
    return (f"a {NOUNS.get(name, name)}", f"{NOUNS.get(name, name)}s")


def _buildings(facts: ChangeFacts, count: int | None) -> tuple[str, ...]:
    if count is None:
        return ("buildings",) if facts.large else ("buildings", "houses")
    kind = number_class(count)
    nouns = ["building", "large building"] if facts.large else ["house", "building"]
    if kind != "one":
        nouns = [f"{noun}s" for noun in (nouns if facts.large else [*nouns, "villa"])]
    return tuple(f"{word} {noun}" for noun in nouns for word in _NUMBERS[kind])


def _taken(facts: ChangeFacts, name: str) -> str:
    count = building_count(facts, gone=True)
    if name == "building" and count is not None:
        one = "the building" if facts.large else "the house"
        return one if count == 1 else _buildings(facts, count)[0]
    return "the buildings" if name == "building" else f"the {NOUNS.get(name, name)}"


def _first_of(facts: ChangeFacts, names: Iterable[str], words: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the phrases for the first of ``names`` that stands there; one empty phrase without any."""
    return next((list(words[name]) for name in standing(facts, names, words)), [""])


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
