"""The blocks that all papers' equations are made of, slow and literal: loops over the indices."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from rscc.models.blocks import Attention


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
    return slow_linear(attention.out, joined)


def slow_norm(norm: nn.LayerNorm, x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    for m in range(len(x)):
        mean = sum(x[m]) / len(x[m])
        variance = sum((one - mean) ** 2 for one in x[m]) / len(x[m])
        for i in range(len(x[m])):
            scaled = (x[m, i] - mean) / math.sqrt(variance + norm.eps)
            y[m, i] = scaled * values(norm.weight)[i] + values(norm.bias)[i]
    return y


def randoms(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
