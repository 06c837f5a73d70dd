"""Constraints of every search: special ids, maximum length, words that are never produced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from rscc.text.vocabulary import Vocabulary


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
            words = self._completing(sentence)
            if words:
                logits[row, words] = float("-inf")

    def _completing(self, sentence: tuple[int, ...]) -> list[int]:
        """Return the words that must not follow a partial sentence."""
        words = list(self._next.get(sentence, ()))
        for before, last in self._after.items():
            if not before or sentence[-len(before) :] == before:
                words += last
        return words


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
