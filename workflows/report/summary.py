"""Summarise a scene or a whole archive in two or three sentences; every number is a sum over the changes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rscc.facts.unfamiliar import UNFAMILIAR
from rscc.text.change_facts import BUILT, DIRECTIONS, SOMETHING
from rscc.text.map_sentences import sentence_case
from rscc.text.wording import CLEARED, buildings_first, listed
from workflows.printable import counted, printable
from workflows.report.change import SEEN, Change
from workflows.report.looked_at import LookedAt, area_in_words
from workflows.report.record import Run, text_in, value_in
from workflows.report.summary_phrases import BUILDING, phrase_of, plural_of

UNNAMED = "unnamed"
"""The direction, in totals, of changes of which it is not known what came or is gone."""
_ORDER = (*DIRECTIONS, UNNAMED)
# A part of the scene is named where it holds at least this share of the changed area.
_MOST = 2 / 3


@dataclass(frozen=True)
class Total:
    """The number of some changes, and their area in square metres."""

    changes: int
    area_m2: float

    @classmethod
    def of(cls, changes: Sequence[Change]) -> Self:
        """Add up some changes."""
        return cls(len(changes), sum(change.area_m2 for change in changes))

    def __add__(self, other: Self) -> Self:
        return type(self)(self.changes + other.changes, self.area_m2 + other.area_m2)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, the area with 2 decimals."""
        return {"changes": self.changes, "area_m2": round(self.area_m2, 2)}


Totals = Mapping[str, Total]


@dataclass(frozen=True)
class SceneSummary:
    """The sums of a report, or of an archive.

    Attributes:
        text: two or three sentences.
        total: of all changes.
        directions: ``appeared``, ``disappeared``, ``replaced`` and :data:`UNNAMED`, those that occur.
        came, gone: by object class, the most frequent first; a change with several counts for each of them.
    """

    text: str
    total: Total
    directions: Totals
    came: Totals
    gone: Totals

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        groups = {"directions": self.directions, "came": self.came, "gone": self.gone}
        plain = {name: {key: one.as_dict() for key, one in totals.items()} for name, totals in groups.items()}
        return {"text": self.text, **self.total.as_dict(), **plain}


def summary_of(changes: Sequence[Change], run: Run | None = None) -> SceneSummary:
    """Summarise the changes of a report.

    Args:
        run: the record, by which the summary says on what ground changes were looked for, and what to expect.
    """
    ground = None if run is None else LookedAt.of(run)
    directions: dict[str, list[Change]] = {name: [] for name in _ORDER}
    for change in changes:
        directions[change.direction if change.direction in DIRECTIONS else UNNAMED].append(change)
    came, gone = (
        {name: Total.of(having) for name, having in _by_class(changes, attribute).items()}
        for attribute in ("came", "gone")
    )
    totals = {name: Total.of(having) for name, having in directions.items() if having}
    given = None if run is None else text_in(run, "given", "file")
    found = _scene_sentences(changes, ground) if given is None else _given_sentences(changes, given)
    sentences = [*found, *cautions(changes, run or {})]
    return SceneSummary(" ".join(sentences), Total.of(changes), totals, came, gone)


