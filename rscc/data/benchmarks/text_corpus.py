"""A corpus of captions without images, for the language stage.

The file is JSON, or gzipped JSON (``.json.gz``): ``{"train": [...], "val": [...]}``, each a list of
``{"filename": text, "sentences": [text, ...]}`` with the sentences of one pair. Other keys, such as a test
split, are ignored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rscc.config import Config
from rscc.data.benchmarks.annotations import clean_captions, list_of
from rscc.data.pairs import FLIPS, flip_words
from rscc.data.sources import CaptionText
from rscc.errors import DatasetLayoutInvalid
from rscc.files import parsed_json, read_file
from rscc.structures import PairBatch


@dataclass(frozen=True)
class TextCorpus:
    """Sentences by pair, lower case; pairs without any are left out."""

    train: tuple[tuple[str, ...], ...]
    val: tuple[tuple[str, ...], ...]


def read_corpus(path: str | Path) -> TextCorpus:
    """Read the training and the validation split of a corpus file.

    Raises:
        DatasetLayoutInvalid: the file is missing, no JSON, has another layout, or an empty split.
    """
    path = Path(path)
    if not path.is_file():
        raise DatasetLayoutInvalid(f"{path}: no such file; give a corpus of captions (.json or .json.gz)")
    try:
        content = parsed_json(read_file(path))
        splits = [
            tuple(filter(None, (clean_captions(pair["sentences"]) for pair in list_of(content[split], dict))))
            for split in ("train", "val")
        ]
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: not a corpus of captions ({error!r}); see rscc/data/benchmarks/text_corpus.py"
        ) from error
    for name, pairs in zip(("train", "val"), splits, strict=True):
        if not pairs:
            raise DatasetLayoutInvalid(f"{path}: no sentence in its split {name!r}; give a corpus with both")
    return TextCorpus(*splits)


@dataclass
class TextSource:
    """Batches of captions alone, one random caption per pair; a :class:`~rscc.data.sources.BatchSource`.

    Attributes:
        config: batch size, seed, ``data.augment`` (flip the words of direction at random) and
            ``data.reversed`` (share of pairs that use a sentence of ``reversed_pairs``).
        reversed_pairs: the sentences of each pair that are true when its dates are swapped, or none; unused
            if ``data.reversed`` is 0.
    """

    pairs: Sequence[Sequence[str]]
    text: CaptionText
    config: Config
    reversed_pairs: Sequence[Sequence[str]] = ()

    def steps(self) -> int:
        """Return the number of batches in an epoch."""
        return -(-len(self.pairs) // self.config.train.batch_size)

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield the batches of epoch ``number``, counted from 0; they hold tokens only."""
        settings = self.config.train
        rng = np.random.default_rng((settings.seed, number))
        order = rng.permutation(len(self.pairs)).tolist()
        for start in range(0, len(order), settings.batch_size):
            chosen = [self._sentence(i, rng) for i in order[start : start + settings.batch_size]]
            yield text_batch(chosen, self.text)

    def _sentence(self, index: int, rng: np.random.Generator) -> str:
        data, sentences = self.config.data, self.pairs[index]
        if data.reversed and self.reversed_pairs[index] and rng.random() < data.reversed:
            sentences = self.reversed_pairs[index]
        sentence = sentences[int(rng.integers(len(sentences)))]
        return flip_words(sentence, FLIPS[int(rng.integers(len(FLIPS)))]) if data.augment else sentence


def text_batch(sentences: Sequence[str], text: CaptionText) -> PairBatch:
    """Return a batch that holds only the tokens of sentences."""
    batch = PairBatch()
    text.add(batch, sentences)
    return batch
