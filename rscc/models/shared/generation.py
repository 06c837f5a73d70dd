"""Greedy search and beam search for captions, their constraints, and the ranking of their sentences.

The likeliest sentence of a captioner is often generic, and may name an object that hardly any other sentence
of the search names. So of the sentences c_1..c_N of a wide beam search, with mean log-probability per word l,
the one with the highest value is chosen, w being the words of c that name objects::

    value(c) = l(c) - SUPPORT * max_w (1 - share of c_1..c_N that name a class of w)

A sentence without objects counts as if no other sentence named its object. The classes of words are those of
:mod:`rscc.text.object_classes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from rscc.models.shared.decoder import Decoder
from rscc.text.object_classes import objects_among
from rscc.text.vocabulary import Vocabulary, tokenize

SUPPORT = 0.5


class ForbiddenWords:
    """Word sequences that decoding must not produce, as tuples of ids: prefixes, and runs anywhere."""

    def __init__(self, prefixes: Sequence[tuple[int, ...]] = (), runs: Sequence[tuple[int, ...]] = ()):
        self._next = _last_words(prefixes)
        self._after = _last_words(runs)

    @classmethod
    def of_words(
        cls, prefixes: Sequence[Sequence[str]], vocabulary: Vocabulary, runs: Sequence[Sequence[str]] = ()
    ) -> ForbiddenWords:
        """Translate word sequences to ids; those with a word outside the vocabulary cannot occur.

        With a vocabulary of pieces, a run also forbids longer words that begin with its pieces.
        """

        def translated(several: Sequence[Sequence[str]]) -> list[tuple[int, ...]]:
            texts = [" ".join(words) for words in several]
            # A word may become several ids, at most four per character (its bytes).
            ids = [tuple(vocabulary.encode(text, 4 * len(text) + 3)[1:-1]) for text in texts]
            return [one for one in ids if vocabulary.unk not in one]

        return cls(translated(prefixes), translated(runs))

    def apply(self, logits: Tensor, sentences: Sequence[tuple[int, ...]]) -> None:
        """Set the logits (R, V) of words that complete a forbidden sequence to minus infinity, in place."""
        for row, sentence in enumerate(sentences):
            words = list(self._next.get(sentence, ()))
            for before, last in self._after.items():
                if not before or sentence[-len(before) :] == before:
                    words += last
            if words:
                logits[row, words] = float("-inf")


@dataclass(frozen=True)
class SearchRules:
    """Constraints of the sentences of a search, which are never empty.

    Attributes:
        bos, eos: ids of the begin and end tokens.
        max_words: maximum number of decoded tokens, end token included.
        banned: ids that are never produced (padding, begin, unknown).
        forbidden: word sequences that are never produced.
    """

    bos: int
    eos: int
    max_words: int
    banned: tuple[int, ...] = ()
    forbidden: ForbiddenWords = field(default_factory=ForbiddenWords)

    def log_probabilities(self, logits: Tensor, sentences: Sequence[tuple[int, ...]]) -> Tensor:
        """Normalise logits (R, V) of the words that follow R sentences; forbidden words get minus infinity.

        The logits are changed in place. Either all of the sentences are empty or none.
        """
        never = self.banned if any(sentences) else (*self.banned, self.eos)
        logits[:, list(never)] = float("-inf")
        self.forbidden.apply(logits, sentences)
        return logits.log_softmax(dim=-1)


def _last_words(several: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    """Return the last ids of sequences by the ids before them."""
    lasts: dict[tuple[int, ...], list[int]] = {}
    for ids in several:
        if ids:
            lasts.setdefault(ids[:-1], []).append(ids[-1])
    return lasts


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
    """Take the likeliest word at every step, given difference tokens (B, N, D)."""
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


def supported_order(sentences: Sequence[str], log_probabilities: Sequence[float]) -> list[int]:
    """Return the indices of sentences by decreasing value; ``log_probabilities`` are means per word."""
    # Without a parser: in captions of changes, words of the object classes are almost always nouns.
    objects = [objects_among([(word, True) for word in tokenize(one)]) for one in sentences]

    def disagreement(classes: Sequence[str]) -> float:
        return 1 - float(np.mean([not one.classes.isdisjoint(classes) for one in objects]))

    unsupported = [max((disagreement(classes) for _, classes in one.words), default=1.0) for one in objects]
    values = np.array(log_probabilities) - SUPPORT * np.array(unsupported)
    return np.argsort(-values, kind="stable").tolist()
