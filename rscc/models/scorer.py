"""SCORER+CBR: self-supervised cross-view representation reconstruction with cross-modal backward reasoning.

Tu et al., ICCV 2023; equation numbers are the paper's. The formulas of Eq. 2-7 and 9-13 were not legible in
our copy: they are rebuilt from the sentences around them. Choices where the paper is ambiguous:

* Eq. 2 compares tokens by the dot product; the similarity is the mean of both directions' mean maxima.
* Eq. 3 projects queries and keys once, splits both into subspaces and averages over the heads. The
  projections belong to the matching; the views and the backward reasoning have one matching each.
* Eq. 4 aligns the representations of Eq. 1, before any reconstruction. The paper gives no temperature.
* Eq. 5-6 use one attention and one LayerNorm for both dates; further layers repeat them with their own
  weights.
* Eq. 9 averages over the words that are learned from, without padding; "before" is that of Eq. 1, and the
  fully connected layer has no activation. Eq. 10 is an attention without residual or LayerNorm.
* Figure 3 compares images by max- or mean-pooled features instead of the matching. Here those are the
  unprojected features, compared by the dot product, in Eq. 4 and in Eq. 11.
* Eq. 12 is not legible either: the shared caption loss is a mean over the words.
* The baseline of Tables 6, 7 and 10-12 subtracts the images; here each date is subtracted from the other
  instead of Eq. 5-6, and Eq. 7 stays.

The authors' released code differs in these points, which ``follow = "code"`` reproduces:

* Eq. 1, 8, 12 and the batches: see :mod:`rscc.models.shared.released_code`, with coordinates; positions start
  from N(0, 1).
* Eq. 2-3: similarities are summed over the heads before the largest is taken.
* Eq. 4 aligns the inputs of the last layer of Eq. 5, by the queries and keys of that layer's attention. A
  learnt factor exp(s), which starts at e and ends at 100, replaces 1 / tau.
* Eq. 5: the attention has no output projection, dropout is on its weights; every LayerNorm has an epsilon of
  1e-6.
* Eq. 7 has dropout before the ReLU.
* Eq. 8: a LayerNorm follows the word embedding; no attention has an output projection; the feed-forward
  network is as narrow as the model, and its residual is its own hidden layer. Weights start from N(0, 0.02).
* Eq. 9: the mean is over ``model.max_words`` positions, with that of the end token; empty ones count as
  zeros.
* Eq. 10 has a linear layer after the attention, and no dropout.
* Eq. 11: the second direction uses the first one's similarities, transposed; the factor is e.
* Backward reasoning is left out of the optimiser: it teaches the rest with its initial weights.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.config import MOST_PARTS, ModelConfig, check_follow
from rscc.errors import ConfigInvalid
from rscc.models.shared.blocks import Attention, CrossImageLayer
from rscc.models.shared.decoder import DecoderLayer
from rscc.models.shared.losses import masked_mean, matrix_info_nce
from rscc.models.shared.released_code import ReleasedCaptioner, ReleasedDecoder, start_attention
from rscc.settings import build, check, check_choice, check_sizes
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView
from rscc.text.encoders import TextEncoder

MOST_FACTOR = 100.0
"""Largest factor exp(s) of similarities in the released code."""
EPSILON = 1e-6
"""Of every LayerNorm in the released code."""

POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {"mean": lambda x: x.mean(1), "max": lambda x: x.amax(1)}
"""Images (B, N, D) to one vector each, (B, D) (Figure 3)."""


@dataclass
class ScorerFeatures(DifferenceFeatures):
    """Adds ``matched``: the inputs of the last layer of Eq. 5 for both dates, each (B, HW, D)."""

    matched: tuple[Tensor, Tensor] = field(kw_only=True)


@dataclass(frozen=True)
class ScorerOptions:
    """Options of SCORER+CBR (``model.options`` of a config).

    Attributes:
        layers: of Eq. 5-6 (Sec. 4.5: 2 CLEVR-Change, 1 CLEVR-DC, 3 Spot-the-Diff, 2 Image Editing Request).
        matching_heads: of Eq. 3 (Figure 4: 8); 1 is the matching without heads of Figure 3.
        matching: ``tokens`` (Eq. 2-3), or a pooling of Figure 3, ``mean`` or ``max``, which has no heads.
        temperature: tau of Eq. 4 and 11.
        difference: ``reconstruction``, or ``subtraction`` for the baseline of Table 6.
        follow: ``paper``, or ``code`` for the authors' released code, which has neither matching heads nor a
            temperature.
    """

    layers: int = 2
    matching_heads: int = 8
    matching: str = "tokens"
    temperature: float = 0.5
    difference: str = "reconstruction"
    follow: str = "paper"

    def __post_init__(self) -> None:
        check_sizes(self, "model.options", layers=(1, MOST_PARTS), matching_heads=(1, MOST_PARTS))
        check(self.temperature > 0, "model.options: the temperature must be above 0")
        check_choice("model.options.difference", self.difference, ("reconstruction", "subtraction"), " or ")
        check_follow(self.follow, self.difference, "code")
        check_choice("model.options.matching", self.matching, ("tokens", *POOLINGS))
        by_tokens = self.follow == "paper" or self.matching == "tokens"
        check(by_tokens, "model.options.follow: the poolings are the paper's alone; use paper")


def token_matching(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the similarity (B, C) of images of tokens (B, N, d) to images of tokens (C, M, d) (Eq. 2).

    It is the mean over an image's tokens of the largest similarity to a token of the other, both ways.
    """
    similarity = queries.flatten(0, 1) @ keys.flatten(0, 1).T
    similarity = similarity.view(*queries.shape[:2], *keys.shape[:2])  # (B, N, C, M)
    # max stores the indices of the maxima for the backward pass; amax would store all similarities.
    to_keys = similarity.max(dim=3).values.float().mean(1)
    to_queries = similarity.max(dim=1).values.float().mean(2)
    return (to_keys + to_queries) / 2


