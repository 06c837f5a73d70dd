"""The compact size of DAVIR, not in the paper: its parts at the width of the other papers' models.

InstructBLIP's ViT (Eq. 4-5) is replaced by a small transformer on the trunk's tokens and a [CLS] token. Its
Q-Former (Eq. 11) is replaced by learned queries that attend to themselves and the prompt, then to the
patches, as there; here to those of both dates at once, each marked by a learned vector of its date, and
queries and prompt share one feed-forward network. The prompt (Eq. 10) is one learned vector for the
instruction, and for each entity its text features, mapped to the width. Queries and prompt are the memory of
the shared decoder, which replaces the language model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rscc.config import ModelConfig
from rscc.models.shared.blocks import Attention, AttentionLayer, feed_forward
from rscc.structures import PairView


@dataclass(frozen=True)
class Encoded:
    """Pairs after the encoder of either size (Eq. 4-5).

    Attributes:
        before, after: (B, 1 + h * w, D) tokens, [CLS] first.
        attention_before, attention_after: (B, h, w), attention of [CLS] to the patches in the last layer,
            mean over the heads; above 0, with a sum of 1 at most.
        patches: (B, 2 h * w, D') of the shared width, the input of P(anything changed).
    """

    before: Tensor
    after: Tensor
    attention_before: Tensor
    attention_after: Tensor
    patches: Tensor


@dataclass(frozen=True)
class QFormerOutput:
    """Output of the Q-Former (Eq. 11).

    Attributes:
        answers: (B, K, D) of the query tokens.
        memory: (B, N, D), the input of the decoder: the answers and the prompt.
        states: (B, Q, D), the query tokens that attended to the patches in the last layer; None when unknown.
    """

    answers: Tensor
    memory: Tensor
    states: Tensor | None = None


def patches_to_compare(pair: PairView) -> Tensor:
    """Return the projected patches of the first date and their change to the second: (B, 2 h * w, D').

    P(anything changed) is not in the paper. In either size its head sees these, and neither prompt nor
    entities, because an offline retriever has been fitted on the captions of the training pairs.
    """
    return torch.cat([pair.before, pair.after - pair.before], dim=1)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each with residual and post-normalisation."""

    def __init__(self, *, width: int, heads: int, dropout: float):
        super().__init__()
        self.attention = Attention(width=width, heads=heads, dropout=dropout)
        self.feed_forward = feed_forward(width, dropout=dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, N, D) onwards."""
        x = self.norms[0](x + self.attention(x, x))
        return self.norms[1](x + self.drop(self.feed_forward(x)))

    def first_token_attention(self, x: Tensor) -> Tensor:
        """Return the attention of the first token to the others, mean over the heads: (B, N - 1) float32."""
        keys, _ = self.attention.project(x)
        return self.attention.weights(x[:, :1], keys).mean(1)[:, 0, 1:]


class CompactEncoder(nn.Module):
    """Eq. 4-5."""

    def __init__(self, *, layers: int, width: int, heads: int, dropout: float):
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.layers = nn.ModuleList(
            EncoderLayer(width=width, heads=heads, dropout=dropout) for _ in range(layers)
        )

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:
        """Map patches (B, N, D) to tokens (B, 1 + N, D) and the last layer's attention A (B, N)."""
        x = torch.cat([self.first.expand(len(patches), -1, -1), patches], dim=1)
        attention = x.new_zeros(patches.shape[:2])
        for layer in self.layers:
            assert isinstance(layer, EncoderLayer)
            if layer is self.layers[-1]:
                attention = layer.first_token_attention(x)
            x = layer(x)
        return x, attention


class QueryLayer(AttentionLayer):
    """One layer of the Q-Former."""

    def forward(self, queries: Tensor, prompt: Tensor, patches: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map queries (B, Q, D) and prompt (B, P, D) onwards; the queries attend to patches (B, M, D).

        Returns the new queries and prompt, and the queries that attended to the patches.
        """
        count = queries.shape[1]
        both = torch.cat([queries, prompt], dim=1)
        both = self.norms[0](both + self.self_attention(both, both))
        attending, prompt = both[:, :count], both[:, count:]
        queries = self.norms[1](attending + self.cross_attention(attending, patches))
        both = torch.cat([queries, prompt], dim=1)
        both = self.norms[2](both + self.drop(self.feed_forward(both)))
        return both[:, :count], both[:, count:], attending


class QueryFormer(nn.Module):
    """Learned queries that attend to the tokens of both dates, conditioned on the prompt."""

    def __init__(self, *, queries: int, layers: int, width: int, heads: int, dropout: float):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, queries, width) * 0.02)
        self.dates = nn.Parameter(torch.randn(2, 1, width) * 0.02)
        self.layers = nn.ModuleList(
            QueryLayer(width=width, heads=heads, dropout=dropout) for _ in range(layers)
        )

    def patches(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the tokens of both dates, (B, M, D) each, marked by their date: (B, 2 M, D)."""
        return torch.cat([before + self.dates[0], after + self.dates[1]], dim=1)

    def forward(self, before: Tensor, after: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """Return the answers and the last layer's attending queries, both (B, Q, D)."""
        patches = self.patches(before, after)
        x = attending = self.queries.expand(len(before), -1, -1)
        for layer in self.layers:
            x, prompt, attending = layer(x, prompt, patches)
        return x, attending

    def attention(self, attending: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """Return the last layer's attention, mean over the heads: (B, Q, 2 M), rows sum to 1."""
        layer = self.layers[-1]
        assert isinstance(layer, QueryLayer)
        keys, _ = layer.cross_attention.project(self.patches(before, after))
        return layer.cross_attention.weights(attending, keys).mean(1)


class CompactParts(nn.Module):
    """Encoder, prompt and Q-Former of the compact size.

    Attributes:
        entity_projection: from the entities' text features to the width; None without entities.
    """

    def __init__(
        self, *, config: ModelConfig, queries: int, query_layers: int, encoder_layers: int, entity_width: int
    ):
        """Make the parts; ``entity_width`` 0 leaves the entities out of the prompt."""
        super().__init__()
        sizes: dict[str, Any] = {"width": config.width, "heads": config.heads, "dropout": config.dropout}
        self.encoder = CompactEncoder(layers=encoder_layers, **sizes)
        self.query_former = QueryFormer(queries=queries, layers=query_layers, **sizes)
        self.instruction = nn.Parameter(torch.randn(1, 1, config.width) * 0.02)
        self.entity_projection: nn.Linear | None = None
        if entity_width:
            self.entity_projection = nn.Linear(entity_width, config.width)

    def encode(self, pair: PairView) -> Encoded:
        """Eq. 4-5 for both dates in one pass."""
        tokens, attention = self.encoder(torch.cat([pair.before, pair.after]))
        before, after = tokens.chunk(2)
        attention_before, attention_after = attention.unflatten(1, pair.grid).chunk(2)
        return Encoded(before, after, attention_before, attention_after, patches_to_compare(pair))

    def run_qformer(
        self, encoded: Encoded, entities: Tensor | None, names: Callable[[], list[tuple[str, ...]]]
    ) -> QFormerOutput:
        """Eq. 10-11 from the entities' features (B, k, d), None without them; no names are needed."""
        prompt = self.instruction.expand(len(encoded.before), -1, -1)
        if entities is not None and self.entity_projection is not None:
            prompt = torch.cat([prompt, self.entity_projection(entities)], dim=1)
        answers, attending = self.query_former(encoded.before, encoded.after, prompt)
        return QFormerOutput(answers, torch.cat([answers, prompt], dim=1), attending)

    def on_ground(self, encoded: Encoded, fused: QFormerOutput, attention: Tensor) -> Tensor:
        """Pass attention to the memory (B, L, N) on to the patches that the answers read: (B, L, h * w)."""
        assert fused.states is not None
        to_tokens = self.query_former.attention(fused.states, encoded.before, encoded.after)
        before, after = to_tokens.chunk(2, dim=2)
        places = before[..., 1:] + after[..., 1:]  # without [CLS], which has no position
        return attention[..., : fused.answers.shape[1]].to(places.dtype) @ places
