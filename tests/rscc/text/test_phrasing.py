"""Phrasing: people's words for changes that measure alike are expected of a change that does."""

import numpy as np
import pytest

from rscc.text.phrasing import LONGEST, STAYS, adapt_phrasing, fit_phrasing

VILLAS, CABINS = "many villas are built", "two cabins show up"
EACH = 20


@pytest.fixture(scope="module")
def phrasing():
    """Learnt from changes of which the first measurement decides what all say; the second is noise."""
    kinds = np.repeat([1.0, -1.0], EACH)
    noise = np.tile([0.5, -0.5], EACH)
    said = [(VILLAS, VILLAS)] * EACH + [(CABINS,)] * EACH
    return fit_phrasing(np.stack([kinds, noise], 1), said)


def test_a_phrasing_learns_on_as_far_as_there_are_changes_to_learn_from(phrasing) -> None:
    """By hand: N changes with measurements x move what is expected of them by N |x|^2 / (N |x|^2 + STAYS).

    Here x is 1, 0 and the constant 1.
    """
    kind = np.array([1.0, 0.0])

    def villas_over_cabins(one) -> float:
        villas, cabins = one.scores([VILLAS, CABINS], one.expected(kind))
        return villas - cabins

    before = villas_over_cabins(phrasing)
    for count in (4, 400):
        learnt = adapt_phrasing(phrasing, np.tile(kind, (count, 1)), [(CABINS,)] * count)
        way = 2 * count / (2 * count + STAYS)
        assert villas_over_cabins(learnt) == pytest.approx(before + way * (-LONGEST - before), abs=0.02)
        assert learnt.rarity == phrasing.rarity and learnt.unseen == phrasing.unseen
