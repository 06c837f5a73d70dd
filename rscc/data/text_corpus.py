"""A corpus of captions without images: what the decoder learns as language before it sees any pair.

The file is JSON, or gzipped JSON (``.json.gz``): ``{"train": [...], "val": [...]}``, each a list of
``{"filename": text, "sentences": [text, ...]}``, the sentences of one pair. Other keys, a test split above
all, are skipped without a look at what they hold.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from rscc.data.annotations import clean_captions, list_of
from rscc.data.pairs import FLIPS, add_captions, flip_words
from rscc.errors import DatasetLayoutInvalid
from rscc.structures import PairBatch
from rscc.vocabulary import Vocabulary


@dataclass(frozen=True)
class TextCorpus:
    """Sentences by pair, lower case; pairs without any are left out.

    Attributes:
        train: of the pairs that are learnt.
        val: of the pairs that the perplexity is measured on.
    """

    train: tuple[tuple[str, ...], ...]
    val: tuple[tuple[str, ...], ...]


def read_corpus(path: str | Path) -> TextCorpus:
    """Read the training and the validation split of a corpus file.

    Raises:
        DatasetLayoutInvalid: the file is missing, no JSON, not laid out as above, or a split is empty.
    """
    path = Path(path)
    if not path.is_file():
        raise DatasetLayoutInvalid(f"{path}: no such file; give a corpus of captions (.json or .json.gz)")
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            content = json.load(file)
        splits = [
            tuple(filter(None, (clean_captions(one["sentences"]) for one in list_of(content[split], dict))))
            for split in ("train", "val")
        ]
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: not a corpus of captions ({error!r}); see rscc/data/text_corpus.py for its layout"
        ) from error
    for name, pairs in zip(("train", "val"), splits, strict=True):
        if not pairs:
            raise DatasetLayoutInvalid(f"{path}: no sentence in its split {name!r}; give a corpus with both")
    return TextCorpus(*splits)


@dataclass
class TextSource:
    """Batches of captions alone, as :class:`~rscc.data.sources.BatchSource` asks: per pair a random one.

    Attributes:
        pairs: the sentences of each pair.
        backwards: the sentences of each pair that are true when its dates are swapped; none where that is not
            known, and no entry at all when ``reversed`` is 0.
        vocabulary: turns words into ids.
        max_words: longest caption in tokens.
        batch_size: captions in a step.
        seed: of order and choice.
        augment: turn the words of direction as a random flip of the images would.
        reversed: probability that a pair speaks backwards.
    """

    pairs: Sequence[Sequence[str]]
    vocabulary: Vocabulary
    max_words: int
    batch_size: int
    seed: int
    augment: bool = True
    reversed: float = 0.0
    backwards: Sequence[Sequence[str]] = field(default_factory=tuple)

    def steps(self) -> int:
        """Return the number of batches in an epoch."""
        return -(-len(self.pairs) // self.batch_size)

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield the batches of epoch ``number``, counted from 0; they hold tokens only."""
        rng = np.random.default_rng((self.seed, number))
        order = rng.permutation(len(self.pairs))
        for start in range(0, len(order), self.batch_size):
            chosen = [self._sentence(i, rng) for i in order[start : start + self.batch_size].tolist()]
            yield text_batch(chosen, self.vocabulary, self.max_words)

    def _sentence(self, index: int, rng: np.random.Generator) -> str:
        sentences = self.pairs[index]
        if self.reversed and self.backwards[index] and rng.random() < self.reversed:
            sentences = self.backwards[index]
        sentence = sentences[int(rng.integers(len(sentences)))]
        return flip_words(sentence, FLIPS[int(rng.integers(len(FLIPS)))]) if self.augment else sentence


def text_batch(sentences: Sequence[str], vocabulary: Vocabulary, max_words: int) -> PairBatch:
    """Make a batch that holds the tokens of sentences and nothing else."""
    batch = PairBatch()
    add_captions(batch, sentences, vocabulary, None, max_words)
    return batch


def counted_batches(
    sentences: Sequence[str], vocabulary: Vocabulary, max_words: int, *, batch_size: int = 256
) -> Iterator[tuple[PairBatch, torch.Tensor]]:
    """Yield every different sentence once, by length, and how often each stands there (B,)."""
    counts = Counter(sentences)
    ordered = sorted(counts, key=lambda sentence: (len(sentence.split()), sentence))
    for start in range(0, len(ordered), batch_size):
        part = ordered[start : start + batch_size]
        yield text_batch(part, vocabulary, max_words), torch.tensor([counts[one] for one in part])
