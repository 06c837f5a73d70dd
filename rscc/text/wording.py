"""Words that sentences about maps and about pictures share: numbers, lists, nouns of the object classes."""

import math
from collections.abc import Callable, Container, Iterable, Sequence

from rscc.text.change_facts import BUILT, ChangeFacts
from rscc.text.statements import SMALL_NUMBERS

NOUNS = {"water": "pond", "pool": "swimming pool"}
"""Nouns of counted objects that differ from the name of their class."""
MASSES = ("trees", "grass", "bare ground", "farmland")
"""Classes whose names take no article."""
CLEARED = (*BUILT, "pool", "trees", "grass")
"""Classes that can be removed; the others can only disappear."""
MOST = 5
"""Maximum number of sentences about one change: the caption and its alternatives."""

_NUMBERS = ("", *SMALL_NUMBERS)
ROUNDED_FROM = len(_NUMBERS)
"""Smallest count that a sentence about a map rounds ("about 45")..."""
MOSTLY_SURE = 0.85
"""...provided that at least this share of the objects is sure."""


def number_words(count: int, sure: int | None = None) -> str:
    """Return a count in words: exact up to nine, then rounded (``about 45``, ``about 110``).

    Where clearly fewer than ``count`` objects are sure (see :func:`least_number`) the words are a range:
    ``six or seven``, ``two to seven``, ``31 to 44``, ``130 to 170``, or ``up to seven`` if none is sure.
    """
    least = least_number(count, sure)
    if least == count:
        return f"about {_rounded(count, round)}" if count >= ROUNDED_FROM else _NUMBERS[count]
    if count < ROUNDED_FROM:
        first, last = _NUMBERS[least], _NUMBERS[count]
    else:  # exact ends: the range itself expresses the uncertainty
        first, last = _rounded(least, math.floor, step=1), _rounded(count, math.ceil, step=1)
    return f"{first} {'or' if least == count - 1 else 'to'} {last}" if least else f"up to {last}"


def least_number(count: int, sure: int | None) -> int:
    """Return the lower end of the range that a sentence states; ``count`` where it states no range."""
    if sure is None or (count >= ROUNDED_FROM and sure >= MOSTLY_SURE * count):
        return count
    return min(sure, count)


def _rounded(number: int, rounding: Callable[[float], int], step: int = 5) -> str:
    if number >= 100:
        step = 10 ** (len(str(number)) - 2)
    return str(rounding(number / step) * step)


def listed(phrases: Sequence[str]) -> str:
    """Join phrases to one list: "a house, a road and trees"."""
    return " and ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases)


def joined(words: Sequence[str]) -> str:
    """Join the non-empty words by spaces."""
    return " ".join(word for word in words if word)


def distinct(sentences: Iterable[str]) -> list[str]:
    """Return the first :data:`MOST` different sentences, in order."""
    return list(dict.fromkeys(sentences))[:MOST]


def is_plural(phrase: str) -> bool:
    """Return whether a noun phrase takes a plural verb."""
    return phrase.endswith("s") and not phrase.endswith("grass")


def buildings_first(names: Iterable[str]) -> list[str]:
    """Sort classes so that buildings, which carry the number, lead the list."""
    return sorted(names, key=lambda name: name != "building")


def building_count(facts: ChangeFacts, *, gone: bool) -> int | None:
    """Return the number of buildings that came or are gone; if both, only those that came were counted."""
    return None if gone and "building" in facts.came else facts.count


def standing(facts: ChangeFacts, names: Iterable[str], known: Container[str]) -> list[str]:
    """Return those of ``names`` that are in ``known`` and did not change themselves."""
    return [name for name in names if name in known and name not in facts.came and name not in facts.gone]
