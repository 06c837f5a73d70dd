"""Noun phrases of a summary, all of one class in numbers, areas and places; labels of changes on a map."""

from collections.abc import Sequence
from typing import NamedTuple

from rscc.text.change_facts import PLANTS, building_size
from rscc.text.map_sentences import cover_area, several_roads
from rscc.text.wording import ROUNDED_FROM, buildings_first, least_number, number_words
from workflows.printable import counted
from workflows.report.change import Change

BUILDING, ROAD = "building", "road"
# Classes whose names take no article.
_MASSES = ("trees", "grass", "open ground", "farmland", "water", "burnt ground", *PLANTS)


class Phrase(NamedTuple):
    """A noun phrase, and whether it takes a plural verb."""

    words: str
    plural: bool


def phrase_of(name: str, changes: Sequence[Change], attribute: str, *, only: bool) -> Phrase:
    """Return the phrase for all of a class.

    Args:
        changes: those that have it in ``attribute``, at least one.
        attribute: ``came`` or ``gone``.
        only: no other class is named beside it, to which its places could seem to belong.
    """
    if name == BUILDING:
        return _buildings(changes, attribute, only=only)
    measured = _measured_cover(name, changes, attribute)
    if measured is not None:
        return measured
    several = len(changes) > 1
    # One road may pass several changes, so that their number is not known.
    if name == ROAD and (several or _several_roads(changes[0], attribute)):
        return Phrase("some roads", True)
    if name in _MASSES or several:
        return Phrase(plural_of(name) + _in_places(len(changes)), name not in _MASSES or name == "trees")
    return Phrase(f"a {name}", False)


def plural_of(name: str) -> str:
    """Return the name of a class for several changes: ``roads``, ``trees``, ``water``."""
    return name if name in _MASSES else f"{name}s"


def _in_places(count: int) -> str:
    return f" in {count:,} places" if count > 1 else ""


def _buildings(changes: Sequence[Change], attribute: str, *, only: bool) -> Phrase:
    # Where buildings replaced others, the count is that of the new ones.
    counted_ones = [one for one in changes if attribute == "came" or BUILDING not in one.came]
    sizes = {building_size(one.area_m2, one.largest_m2, one.median_m2, one.count_sure) for one in changes}
    noun = sizes.pop() if len(sizes) == 1 else "building"
    if len(counted_ones) < len(changes):
        return _replaced_buildings(counted_ones, len(changes), noun)
    most = sum(change.count for change in counted_ones)
    least = sum(least_number(change.count, change.count_sure) for change in counted_ones)
    rounded = any(change.count >= ROUNDED_FROM for change in counted_ones)
    # A single building in each change needs no number of places.
    places = "" if only and most <= len(changes) else _in_places(len(changes))
    return Phrase(_number(least, most, noun, rounded=rounded) + places, most > 1)


def _replaced_buildings(counted_ones: Sequence[Change], places: int, noun: str) -> Phrase:
    """Return the phrase for buildings that are gone, some of which were not counted."""
    if not counted_ones:
        return Phrase(f"{noun}s{_in_places(places)}", True)
    sure = sum(one.count if one.count_sure is None else one.count_sure for one in counted_ones)
    least = sure + places - len(counted_ones)
    return Phrase(f"at least {counted(least, noun)}{_in_places(places)}", least > 1)


def _number(least: int, most: int, noun: str, *, rounded: bool) -> str:
    """Return a number or a range; ``rounded`` where the sentence of one of the changes rounds, too."""
    if rounded:
        return f"{number_words(most, least)} {noun}s"
    if least == most:
        return counted(most, noun)
    if most == 1:
        return f"perhaps a {noun}"
    if not least:
        return f"up to {counted(most, noun)}"
    return f"{least:,} {'or' if least == most - 1 else 'to'} {counted(most, noun)}"


def _measured_cover(name: str, changes: Sequence[Change], attribute: str) -> Phrase | None:
    """Return the phrase with the area of a cover; None where it was not measured."""
    areas = [_area_of(change, name, attribute) for change in changes]
    known = [(change, area) for change, area in zip(changes, areas, strict=True) if area is not None]
    if not known:
        return None
    at_least = any(change.changed_at_least for change, _ in known)
    words, plural = cover_area(sum(area for _, area in known), at_least=at_least)
    rest = len(changes) - len(known)
    places = _in_places(len(changes))
    if rest:
        places = f" in {counted(len(known), 'place')} and more in {counted(rest, 'other')}"
    return Phrase(f"{words} of {name}{places}", plural or rest > 0)


def _area_of(change: Change, name: str, attribute: str) -> float | None:
    if name != "water" and (name not in PLANTS or "water" in (*change.came, *change.gone)):
        return None
    return change.changed_back_m2 if attribute == "gone" and name in change.came else change.changed_m2


def _several_roads(change: Change, attribute: str) -> bool:
    # Otherwise the count is that of the new buildings, or the road is a former one.
    is_counted = attribute == "came" or not {BUILDING, ROAD} & set(change.came)
    return is_counted and several_roads(getattr(change, attribute), change.count)


_MOST = 3
"""Classes that a label names."""


def label_of(change: Change) -> str | None:
    """Return such as ``72 houses, road`` or ``trees gone``; None where no class is known."""
    names = change.came or change.gone
    if not names:
        return None
    words = ", ".join(_words(change, name) for name in buildings_first(list(dict.fromkeys(names)))[:_MOST])
    return words if change.came else f"{words} gone"


def _words(change: Change, name: str) -> str:
    if name != BUILDING:
        # Their objects are not counted.
        return name if change.count == 1 or name in ("road", "parking lot") else plural_of(name)
    noun = building_size(change.area_m2, change.largest_m2, change.median_m2, change.count_sure)
    return counted(change.count, noun)
