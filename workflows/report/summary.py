"""A whole scene, or a whole archive, in two or three sentences; each number is a sum over its changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rscc.text.cover_sentences import cover_area
from rscc.text.facts import BUILT, DIRECTIONS, PLANTS, SOMETHING, is_large
from rscc.text.sentences import ROUNDED_FROM, least_number, listed, number_words, several_roads
from workflows.report.change import Change
from workflows.texts import counted

UNNAMED = "unnamed"
"""The direction, in totals, of changes of which it is not known what came or is gone."""
_ORDER = (*DIRECTIONS, UNNAMED)
BUILDING = "building"
# A part of the scene that has at least this share of the area is named.
MOSTLY = 2 / 3
# Classes whose names are no single things: "trees", not "a trees".
_MASSES = ("trees", "grass", "open ground", "farmland", "water", "burnt ground", *PLANTS)
_HECTARE, _SQUARE_KILOMETRE = 10_000.0, 1_000_000.0


@dataclass(frozen=True)
class Total:
    """How many changes have something in common, and their area in square metres."""

    changes: int
    area_m2: float

    @classmethod
    def of(cls, changes: Sequence[Change]) -> Total:
        """Add up some changes."""
        return cls(len(changes), sum(change.area_m2 for change in changes))

    def __add__(self, other: Total) -> Total:
        """Add up what two have in common."""
        return Total(self.changes + other.changes, self.area_m2 + other.area_m2)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, the area with 2 decimals."""
        return {"changes": self.changes, "area_m2": round(self.area_m2, 2)}


@dataclass(frozen=True)
class SceneSummary:
    """What a report, or an archive, comes to.

    Attributes:
        text: two or three sentences.
        total: of all changes.
        directions: ``appeared``, ``disappeared``, ``replaced`` and :data:`UNNAMED`, those that occur.
        came, gone: by object class; a change with several counts for each of them.
    """

    text: str
    total: Total
    directions: Mapping[str, Total]
    came: Mapping[str, Total]
    gone: Mapping[str, Total]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        groups = {"directions": self.directions, "came": self.came, "gone": self.gone}
        plain = {name: {key: one.as_dict() for key, one in totals.items()} for name, totals in groups.items()}
        return {"text": self.text, **self.total.as_dict(), **plain}


def summary_of(changes: Sequence[Change]) -> SceneSummary:
    """Add up the changes of a report and say what they come to."""
    directions: dict[str, list[Change]] = {name: [] for name in _ORDER}
    for change in changes:
        directions[change.direction if change.direction in DIRECTIONS else UNNAMED].append(change)
    return SceneSummary(
        " ".join(_sentences(changes)),
        Total.of(changes),
        {name: Total.of(having) for name, having in directions.items() if having},
        _by_class(changes, "came"),
        _by_class(changes, "gone"),
    )


def archive_summary(
    scenes: Iterable[SceneSummary], *, failed: int = 0, left: int = 0, unbegun: int = 0
) -> SceneSummary:
    """Add up the reports of an archive and say what they come to.

    Args:
        scenes: of each pair that is done; gone through once, none is kept.
        failed, left: how many pairs failed, and how many are still to be done.
        unbegun: how many shards have not begun; how many pairs they have is not known.
    """
    total, done, changed = Total(0, 0.0), 0, 0
    groups: dict[str, dict[str, Total]] = {"directions": {}, "came": {}, "gone": {}}
    for scene in scenes:
        total, done, changed = total + scene.total, done + 1, changed + bool(scene.total.changes)
        for name, totals in groups.items():
            for key, one in getattr(scene, name).items():
                totals[key] = totals.get(key, Total(0, 0.0)) + one
    directions = {name: groups["directions"][name] for name in _ORDER if name in groups["directions"]}
    came, gone = (
        dict(sorted(groups[name].items(), key=lambda item: (-item[1].changes, item[0])))
        for name in ("came", "gone")
    )
    classes, unnamed = _of_these(came, gone), directions.get(UNNAMED)
    if classes and unnamed:
        classes.append(_not_stated(unnamed.changes))
    sentences = [_found(total, done, changed), *classes, *_rest(done, failed, left)]
    if unbegun:
        verb = "has" if unbegun == 1 else "have"
        sentences.append(f"{counted(unbegun, 'shard')} of the archive {verb} not begun.")
    return SceneSummary(" ".join(sentences), total, directions, came, gone)


