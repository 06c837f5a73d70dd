"""Greedy search, beam search and sampling; beginnings and runs may be forbidden."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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
        decoder: the caption decoder.
        memory: difference tokens (B, N, D).
        rules: what the sentences must hold to.
    """
    return _search(decoder, memory, rules, partial(torch.argmax, dim=-1), len(memory))


def sample_search(
    decoder: Decoder,
    memory: Tensor,
    rules: SearchRules,
    *,
    samples: int,
    generator: torch.Generator | None = None,
) -> list[list[Hypothesis]]:
    """Draw ``samples`` sentences of every row of the memory, each word by its probability.

    Words that are ruled out have probability 0, the others share what they leave.

    Args:
        decoder, memory, rules: see :func:`greedy_search`.
        samples: how many.
        generator: draws the words and lies on the memory's device.
    """

    def draw(log_probabilities: Tensor) -> Tensor:
        return torch.multinomial(log_probabilities.exp(), 1, generator=generator).squeeze(1)

    rows = memory.shape[0] * samples
    drawn = _search(decoder, decoder.repeat(memory, samples), rules, draw, rows)
    return [drawn[start : start + samples] for start in range(0, rows, samples)]


def _search(
    decoder: Decoder, memory: Tensor, rules: SearchRules, choose: Callable[[Tensor], Tensor], rows: int
) -> list[Hypothesis]:
    """Decode one sentence per row; ``choose`` picks each row's next word from log-probabilities (R, V)."""
    cache = decoder.start(memory)
    words = torch.full((rows,), rules.bos, device=memory.device)
    sentences: list[tuple[int, ...]] = [()] * rows
    total = [0.0] * rows
    counts = [0] * rows
    done = [False] * rows
    for _ in range(rules.max_words):
        log_probabilities = rules.log_probabilities(decoder.step(words, cache).float(), sentences)
        words = choose(log_probabilities)
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


def sentence_log_probabilities(
    decoder: Decoder, memory: Tensor, rules: SearchRules, sentences: Sequence[Sequence[int]]
) -> Tensor:
    """Return the mean log-probability per token, (R,) with gradients, of sentences as a search found them.

    Args:
        decoder: the caption decoder, run by teacher forcing.
        memory: difference tokens (B, N, D); the first R / B sentences belong to the first row, and so on.
        rules: of the search. What they rule out has probability 0, so that this is the distribution that
            :func:`sample_search` draws from.
        sentences: R times ids without begin and end; the end counts as a token of all but those of
            ``max_words`` words, which were cut off.
    """
    rows, device = len(sentences), memory.device
    eos = rules.eos
    targets = [[*sentence, eos][: rules.max_words] for sentence in sentences]
    longest = max(map(len, targets))
    lengths = torch.tensor([len(target) for target in targets], device=device)
    target = torch.tensor([one + [eos] * (longest - len(one)) for one in targets], device=device)  # (R, L)
    inputs = torch.cat([target.new_full((rows, 1), rules.bos), target[:, :-1]], dim=1)
    logits = decoder(decoder.repeat(memory, rows // memory.shape[0]), inputs).logits.float()
    if rules.banned:
        logits = logits.index_fill(2, torch.tensor(rules.banned, device=device), float("-inf"))
    never = [*((row, 0, eos) for row in range(rows)), *rules.forbidden.along(targets)]
    places = torch.tensor(never, device=device).unbind(1)
    logits = logits.index_put(places, logits.new_tensor(float("-inf")))
    chosen = logits.log_softmax(dim=-1).gather(2, target.unsqueeze(2)).squeeze(2)  # (R, L)
    spoken = torch.arange(longest, device=device) < lengths.unsqueeze(1)
    return chosen.masked_fill(~spoken, 0.0).sum(1) / lengths


def beam_search(
    decoder: Decoder, memory: Tensor, rules: SearchRules, *, beams: int
) -> list[list[Hypothesis]]:
    """Keep the ``beams`` likeliest beginnings of every sample; see :func:`greedy_search`.

    Finished sentences are ranked by mean log-probability per token. A sample stops when it has ``beams``
    finished sentences and no beginning is likelier per token than the worst of them. Returns per sample at
    most ``beams`` hypotheses, best first, never empty.
    """
    batch, device = memory.shape[0], memory.device
    cache = decoder.start(memory.repeat_interleave(beams, dim=0))
    words = torch.full((batch * beams,), rules.bos, device=device)
    sentences: list[tuple[int, ...]] = [()] * (batch * beams)
    totals = torch.full((batch, beams), float("-inf"), device=device)
    totals[:, 0] = 0.0  # all beams begin alike: only the first may branch
    finished = [_Finished(beams) for _ in range(batch)]
    for step in range(1, rules.max_words + 1):
        log_probabilities = rules.log_probabilities(decoder.step(words, cache).float(), sentences)
        vocabulary = log_probabilities.shape[-1]
        candidates = totals.unsqueeze(2) + log_probabilities.view(batch, beams, vocabulary)
        values, flat = candidates.flatten(1).topk(2 * beams, dim=1)
        kept: list[tuple[int, int, float]] = []  # a beginning's row, its next word, their total
        for sample in range(batch):
            for value, position in zip(values[sample].tolist(), flat[sample].tolist(), strict=True):
                # What is less likely than all beams, an end too, is no candidate.
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
        if not done.best:  # nothing ended within max_words: give the beginnings as they stand
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
        """Take a sentence in, unless it is impossible or the sample is closed."""
        if self.closed or mean == float("-inf"):
            return
        self.best.append(Hypothesis(ids, mean))
        self.best.sort(key=lambda hypothesis: -hypothesis.mean_log_probability)
        del self.best[self.beams :]

    def close(self, best_beginning: float) -> None:
        """Close the sample when it is full and its likeliest beginning (mean per token) is no better."""
        full = len(self.best) == self.beams
        self.closed = self.closed or (full and best_beginning <= self.best[-1].mean_log_probability)
