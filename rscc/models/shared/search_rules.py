"""What every search of a decoder must hold to: special ids, the longest sentence, words never produced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from rscc.text.vocabulary import Vocabulary


class ForbiddenWords:
    """What decoding must not produce, as tuples of ids: sentence beginnings, and runs of words anywhere."""

    def __init__(self, prefixes: Sequence[tuple[int, ...]] = (), runs: Sequence[tuple[int, ...]] = ()):
        self._next = _last_words(prefixes)
        self._after = _last_words(runs)

    @classmethod
    def of_words(
        cls, prefixes: Sequence[Sequence[str]], vocabulary: Vocabulary, runs: Sequence[Sequence[str]] = ()
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


@dataclass(frozen=True)
class SearchRules:
    """What the sentences of a search must hold to; besides, none is empty.

    Attributes:
        bos, eos: ids of the begin and end tokens.
        max_words: tokens decoded at most, end token included.
        banned: ids that are never produced (padding, begin, unknown).
        forbidden: beginnings and runs of words that are never produced.
    """

    bos: int
    eos: int
    max_words: int
    banned: tuple[int, ...] = ()
    forbidden: ForbiddenWords = field(default_factory=ForbiddenWords)

    def log_probabilities(self, logits: Tensor, sentences: Sequence[tuple[int, ...]]) -> Tensor:
        """Normalise logits (R, V) of the words that follow R sentences; what is ruled out has minus infinity.

        The logits are changed in place. Either all of the sentences are empty or none.
        """
        never = self.banned if any(sentences) else (*self.banned, self.eos)
        logits[:, list(never)] = float("-inf")
        self.forbidden.apply(logits, sentences)
        return logits.log_softmax(dim=-1)


def _last_words(several: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    """Return the last ids of beginnings or runs by what stands before them."""
    lasts: dict[tuple[int, ...], list[int]] = {}
    for ids in several:
        if ids:
            lasts.setdefault(ids[:-1], []).append(ids[-1])
    return lasts
