"""Rewards of sampled captions: CIDEr-D, a smoothed BLEU-4, and a penalty for objects that nobody names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from rscc.text.object_classes import objects_among
from rscc.text.vocabulary import tokenize

LONGEST = 4
SIGMA = 6.0

NGram = tuple[str, ...]


def count_ngrams(words: Sequence[str]) -> Counter[NGram]:
    """Count the runs of 1 to 4 words."""
    return Counter(tuple(words[i : i + n]) for n in range(1, LONGEST + 1) for i in range(len(words) - n + 1))


@dataclass(frozen=True)
class _Weighted:
    """A sentence as CIDEr-D sees it: g_k of all n-grams, their norm per length n, and the number of words."""

    weights: dict[NGram, float]
    norms: tuple[float, ...]
    length: int


class CiderD:
    """CIDEr-D against fixed document frequencies (Vedantam et al. 2015, Sec. 3 and 5).

    A sentence is the vector g of its n-grams, g_k = h_k log(|I| / |{images whose references hold k}|), h_k
    counted. For n-grams of one length (their Eq. 4, with the clipping and the length penalty of Eq. 7)::

        CIDEr-D_n(c, S) = 10 / m * sum_j exp(-(l(c) - l(s_j))^2 / (2 sigma^2))
                          * (min(g(c), g(s_j)) . g(s_j)) / (|g(c)| |g(s_j)|)

    and CIDEr-D is the mean over n = 1..4; 1.0 is what is printed as 100. An n-gram in no document counts as
    if it stood in one.
    """

    def __init__(self, documents: Iterable[tuple[Sequence[str], float]]):
        """Count in how many documents each n-gram stands.

        Args:
            documents: the references of each training pair, in words joined by spaces, and what the document
                counts: 1, or shares that add up to 1 where a pair is shown with several wordings (flips).
        """
        counts: dict[NGram, float] = {}
        total = 0.0
        for references, share in documents:
            total += share
            for gram in {gram for one in references for gram in count_ngrams(tokenize(one))}:
                counts[gram] = counts.get(gram, 0.0) + share
        self._most = math.log(max(1.0, total))
        self._rarity = {gram: self._most - math.log(max(1.0, count)) for gram, count in counts.items()}

    def score(self, captions: Sequence[str], references: Sequence[str]) -> list[float]:
        """Return CIDEr-D of each caption of one pair, from 0 to 10."""
        truth = [self._weigh(tokenize(one)) for one in references]
        return [self._similarity(self._weigh(tokenize(one)), truth) for one in captions]

    def _weigh(self, words: Sequence[str]) -> _Weighted:
        weights, squares = {}, [0.0] * LONGEST
        for gram, count in count_ngrams(words).items():
            weight = count * self._rarity.get(gram, self._most)
            weights[gram] = weight
            squares[len(gram) - 1] += weight * weight
        return _Weighted(weights, tuple(map(math.sqrt, squares)), len(words))

    def _similarity(self, caption: _Weighted, truth: Sequence[_Weighted]) -> float:
        total = 0.0
        for one in truth:
            weights = one.weights
            dots = [0.0] * LONGEST
            for gram, weight in caption.weights.items():
                other = weights.get(gram)
                if other is not None:
                    dots[len(gram) - 1] += min(weight, other) * other
            cosine = sum(
                dot / (a * b) for dot, a, b in zip(dots, caption.norms, one.norms, strict=True) if a and b
            )
            total += cosine * math.exp(-((caption.length - one.length) ** 2) / (2 * SIGMA**2))
        return 10 * total / (LONGEST * len(truth))


def sentence_bleu4(caption: str, references: Sequence[str]) -> float:
    """BLEU-4 of one sentence, in 0..1, with one added to hits and n-grams from n = 2 (Lin & Och 2004).

    The brevity penalty takes the reference whose length is closest, the shorter of two.
    """
    words = tokenize(caption)
    if not words:
        return 0.0
    truth = [tokenize(one) for one in references]
    most: Counter[NGram] = Counter()
    for one in truth:
        most |= count_ngrams(one)
    hits = [0] * LONGEST
    for gram, count in count_ngrams(words).items():
        hits[len(gram) - 1] += min(count, most[gram])
    if not hits[0]:
        return 0.0
    totals = [max(0, len(words) - n) for n in range(LONGEST)]
    shares = [hits[0] / totals[0], *((h + 1) / (t + 1) for h, t in zip(hits[1:], totals[1:], strict=True))]
    closest = min((len(one) for one in truth), key=lambda length: (abs(length - len(words)), length))
    brevity = min(1.0, math.exp(1 - closest / len(words)))
    return brevity * math.prod(shares) ** (1 / LONGEST)


def usual_nouns(captions: Iterable[Sequence[tuple[str, bool]]]) -> frozenset[str]:
    """Return the words that are nouns in half of their places or more, as :mod:`rscc.text.parsing` read them.

    Drawn captions are too many, and too odd, to be parsed one by one.

    Args:
        captions: the words of each, with whether they are nouns (:attr:`rscc.text.parsing.Segments.words`).
    """
    balance: Counter[str] = Counter()
    for words in captions:
        for word, noun in words:
            balance[word] += 1 if noun else -1
    return frozenset(word for word, more in balance.items() if more >= 0)


def unnamed_share(caption: str, references: Sequence[str], nouns: Set[str]) -> float:
    """Return the share of a caption's objects of whose classes no reference names one, in 0..1.

    The classes are those of :mod:`rscc.text.object_classes`, by which the evaluation counts; 0 without any
    object.
    """
    objects, *others = (
        objects_among([(w, w in nouns) for w in tokenize(one)]) for one in (caption, *references)
    )
    named = frozenset[str]().union(*(one.classes for one in others))
    wrong = sum(named.isdisjoint(classes) for _, classes in objects.words)
    return wrong / max(1, len(objects.words))


class Reward:
    """A weighted sum of scores, less a penalty for objects that no reference names."""

    def __init__(
        self,
        cider: CiderD,
        weights: dict[str, float],
        *,
        nouns: Set[str] = frozenset(),
        hallucination: float = 0.0,
    ):
        """Take the weights of ``cider`` and ``bleu4`` (absent: 0), and the penalty on ``unnamed_share``."""
        self.cider, self.nouns, self.hallucination = cider, nouns, hallucination
        self.cider_weight, self.bleu_weight = weights.get("cider", 0.0), weights.get("bleu4", 0.0)

    def __call__(self, captions: Sequence[str], references: Sequence[str]) -> list[float]:
        """Return the reward of each caption of one pair."""
        total = [0.0] * len(captions)
        if self.cider_weight:
            total = [self.cider_weight * one for one in self.cider.score(captions, references)]
        for i, caption in enumerate(captions):
            if self.bleu_weight:
                total[i] += self.bleu_weight * sentence_bleu4(caption, references)
            if self.hallucination:
                total[i] -= self.hallucination * unnamed_share(caption, references, self.nouns)
        return total
