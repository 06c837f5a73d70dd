"""Scores what captions state of changed pairs: direction, number, place and objects.

N-gram scores reward the usual words. Here a caption is read (:mod:`rscc.text.statements`) and held against
what several people state of the same pair, and, for words of place, against the true mask:

* Direction: something built appeared, disappeared, or was replaced, that is both; where a caption speaks of
  nothing built, the same of trees. Trees that are felled for houses are "appeared". Right is a direction that
  at least two references state.
* Number of buildings: ``one``, ``two``, ``some`` (3 to 9), ``many``. Right is the one that most references
  state, at least two of them; where several are stated equally often, each of them.
* Place: right when every word of place holds for the true mask, see :func:`true_places`. Counted are captions
  with such a word.
* Objects: the classes that a caption names against those that at least two references name.
* Other objects: captions that name a class which no reference names, of those that name any.

A caption that states no direction, or no number, is wrong where the references agree on one. Pairs whose
references agree on none are left out. Of a pair with one reference alone, that one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rscc.data.pairs import PairRecord, read_mask, truly_changed
from rscc.evaluation.bootstrap import Resamples, parts_of, percentile_interval
from rscc.evaluation.rows import PEOPLE, SHARES, FactScores, ObjectScores, Share
from rscc.text.facts import BUILT, Direction
from rscc.text.object_classes import OBJECT_CLASSES, NamedObjects, named_objects, unnamed_by_references
from rscc.text.statements import Statement, agreed, read_statement

LEAST_AGREEING = 2
MOST_IN_HALF = 0.6
"""Share of the changed pixels from which a change lies in a half, or a quarter, of the picture."""
BORDER = 0.1
"""How far from the border, as a share of the picture's sides, a change may end that lies at its edge."""

_BUILT = frozenset((*BUILT, "construction site", "pool", "playground", "square", "park", "tank", "wharf"))
_TREES = frozenset({"trees"})
_OPPOSITE = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}
_CLASSES = tuple(OBJECT_CLASSES)
_OTHER_OBJECT = len(SHARES)
_FIRST_CLASS = _OTHER_OBJECT + 1


@dataclass(frozen=True)
class _Told:
    """What one caption states, and the objects that it names; None when they are not read."""

    statement: Statement
    named: NamedObjects | None


class FactScorer:
    """Scores captioners on the changed pairs of a split; references and masks are read once."""

    def __init__(self, records: Sequence[PairRecord], *, objects: bool = True):
        """Read the references and masks.

        Args:
            records: pairs with references; unchanged ones are passed over.
            objects: also score objects, which takes a parser.

        Raises:
            DatasetLayoutInvalid: a mask cannot be read.
            ExtraNotInstalled, WeightsNotFound: ``objects``, and spaCy or its parser is not installed.
        """
        self._objects = objects
        self._changed = [place for place, record in enumerate(records) if truly_changed(record)]
        changed = [records[place] for place in self._changed]
        self._sentences = [record.captions for record in changed]
        self._references = [self._read(sentences) for sentences in self._sentences]
        self._places = [true_places(read_mask(one.mask)) if one.mask is not None else None for one in changed]

    def score(self, name: str, captions: Sequence[str]) -> FactScores:
        """Score one caption a record, in their order.

        Raises:
            DatasetLayoutInvalid: no pair changed.
        """
        said = [captions[place] for place in self._changed]
        told = self._read(said)
        counts = [
            _count(one, others, places, least=min(LEAST_AGREEING, len(others)))
            for one, others, places in zip(told, self._references, self._places, strict=True)
        ]
        return self._scores(name, counts, len(set(said)), alone=True)

    def people(self) -> FactScores:
        """Score each reference against the others of its pair.

        Raises:
            DatasetLayoutInvalid: no pair changed.
        """
        counts = [
            np.sum(
                [_count(one, [*told[:place], *told[place + 1 :]], places) for place, one in enumerate(told)],
                axis=0,
            )
            for told, places in zip(self._references, self._places, strict=True)
        ]
        ranks = range(min(map(len, self._sentences), default=0))
        distinct = [len({sentences[rank] for sentences in self._sentences}) for rank in ranks]
        return self._scores(PEOPLE, counts, float(np.mean(distinct)) if distinct else 0, alone=False)

    def _read(self, captions: Sequence[str]) -> list[_Told]:
        named = named_objects(captions) if self._objects else [None] * len(captions)
        return [_Told(read_statement(caption), one) for caption, one in zip(captions, named, strict=True)]

    def _scores(
        self, name: str, per_pair: Sequence[np.ndarray], distinct: float, *, alone: bool
    ) -> FactScores:
        resamples = Resamples(len(per_pair))
        counts = np.array(per_pair)  # (N, 4 + classes, 3), see _count

        def share(hits: np.ndarray, counted: np.ndarray) -> Share:
            total = int(hits.sum()), int(counted.sum())
            drawn = percentile_interval(resamples.shares(hits, counted))
            return Share.of(*total) if alone else Share(*total, drawn)

        *shares, other = (share(*counts[:, row, :2].T) for row in range(_FIRST_CLASS))
        tallies = counts[:, _FIRST_CLASS:]
        seen = [number for number in range(len(_CLASSES)) if tallies[:, number].any()]
        return FactScores(
            name=name,
            pairs=len(counts),
            shares=dict(zip(SHARES, shares, strict=True)),
            other_objects=other if self._objects else None,
            objects=_object_scores(tallies.sum(axis=1), resamples) if self._objects else None,
            distinct=distinct,
            by_class={_CLASSES[number]: _object_scores(tallies[:, number], resamples) for number in seen},
        )


