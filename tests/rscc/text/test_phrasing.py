"""Phrasing: people's words for changes that measure alike are expected of a change that does."""

import math

import numpy as np
import pytest

from rscc.text.phrasing import FEWEST, LONGEST, RIDGE, STAYS, adapt_phrasing, fit_phrasing, ngrams

VILLAS, CABINS = "many villas are built", "two cabins show up"
EACH = 20


@pytest.fixture(scope="module")
def phrasing():
    """Learnt from changes of which the first measurement decides what all say; the second is noise."""
    kinds = np.repeat([1.0, -1.0], EACH)
    noise = np.tile([0.5, -0.5], EACH)
    said = [(VILLAS, VILLAS)] * EACH + [(CABINS,)] * EACH
    return fit_phrasing(np.stack([kinds, noise], 1), said)


def test_ngrams_are_counted_by_length() -> None:
    counts = ngrams("a road and a road")
    assert [sum(one.values()) for one in counts] == [5, 4, 3, 2] and len(counts) == LONGEST
    assert counts[0]["a"] == counts[1]["a road"] == 2 and counts[3]["a road and a"] == 1
    assert [sum(one.values()) for one in ngrams("trees")] == [1, 0, 0, 0]


def test_what_alike_changes_were_called_scores_higher(phrasing) -> None:
    """By hand: ridge regression moves the mean, a half, by N / (N + RIDGE) of the way to 1 or 0."""
    way = 2 * EACH / (2 * EACH + RIDGE)
    alike, other = (LONGEST * (0.5 + sign * way / 2) for sign in (1, -1))
    for kind, expected in ((1.0, [alike, other]), (-1.0, [other, alike])):
        found = phrasing.scores([VILLAS, CABINS], phrasing.expected(np.array([kind, 0.0])))
        assert found == pytest.approx(expected, rel=2e-3)


def test_the_shapes(phrasing) -> None:
    grams = {gram for sentence in (VILLAS, CABINS) for counts in ngrams(sentence) for gram in counts}
    assert set(phrasing.rarity) == grams
    assert phrasing.weights.shape == (3, len(grams))
    assert phrasing.mean.shape == phrasing.scale.shape == (2,)
    assert phrasing.expected(np.zeros(2)).shape == (len(grams),)


def test_rarity_counts_changes_not_sentences(phrasing) -> None:
    assert phrasing.rarity["villas"] == pytest.approx(math.log(2), abs=1e-4)
    assert phrasing.unseen == pytest.approx(math.log(2 * EACH))


def test_words_that_nobody_said_add_nothing_and_weigh_down(phrasing) -> None:
    expected = phrasing.expected(np.array([1.0, 0.0]))
    plain, unknown, mixed = phrasing.scores([VILLAS, "a unicorn", f"{VILLAS} unicorn"], expected)
    assert unknown == 0 and 0 < mixed < plain
    assert phrasing.scores([], expected) == []


def test_rare_words_and_words_that_are_not_spoken_are_not_learnt() -> None:
    said = [(VILLAS,)] * 10 + [("a barn",)] * (FEWEST - 1) + [("a shed",)] * FEWEST
    measured = np.zeros((len(said), 1))
    assert {"villas", "shed"} <= set(fit_phrasing(measured, said).rarity)
    assert "barn" not in fit_phrasing(measured, said).rarity
    assert set(fit_phrasing(measured, said, words=["a", "shed", "barn"]).rarity) == {"a", "shed", "a shed"}


def test_a_measurement_that_never_varies_does_no_harm() -> None:
    phrasing = fit_phrasing(np.ones((12, 2)), [(VILLAS,), (CABINS,)] * 6)
    scores = phrasing.scores([VILLAS, CABINS], phrasing.expected(np.ones(2)))
    assert scores == pytest.approx([LONGEST / 2] * 2, rel=2e-3)


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
