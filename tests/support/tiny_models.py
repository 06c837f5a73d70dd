"""Small captioners for tests, and the blocks of the papers' equations, slow and literal."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rscc.config import ModelConfig
from rscc.models.papers import MODELS
from rscc.models.shared.blocks import Attention, CrossImageLayer
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.decoder import Decoder
from rscc.models.trunks.backbone import Backbone
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView
from rscc.text.encoders import TextEncoder
from rscc.text.vocabulary import SPECIAL, Vocabulary


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


WORDS = (
    *("there", "is", "no", "difference", "a", "house", "appears", "near", "the", "road", "many", "trees"),
    *("are", "removed", "on", "left", "right", "top", "bottom", "side", "of", "scene", "villas", "built"),
)


ENTITIES = ("houses", "road", "trees", "scene", "villas")

READINGS = (
    *((paper, {}) for paper in MODELS),
    *((paper, {"follow": "code"}) for paper in ("scorer", "dirl")),
    ("rdd", {"memory": "positions"}),
    ("davir", {"retrieval": "random"}),
)
"""Every paper's model as it is by default, and what other options make of its encoder."""


def tiny_backbone(weights: object = None) -> Backbone:
    """Build a trunk with maps at strides 4, 8 and 16.

    ``weights`` is what the registry passes; there are none to read.
    """
    sizes = ((3, 6, 4), (6, 8, 2), (8, 12, 2))
    stages = [
        nn.Sequential(nn.Conv2d(a, b, stride + 1, stride, 1 if stride == 2 else 0), nn.ReLU())
        for a, b, stride in sizes
    ]
    stages[0][0] = nn.Conv2d(3, 6, 4, 4)
    return Backbone(stages, channels=(6, 8, 12))


def pair_view(before: Tensor, after: Tensor) -> PairView:
    """Make the view of two representations (B, N, D) on a grid of one row, its maps the same numbers."""
    maps = [x.transpose(1, 2).unsqueeze(2) for x in (before, after)]  # (B, D, 1, N)
    return PairView(before, after, maps[0], maps[1], (1, before.shape[1]))