def archive_summary(scenes: Iterable[SceneSummary], *, failed: int = 0, left: int = 0) -> SceneSummary:
    """Summarise the reports of an archive.

    Args:
        scenes: of each pair that is done; iterated once, none is kept.
        failed, left: numbers of pairs that failed, and that are still to be done.
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
    sentences = [_archive_found(total, done, changed)]
    sentences += _includes(came, "new ") + _includes(gone, "lost ")
    if len(sentences) > 1 and UNNAMED in directions:
        sentences.append(_not_stated(directions[UNNAMED].changes))
    sentences += _unfinished(done, failed, left)
    return SceneSummary(" ".join(sentences), total, directions, came, gone)


def _archive_found(total: Total, done: int, changed: int) -> str:
    if not done:
        return "No pair is done yet."
    if not total.changes:
        return f"No change was found in {counted(done, 'pair')}."
    found = f"{_changes_were(total.changes)} found in {changed:,} of {counted(done, 'pair')}"
    return f"{found}, {area_in_words(total.area_m2)} in all."


def _includes(totals: Totals, kind: str) -> list[str]:
    """Say how many changes include each class."""
    if not totals:
        return []
    (name, first), *others = totals.items()
    verb = "includes" if first.changes == 1 else "include"
    things = [f"{counted(first.changes, 'change')} {verb} {kind}{plural_of(name)}"]
    things += [f"{one.changes:,} {kind}{plural_of(name)}" for name, one in others]
    return [f"{listed(things)}."]


def _unfinished(done: int, failed: int, left: int) -> list[str]:
    total = counted(done + failed + left, "pair")
    to_do = f"{'is' if left == 1 else 'are'} not done yet"
    clauses = [f"{count:,} {words}" for count, words in ((failed, "failed"), (left, to_do)) if count]
    return [f"Of {total} in the archive, {listed(clauses)}."] if clauses else []


def _by_class(changes: Sequence[Change], attribute: str) -> dict[str, list[Change]]:
    """Return the changes of each class of ``came`` or ``gone``, the most frequent class first."""
    counts = Counter(name for change in changes for name in set(getattr(change, attribute)))
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return {name: [one for one in changes if name in getattr(one, attribute)] for name in names}


def _scene_sentences(changes: Sequence[Change], ground: LookedAt | None) -> list[str]:
    if ground is None:
        return _change_sentences(changes) if changes else ["No change was found."]
    if not changes:
        unjudged = f"; {ground.unjudged}" if ground.unjudged else ""
        return [f"No change was found in {ground.judged}{unjudged}."]
    rest = [f"Of {area_in_words(ground.total_m2)}, {ground.unjudged}."] if ground.unjudged else []
    return [*_change_sentences(changes), *rest]


def _given_sentences(changes: Sequence[Change], file: str) -> list[str]:
    """Say of given outlines how many are seen as changed, and what came and is gone in them."""
    if not changes:
        return [f"{printable(file)} has no outlines on this ground."]
    judged = [change for change in changes if change.not_judged is None]
    seen = sum((change.supported or 0.0) >= SEEN for change in judged)
    size = area_in_words(Total.of(changes).area_m2)
    sentences = [f"{counted(len(changes), 'outline')} of {printable(file)}, {size} in all."]
    if judged:
        sentences.append(f"In {seen:,} of {len(judged):,} the model sees most of the ground as changed.")
    if len(judged) < len(changes):
        sentences.append(f"{counted(len(changes) - len(judged), 'outline')} could not be judged.")
    named = [change for change in judged if change.came or change.gone]
    sentences += _class_sentences(named) if named else []
    if named and len(named) < len(judged):
        sentences.append(_not_stated(len(judged) - len(named), "outline"))
    return sentences


def _change_sentences(changes: Sequence[Change]) -> list[str]:
    size = f"{area_in_words(Total.of(changes).area_m2)}{' in all' if len(changes) > 1 else ''}"
    sentences = [f"{_changes_were(len(changes))} found, {size}{_where(changes)}."]
    named = [change for change in changes if change.came or change.gone]
    if not named:
        # A decoder's own sentences name no classes, but say what changed.
        unknown = all(change.caption == SOMETHING for change in changes)
        return [*sentences, *(["What changed is not known."] if unknown else [])]
    sentences += _class_sentences(named)
    if len(named) < len(changes):
        sentences.append(_not_stated(len(changes) - len(named)))
    elif not any(change.gone or "trees" in change.before_cover for change in changes):
        sentences.append("No removal was found.")
    return sentences


def _class_sentences(changes: Sequence[Change]) -> list[str]:
    """Say what was built, what else appeared, and what is gone."""
    came, gone = _by_class(changes, "came"), _by_class(changes, "gone")
    destroyed = [BUILDING] if any(one.may_be_destroyed for one in gone.get(BUILDING, ())) else []
    others = [name for name in gone if name not in destroyed]
    removed = all(name in CLEARED for name in others)
    groups = (
        ("came", [name for name in came if name in BUILT], ("was built", "were built")),
        ("came", [name for name in came if name not in BUILT], ("appeared", "appeared")),
        ("gone", destroyed, ("is gone or was destroyed", "are gone or were destroyed")),
        ("gone", others, ("was removed", "were removed") if removed else ("disappeared", "disappeared")),
    )
    sentences = []
    for attribute, names, verbs in groups:
        having = came if attribute == "came" else gone
        phrases = [
            phrase_of(name, having[name], attribute, only=len(names) == 1) for name in buildings_first(names)
        ]
        phrases.sort(key=lambda phrase: phrase.words.startswith("perhaps "))
        if phrases:
            plural = len(phrases) > 1 or phrases[0].plural
            words = listed([phrase.words for phrase in phrases])
            sentences.append(f"{sentence_case(words)} {verbs[plural]}.")
    return sentences


def _not_stated(changes: int, noun: str = "change") -> str:
    # Not "not known": the words of a person or of a decoder may say it.
    return f"What was added or removed is not stated for {counted(changes, noun)}."


def _where(changes: Sequence[Change]) -> str:
    """Say in which part of the scene most of the changed area lies; nothing where it lies in several."""
    total = Total.of(changes).area_m2
    areas: dict[str, float] = defaultdict(float)
    for change in changes:
        for word in _places(change):
            areas[word] += change.area_m2
    holding = [word for word, area in areas.items() if total and area / total >= _MOST]
    if not holding:
        return ""
    # The most exact word: "south-west" before "south".
    word = max(holding, key=lambda one: (len(one.split("-")), areas[one], one))
    all_of_it = all(word in _places(change) for change in changes)
    return f", {'' if all_of_it else 'most of it '}in the {word}"


def _places(change: Change) -> set[str]:
    """Return the words that hold for where a change lies: ``south-west``, ``south`` and ``west``."""
    return {change.place, *change.place.split("-")} if change.place else set()


def _changes_were(count: int) -> str:
    return f"{counted(count, 'change')} {'was' if count == 1 else 'were'}"


_OBJECTS = "Buildings and what belongs to them were searched; pools, fields and damage were not."
_COVER = "Land cover was searched; single buildings, roads and damage were not."


def cautions(changes: Sequence[Change], run: Run) -> list[str]:
    """Return sentences on what to expect of a report; the record may come from anybody."""
    model = printable(text_in(run, "model", "name") or "the model")
    familiarity = run.get("familiarity")
    sentences = []
    if isinstance(familiarity, int | float) and familiarity < UNFAMILIAR:
        sentences.append(
            f"This scene is unlike the ground that {model} learnt from: expect misses and wrong nouns."
        )
    if any(change.may_be_destroyed for change in changes):
        sentences.append(f"Damage is not what {model} knows: it may miss it, or take it for a removal.")
    return [*sentences, *_searched(run)]


def _searched(run: Run) -> list[str]:
    """Say what was searched; nothing of sentences that a decoder wrote, which may name anything."""
    if isinstance(run.get("given"), dict):
        return []  # nothing was searched
    if isinstance(run.get("land_cover"), dict):
        return [_COVER]
    states_facts = value_in(run, "settings", "ground") is True
    return [_OBJECTS] if states_facts and text_in(run, "model", "facts_sha256") else []
