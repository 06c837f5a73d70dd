"""Words and their ids.

A vocabulary contains the words that occur at least ``min_count`` times in the training captions; every other
word is read as ``<unk>``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rscc.errors import ConfigInvalid, DatasetLayoutInvalid, ModelFolderInvalid

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")

# A word starts and ends with a letter or digit and may contain apostrophes and hyphens.
_WORD = re.compile(r"<unk>|[^\W_]+(?:['’\-][^\W_]+)*")


def tokenize(text: str) -> list[str]:
    """Split a sentence into lower-case words.

    Punctuation and surrounding space are dropped; hyphens and apostrophes inside a word stay
    (``"T-shaped, new."`` gives ``["t-shaped", "new"]``).
    """
    return _WORD.findall(text.lower())


class Vocabulary:
    """A fixed list of words; the id of a word is its index.

    Attributes:
        words: all words by id; the first four are :data:`SPECIAL`.
        pad, bos, eos, unk: ids of padding, begin, end and unknown word: 0, 1, 2, 3.
    """

    pad, bos, eos, unk = range(4)

    def __init__(self, words: Sequence[str]):
        """Use the full list of words.

        Raises:
            ModelFolderInvalid: the list does not start with :data:`SPECIAL`, or has a word twice.
        """
        if tuple(words[: len(SPECIAL)]) != SPECIAL:
            raise ModelFolderInvalid(f"a vocabulary starts with {' '.join(SPECIAL)}; found {list(words[:4])}")
        self.words = tuple(words)
        self._ids = {word: i for i, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            twice = next(word for word, n in Counter(self.words).items() if n > 1)
            raise ModelFolderInvalid(f"the word {twice!r} is in the vocabulary twice")

    @classmethod
    def build(cls, captions: Iterable[str], min_count: int = 5) -> Vocabulary:
        """Collect the words of captions.

        Words are ordered by decreasing count, then alphabetically, so that ids do not depend on the order of
        the captions.

        Raises:
            DatasetLayoutInvalid: no word is frequent enough.
        """
        frequent = _frequent(captions, min_count)
        if not frequent:
            raise DatasetLayoutInvalid(f"no word occurs {min_count} times in the captions; lower min_count")
        return cls((*SPECIAL, *frequent))

    def extended(self, captions: Iterable[str], min_count: int = 5) -> Vocabulary:
        """Return a vocabulary with the same ids and the new words of captions appended.

        New words are ordered as in :meth:`build`; without any the vocabulary itself is returned.
        """
        new = [word for word in _frequent(captions, min_count) if word not in self]
        return Vocabulary((*self.words, *new)) if new else self

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def encode(self, text: str, max_length: int) -> list[int]:
        """Return ``[bos, words ..., eos]``, truncated to ``max_length`` ids, 2 or more, including eos."""
        return [self.bos, *self._numbers(text)[: max_length - 2], self.eos]

    def _numbers(self, text: str) -> list[int]:
        return [self._ids.get(word, self.unk) for word in tokenize(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the sentence up to the first eos, words joined by one space; bos and pad are left out."""
        return " ".join(self.words[i] for i in self._spoken(ids))

    def _spoken(self, ids: Iterable[int]) -> list[int]:
        """The ids up to the first eos, without bos and pad."""
        spoken = []
        for one in ids:
            i = int(one)
            if i == self.eos:
                break
            if not 0 <= i < len(self.words):
                raise IndexError(f"the id {i} is outside the vocabulary of {len(self.words)} words")
            if i not in (self.pad, self.bos):
                spoken.append(i)
        return spoken

    def save(self, path: str | Path) -> None:
        """Write the words as JSON."""
        text = json.dumps({"words": self.words}, ensure_ascii=False, indent=0)
        Path(path).write_text(text + "\n", encoding="utf-8")


def _frequent(captions: Iterable[str], min_count: int) -> list[str]:
    """Return words with at least ``min_count`` occurrences, by decreasing count, then alphabetically."""
    if min_count < 1:
        raise ConfigInvalid(f"min_count is {min_count}; use 1 or more")
    counts = Counter(word for caption in captions for word in tokenize(caption))
    frequent = [word for word, n in counts.items() if n >= min_count and word not in SPECIAL]
    return sorted(frequent, key=lambda word: (-counts[word], word))
