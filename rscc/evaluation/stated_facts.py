"""Scores the facts that captions state of changed pairs: direction, number, place and objects.

N-gram scores reward frequent words. Here a caption is parsed (:mod:`rscc.text.statements`) and compared with
what several people state of the same pair, and its words of place with the true mask:

* Direction: something built appeared, disappeared, or was replaced (both); captions without anything built
  are compared by trees. Trees that are felled for houses are "appeared". A direction is correct if at least
  two references state it.
* Number of buildings: ``one``, ``two``, ``some`` (3 to 9), ``many``. Correct is the number that most
  references state, at least two of them; of several with equal counts each.
* Place: correct if every word of place holds for the true mask, see :func:`true_places`. Only captions with
  such a word count.
* Objects: the classes that a caption names, compared with those that at least two references name.
* Other objects: captions that name a class which no reference names, of those that name any.

A caption that states no direction, or no number, is wrong if the references agree on one. Pairs whose
references agree on none are left out. If a pair has only one reference, that one decides.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rscc.data.pairs import PairRecord, read_mask, truly_changed
from rscc.evaluation.bootstrap import Resamples, parts_of, percentile_interval
from rscc.evaluation.score_rows import PEOPLE, SHARES, FactScores, ObjectScores, Share
from rscc.text.change_facts import BUILT, Direction
from rscc.text.object_classes import OBJECT_CLASSES, NamedObjects, named_objects, unnamed_by_references
from rscc.text.statements import Statement, agreed, read_statement

LEAST_AGREEING = 2
HALF_SHARE = 0.6
"""Share of the changed pixels from which a change lies in a half, or a quarter, of the image."""
EDGE = 0.1
"""Largest distance from the border, as a share of the image's sides, of a change at its edge."""

_BUILT = frozenset((*BUILT, "construction site", "pool", "playground", "square", "park", "tank", "wharf"))
_TREES = frozenset({"trees"})
_OPPOSITE = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}
_CLASSES = tuple(OBJECT_CLASSES)
# Rows of the counts of a caption: the shares, other objects, then one per class.
_OTHER_OBJECT = len(SHARES)
_FIRST_CLASS = _OTHER_OBJECT + 1


_ParsedCaption = tuple[Statement, NamedObjects | None]
"""What a caption states, and the objects it names; None if they are not read."""


class FactScorer:
    """Scores captioners on the changed pairs of a split; references and masks are read once."""

    def __init__(self, records: Sequence[PairRecord], *, objects: bool = True):
        """Read the references and masks; ``objects`` are scored, too, which needs a parser."""
        self._objects = objects
        self._changed = [i for i, record in enumerate(records) if truly_changed(record)]
        changed = [records[i] for i in self._changed]
        self._sentences = [record.captions for record in changed]
        self._references = [self._parse(sentences) for sentences in self._sentences]
        masks = [record.mask for record in changed]
        self._places = [None if mask is None else true_places(read_mask(mask)) for mask in masks]

    def score(self, name: str, captions: Sequence[str]) -> FactScores:
        """Score one caption per record, in their order."""
        sentences = [captions[i] for i in self._changed]
        counts = [
            _count(caption, others, places, least=min(LEAST_AGREEING, len(others)))
            for caption, others, places in zip(
                self._parse(sentences), self._references, self._places, strict=True
            )
        ]
        return self._scores(name, counts, len(set(sentences)), wilson=True)

    def people(self) -> FactScores:
        """Score each reference against the others of its pair."""
        counts = [
            np.sum(
                [_count(one, [*several[:i], *several[i + 1 :]], places) for i, one in enumerate(several)], 0
            )
            for several, places in zip(self._references, self._places, strict=True)
        ]
        ranks = range(min(map(len, self._sentences), default=0))
        distinct = [len({sentences[rank] for sentences in self._sentences}) for rank in ranks]
        return self._scores(PEOPLE, counts, float(np.mean(distinct)) if distinct else 0, wilson=False)

    def _parse(self, captions: Sequence[str]) -> list[_ParsedCaption]:
        named = named_objects(captions) if self._objects else [None] * len(captions)
        return list(zip(map(read_statement, captions), named, strict=True))

    def _scores(
        self, name: str, per_pair: Sequence[np.ndarray], distinct: float, *, wilson: bool
    ) -> FactScores:
        resamples = Resamples(len(per_pair))
        counts = np.array(per_pair)  # (N, 4 + classes, 3), see _count

        def share(hits: np.ndarray, counted: np.ndarray) -> Share:
            total = int(hits.sum()), int(counted.sum())
            if wilson:
                return Share.of(*total)
            return Share(*total, percentile_interval(resamples.shares(hits, counted)))

        *shares, other = (share(*counts[:, row, :2].T) for row in range(_FIRST_CLASS))
        tallies = counts[:, _FIRST_CLASS:]
        by_class = {
            label: _object_scores(tallies[:, number], resamples)
            for number, label in enumerate(_CLASSES)
            if tallies[:, number].any()
        }
        return FactScores(
            name=name,
            pairs=len(counts),
            shares=dict(zip(SHARES, shares, strict=True)),
            other_objects=other if self._objects else None,
            objects=_object_scores(tallies.sum(axis=1), resamples) if self._objects else None,
            distinct=distinct,
            by_class=by_class,
        )