class Matching(nn.Module, ABC):
    """Similarity of images."""

    @abstractmethod
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Map tokens of two kinds of images, (B, N, D) and (C, M, D), to similarities (B, C)."""

    def contrast(self, one: Tensor, other: Tensor, *, temperature: float) -> Tensor:
        """InfoNCE of both directions over a batch (Eq. 4, 11); images k of both (B, N, D) are positives."""
        return matrix_info_nce(self(one, other), self(other, one), temperature=temperature)


class TokenMatching(Matching):
    """Multi-head token-wise matching (Eq. 3)."""

    def __init__(self, *, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """See :meth:`Matching.forward`; D is that of the module."""
        parts = (x.chunk(self.heads, dim=-1) for x in (self.query(queries), self.key(keys)))
        # One head at a time: the similarities of all tokens of a batch take B * N * C * M numbers.
        return torch.stack([token_matching(q, k) for q, k in zip(*parts, strict=True)]).mean(0)


class PooledMatching(Matching):
    """Dot products of images pooled to one vector each, instead of Eq. 2-3 (Figure 3)."""

    def __init__(self, *, pooling: str):
        super().__init__()
        self.pool = POOLINGS[pooling]

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """See :meth:`Matching.forward`."""
        return self.pool(queries.float()) @ self.pool(keys.float()).T


class BackwardReasoning(nn.Module):
    """CBR: predicts the second date from the first and the sentence (Eq. 9-10)."""

    def __init__(
        self, *, width: int, heads: int, matching: Matching, dropout: float = 0.0, finish: bool = False
    ):
        super().__init__()
        self.fuse = nn.Linear(2 * width, width)
        self.attention = Attention(width=width, heads=heads, dropout=dropout)
        self.finish = nn.Linear(width, width) if finish else nn.Identity()
        self.matching = matching

    def forward(self, before: Tensor, sentence: Tensor) -> Tensor:
        """Map the image (B, N, D) and the mean word of its sentence (B, D) to a hallucination (B, N, D)."""
        everywhere = sentence.unsqueeze(1).expand_as(before)
        hallucination = self.fuse(torch.cat([before, everywhere], dim=-1))  # Eq. 9
        return self.finish(self.attention(hallucination, hallucination))  # Eq. 10


class CodeDecoderLayer(DecoderLayer):
    """Decoder layer of the released code (Eq. 8)."""

    def __init__(self, *, width: int, heads: int, dropout: float):
        nn.Module.__init__(self)  # other parts of the same names
        self.self_attention = _code_attention(width, heads, dropout)
        self.cross_attention = _code_attention(width, heads, dropout)
        self.widen = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, width), nn.Dropout(dropout))
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=EPSILON) for _ in range(3))

    def feed(self, x: Tensor) -> Tensor:
        """See :meth:`DecoderLayer.feed`; the residual is the hidden layer."""
        hidden = F.gelu(self.widen(x))
        return self.norms[2](hidden + self.feed_forward(hidden))


def _code_attention(width: int, heads: int, dropout: float) -> Attention:
    return Attention(width=width, heads=heads, weight_dropout=dropout, project_out=False)


class Scorer(ReleasedCaptioner):
    """SCORER+CBR on the shared trunk and decoder; it needs no text encoder."""

    auxiliary_terms = ("view", "backward")

    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """Build the parts of Eq. 2-10; the ``text_encoder`` is not used."""
        self.options = build(ScorerOptions, config.options, "model.options")
        if self.follows_code(config):
            self._build_by_code(config)
            return
        width, heads, dropout = config.width, config.heads, config.dropout
        layers = self.options.layers if self.options.difference == "reconstruction" else 0
        self.reconstruction = nn.ModuleList(
            CrossImageLayer(
                attention=Attention(width=width, heads=heads, dropout=dropout), norm=nn.LayerNorm(width)
            )
            for _ in range(layers)
        )
        self.join = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.0)
        self.matching = self._make_matching(width)
        self.reasoning = BackwardReasoning(
            width=width, heads=heads, matching=self._make_matching(width), dropout=dropout
        )

    def _build_by_code(self, config: ModelConfig) -> None:
        width, heads, dropout = config.width, config.heads, config.dropout
        self.build_released_tokens(config, coordinates=True)
        self.reconstruction = nn.ModuleList(
            CrossImageLayer(
                attention=_code_attention(width, heads, dropout), norm=nn.LayerNorm(width, eps=EPSILON)
            )
            for _ in range(self.options.layers)
        )
        self.join = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(dropout)
        self.exponent = nn.Parameter(torch.ones(()))
        self.reasoning = BackwardReasoning(
            width=width, heads=heads, matching=self._make_matching(width), finish=True
        )
        start_attention(self.reasoning.attention)
        self.reasoning.requires_grad_(False)

    def build_released_decoder(self, config: ModelConfig) -> ReleasedDecoder:
        """Make the decoder of the released code (Eq. 8)."""
        decoder = ReleasedDecoder(
            config=config,
            vocabulary_size=len(self.vocabulary),
            pad=self.vocabulary.pad,
            layer=CodeDecoderLayer,
            finish=nn.Sequential(nn.Dropout(config.dropout), nn.LayerNorm(config.width, eps=EPSILON)),
        )
        for part in decoder.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)
        return decoder

    def _make_matching(self, width: int) -> Matching:
        if self.options.matching != "tokens":
            return PooledMatching(pooling=self.options.matching)
        heads = 1 if self.options.follow == "code" else self.options.matching_heads
        if width % heads:
            raise ConfigInvalid(f"model.width {width} is no multiple of model.options.matching_heads {heads}")
        return TokenMatching(width=width, heads=heads)

    def encode_pair(self, pair: PairView) -> DifferenceFeatures:
        """Eq. 5-7; ``pair`` holds the representations of Eq. 1, each (B, HW, D)."""
        before, after = pair.before, pair.after
        one, other = before, after
        if self.options.difference == "subtraction":
            one, other = before - after, after - before
        matched = one, other
        for layer in self.reconstruction:
            matched = one, other
            one, other = layer(one, other)  # Eq. 5-6
        tokens = self.drop(self.join(torch.cat([one, other], dim=-1))).relu()  # Eq. 7
        return ScorerFeatures(tokens, pair, matched=matched)

    def auxiliary_losses(
        self, features: DifferenceFeatures, decoded: DecoderOutput, batch: PairBatch
    ) -> dict[str, Tensor]:
        """Eq. 4 (view) and Eq. 9-11 (backward)."""
        assert batch.tokens is not None, "decoded from them"
        if self.options.follow == "code":
            known = self.decoder_input(batch.tokens) != self.vocabulary.pad
            return self._losses_by_code(features, decoded.hidden, known)
        learned = batch.tokens[:, 1:] != self.vocabulary.pad
        before, after, tau = features.pair.before, features.pair.after, self.options.temperature
        hallucination = self.reasoning(before, masked_mean(decoded.hidden, learned))
        return {
            "view": self.matching.contrast(before, after, temperature=tau),
            "backward": self.reasoning.matching.contrast(hallucination, after, temperature=tau),
        }

    def _losses_by_code(
        self, features: DifferenceFeatures, hidden: Tensor, known: Tensor
    ) -> dict[str, Tensor]:
        assert isinstance(features, ScorerFeatures)
        attention = cast(CrossImageLayer, self.reconstruction[-1]).attention
        one, other = features.matched
        forth = token_matching(attention.query(one), attention.key(other))
        back = token_matching(attention.query(other), attention.key(one))
        factor = self.exponent.exp().clamp(max=MOST_FACTOR)
        sentence = (hidden * known.unsqueeze(-1)).mean(1)
        hallucination = self.reasoning(features.pair.before, sentence)
        expected = math.e * self.reasoning.matching(hallucination, features.pair.after)
        return {
            "view": matrix_info_nce(factor * forth, factor * back, temperature=1.0),
            "backward": matrix_info_nce(expected, expected.T, temperature=1.0),
        }
