"""DIRL+CCR against slow, literal transcriptions of the paper's equations, index by index."""

import math

import numpy as np
import pytest
import torch
from tiny_models import (
    CAPTIONS,
    joint_losses,
    pair_view,
    randoms,
    slow_attention,
    slow_feed_forward,
    slow_info_nce,
    slow_linear,
    slow_norm,
    tiny_model,
    values,
)

from rscc.models.dirl import Dirl
from rscc.models.shared.losses import decorrelation_loss, info_nce

WIDTH, HEADS = 8, 2


def slow_correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Eq. 3; rows are the samples b, columns the channels."""
    channels = range(one.shape[1])
    correlation = np.zeros((one.shape[1], one.shape[1]))
    for i in channels:
        for j in channels:
            products = sum(one[b, i] * other[b, j] for b in range(len(one)))
            lengths = [math.sqrt(sum(y[b, c] ** 2 for b in range(len(y)))) for y, c in ((one, i), (other, j))]
            correlation[i, j] = products / lengths[0] / lengths[1]
    return correlation


def slow_decorrelation(one: np.ndarray, other: np.ndarray, alpha: float, diagonal: float = 1.0) -> float:
    """Eq. 4."""
    c = slow_correlation(one, other)
    channels = range(len(c))
    corresponding = sum((1 - c[i, i]) ** 2 for i in channels)
    return diagonal * corresponding + alpha * sum(c[i, j] ** 2 for i in channels for j in channels if j != i)


def slow_decoded(model: Dirl, memory: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, ...]:
    """Eq. 8-10 of the last layer for one caption without padding: words, what they attend to, the end."""
    decoder = model.decoder
    x = slow_linear(decoder.widen, values(decoder.words.weight)[ids]) + values(decoder.positions)[: len(ids)]
    for layer in decoder.layers:
        heard = [
            slow_attention(layer.self_attention, x[m : m + 1], x[: m + 1])[0] for m in range(len(x))
        ]  # a word sees the words up to itself
        words = slow_norm(layer.norms[0], x + np.stack(heard))
        attended = slow_attention(layer.cross_attention, words, memory)
        x = slow_norm(layer.norms[1], words + attended)
        x = slow_norm(layer.norms[2], x + slow_feed_forward(layer.feed_forward, x))
    return words, attended, x


def slow_embedded(model: Dirl, images: torch.Tensor) -> np.ndarray:
    """Eq. 2 at all positions of all images."""
    first, *_, last = model.embed
    return np.concatenate([slow_linear(last, np.maximum(slow_linear(first, values(i)), 0)) for i in images])


def dirl(**options) -> Dirl:
    return tiny_model("dirl", width=WIDTH, heads=HEADS, options=options, max_words=13)


@pytest.mark.parametrize(("alpha", "diagonal"), [(0.003, 1.0), (0.5, 1.0), (0.0, 1.0), (0.2, 0.0)])
def test_decorrelation_is_equations_3_and_4(alpha, diagonal) -> None:
    one, other = randoms(9, 5), randoms(9, 5, seed=1) * 3 + 1
    fast = float(decorrelation_loss(one, other, alpha=alpha, diagonal=diagonal))
    assert fast == pytest.approx(slow_decorrelation(values(one), values(other), alpha, diagonal), rel=1e-5)


@pytest.mark.parametrize("tau", [0.5, 2.0])
def test_ccr_is_equations_13_and_14(tau) -> None:
    words, attended = randoms(5, 7), randoms(5, 7, seed=1)
    fast = float(info_nce(words, attended, temperature=tau, cosine=False))
    assert fast == pytest.approx(slow_info_nce(values(words), values(attended), tau, np.dot), rel=1e-5)
    assert fast != pytest.approx(float(info_nce(words, attended, temperature=tau)), rel=0.01)


def test_encoding_is_equations_5_to_7() -> None:
    model = dirl()
    before, after = randoms(2, 6, WIDTH), randoms(2, 6, WIDTH, seed=1)
    features = model.encode_pair(pair_view(before, after))
    for sample in range(2):
        f_bef, f_aft = values(before[sample]), values(after[sample])
        d_bef = f_bef - slow_attention(model.shared_attention, f_bef, f_aft)
        d_aft = f_aft - slow_attention(model.shared_attention, f_aft, f_bef)
        slow = np.maximum(slow_linear(model.join, np.concatenate([d_bef, d_aft], axis=1)), 0)
        np.testing.assert_allclose(values(features.tokens[sample]), slow, atol=2e-5)


def test_the_decoder_gives_equations_8_to_11() -> None:
    model = dirl()
    memory = randoms(1, 6, WIDTH)
    ids = torch.tensor([[1, 5, 9, 7]])
    decoded = model.decoder(memory, ids)
    words, attended, end = slow_decoded(model, values(memory[0]), ids[0].numpy())
    np.testing.assert_allclose(values(decoded.words[0]), words, atol=1e-4)
    np.testing.assert_allclose(values(decoded.attended[0]), attended, atol=1e-4)
    logits = slow_linear(model.decoder.logits, end)
    np.testing.assert_allclose(values(decoded.logits[0]), logits, atol=5e-4)


def test_the_joint_loss_takes_channels_and_words() -> None:
    """The terms of Eq. 16 from a whole batch with captions of different lengths."""
    model = dirl(alpha=0.1, temperature=1.5)
    batch, terms, features, _ = joint_losses(model)
    assert set(terms) == {"caption", "decorrelation", "ccr"}
    one, other = (slow_embedded(model, images) for images in (features.pair.before, features.pair.after))
    assert len(one) == len(CAPTIONS) * 16
    slow = slow_decorrelation(one, other, 0.1)
    assert float(terms["decorrelation"]) == pytest.approx(slow, rel=1e-3)
    pooled = []
    for sample, ids in enumerate(batch.tokens.numpy()):
        ids = ids[: int(np.flatnonzero(ids == model.vocabulary.eos)[0])]  # begin and words: what asks
        parts = slow_decoded(model, values(features.tokens[sample]), ids)[:2]
        pooled.append([sum(part) / len(ids) for part in parts])
    words, attended = (np.stack([one[i] for one in pooled]) for i in (0, 1))
    assert float(terms["ccr"]) == pytest.approx(slow_info_nce(words, attended, 1.5, np.dot), rel=1e-3)
