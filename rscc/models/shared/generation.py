"""Greedy search and beam search for captions."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rscc.models.shared.decoder import Decoder
from rscc.models.shared.search_rules import SearchRules


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sentence: ids without begin and end tokens, and its mean log-probability per token."""

    ids: tuple[int, ...]
    mean_log_probability: float

    @property
    def score(self) -> float:
        """Geometric mean of the tokens' probabilities, in 0..1."""
        return math.exp(self.mean_log_probability)


def greedy_search(decoder: Decoder, memory: Tensor, rules: SearchRules) -> list[Hypothesis]:
    """Take the likeliest word at every step.

    Args:
        memory: difference tokens (B, N, D).
    """
    cache = decoder.start(memory)
    rows = len(memory)
    words = torch.full((rows,), rules.bos, device=memory.device)
    sentences: list[tuple[int, ...]] = [()] * rows
    total = [0.0] * rows
    counts = [0] * rows
    done = [False] * rows
    for _ in range(rules.max_words):
        log_probabilities = rules.log_probabilities(decoder.step(words, cache).float(), sentences)
        words = log_probabilities.argmax(-1)
        values = log_probabilities.gather(1, words.unsqueeze(1)).squeeze(1)
        for row, (value, word) in enumerate(zip(values.tolist(), words.tolist(), strict=True)):
            if done[row]:
                continue
            total[row] += value
            counts[row] += 1
            if word == rules.eos:
                done[row] = True
            else:
                sentences[row] = (*sentences[row], word)
        if all(done):
            break
    return [Hypothesis(s, t / max(n, 1)) for s, t, n in zip(sentences, total, counts, strict=True)]


def beam_search(
    decoder: Decoder, memory: Tensor, rules: SearchRules, *, beams: int
) -> list[list[Hypothesis]]:
    """Keep the ``beams`` likeliest partial sentences of every sample; see :func:`greedy_search`.

    Finished sentences are ranked by mean log-probability per token. A sample stops when it has ``beams``
    finished sentences and no partial one is likelier per token than the worst of them. Returns at most
    ``beams`` hypotheses per sample, best first, at least one.
    """
    batch, device = memory.shape[0], memory.device
    cache = decoder.start(memory.repeat_interleave(beams, dim=0))
    words = torch.full((batch * beams,), rules.bos, device=device)
    sentences: list[tuple[int, ...]] = [()] * (batch * beams)
    totals = torch.full((batch, beams), float("-inf"), device=device)
    totals[:, 0] = 0.0  # all beams start equal: only the first may branch
    finished = [_Finished(beams) for _ in range(batch)]
    for step in range(1, rules.max_words + 1):
        log_probabilities = rules.log_probabilities(decoder.step(words, cache).float(), sentences)
        vocabulary = log_probabilities.shape[-1]
        candidates = totals.unsqueeze(2) + log_probabilities.view(batch, beams, vocabulary)
        values, flat = candidates.flatten(1).topk(2 * beams, dim=1)
        kept: list[tuple[int, int, float]] = []  # row of a partial sentence, its next word, their total
        for sample in range(batch):
            for value, position in zip(values[sample].tolist(), flat[sample].tolist(), strict=True):
                # Candidates beyond the beams are dropped, ends of sentences included.
                if len(kept) == (sample + 1) * beams:
                    break
                parent, word = sample * beams + position // vocabulary, position % vocabulary
                if word == rules.eos:
                    finished[sample].add(sentences[parent], value / step)
                    continue
                kept.append((parent, word, value))
            finished[sample].close(kept[sample * beams][2] / step)
        if all(done.closed for done in finished):
            break
        sentences = [(*sentences[parent], word) for parent, word, _ in kept]
        parents, words, best = (torch.tensor(column, device=device) for column in zip(*kept, strict=True))
        cache.select(parents)
        totals = best.view(batch, beams)
    for sample, done in enumerate(finished):
        if not done.best:  # no sentence ended within max_words: return the partial ones
            for beam in range(beams):
                done.add(sentences[sample * beams + beam], totals[sample, beam].item() / rules.max_words)
    return [done.best for done in finished]


class _Finished:
    """The likeliest finished sentences of one sample, best first."""

    def __init__(self, beams: int):
        self.beams = beams
        self.best: list[Hypothesis] = []
        self.closed = False

    def add(self, ids: tuple[int, ...], mean: float) -> None:
        """Add a sentence, unless it is impossible or the sample is closed."""
        if self.closed or mean == float("-inf"):
            return
        self.best.append(Hypothesis(ids, mean))
        self.best.sort(key=lambda hypothesis: -hypothesis.mean_log_probability)
        del self.best[self.beams :]

    def close(self, best_beginning: float) -> None:
        """Close the sample when it is full and no partial sentence is likelier (mean per token)."""
        full = len(self.best) == self.beams
        self.closed = self.closed or (full and best_beginning <= self.best[-1].mean_log_probability)
