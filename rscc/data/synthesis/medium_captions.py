"""Sentences about changes at 10 to 30 m, made of what is measured: kind, amount and place of the change.

A sentence names a class of ground only where the pixels show it; see :mod:`rscc.data.synthesis.medium` for
how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from rscc.text.no_change import NO_CHANGE_SENTENCES

CAPTIONS = 5
# Parts of a tile's area: below the first an area is small, from the second on it is large.
SMALL, LARGE = 0.006, 0.04
# Four patches or more, none of which holds more than half of the change.
SEVERAL, DOMINANT = 4, 0.5
# In tile sides: a change whose pixels stray further than this from their middle has no one place.
SPREAD = 0.27

# What happened, and how it is said: {amount} is "a small area" and the like, {be} "is" or "are".
PHRASES: dict[str, tuple[str, ...]] = {
    "built over": (
        "{amount} of vegetation {be} replaced by built ground {place}",
        "built ground takes the place of {amount} of vegetation {place}",
        "{amount} of vegetation {be} built over {place}",
    ),
    "brightened": (
        "{amount} of land {be} changed by construction and {be} bright now {place}",
        "construction turns {amount} of land bright {place}",
        "bright new surfaces cover {amount} of land {place}",
    ),
    "darkened": (
        "{amount} of land {be} changed by construction and {be} dark now {place}",
        "construction turns {amount} of land dark {place}",
        "dark new surfaces cover {amount} of land {place}",
    ),
    "greened": (
        "{amount} of built ground {be} replaced by vegetation {place}",
        "vegetation takes the place of {amount} of built ground {place}",
        "{amount} of built ground {be} green now {place}",
    ),
    "rebuilt": (
        "{amount} of land {be} changed by construction {place}",
        "construction changes {amount} of land {place}",
        "{amount} of land {be} rebuilt {place}",
    ),
    "cleared": (
        "{amount} of vegetation {be} cleared {place}",
        "bare ground takes the place of {amount} of vegetation {place}",
        "{amount} of vegetation {be} replaced by bare ground {place}",
    ),
    "overgrown": (
        "{amount} of bare ground {be} covered by vegetation {place}",
        "vegetation grows over {amount} of bare ground {place}",
        "{amount} of bare ground {be} replaced by vegetation {place}",
    ),
    "flooded": (
        "{amount} of land {be} covered by water {place}",
        "water takes the place of {amount} of land {place}",
        "the water spreads over {amount} of land {place}",
    ),
    "dried": (
        "{amount} of water {be} replaced by land {place}",
        "land takes the place of {amount} of water {place}",
        "the water retreats from {amount} of land {place}",
    ),
}
# What a pair shown backwards shows.
REVERSED = {
    "built over": "greened", "greened": "built over", "brightened": "darkened", "darkened": "brightened",
    "rebuilt": "rebuilt", "cleared": "overgrown", "overgrown": "cleared", "flooded": "dried",
    "dried": "flooded",
}  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """One kind of change in a tile.

    Attributes:
        kind: a key of :data:`PHRASES`.
        mask: (H, W) bool, where it happened; not empty.
    """

    kind: str
    mask: np.ndarray


def captions_of(facts: Sequence[Fact], rng: np.random.Generator) -> tuple[str, ...]:
    """Return five captions; the largest change is in every one, the second in some.

    Without facts they say that nothing changed.
    """
    if not facts:
        return tuple(str(text) for text in rng.choice(NO_CHANGE_SENTENCES, CAPTIONS, replace=False))
    ordered = sorted(facts, key=lambda fact: -fact.mask.sum())
    captions = []
    for number in range(CAPTIONS):
        clauses = [_sentence(ordered[0], number + int(rng.integers(2)))]
        if len(ordered) > 1 and number % 2:
            clauses.append(_sentence(ordered[1], int(rng.integers(9))))
        captions.append(" and ".join(clauses))
    return tuple(captions)


def _sentence(fact: Fact, number: int) -> str:
    phrases = PHRASES[fact.kind]
    amount, be = amount_words(fact.mask)
    return phrases[number % len(phrases)].format(amount=amount, be=be, place=place_words(fact.mask))


def amount_words(mask: np.ndarray) -> tuple[str, str]:
    """Say how much of a tile is changed, and whether that "is" or "are"."""
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    if count >= SEVERAL and np.bincount(labels[mask])[1:].max() < DOMINANT * mask.sum():
        return ("several small areas" if mask.mean() < LARGE else "many areas"), "are"
    share = mask.mean()
    size = "small " if share < SMALL else "large " if share >= LARGE else ""
    return f"a {size}area" if size else "an area", "is"


def place_words(mask: np.ndarray) -> str:
    """Say where in the tile a change lies, in thirds; "across the scene" when it has no one place."""
    height, width = mask.shape
    rows, cols = np.nonzero(mask)
    if np.hypot(rows.std() / height, cols.std() / width) > SPREAD:
        return "across the scene"
    row = ("top", "", "bottom")[min(2, int(3 * rows.mean() / height))]
    col = ("left", "", "right")[min(2, int(3 * cols.mean() / width))]
    if row and col:
        return f"in the {row} {col}"
    if row:
        return f"at the {row}"
    return f"on the {col}" if col else "in the middle"
