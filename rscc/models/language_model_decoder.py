"""A causal language model of transformers that replaces the shared caption decoder (DAVIR, Eq. 11).

The memory is a prefix of embeddings in the model's own width: the output of the Q-Former, then the prompt,
which begins with the begin token. The caption follows directly, as in the language model's own training: the
begin token that search and losses put before a caption represents the prefix and is not fed a second time.

Rows of zeros in the memory are padding. They may be anywhere, get no attention and count for no position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rscc.models.shared.decoder import Decoder
from rscc.structures import DecoderOutput
from rscc.text.tokenizer import TokenizerVocabulary

PROMPT_TOKENS = 128


@dataclass
class LanguageModelCache:
    """State of decoding word by word.

    Attributes:
        past: keys and values of all layers, as transformers stores them.
        mask: (B, N + words), 0 at padding.
        position: (B,), position of the next word, padding not counted.
        logits: (B, V) of the first word, known once the prefix is read; None after they are used.
    """

    past: Any
    mask: Tensor
    position: Tensor
    logits: Tensor | None

    def select(self, rows: Tensor) -> None:
        """Keep and reorder samples by their row numbers."""
        self.past.batch_select_indices(rows)
        self.mask, self.position = self.mask[rows], self.position[rows]
        if self.logits is not None:
            self.logits = self.logits[rows]


class LanguageModelDecoder(Decoder):
    """Captions from a prefix of embeddings."""

    def __init__(self, *, language_model: Any, vocabulary: TokenizerVocabulary):
        super().__init__()
        self.language_model = language_model
        self.vocabulary = vocabulary
        self.width = int(language_model.get_input_embeddings().weight.shape[1])

    def prefix(self, visual: Tensor, prompts: Sequence[str]) -> Tensor:
        """Append prompts to visual embeddings (B, K, D): (B, N, D), the shorter ones padded with zeros.

        Prompts are truncated to :data:`PROMPT_TOKENS`.
        """
        ids = [self.vocabulary.prompt(prompt, PROMPT_TOKENS) for prompt in prompts]
        longest = max(map(len, ids))
        table = torch.tensor([row + [self.vocabulary.pad] * (longest - len(row)) for row in ids])
        lengths = torch.tensor([len(row) for row in ids])
        real = (torch.arange(longest) < lengths.unsqueeze(1)).unsqueeze(-1)  # (B, longest, 1)
        words = self._embed(table.to(visual.device)) * real.to(visual.device)
        return torch.cat([visual.to(words.dtype), words], dim=1)

    def forward(self, memory: Tensor, tokens: Tensor) -> DecoderOutput:
        """Teacher forcing: logits of the word after each of ``tokens`` (B, L) from ``memory`` (B, N, D).

        The model has no cross-attention: ``words`` of the output are the words' embeddings (the prefix's last
        one instead of the begin token), and ``attended`` is ``hidden``.
        """
        length = memory.shape[1]
        mask = _real_rows(memory)
        embedded = self._embed(tokens[:, 1:])
        inputs = torch.cat([memory.to(embedded.dtype), embedded], dim=1)
        # Padding after a caption is in the future of every word that is learned from: no mask is needed.
        mask = torch.cat([mask, mask.new_ones(tokens.shape[0], tokens.shape[1] - 1)], dim=1)
        states = self._run(inputs, mask, _positions(mask))
        hidden = torch.cat([_at_last(states[:, :length], mask[:, :length]), states[:, length:]], dim=1)
        words = torch.cat([_at_last(inputs[:, :length], mask[:, :length]), embedded], dim=1)
        return DecoderOutput(logits=self._logits(hidden), hidden=hidden, words=words, attended=hidden)

    def start(self, memory: Tensor) -> LanguageModelCache:
        """Read the prefix once; the result is passed to :meth:`step`."""
        from transformers import DynamicCache

        mask = _real_rows(memory)
        past = DynamicCache()
        dtype = self.language_model.get_input_embeddings().weight.dtype
        states = self._run(memory.to(dtype), mask, _positions(mask), past)
        logits = self._logits(_at_last(states, mask))[:, 0]
        return LanguageModelCache(past, mask, mask.sum(1), logits)

    def step(self, tokens: Tensor, cache: LanguageModelCache) -> Tensor:
        """Return logits (B, V) of the word after ``tokens`` (B,), the newest words; extends the cache."""
        if cache.logits is not None:  # the begin token: the prefix has been read already
            logits, cache.logits = cache.logits, None
            return logits
        cache.mask = torch.cat([cache.mask, cache.mask.new_ones(len(tokens), 1)], dim=1)
        embedded = self._embed(tokens.unsqueeze(1))
        states = self._run(embedded, cache.mask, cache.position.unsqueeze(1), cache.past)
        cache.position = cache.position + 1
        return self._logits(states)[:, 0]

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.language_model.get_input_embeddings()(tokens)

    def _run(self, inputs: Tensor, mask: Tensor, positions: Tensor, past: Any = None) -> Tensor:
        output = self.language_model.base_model(
            inputs_embeds=inputs,
            attention_mask=mask,
            position_ids=positions,
            cache=past,
            use_cache=past is not None,
        )
        return output.last_hidden_state

    def _logits(self, states: Tensor) -> Tensor:
        """Logits of the tokens in the vocabulary; a model's table may be padded beyond it."""
        return self.language_model.get_output_embeddings()(states)[..., : len(self.vocabulary)]


def _real_rows(memory: Tensor) -> Tensor:
    """(B, N) int64, 1 where a row is not all zeros."""
    return (memory != 0).any(dim=-1).long()


def _positions(mask: Tensor) -> Tensor:
    """Positions that do not count padding, (B, N); padding itself is at 0."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def _at_last(states: Tensor, mask: Tensor) -> Tensor:
    """(B, 1, D) of (B, N, D) at each row's last position that is not padding."""
    places = torch.arange(mask.shape[1], device=mask.device) * mask
    return states.gather(1, places.amax(1).view(-1, 1, 1).expand(-1, 1, states.shape[2]))