def _count(
    told: _Told, others: Sequence[_Told], places: frozenset[str] | None, *, least: int = LEAST_AGREEING
) -> np.ndarray:
    """Hold one caption against what at least ``least`` other captions of its pair state.

    Returns:
        (4 + classes, 3) int64: for direction, number and place whether it is right and whether it counts;
        whether it names an object that no other names, and whether it names any; for each class whether it
        is named truly, named falsely, and not named.
    """
    statement, statements = told.statement, [other.statement for other in others]
    counts = np.zeros((_FIRST_CLASS + len(_CLASSES), 3), np.int64)
    if directions := stated_directions(statements, least):
        counts[0, :2] = direction(statement) in directions, 1
    if numbers := stated_numbers(statements, least):
        counts[1, :2] = statement.number in numbers, 1
    if statement.places and places is not None:
        counts[2, :2] = places_hold(statement.places, places), 1
    if told.named is not None and others:
        named_by = [other.named for other in others if other.named is not None]
        counts[_OTHER_OBJECT, :2] = any(unnamed_by_references(told.named, named_by)), any(told.named.words)
        true = agreed([named_classes(one) for one in named_by], least)
        named = named_classes(told.named, true)
        for row, name in enumerate(_CLASSES, start=_FIRST_CLASS):
            counts[row] = name in named & true, name in named - true, name in true - named
    return counts


def _object_scores(tallies: np.ndarray, resamples: Resamples) -> ObjectScores:
    """Score (N, 3) numbers of classes named truly, named falsely and not named."""
    hits, false, misses = tallies.T
    intervals = resamples.intervals(parts_of(hits, false, misses))
    return ObjectScores(int(hits.sum()), int(false.sum()), int(misses.sum()), intervals)


def direction(statement: Statement) -> Direction | None:
    """Return the direction of what is built, else of trees; None when a caption speaks of neither."""
    for things in (_BUILT, _TREES):
        came, gone = bool(things & statement.came), bool(things & statement.gone)
        if came or gone:
            return "replaced" if came and gone else "appeared" if came else "disappeared"
    return None


def stated_directions(statements: Sequence[Statement], least: int = LEAST_AGREEING) -> frozenset[str]:
    """Return the directions that at least ``least`` captions state."""
    found = (direction(statement) for statement in statements)
    return agreed([frozenset({one}) for one in found if one], least)


def stated_numbers(statements: Sequence[Statement], least: int = LEAST_AGREEING) -> frozenset[str]:
    """Return the numbers that most captions state, at least ``least`` of them."""
    counts = Counter(statement.number for statement in statements if statement.number is not None)
    most = max(counts.values(), default=0)
    return frozenset(number for number, count in counts.items() if count == most >= least)


def true_places(mask: np.ndarray) -> frozenset[str] | None:
    """Return the words of place that hold for a mask (H, W) bool; None when nothing is marked.

    ``left``, ``right``, ``top``, ``bottom``: at least :data:`MOST_IN_HALF` of the changed pixels lie in that
    half. ``corner``: as many lie in one quarter. ``middle``: their centre lies between a third and two thirds
    of both sides. ``edge``: one of them lies within :data:`BORDER` of the border.
    """
    if not mask.any():
        return None
    y, x = ((positions + 0.5) / side for positions, side in zip(np.nonzero(mask), mask.shape, strict=True))
    halves = {"top": y < 0.5, "bottom": y >= 0.5, "left": x < 0.5, "right": x >= 0.5}
    true = {name for name, inside in halves.items() if inside.mean() >= MOST_IN_HALF}
    quarters = [halves[row] & halves[column] for row in ("top", "bottom") for column in ("left", "right")]
    if max(quarter.mean() for quarter in quarters) >= MOST_IN_HALF:
        true.add("corner")
    if all(1 / 3 <= along.mean() <= 2 / 3 for along in (y, x)):
        true.add("middle")
    if min(min(along.min(), 1 - along.max()) for along in (y, x)) <= BORDER:
        true.add("edge")
    return frozenset(true)


def places_hold(said: frozenset[str], true: frozenset[str]) -> bool:
    """Return whether every word of place holds; of two opposite ones, when neither holds alone."""
    return all(
        true.isdisjoint({word, opposite}) if (opposite := _OPPOSITE.get(word)) in said else word in true
        for word in said
    )


def named_classes(named: NamedObjects, true: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the classes that a caption names: of a word with several meanings a true one, else the first."""
    return frozenset(
        next((name for name in classes if name in true), classes[0]) for _, classes in named.words
    )
