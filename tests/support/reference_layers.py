"""The blocks of the papers' equations, slow and literal, and what a decoder must return in every mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rscc.models.shared.blocks import Attention, CrossImageLayer
from rscc.models.shared.decoder import Decoder
from rscc.text.vocabulary import Vocabulary


def values(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def slow_linear(layer: nn.Linear, x: np.ndarray) -> np.ndarray:
    """y[m, j] = sum_i W[j, i] x[m, i] + b[j]."""
    weight, bias = values(layer.weight), values(layer.bias)
    y = np.zeros((len(x), len(weight)))
    for m in range(len(x)):
        for j in range(len(weight)):
            y[m, j] = bias[j] + sum(weight[j, i] * x[m, i] for i in range(x.shape[1]))
    return y


def slow_attention(attention: Attention, asking: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Softmax over the keys of q k / sqrt(d_k), times v; heads are consecutive slices of the width."""
    q, k = slow_linear(attention.query, asking), slow_linear(attention.key, asked)
    v = slow_linear(attention.value, asked)
    d_k = q.shape[1] // attention.heads
    joined = np.zeros_like(q)
    for head in range(attention.heads):
        part = range(head * d_k, (head + 1) * d_k)
        for m in range(len(q)):
            powers = [math.exp(sum(q[m, i] * k[n, i] for i in part) / math.sqrt(d_k)) for n in range(len(k))]
            for i in part:
                joined[m, i] = sum(p * v[n, i] for n, p in enumerate(powers)) / sum(powers)
    return slow_linear(attention.out, joined) if isinstance(attention.out, nn.Linear) else joined


def slow_norm(norm: nn.LayerNorm, x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    for m in range(len(x)):
        mean = sum(x[m]) / len(x[m])
        variance = sum((one - mean) ** 2 for one in x[m]) / len(x[m])
        for i in range(len(x[m])):
            scaled = (x[m, i] - mean) / math.sqrt(variance + norm.eps)
            y[m, i] = scaled * values(norm.weight)[i] + values(norm.bias)[i]
    return y


def slow_feed_forward(net: nn.Sequential, x: np.ndarray) -> np.ndarray:
    """Two linear layers with GELU(x) = x Phi(x) between them."""
    gelu = np.vectorize(lambda one: one * 0.5 * (1 + math.erf(one / math.sqrt(2))))
    return slow_linear(net[3], gelu(slow_linear(net[0], x)))


def slow_cross_layer(
    layer: CrossImageLayer, before: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each date with what it has in common with the other: residual and LayerNorm."""
    return (
        slow_norm(layer.norm, before + slow_attention(layer.attention, before, after)),
        slow_norm(layer.norm, after + slow_attention(layer.attention, after, before)),
    )


def slow_entropy(similarity: np.ndarray) -> float:
    """Cross-entropy of the diagonal, mean over the rows."""
    return float(np.mean([np.logaddexp.reduce(row) - row[k] for k, row in enumerate(similarity)]))


def slow_cosine(one: np.ndarray, other: np.ndarray) -> float:
    return sum(one * other) / math.sqrt(sum(one**2) * sum(other**2))


def slow_info_nce(
    one: Sequence[np.ndarray],
    other: Sequence[np.ndarray],
    tau: float,
    similarity: Callable[[np.ndarray, np.ndarray], float] = slow_cosine,
    left_out: Collection[tuple[int, int]] = (),
) -> float:
    """-log of the softmax at each row's own partner, mean over the rows, both ways.

    ``similarity`` compares a row that asks with one that is asked; ``left_out`` holds the (k, r) that are no
    negatives.
    """
    count, total = len(one), 0.0
    for asking, asked, out in ((one, other, left_out), (other, one, {(r, k) for k, r in left_out})):
        for k in range(count):
            powers = [math.exp(similarity(asking[k], asked[r]) / tau) for r in range(count)]
            total -= math.log(powers[k] / sum(p for r, p in enumerate(powers) if (k, r) not in out)) / count
    return total / 2


def randoms(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def check_steps(decoder: Decoder, memory: Tensor, tokens: Tensor, rows: Tensor) -> None:
    """Assert that steps give the logits of teacher forcing, also after samples were selected as ``rows``."""
    forced = decoder(memory, tokens).logits
    cache = decoder.start(memory)
    for place in range(tokens.shape[1]):
        torch.testing.assert_close(decoder.step(tokens[:, place], cache), forced[:, place])
    for place in range(3):
        cache = decoder.start(memory)
        for earlier in range(place):
            decoder.step(tokens[:, earlier], cache)
        cache.select(rows)
        torch.testing.assert_close(decoder.step(tokens[rows, place], cache), forced[rows, place])


@torch.no_grad()
def teacher_forced_mean(
    decoder: Decoder, words: Vocabulary, memory: Tensor, ids: Sequence[int], max_words: int
) -> float:
    """Mean log-probability of a decoded sentence, end token included unless it ran out of words."""
    tokens = torch.tensor([[words.bos, *ids, words.eos]])[:, : max_words + 1]
    logits = decoder(memory, tokens[:, :-1]).logits[0]
    logits[:, [words.pad, words.bos, words.unk]] = float("-inf")
    logits[0, words.eos] = float("-inf")
    return float(logits.log_softmax(-1).gather(1, tokens[0, 1:, None]).mean())