def _found(total: Total, done: int, changed: int) -> str:
    pairs = counted(done, "pair")
    if not done:
        return "No pair is done yet."
    if not total.changes:
        return f"No change was found in {pairs}."
    found = f"{counted(total.changes, 'change')} {_were(total.changes)} found"
    return f"{found} in {changed:,} of {pairs}, {area_in_words(total.area_m2)} in all."


def _of_these(came: Mapping[str, Total], gone: Mapping[str, Total]) -> list[str]:
    """Say in how many changes each class came or is gone."""
    clauses = []
    for totals, start, new in ((came, "there", "new "), (gone, "gone", "")):
        if totals:
            things = [f"{new}{_several(name)} in {one.changes:,}" for name, one in totals.items()]
            verb = "are" if _are(next(iter(totals))) else "is"
            clauses.append(f"{start} {verb} {listed(things)}")
    return [f"Of these changes, {'; '.join(clauses)}."] if clauses else []


def _rest(done: int, failed: int, left: int) -> list[str]:
    total = counted(done + failed + left, "pair")
    to_do = f"{'is' if left == 1 else 'are'} not done yet"
    clauses = [f"{count:,} {words}" for count, words in ((failed, "failed"), (left, to_do)) if count]
    return [f"Of {total} in the archive, {listed(clauses)}."] if clauses else []


def _several(name: str) -> str:
    return name if name in _MASSES else f"{name}s"


def _are(name: str) -> bool:
    return name not in _MASSES or name == "trees"


def area_in_words(area: float) -> str:
    """Say how large something is, in the unit that people take for it; ``area`` in square metres."""
    if area >= _SQUARE_KILOMETRE:
        return f"{area / _SQUARE_KILOMETRE:,.1f} km2"
    if area >= _HECTARE:
        return f"{area / _HECTARE:,.1f} ha"
    return f"{area:,.0f} m2"


def _by_class(changes: Sequence[Change], attribute: str) -> dict[str, Total]:
    """Return the totals of each class of ``came`` or ``gone``, the most frequent first."""
    counts = Counter(name for change in changes for name in set(getattr(change, attribute)))
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return {name: Total.of([one for one in changes if name in getattr(one, attribute)]) for name in names}


def _sentences(changes: Sequence[Change]) -> list[str]:
    if not changes:
        return ["No change was found."]
    named = [change for change in changes if change.came or change.gone]
    size = f"{area_in_words(Total.of(changes).area_m2)}{' in all' if len(changes) > 1 else ''}"
    found = f"{counted(len(changes), 'change')} {_were(len(changes))} found, {size}{_where(changes)}"
    if not named:
        # A decoder's own sentences name no classes, but say what changed.
        unknown = all(change.caption == SOMETHING for change in changes)
        return [f"{found}.", *(["What changed is not known."] if unknown else [])]
    sentences = [f"{found}: {'; '.join(_clauses(named))}."]
    if len(named) < len(changes):
        sentences.append(_not_stated(len(changes) - len(named)))
    elif not any(change.gone or "trees" in change.before_cover for change in changes):
        sentences.append("Nothing was found to be removed.")
    return sentences


def _not_stated(changes: int) -> str:
    # Not "not known": a person's words, or a decoder's, may tell.
    return f"What came or is gone in {changes:,} of them is not stated."


def _clauses(changes: Sequence[Change]) -> list[str]:
    """Say what came and what is gone, by what was done to it."""
    clauses = []
    for attribute, is_kind, one, several in (
        ("came", lambda name: name in BUILT, "was built", "were built"),
        ("came", lambda name: name not in BUILT, "appeared", "appeared"),
        ("gone", lambda name: True, "is gone", "are gone"),
    ):
        having = _by_class(changes, attribute)
        # Buildings first: they are counted.
        names = sorted((name for name in having if is_kind(name)), key=lambda name: name != BUILDING)
        things = [_thing(name, changes, attribute, alone=len(names) == 1) for name in names]
        things.sort(key=lambda thing: thing[0].startswith("perhaps "))
        if things:
            done = several if len(things) > 1 or things[0][1] else one
            clauses.append(f"{listed([words for words, _ in things])} {done}")
    return clauses


