"""What follows where ground is unlike the training data: lower scores and a stricter threshold.

Familiarity is 1 on ground like that of the training data, 0 on ground that is not. A score s becomes
``t s + (1 - t) min(s, p)``; p is the share of right sentences among those read on unfamiliar ground, at the
same mean probability of change. The trust t rises from 0 at :data:`UNFAMILIAR` to 1 at :data:`TRUSTED`, so no
score on unfamiliar ground is above :data:`MOST`. Removals count t squared.
"""

import math

UNFAMILIAR = 0.5
"""Familiarity below which ground is called unfamiliar."""
TRUSTED = 0.75
"""Familiarity from which a score counts as on ground like that of the training data."""
OFFSET, SLOPE, GONE = -2.1, 1.5, -2.0
"""p of a building by the logit of its mean probability of change, and what is added where it is gone. Fitted
to 103 sentences of DSIFN, CLCD, CDD, FOTBCD and xBD, read by hand; of 42 removals 8 were right."""
OTHERS = 0.6
"""p of roads, clearings and land cover."""
MOST = 0.78
"""Largest p: no outline is sure there."""
STRICTER = 0.4
"""Share of the way from the threshold to 1 that the mean probability of an outline needs at familiarity 0."""


def is_familiar(familiarity: float | None) -> bool:
    """Return whether ground is like the training data, also where that was not measured."""
    return familiarity is None or familiarity >= UNFAMILIAR


def discounted(
    score: float, familiarity: float | None, change_probability: float, *, of_buildings: bool, is_gone: bool
) -> float:
    """Return the probability, 0..1, that a sentence is right; without a familiarity the score stays.

    Args:
        score: of the sentence on familiar ground.
        familiarity: of its ground.
        change_probability: mean of its outlines.
        of_buildings: whether the change head found it, not a head for roads, clearings or land cover.
        is_gone: whether it says that something disappeared.
    """
    if familiarity is None:
        return score
    elsewhere = OTHERS
    if of_buildings:
        chance = min(max(change_probability, 0.01), 0.995)
        evidence = OFFSET + SLOPE * math.log(chance / (1 - chance)) + GONE * is_gone
        elsewhere = min(MOST, 1 / (1 + math.exp(-evidence)))
    trust = min(1.0, max(0.0, (familiarity - UNFAMILIAR) / (TRUSTED - UNFAMILIAR)))
    if is_gone:  # most removals are false on half familiar ground, too
        trust **= 2
    return trust * score + (1 - trust) * min(score, elsewhere)


def least_mean(threshold: float, familiarity: float | None) -> float:
    """Return the mean probability of change from which an outline counts; 0 where it was not measured."""
    if familiarity is None or is_familiar(familiarity):
        return 0.0
    return threshold + STRICTER * (1 - threshold) * (1 - familiarity / UNFAMILIAR)