def _count(
    caption: _ParsedCaption,
    others: Sequence[_ParsedCaption],
    places: frozenset[str] | None,
    *,
    least: int = LEAST_AGREEING,
) -> np.ndarray:
    """Compare one caption with what at least ``least`` other captions of its pair state.

    Returns:
        (4 + classes, 3) int64: for direction, number and place whether it is correct and whether it counts;
        whether it names an object that no other names, and whether it names any; for each class whether it
        is named correctly, named falsely, and not named.
    """
    (statement, objects), statements = caption, [other for other, _ in others]
    counts = np.zeros((_FIRST_CLASS + len(_CLASSES), 3), np.int64)
    if directions := stated_directions(statements, least):
        counts[0, :2] = direction(statement) in directions, 1
    if numbers := stated_numbers(statements, least):
        counts[1, :2] = statement.number in numbers, 1
    if statement.places and places is not None:
        counts[2, :2] = places_hold(statement.places, places), 1
    if objects is not None and others:
        references = [named for _, named in others if named is not None]
        unnamed = unnamed_by_references(objects, references)
        counts[_OTHER_OBJECT, :2] = any(unnamed), any(objects.words)
        true = agreed([named_classes(reference) for reference in references], least)
        named = named_classes(objects, true)
        for row, name in enumerate(_CLASSES, start=_FIRST_CLASS):
            counts[row] = name in named & true, name in named - true, name in true - named
    return counts


def _object_scores(tallies: np.ndarray, resamples: Resamples) -> ObjectScores:
    """Score (N, 3) numbers of classes named correctly, named falsely and not named."""
    hits, false, misses = tallies.T
    intervals = resamples.intervals(parts_of(hits, false, misses))
    return ObjectScores(int(hits.sum()), int(false.sum()), int(misses.sum()), intervals)


def direction(statement: Statement) -> Direction | None:
    """Return the direction of what is built, else of trees; None if a caption mentions neither."""
    for things in (_BUILT, _TREES):
        came, gone = bool(things & statement.came), bool(things & statement.gone)
        if came or gone:
            return "replaced" if came and gone else "appeared" if came else "disappeared"
    return None


def stated_directions(statements: Sequence[Statement], least: int = LEAST_AGREEING) -> frozenset[str]:
    """Return the directions that at least ``least`` captions state."""
    found = map(direction, statements)
    return agreed([frozenset({way}) for way in found if way], least)


def stated_numbers(statements: Sequence[Statement], least: int = LEAST_AGREEING) -> frozenset[str]:
    """Return the numbers that most captions state, at least ``least`` of them."""
    counts = Counter(statement.number for statement in statements if statement.number is not None)
    most = max(counts.values(), default=0)
    return frozenset(number for number, count in counts.items() if count == most >= least)


def true_places(mask: np.ndarray) -> frozenset[str] | None:
    """Return the words of place that hold for a mask (H, W) bool; None if it is empty.

    ``left``, ``right``, ``top``, ``bottom``: at least :data:`HALF_SHARE` of the changed pixels lie in that
    half. ``corner``: as many lie in one quarter. ``middle``: their centre lies between a third and two thirds
    of both sides. ``edge``: one of them lies within :data:`EDGE` of the border.
    """
    if not mask.any():
        return None
    y, x = ((positions + 0.5) / side for positions, side in zip(np.nonzero(mask), mask.shape, strict=True))
    halves = {"top": y < 0.5, "bottom": y >= 0.5, "left": x < 0.5, "right": x >= 0.5}
    true = {name for name, inside in halves.items() if inside.mean() >= HALF_SHARE}
    quarters = [halves[row] & halves[column] for row in ("top", "bottom") for column in ("left", "right")]
    if max(quarter.mean() for quarter in quarters) >= HALF_SHARE:
        true.add("corner")
    if all(1 / 3 <= along.mean() <= 2 / 3 for along in (y, x)):
        true.add("middle")
    if min(min(along.min(), 1 - along.max()) for along in (y, x)) <= EDGE:
        true.add("edge")
    return frozenset(true)


def places_hold(stated: frozenset[str], true: frozenset[str]) -> bool:
    """Return whether every word of place holds; two opposite words hold if neither of them is true alone."""
    return all(
        true.isdisjoint({word, opposite}) if (opposite := _OPPOSITE.get(word)) in stated else word in true
        for word in stated
    )


def named_classes(named: NamedObjects, true: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the classes that a caption names; an ambiguous word takes a true class or else its first."""
    return frozenset(
        next((name for name in classes if name in true), classes[0]) for _, classes in named.words
    )
