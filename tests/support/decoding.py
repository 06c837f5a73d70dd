"""What a caption decoder must give however it is asked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rscc.models.shared.decoder import Decoder
from rscc.text.vocabulary import Vocabulary


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