class TinyTextEncoder(TextEncoder):
    """Words to vectors by a checksum, one tanh layer with positions, mean over the real tokens."""

    token_width, width, max_tokens = 6, 5, 16

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.table = nn.Embedding(64, self.token_width)
            self.layer = nn.Linear(self.token_width, self.width)
        self.asked: list[str] = []
        self.freeze()

    def embed_tokens(self, texts: Sequence[str], *, room: int = 0) -> tuple[Tensor, Tensor]:
        self.asked.extend(texts)
        rows = [[0, *(1 + zlib.crc32(word.encode()) % 63 for word in text.split())] for text in texts]
        rows = [row[: self.max_tokens - room] for row in rows]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=self.device)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        return self.table(ids), torch.arange(longest, device=self.device) < lengths.unsqueeze(1)

    def encode_embeddings(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        positions = torch.linspace(0.5, 1.5, embeddings.shape[1], device=embeddings.device).view(1, -1, 1)
        weights = mask.unsqueeze(-1).to(embeddings.dtype)
        return (torch.tanh(self.layer(embeddings)) * positions * weights).sum(1) / weights.sum(1)


@torch.no_grad()
def randomise(module: nn.Module, seed: int, scale: float = 0.3) -> None:
    """Give every parameter, biases and norms too, values that make each of them matter."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        values = torch.randn(parameter.shape, generator=generator) * scale
        parameter.copy_(1 + values if "norm" in name and name.endswith("weight") else values)


@torch.no_grad()
def fill_retriever(model: nn.Module, seed: int) -> None:
    """Give what a retriever would have learned of the training split values that tell entities apart."""
    generator = torch.Generator().manual_seed(seed)
    for name, buffer in model.named_buffers():
        if name in ("retriever.entity_features", "retriever.map"):
            buffer.copy_(nn.functional.normalize(torch.randn(buffer.shape, generator=generator), dim=-1))


def tiny_config(paper: str = "rdd", **values: Any) -> ModelConfig:
    fields: dict[str, Any] = {
        **{"paper": paper, "backbone": "tiny", "width": 16, "heads": 2, "word_width": 7},
        **{"decoder_layers": 2, "max_words": 10, "dropout": 0.0, "head_width": 8},
    }
    fields |= values
    if paper in ("cheers", "davir"):
        known = {"entity_names": list(ENTITIES), "entity_width": TinyTextEncoder.width}
        fields["options"] = known | fields.get("options", {})
    return ModelConfig(**fields)


def tiny_vocabulary() -> Vocabulary:
    return Vocabulary((*SPECIAL, *WORDS))


def tiny_model(
    paper: str = "rdd", *, seed: int = 1, text_encoder: TextEncoder | None = None, **values: Any
) -> ChangeCaptioner:
    """Build a model in evaluation mode with the same non-trivial weights for the same seed."""
    model = MODELS[paper](
        config=tiny_config(paper, **values),
        backbone=tiny_backbone(),
        vocabulary=tiny_vocabulary(),
        text_encoder=text_encoder,
    )
    randomise(model, seed)
    fill_retriever(model, seed)
    return model.eval()


def random_images(
    batch: int, height: int = 64, width: int = 64, *, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two dates, each (B, 3, H, W) uint8."""
    generator = torch.Generator().manual_seed(seed)
    before, after = (
        torch.randint(0, 256, (batch, 3, height, width), generator=generator, dtype=torch.uint8)
        for _ in range(2)
    )
    return before, after


def random_arrays(
    batch: int = 4, height: int = 64, width: int = 64, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The same as arrays."""
    before, after = random_images(batch, height, width, seed=seed)
    return before.numpy(), after.numpy()


def idle_parameters(model: nn.Module) -> list[str]:
    """Names of the trained parameters that got no gradient, or one of zeros.

    A bias on the keys moves every score of a query alike: the softmax does not see it.
    """
    return [
        name
        for name, p in model.named_parameters()
        if p.requires_grad and (p.grad is None or not p.grad.abs().sum() > 0)
        if not name.endswith("attention.key.bias") and name != "enrich.key.bias"
    ]


def full_batch(model: ChangeCaptioner, captions: Sequence[str]) -> PairBatch:
    """A batch of random images in which everything is known."""
    before, after = random_images(len(captions), 64, 64)
    generator = torch.Generator().manual_seed(1)
    ids = [model.vocabulary.encode(caption, model.config.max_words) for caption in captions]
    longest = max(map(len, ids))
    return PairBatch(
        before=before,
        after=after,
        tokens=torch.tensor([one + [model.vocabulary.pad] * (longest - len(one)) for one in ids]),
        nouns=[" and ".join(caption.split()[:2]) for caption in captions],
        verbs=[" and ".join(caption.split()[-2:]) for caption in captions],
        mask=(torch.rand(len(captions), 64, 64, generator=generator) > 0.7).float(),
        mask_known=torch.ones(len(captions), dtype=torch.bool),
        changed=torch.tensor([float(i % 2) for i in range(len(captions))]),
        changed_known=torch.ones(len(captions), dtype=torch.bool),
        extracted=torch.rand(len(captions), 4, 4, generator=generator),
    )


CAPTIONS = (
    "a house appears near the road",
    "there is no difference",
    "many trees are removed on the left side of the scene",
    "villas are built",
)


@torch.no_grad()
def joint_losses(
    model: ChangeCaptioner,
) -> tuple[PairBatch, dict[str, Tensor], DifferenceFeatures, DecoderOutput]:
    """Return a batch, the paper's terms of its loss, and the features and words that these are made of."""
    batch = full_batch(model, CAPTIONS)
    weights = dict.fromkeys(model.loss_terms(), 0.0)
    terms = model.losses(batch, weights | dict.fromkeys(("caption", *model.auxiliary_terms), 0.5))
    features = model.encode(batch.before, batch.after, extracted=batch.extracted)
    return batch, terms, features, model.decode(features, batch.tokens[:, :-1])


@torch.no_grad()
def overflowing(model: ChangeCaptioner) -> ChangeCaptioner:
    """Make finite weights that no activation stays finite with."""
    model.backbone.stages[0][0].bias.fill_(3e38)
    return model
