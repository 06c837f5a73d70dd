"""Rewards by hand and against pycocoevalcap."""

import math
import random

import pytest
from tiny_models import WORDS

from rscc.text.rewards import CiderD, Reward, sentence_bleu4, unnamed_share, usual_nouns

PAIRS = 30


def corpus(seed: int) -> list[tuple[str, list[str]]]:
    """A caption and 1 to 5 references per pair, which share some of their words."""
    rng = random.Random(seed)
    pairs = []
    for number in range(PAIRS):
        common = [rng.choice(WORDS) for _ in range(12)]

        def sentence(longest: int, own: list[str] = common) -> str:
            count = rng.randrange(1, longest)
            if rng.random() < 0.7:
                start = rng.randrange(len(own))
                return " ".join([*own[start : start + count], rng.choice(WORDS)])
            return " ".join(rng.choice(WORDS) for _ in range(count))

        references = [sentence(14) for _ in range(1 + number % 5)]
        pairs.append(
            (rng.choice([references[0], sentence(14), sentence(30), "unheard words here"]), references)
        )
    return pairs


def whole(documents) -> CiderD:
    return CiderD((references, 1.0) for references in documents)


@pytest.mark.parametrize("seed", range(4))
def test_cider_d_agrees_with_pycocoevalcap(seed) -> None:
    scorers = pytest.importorskip("pycocoevalcap.cider.cider_scorer")
    pairs = corpus(seed)
    slow = scorers.CiderScorer()
    for caption, references in pairs:
        slow += (caption, references)
    _, expected = slow.compute_score()
    fast = whole(references for _, references in pairs)
    found = [fast.score([caption], references)[0] for caption, references in pairs]
    assert found == pytest.approx(list(expected), abs=1e-12)
    assert max(found) > 1


def test_the_only_reference_gets_ten_other_words_nought_repeated_words_nothing_and_length_costs() -> None:
    fast = whole([["a house is built"], ["the road is gone"]])
    *scores, other = fast.score(
        ["a house is built", "a house is built house house", "a house is built " + "x " * 12, "trees grow"],
        ["a house is built"],
    )
    assert scores == sorted(set(scores), reverse=True)
    assert (scores[0], other) == (pytest.approx(10.0), 0.0)
    # One bigram of two, one word of two, equal lengths: by hand, with log 2 for every n-gram but "is".
    (half,) = whole([["house built"], ["road gone"]]).score(["house gone"], ["house built"])
    assert half == pytest.approx(10 * (0.5 + 0 + 0 + 0) / 4)


def test_documents_may_count_in_shares() -> None:
    """A pair in two wordings, half a document each, weighs its words as often as one whole document."""
    one = whole([["house left"], ["road"], ["road tree"]])
    two = CiderD([(["house left"], 0.5), (["house right"], 0.5), (["road"], 1.0), (["road tree"], 1.0)])
    for caption in ("house", "road", "road tree"):
        for truth in ("house road tree", "road", "house tree"):
            assert two.score([caption], [truth]) == pytest.approx(one.score([caption], [truth]))


def test_smoothed_bleu_by_hand() -> None:
    caption, references = "the house is new", ["a house is new", "the road"]
    # 4 of 4 words; 2 + 1 of 3 + 1, 1 + 1 of 2 + 1, 0 + 1 of 1 + 1 longer runs; no brevity penalty.
    assert sentence_bleu4(caption, references) == pytest.approx((1 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert sentence_bleu4("house house", ["a house"]) == pytest.approx((1 / 2 * 1 / 2 * 1 * 1) ** 0.25)
    assert sentence_bleu4("a house", ["a house is new"]) == pytest.approx(math.exp(1 - 4 / 2))
    assert sentence_bleu4("a house", ["a house is new", "a", "a b c"]) == pytest.approx(1.0)
    assert sentence_bleu4("", references) == 0
    assert sentence_bleu4("tree", references) == 0


def test_words_that_are_nouns_in_half_of_their_places() -> None:
    captions = [
        [("the", False), ("house", True), ("turns", False)],
        [("parking", False), ("turns", True)],
        [("parking", False), ("house", True), ("parking", True)],
    ]
    assert usual_nouns(captions) == {"house", "turns"}


def test_objects_that_no_reference_names() -> None:
    nouns = {"house", "houses", "villas", "road", "trees", "top", "lake"}
    references = ["a house is built", "new houses appear by a road"]
    assert unnamed_share("villas are built near the road", references, nouns) == 0
    assert unnamed_share("trees and houses at the top", references, nouns) == 0.5
    assert unnamed_share("many trees vanish", references, nouns) == 1
    assert unnamed_share("trees by the lake, a house and a road", references, nouns) == 0.5
    assert unnamed_share("something appears", references, nouns) == 0


def test_the_reward_is_the_weighted_sum_less_the_penalty() -> None:
    references = ["a house is built here"]
    cider = whole([references, ["the road is gone now"]])
    captions = ["a house is built here", "a tree is built here", ""]
    scores = cider.score(captions, references)
    reward = Reward(cider, {"cider": 2.0, "bleu4": 0.5}, nouns={"house", "tree"}, hallucination=0.25)
    expected = [
        2 * score + 0.5 * sentence_bleu4(caption, references) - 0.25 * wrong
        for score, caption, wrong in zip(scores, captions, (0, 1, 0), strict=True)
    ]
    assert reward(captions, references) == pytest.approx(expected)
    assert expected[0] == pytest.approx(20.5)
    assert Reward(cider, {"cider": 1.0})(captions, references) == scores
    assert Reward(cider, {"bleu4": 1.0})(captions[:1], references) == [1.0]
