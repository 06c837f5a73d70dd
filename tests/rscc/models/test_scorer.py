"""SCORER+CBR against slow, literal transcriptions of the paper's equations, index by index."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from tiny_models import (
    CAPTIONS,
    idle_parameters,
    joint_losses,
    pair_view,
    randomise,
    randoms,
    slow_attention,
    slow_cross_layer,
    slow_info_nce,
    slow_linear,
    tiny_model,
    values,
)

from rscc.models.scorer import BackwardReasoning, Scorer, TokenMatching, token_matching
from rscc.models.shared.losses import masked_mean, matrix_info_nce

WIDTH, HEADS = 8, 2


def slow_token_matching(query: np.ndarray, key: np.ndarray) -> float:
    """Eq. 2 for one image of each kind: mean over tokens of the largest similarity, both ways."""

    def one_way(asking, asked):
        largest = [max(sum(a * b) for b in asked) for a in asking]
        return sum(largest) / len(largest)

    return (one_way(query, key) + one_way(key, query)) / 2


def slow_matching(module: TokenMatching, query: np.ndarray, key: np.ndarray) -> float:
    """Eq. 3: one matching per subspace of the projections; subspaces are consecutive slices."""
    q, k = slow_linear(module.query, query), slow_linear(module.key, key)
    part = q.shape[1] // module.heads
    heads = [slice(h * part, (h + 1) * part) for h in range(module.heads)]
    return sum(slow_token_matching(q[:, head], k[:, head]) for head in heads) / module.heads


def slow_contrast(module: TokenMatching, one: np.ndarray, other: np.ndarray, tau: float) -> float:
    """Eq. 4 and 11."""
    return slow_info_nce(one, other, tau, lambda asking, asked: slow_matching(module, asking, asked))


def slow_pooled(pooling: str, query: np.ndarray, key: np.ndarray) -> float:
    """Figure 3: the dot product of both images' features, averaged or at their largest over the tokens."""
    pool = {"mean": lambda channel: sum(channel) / len(channel), "max": max}[pooling]
    return sum(pool(query[:, i]) * pool(key[:, i]) for i in range(query.shape[1]))


def slow_hallucination(module: BackwardReasoning, before: np.ndarray, sentence: np.ndarray) -> np.ndarray:
    """Eq. 9-10 from the mean of the enhanced words of one caption."""
    joined = np.stack([np.concatenate([place, sentence]) for place in before])
    hallucination = slow_linear(module.fuse, joined)
    return slow_attention(module.attention, hallucination, hallucination)


def scorer(**options) -> Scorer:
    options = {"matching_heads": HEADS, **options}
    return tiny_model("scorer", width=WIDTH, heads=HEADS, options=options, max_words=13)


@pytest.fixture
def matching() -> TokenMatching:
    module = TokenMatching(width=WIDTH, heads=4)
    randomise(module, 3, 0.5)
    return module


def test_token_matching_is_equation_2() -> None:
    one, other = randoms(3, 5, 4), randoms(2, 7, 4, seed=1)
    fast = values(token_matching(one, other))
    assert fast.shape == (3, 2)
    for b in range(3):
        for c in range(2):
            slow = slow_token_matching(values(one[b]), values(other[c]))
            assert fast[b, c] == pytest.approx(slow, rel=1e-5)
    np.testing.assert_allclose(values(token_matching(other, one)), fast.T, rtol=1e-5)


def test_heads_match_in_subspaces_of_their_own_as_in_equation_3(matching) -> None:
    one, other = randoms(3, 5, WIDTH), randoms(2, 6, WIDTH, seed=1)
    fast = values(matching(one, other))
    for b in range(3):
        for c in range(2):
            slow = slow_matching(matching, values(one[b]), values(other[c]))
            assert fast[b, c] == pytest.approx(slow, rel=1e-5)
    whole = TokenMatching(width=WIDTH, heads=1)
    whole.load_state_dict(matching.state_dict())
    assert not np.allclose(values(whole(one, other)) / 4, fast, rtol=0.01), "the maxima differ by head"


