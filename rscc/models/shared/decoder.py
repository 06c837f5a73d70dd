"""The caption decoder that all models share: a Transformer decoder with a key-value cache.

Word embedding (300) projected to the model width, learnable positions, then per layer masked
self-attention, cross-attention to the difference tokens, and a feed-forward network; one linear layer
gives the words' logits (RDD+ACR, Caption Decoder, Eq. 14).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from rscc.config import ModelConfig
from rscc.models.shared.blocks import AttentionLayer
from rscc.structures import DecoderOutput


class Decoder(nn.Module, ABC):
    """Interface of decoders for search, losses and captioners."""

    @abstractmethod
    def forward(self, memory: Tensor, tokens: Tensor) -> DecoderOutput:
        """Teacher forcing: logits of the word after each of ``tokens`` (B, L) from ``memory`` (B, N, D)."""

    def attention(self, memory: Tensor, tokens: Tensor) -> Tensor | None:
        """Return the attention of each word of :meth:`forward`: (B, L, N), rows sum to 1; None if unknown."""
        return None

    @abstractmethod
    def start(self, memory: Tensor) -> Any:
        """Read the memory once; the result is passed to :meth:`step`.

        Its method ``select(rows)`` keeps and reorders samples by their row numbers (beam search).
        """

    @abstractmethod
    def step(self, tokens: Tensor, cache: Any) -> Tensor:
        """Return logits (B, V) of the word after ``tokens`` (B,), the newest words; extends the cache."""


@dataclass
class LayerCache:
    """Keys and values of the difference tokens and of the words in one layer.

    Attributes:
        memory: output of :meth:`DecoderLayer.project`, batch first; keys and values (B, heads, N, d_k).
        words: keys and values of the words so far, (B, heads, length, d_k).
    """

    memory: tuple[Tensor, ...]
    words: tuple[Tensor, Tensor] | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values of a new word, (B, heads, 1, d_k) each; return those of all words so far."""
        if self.words is not None:
            keys = torch.cat([self.words[0], keys], dim=2)
            values = torch.cat([self.words[1], values], dim=2)
        self.words = (keys, values)
        return self.words

    def select(self, rows: Tensor) -> None:
        """Keep and reorder samples by their row numbers (beam search)."""
        self.memory = tuple(stored[rows] for stored in self.memory)
        if self.words is not None:
            self.words = (self.words[0][rows], self.words[1][rows])


@dataclass
class DecoderCache:
    """State of decoding word by word."""

    layers: list[LayerCache] = field(default_factory=list)
    length: int = 0

    def select(self, rows: Tensor) -> None:
        """Keep and reorder samples by their row numbers."""
        for layer in self.layers:
            layer.select(rows)


class DecoderLayer(AttentionLayer):
    """Masked self-attention, cross-attention, feed-forward; each with residual and post-normalisation."""

    def forward(
        self, x: Tensor, memory: Tensor, known: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map words (B, L, D) and difference tokens (B, N, D) onwards; every word sees its past only.

        Returns the layer's output, its self-attended words and its attended differences, each (B, L, D).
        ``known`` (B, L) bool is False at padding that no word may see.
        """
        words = self.norms[0](x + self.self_attention(x, x, causal=True, known=known))
        attended = self.cross_attention(words, memory)
        return self.feed(self.norms[1](words + attended)), words, attended

    def feed(self, x: Tensor) -> Tensor:
        """Apply the feed-forward network to words (B, L, D), with its residual and LayerNorm."""
        return self.norms[2](x + self.drop(self.feed_forward(x)))

    def attention(self, words: Tensor, memory: Tensor) -> Tensor:
        """Cross-attention of self-attended words (B, L, D), averaged over the heads: (B, L, N)."""
        keys, _ = self.cross_attention.project(memory)
        return self.cross_attention.weights(words, keys).mean(dim=1)

    def project(self, memory: Tensor) -> tuple[Tensor, ...]:
        """Return keys and values of the difference tokens for :meth:`step`."""
        return self.cross_attention.project(memory)

    def step(self, x: Tensor, cache: LayerCache) -> Tensor:
        """Do the same as :meth:`forward` for one new word (B, 1, D); extends the cache."""
        keys, values = cache.extend(*self.self_attention.project(x))
        x = self.norms[0](x + self.self_attention.attend(x, keys, values))
        keys, values = cache.memory
        x = self.norms[1](x + self.cross_attention.attend(x, keys, values))
        return self.feed(x)


class CaptionDecoder(Decoder):
    """Words from difference tokens.

    Attributes:
        masked: id of the padding that self-attention masks; None where padding only follows the words.
    """

    masked: int | None = None

    def __init__(self, *, config: ModelConfig, vocabulary_size: int, layer: type[DecoderLayer]):
        super().__init__()
        width, heads, dropout = config.width, config.heads, config.dropout
        self.words = nn.Embedding(vocabulary_size, config.word_width)
        self.widen = nn.Linear(config.word_width, width)
        self.positions = nn.Parameter(torch.randn(config.max_words, width) * 0.02)
        self.layers = nn.ModuleList(
            layer(width=width, heads=heads, dropout=dropout) for _ in range(config.decoder_layers)
        )
        self.drop = nn.Dropout(dropout)
        self.logits = nn.Linear(width, vocabulary_size)

    def _typed_layers(self) -> Iterator[DecoderLayer]:
        return (cast(DecoderLayer, layer) for layer in self.layers)

    def _embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        return self.drop(self.widen(self.words(tokens)) + self.positions[start : start + tokens.shape[1]])

    def forward(self, memory: Tensor, tokens: Tensor) -> DecoderOutput:
        """Teacher forcing: logits of the word after each of ``tokens`` (B, L) from ``memory`` (B, N, D)."""
        x = words = attended = self._embed(tokens)
        known = None if self.masked is None else tokens != self.masked
        for layer in self._typed_layers():
            x, words, attended = layer(x, memory, known)
        return DecoderOutput(logits=self.logits(x), hidden=x, words=words, attended=attended)

    def attention(self, memory: Tensor, tokens: Tensor) -> Tensor:
        """Cross-attention of each of ``tokens`` (B, L), the mean over heads and layers: (B, L, N)."""
        x, maps = self._embed(tokens), []
        for layer in self._typed_layers():
            x, words, _ = layer(x, memory)
            maps.append(layer.attention(words, memory))
        return torch.stack(maps).mean(dim=0)

    def start(self, memory: Tensor) -> DecoderCache:
        """Project the difference tokens once; the result is passed to :meth:`step`."""
        return DecoderCache([LayerCache(layer.project(memory)) for layer in self._typed_layers()])

    def step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Return logits (B, V) of the word after ``tokens`` (B,), the newest words; extends the cache."""
        x = self._embed(tokens.unsqueeze(1), cache.length)
        for layer, layer_cache in zip(self._typed_layers(), cache.layers, strict=True):
            x = layer.step(x, layer_cache)
        cache.length += 1
        return self.logits(x[:, -1])