def _thing(name: str, changes: Sequence[Change], attribute: str, *, alone: bool) -> tuple[str, bool]:
    """Return the words for all of a class that came or is gone, and whether they take a plural verb.

    ``alone``: no other class is named beside it, whose places could be taken for those of this one.
    """
    having = [change for change in changes if name in getattr(change, attribute)]
    several = len(having) > 1
    places = f" in {len(having):,} places" if several else ""
    if name == BUILDING:
        # Where buildings stand in place of others, the number is that of the new ones.
        new = [one for one in having if attribute == "came" or BUILDING not in one.came]
        large = any(is_large(one.area_m2, one.largest_m2, one.median_m2) for one in having)
        noun = "building" if large else "house"
        count = sum(change.count for change in new)
        if len(new) < len(having):
            sure = sum(change.count if change.count_sure is None else change.count_sure for change in new)
            sure += len(having) - len(new)
            number = f"at least {counted(sure, noun)}" if new else f"{noun}s"
            return f"{number}{places}", sure > 1 or not new
        least = sum(least_number(change.count, change.count_sure) for change in new)
        rounded = any(one.count >= ROUNDED_FROM for one in new)
        number = _number(least, count, noun, rounded=rounded)
        # Each alone: the places are as many.
        return f"{number}{places if count > len(having) or not alone else ''}", count > 1
    measured = [
        (change, area) for change in having if (area := _measured(change, name, attribute)) is not None
    ]
    if measured:
        at_least = any(change.changed_at_least for change, _ in measured)
        words, plural = cover_area(sum(area for _, area in measured), at_least=at_least)
        rest = len(having) - len(measured)
        if rest:
            places = f" in {counted(len(measured), 'place')} and more in {counted(rest, 'other')}"
        return f"{words} of {name}{places}", plural or rest > 0
    if name == "road" and (several or _several_roads(having[0], attribute)):
        return "some roads", True  # one may pass several changes: how many there are is not known
    if name in _MASSES or several:
        return f"{_several(name)}{places}", _are(name)
    return f"a {name}", False


def _several_roads(change: Change, attribute: str) -> bool:
    # Else the number is that of the new ones, or the road is a former one.
    own = attribute == "came" or not {BUILDING, "road"} & set(change.came)
    return own and several_roads(getattr(change, attribute), change.count)


def _number(least: int, most: int, noun: str, *, rounded: bool) -> str:
    """Return from how many to how many there are; ``rounded`` where the sentence of one of them rounds."""
    if rounded:
        return f"{number_words(most, least)} {noun}s"
    if least == most:
        return counted(most, noun)
    if most == 1:
        return f"perhaps a {noun}"
    if not least:
        return f"up to {counted(most, noun)}"
    return f"{least:,} {'or' if least == most - 1 else 'to'} {counted(most, noun)}"


def _measured(change: Change, name: str, attribute: str) -> float | None:
    """Return the square metres that are measured of a class that came or is gone; None where they are not."""
    if name != "water" and (name not in PLANTS or "water" in (*change.came, *change.gone)):
        return None
    return change.changed_back_m2 if attribute == "gone" and name in change.came else change.changed_m2


def _where(changes: Sequence[Change]) -> str:
    """Say in which part of the scene the changes lie, where most of their area lies in one."""
    total = Total.of(changes).area_m2
    shares: dict[str, float] = defaultdict(float)
    for change in changes:
        for word in _places(change):
            shares[word] += change.area_m2
    # The most exact word that holds.
    holding = [word for word, area in shares.items() if total and area / total >= MOSTLY]
    if not holding:
        return ""
    word = max(holding, key=lambda one: (len(one.split("-")), shares[one], one))
    all_of_it = all(word in _places(change) for change in changes)
    return f", {'' if all_of_it else 'most of it '}in the {word}"


def _places(change: Change) -> set[str]:
    """Return the words that hold for where a change lies: ``south-west``, ``south`` and ``west``."""
    return {change.place, *change.place.split("-")} if change.place else set()


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
