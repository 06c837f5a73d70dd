"""Greedy search, beam search, sampling, evenly or by chance; beginnings and runs may be forbidden."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rscc.models.decoder import Decoder
from rscc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sentence: ids without begin and end tokens, and its mean log-probability per token."""

    ids: tuple[int, ...]
    mean_log_probability: float

    @property
    def score(self) -> float:
        """Geometric mean of the tokens' probabilities, in 0..1."""
        return math.exp(self.mean_log_probability)


class ForbiddenWords:
    """What decoding must not produce, as tuples of ids: sentence beginnings, and runs of words anywhere."""

    def __init__(self, prefixes: Sequence[tuple[int, ...]], runs: Sequence[tuple[int, ...]] = ()):
        self._next = _last_words(prefixes)
        self._after = _last_words(runs)

    @classmethod
    def of_words(
        cls,
        prefixes: Sequence[Sequence[str]],
        vocabulary: Vocabulary,
        runs: Sequence[Sequence[str]] = (),
    ) -> ForbiddenWords:
        """Translate what is given in words; what has a word outside the vocabulary cannot occur.

        In a vocabulary of pieces a run forbids longer words that begin with its pieces, too.
        """

        def translated(several: Sequence[Sequence[str]]) -> list[tuple[int, ...]]:
            texts = [" ".join(words) for words in several]
            # A word may be several ids, but no character is more than its four bytes.
            ids = [tuple(vocabulary.encode(text, 4 * len(text) + 3)[1:-1]) for text in texts]
            return [one for one in ids if vocabulary.unk not in one]

        return cls(translated(prefixes), translated(runs))

    def apply(self, logits: Tensor, sentences: Sequence[tuple[int, ...]]) -> None:
        """Set to minus infinity, in place, the logits (R, V) of words that complete what is forbidden."""
        for row, sentence in enumerate(sentences):
            words = self._completing(sentence)
            if words:
                logits[row, words] = float("-inf")

    def along(self, sentences: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
        """Return (row, place, word) of all words of sentences that would complete what is forbidden."""
        return [
            (row, place, word)
            for row, sentence in enumerate(sentences)
            for place in range(len(sentence))
            for word in self._completing(tuple(sentence[:place]))
        ]

    def _completing(self, sentence: tuple[int, ...]) -> list[int]:
        """Return the words that must not follow a beginning."""
        words = list(self._next.get(sentence, ()))
        for before, last in self._after.items():
            if not before or sentence[-len(before) :] == before:
                words += last
        return words


def _last_words(several: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    """Return the last ids of beginnings or runs by what stands before them."""
    found: dict[tuple[int, ...], list[int]] = {}
    for ids in several:
        if ids:
            found.setdefault(ids[:-1], []).append(ids[-1])
    return found


def greedy_search(
    decoder: Decoder,
    memory: Tensor,
    *,
    bos: int,
    eos: int,
    max_words: int,
    banned: Sequence[int] = (),
    forbidden: ForbiddenWords | None = None,
) -> list[Hypothesis]:
    """Take the likeliest word at every step.

    Args:
        decoder: the caption decoder.
        memory: difference tokens (B, N, D).
        bos, eos: ids of the begin and end tokens.
        max_words: tokens decoded at most, end token included.
        banned: ids that are never produced (padding, begin, unknown).
        forbidden: beginnings and runs of words that are never produced.

    No sentence is empty: the end token is never the first.
    """
    return _search(
        decoder,
        memory,
        lambda log_probabilities: log_probabilities.argmax(dim=-1),
        bos=bos,
        eos=eos,
        max_words=max_words,
        banned=banned,
        forbidden=forbidden,
    )


def sample_search(
    decoder: Decoder,
    memory: Tensor,
    *,
    bos: int,
    eos: int,
    max_words: int,
    samples: int,
    generator: torch.Generator | None = None,
    banned: Sequence[int] = (),
    forbidden: ForbiddenWords | None = None,
) -> list[list[Hypothesis]]:
    """Draw ``samples`` sentences of every row of the memory, each word by its probability.

    Other arguments as :func:`greedy_search`; ``generator`` draws the words and lies on the memory's device.
    What must not be produced has probability 0, the others share what it leaves.
    """

    def draw(log_probabilities: Tensor) -> Tensor:
        return torch.multinomial(log_probabilities.exp(), 1, generator=generator).squeeze(1)

    settings = {"bos": bos, "eos": eos, "max_words": max_words, "banned": banned, "forbidden": forbidden}
    return _search_several(decoder, memory, draw, samples, **settings)


def stratified_search(
    decoder: Decoder,
    memory: Tensor,
    *,
    bos: int,
    eos: int,
    max_words: int,
    samples: int,
    banned: Sequence[int] = (),
    forbidden: ForbiddenWords | None = None,
) -> list[list[Hypothesis]]:
    """Take ``samples`` sentences of every row that stand for all that the decoder may say.

    They are drawn as by :func:`sample_search`, but with the same numbers for every row, whatever its batch
    and whenever it is asked for, and those of each place lie evenly in 0..1 (a Latin hypercube, McKay et al.
    1979): of the first word, each comes as often as it is probable, to within one. The numbers of later
    places do not follow from what is left of the first, as in arithmetic coding: after a few words that
    would be nothing but rounding.

    Other arguments as :func:`greedy_search`.
    """
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(max_words, samples, generator=generator, dtype=torch.float64).argsort(dim=1)
    within = torch.rand(max_words, samples, generator=generator, dtype=torch.float64)
    places = iter(((order + within) / samples).repeat(1, memory.shape[0]).to(memory.device))

    def next_words(log_probabilities: Tensor) -> Tensor:
        ends = log_probabilities.double().exp().cumsum(dim=1)
        at = next(places).unsqueeze(1) * ends[:, -1:]
        return torch.searchsorted(ends, at, right=True).clamp(max=ends.shape[1] - 1).squeeze(1)

    settings = {"bos": bos, "eos": eos, "max_words": max_words, "banned": banned, "forbidden": forbidden}
    return _search_several(decoder, memory, next_words, samples, **settings)


def _search_several(
    decoder: Decoder, memory: Tensor, choose: Callable[[Tensor], Tensor], samples: int, **settings: Any
) -> list[list[Hypothesis]]:
    """Decode ``samples`` sentences per row of the memory, which follow each other; see :func:`_search`."""
    rows = memory.shape[0] * samples
    found = _search(decoder, decoder.repeat(memory, samples), choose, rows=rows, **settings)
    return [found[start : start + samples] for start in range(0, rows, samples)]


def _search(
    decoder: Decoder,
    memory: Tensor,
    choose: Callable[[Tensor], Tensor],
    *,
    bos: int,
    eos: int,
    max_words: int,
    banned: Sequence[int],
    forbidden: ForbiddenWords | None,
    rows: int | None = None,
) -> list[Hypothesis]:
    """Decode one sentence per row; ``choose`` picks each row's next word from log-probabilities (R, V)."""
    rows = memory.shape[0] if rows is None else rows
    cache = decoder.start(memory)
    words = torch.full((rows,), bos, device=memory.device)
    sentences: list[tuple[int, ...]] = [()] * rows
    total = [0.0] * rows
    counts = [0] * rows
    done = [False] * rows
    for step in range(max_words):
        logits = decoder.step(words, cache).float()
        never = banned if step else (*banned, eos)
        log_probabilities = _masked_log_softmax(logits, sentences, never, forbidden)
        words = choose(log_probabilities)
        values = log_probabilities.gather(1, words.unsqueeze(1)).squeeze(1)
        for row, (value, word) in enumerate(zip(values.tolist(), words.tolist(), strict=True)):
            if done[row]:
                continue
            total[row] += value
            counts[row] += 1
            if word == eos:
                done[row] = True
            else:
                sentences[row] = (*sentences[row], word)
        if all(done):
            break
    return [Hypothesis(s, t / max(n, 1)) for s, t, n in zip(sentences, total, counts, strict=True)]


def sentence_log_probabilities(
    decoder: Decoder,
    memory: Tensor,
    sentences: Sequence[Sequence[int]],
    *,
    bos: int,
    eos: int,
    max_words: int,
    banned: Sequence[int] = (),
    forbidden: ForbiddenWords | None = None,
) -> Tensor:
    """Return the mean log-probability per token, (R,) with gradients, of sentences as a search found them.

    Args:
        decoder: the caption decoder, run by teacher forcing.
        memory: difference tokens (B, N, D); the first R / B sentences belong to the first row, and so on.
        sentences: R times ids without begin and end; the end counts as a token of all but those of
            ``max_words`` words, which were cut off.
        bos, eos, max_words, banned, forbidden: as in :func:`greedy_search`. What must not be produced has
            probability 0, so that this is the distribution that :func:`sample_search` draws from.
    """
    rows, device = len(sentences), memory.device
    targets = [[*sentence, eos][:max_words] for sentence in sentences]
    longest = max(map(len, targets))
    lengths = torch.tensor([len(target) for target in targets], device=device)
    target = torch.tensor([one + [eos] * (longest - len(one)) for one in targets], device=device)  # (R, L)
    inputs = torch.cat([target.new_full((rows, 1), bos), target[:, :-1]], dim=1)
    logits = decoder(decoder.repeat(memory, rows // memory.shape[0]), inputs).logits.float()
    if banned:
        logits = logits.index_fill(2, torch.tensor(banned, device=device), float("-inf"))
    never = [(row, 0, eos) for row in range(rows)]
    never += [] if forbidden is None else forbidden.along(targets)
    places = torch.tensor(never, device=device).unbind(1)
    logits = logits.index_put(places, logits.new_tensor(float("-inf")))
    chosen = logits.log_softmax(dim=-1).gather(2, target.unsqueeze(2)).squeeze(2)  # (R, L)
    spoken = torch.arange(longest, device=device) < lengths.unsqueeze(1)
    return chosen.masked_fill(~spoken, 0.0).sum(1) / lengths


def beam_search(
    decoder: Decoder,
    memory: Tensor,
    *,
    bos: int,
    eos: int,
    max_words: int,
    beams: int,
    banned: Sequence[int] = (),
    forbidden: ForbiddenWords | None = None,
) -> list[list[Hypothesis]]:
    """Keep the ``beams`` likeliest beginnings of every sample; arguments as :func:`greedy_search`.

    Finished sentences are ranked by mean log-probability per token. A sample stops when it has ``beams``
    finished sentences and no beginning is likelier per token than the worst of them. Returns per sample at
    most ``beams`` hypotheses, best first, never empty.
    """
    batch, device = memory.shape[0], memory.device
    cache = decoder.start(memory.repeat_interleave(beams, dim=0))
    words = torch.full((batch * beams,), bos, device=device)
    sentences: list[tuple[int, ...]] = [()] * (batch * beams)
    totals = torch.full((batch, beams), float("-inf"), device=device)
    totals[:, 0] = 0.0  # all beams begin alike: only the first may branch
    finished = [_Finished(beams) for _ in range(batch)]
    for step in range(1, max_words + 1):
        logits = decoder.step(words, cache).float()
        never = banned if step > 1 else (*banned, eos)
        log_probabilities = _masked_log_softmax(logits, sentences, never, forbidden)
        vocabulary = log_probabilities.shape[-1]
        candidates = totals.unsqueeze(2) + log_probabilities.view(batch, beams, vocabulary)
        values, flat = candidates.flatten(1).topk(2 * beams, dim=1)
        rows: list[int] = []
        next_words: list[int] = []
        next_totals: list[float] = []
        next_sentences: list[tuple[int, ...]] = []
        for sample in range(batch):
            kept = 0
            for value, position in zip(values[sample].tolist(), flat[sample].tolist(), strict=True):
                if kept == beams:  # what is less likely than all beams, an end too, is no candidate
                    break
                parent, word = sample * beams + position // vocabulary, position % vocabulary
                if word == eos:
                    finished[sample].add(sentences[parent], value / step)
                    continue
                kept += 1
                rows.append(parent)
                next_words.append(word)
                next_totals.append(value)
                next_sentences.append((*sentences[parent], word))
            finished[sample].close(next_totals[sample * beams] / step)
        if all(done.closed for done in finished):
            break
        sentences = next_sentences
        cache.select(torch.tensor(rows, device=device))
        words = torch.tensor(next_words, device=device)
        totals = torch.tensor(next_totals, device=device).view(batch, beams)
    for sample, done in enumerate(finished):
        if not done.best:  # nothing ended within max_words: give the beginnings as they stand
            for beam in range(beams):
                done.add(sentences[sample * beams + beam], totals[sample, beam].item() / max_words)
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


def _masked_log_softmax(
    logits: Tensor,
    sentences: Sequence[tuple[int, ...]],
    banned: Sequence[int],
    forbidden: ForbiddenWords | None,
) -> Tensor:
    if banned:
        logits[:, list(banned)] = float("-inf")
    if forbidden is not None:
        forbidden.apply(logits, sentences)
    return logits.log_softmax(dim=-1)