@pytest.mark.parametrize("tau", [0.2, 0.5, 2.0])
def test_contrast_is_equation_4(matching, tau) -> None:
    before, after = randoms(4, 5, WIDTH), randoms(4, 5, WIDTH, seed=1)
    fast = float(matching.contrast(before, after, temperature=tau).detach())
    assert fast == pytest.approx(slow_contrast(matching, values(before), values(after), tau), rel=1e-4)


def test_pairs_with_the_same_words_are_left_out_of_both_directions() -> None:
    forth, back = randoms(3, 3), randoms(3, 3, seed=1)
    same = torch.zeros(3, 3, dtype=torch.bool)
    same[0, 2] = True  # 2 is no negative of 0 forth, so 0 none of 2 back
    total = 0.0
    for matrix, out in ((values(forth), (0, 2)), (values(back), (2, 0))):
        for k in range(3):
            powers = [math.exp(matrix[k, r]) if (k, r) != out else 0 for r in range(3)]
            total -= math.log(powers[k] / sum(powers)) / 6
    assert float(matrix_info_nce(forth, back, temperature=1.0, same=same)) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("layers", [1, 3])
def test_encoding_is_equations_5_to_7(layers) -> None:
    model = scorer(layers=layers)
    before, after = randoms(2, 6, WIDTH), randoms(2, 6, WIDTH, seed=1)
    features = model.encode_pair(pair_view(before, after))
    assert len(model.reconstruction) == layers
    for sample in range(2):
        one, other = values(before[sample]), values(after[sample])
        for layer in model.reconstruction:
            one, other = slow_cross_layer(layer, one, other)
        slow = np.maximum(slow_linear(model.join, np.concatenate([one, other], axis=1)), 0)  # Eq. 7
        np.testing.assert_allclose(values(features.tokens[sample]), slow, atol=2e-5)


def test_backward_reasoning_is_equations_9_and_10() -> None:
    module = scorer().reasoning
    before, words = randoms(2, 6, WIDTH), randoms(2, 4, WIDTH, seed=1)
    fast = values(module(before, words.mean(1)))
    for sample in range(2):
        slow = slow_hallucination(module, values(before[sample]), values(words[sample].mean(0)))
        np.testing.assert_allclose(fast[sample], slow, atol=2e-5)


def test_the_joint_loss_takes_views_and_hallucinations() -> None:
    """The terms of Eq. 13 from a whole batch with captions of different lengths."""
    model = scorer(temperature=0.8)
    _, terms, features, decoded = joint_losses(model)
    assert set(terms) == {"caption", "view", "backward"}
    before, after = values(features.pair.before), values(features.pair.after)
    assert float(terms["view"]) == pytest.approx(
        slow_contrast(model.matching, before, after, 0.8), rel=1e-3, abs=1e-4
    )
    lengths = [len(caption.split()) + 1 for caption in CAPTIONS]  # the words and the end
    assert len(set(lengths)) > 2
    hallucinations = [
        slow_hallucination(model.reasoning, image, sum(words[:length]) / min(length, 12))
        for image, words, length in zip(before, values(decoded.hidden), lengths, strict=True)
    ]
    slow = slow_contrast(model.reasoning.matching, hallucinations, after, 0.8)
    assert float(terms["backward"]) == pytest.approx(slow, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_pooling_in_the_place_of_matching_compares_one_vector_per_image(pooling) -> None:
    """Figure 3, in Eq. 4 and in Eq. 11."""
    model = scorer(matching=pooling, temperature=0.8, matching_heads=3)
    batch, terms, features, decoded = joint_losses(model)
    sentence = masked_mean(decoded.hidden, batch.tokens[:, 1:] != model.vocabulary.pad)
    hallucinations = values(model.reasoning(features.pair.before, sentence))
    before, after = values(features.pair.before), values(features.pair.after)
    for term, images in (("view", before), ("backward", hallucinations)):
        slow = slow_info_nce(images, after, 0.8, partial(slow_pooled, pooling))
        assert float(terms[term]) == pytest.approx(slow, rel=1e-3, abs=1e-4)
    assert not any("matching" in name for name, _ in model.named_parameters())
    sum(model.train().losses(batch, dict.fromkeys(model.loss_terms(), 1.0)).values()).backward()
    assert idle_parameters(model) == []
