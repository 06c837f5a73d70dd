"""Sentences about changes at 10 to 30 m from measured kind, amount and place of the change.

A sentence names a class of ground only where the pixels show it, see :mod:`rscc.data.synthesis.medium_facts`.
"""

import tomllib
from collections.abc import Mapping
from importlib import resources

import numpy as np
from scipy import ndimage

from rscc.text.no_change import NO_CHANGE_SENTENCES

CAPTIONS = 5
# Shares of a tile: an area below the first is small, from the second on it is large.
SMALL, LARGE = 0.006, 0.04
# Fewest patches of "several", and the largest share of the change that one of them may have.
SEVERAL, DOMINANT = 4, 0.5
# Standard deviation of the pixels, in tile sides, from which a change has no single place.
SPREAD = 0.27

# Kind of change to phrases.
PHRASES: dict[str, list[str]] = tomllib.loads(
    resources.files("rscc").joinpath("data", "synthesis", "medium_phrases.toml").read_text(encoding="utf-8")
)
# Kind of change when the dates are swapped.
REVERSED = {
    "built over": "greened", "greened": "built over", "brightened": "darkened", "darkened": "brightened",
    "rebuilt": "rebuilt", "cleared": "overgrown", "overgrown": "cleared", "flooded": "dried",
    "dried": "flooded",
}  # fmt: skip


def captions_of(facts: Mapping[str, np.ndarray], rng: np.random.Generator) -> tuple[str, ...]:
    """Return five captions; the largest change is in every one, the second in some.

    Args:
        facts: kind, a key of :data:`PHRASES`, to where it happened, (H, W) bool, not empty. Without any the
            captions say that nothing changed.
    """
    if not facts:
        return tuple(str(text) for text in rng.choice(NO_CHANGE_SENTENCES, CAPTIONS, replace=False))
    ordered = sorted(facts.items(), key=lambda fact: -fact[1].sum())
    captions = []
    for number in range(CAPTIONS):
        clauses = [_sentence(*ordered[0], number + int(rng.integers(2)))]
        if len(ordered) > 1 and number % 2:
            clauses.append(_sentence(*ordered[1], int(rng.integers(9))))
        captions.append(" and ".join(clauses))
    return tuple(captions)


def _sentence(kind: str, mask: np.ndarray, number: int) -> str:
    phrases = PHRASES[kind]
    amount, be = amount_words(mask)
    return phrases[number % len(phrases)].format(amount=amount, be=be, place=place_words(mask))


def amount_words(mask: np.ndarray) -> tuple[str, str]:
    """Return in words how much of a tile changed, and "is" or "are"."""
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    if count >= SEVERAL and np.bincount(labels[mask])[1:].max() < DOMINANT * mask.sum():
        return ("several small areas" if mask.mean() < LARGE else "many areas"), "are"
    share = mask.mean()
    size = "small " if share < SMALL else "large " if share >= LARGE else ""
    return f"a {size}area" if size else "an area", "is"


def place_words(mask: np.ndarray) -> str:
    """Return in words where in the tile a change is, in thirds; "across the scene" without a single place."""
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
