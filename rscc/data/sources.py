"""Sources of training batches: crops with masks, images with captions, cached features with captions.

The batches of an epoch are a function of (seed, epoch) alone, so that a resumed run sees the same batches.
"""

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from rscc.config import Config
from rscc.data.augmentation import augment_for_masks, disturb, jitter_colour, random_crop, shift_image
from rscc.data.caches import EMPTY, PairCache
from rscc.data.pairs import (
    FLIPS,
    PairRecord,
    PairSample,
    add_changed,
    collate,
    flip_sample,
    flip_words,
    read_pair,
    resize_sample,
)
from rscc.structures import PairBatch
from rscc.text.vocabulary import Vocabulary


class BatchSource(Protocol):
    """Gives the batches of one epoch."""

    def steps(self) -> int:
        """Return the number of batches in an epoch."""

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield the batches of epoch ``number``, counted from 0."""


@dataclass(frozen=True)
class CaptionText:
    """Turns captions into the fields of a batch.

    Attributes:
        segments: noun and verb segments of every caption and its flipped forms; None if no loss needs them.
    """

    vocabulary: Vocabulary
    max_words: int
    segments: dict[str, tuple[str, str]] | None = None

    def add(self, batch: PairBatch, captions: Sequence[str]) -> None:
        """Fill in ``tokens`` (padded to the longest), ``nouns`` and ``verbs`` from one caption per sample."""
        ids = [self.vocabulary.encode(caption, self.max_words) for caption in captions]
        longest = max(map(len, ids))
        batch.tokens = torch.tensor([row + [self.vocabulary.pad] * (longest - len(row)) for row in ids])
        if self.segments is not None:
            batch.nouns = [self.segments[caption][0] for caption in captions]
            batch.verbs = [self.segments[caption][1] for caption in captions]


def all_forms(records: Sequence[PairRecord]) -> list[str]:
    """Return every caption of the records once, in both orders of the dates and in every flip."""
    captions = {one for record in records for one in (*record.captions, *record.reversed_captions)}
    return sorted({flip_words(caption, flip) for caption in captions for flip in FLIPS})


def _draw_reversal(record: PairRecord, share: float, rng: np.random.Generator) -> bool:
    """Draw whether the dates of a pair are swapped; a share of 0 draws nothing."""
    return share > 0 and bool(rng.random() < share) and bool(record.reversed_captions)


class _ShuffledBatches(Sized):
    """Cuts the indices of its items into batches, shuffled by seed and epoch."""

    config: Config

    def steps(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self.batches(0))

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Return the indices of the batches of an epoch.

        A last batch of a single pair is left out, because InfoNCE needs two, unless it is the only one.
        """
        size = self.config.train.batch_size
        order = np.random.default_rng((self.config.train.seed, epoch)).permutation(len(self))
        parts = [order[i : i + size] for i in range(0, len(order), size)]
        return parts if len(parts) <= 1 or len(parts[-1]) > 1 else parts[:-1]


class MaskSource(_ShuffledBatches, Dataset[PairSample]):
    """Batches of random augmented crops with masks at about the model's GSD, read by worker processes.

    It is also the data set of its crops; a pair is read once and kept in memory.
    """

    def __init__(self, records: Sequence[PairRecord], config: Config):
        self.entries = [record for record in records for _ in range(record.crops)]
        self.config = config
        self._epoch = 0
        self._samples: dict[Path, PairSample] = {}  # by file: pairs of two folders may have one id

    def _read(self, record: PairRecord) -> PairSample:
        if record.before not in self._samples:
            self._samples[record.before] = read_pair(record)
        return self._samples[record.before]

    def _read_all(self) -> None:
        records = {record.before: record for record in self.entries}
        with ThreadPoolExecutor() as threads:
            deque(threads.map(self._read, records.values()), maxlen=0)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> PairSample:
        record, data = self.entries[index], self.config.data
        sample = self._read(record)
        rng = np.random.default_rng((self.config.train.seed, self._epoch, index))
        scale = data.gsd / (record.gsd or data.gsd)
        if data.augment:
            scale *= float(np.exp(rng.uniform(*np.log(data.scales))))
        sample = random_crop(sample, max(32, round(data.size * scale)), data.size, rng)
        if data.one_date > 0 and rng.random() < data.one_date and sample.mask is not None:
            shown = sample.before if rng.random() < 0.5 else sample.after
            nothing = np.zeros_like(sample.mask)
            sample = replace(sample, before=shown, after=shown, mask=nothing, changed=False)
        return augment_for_masks(sample, rng, data.disturb) if data.augment else sample

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield shuffled batches of random crops."""
        self._epoch = number
        workers = self.config.train.workers
        if workers and multiprocessing.get_start_method() == "fork":
            self._read_all()  # once for all workers of all epochs: they share the memory
        yield from DataLoader(
            self,
            batch_sampler=[part.tolist() for part in self.batches(number)],
            collate_fn=collate,
            num_workers=workers,
        )


@dataclass
class _CaptionSource(_ShuffledBatches):
    """Pairs with one random caption each; all records have captions."""

    records: Sequence[PairRecord]
    text: CaptionText
    config: Config
    cache: PairCache = EMPTY

    def __len__(self) -> int:
        return len(self.records)


class ImageCaptionSource(_CaptionSource):
    """Batches of images; the trunk runs in every step."""

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield shuffled batches."""
        for indices in self.batches(number):
            samples, captions, flips = [], [], []
            for index in indices.tolist():
                rng = np.random.default_rng((self.config.train.seed, number, index))
                augments = self.config.data.augment
                flips.append(FLIPS[int(rng.integers(len(FLIPS)))] if augments else FLIPS[0])
                sample = self._sample(self.records[index], flips[-1], rng)
                samples.append(sample)
                captions.append(str(rng.choice(sample.captions)))
            batch = collate(samples)
            self.cache.add_extracted(batch, indices, flips)
            self.text.add(batch, captions)
            yield batch

    def _sample(self, record: PairRecord, flip: str, rng: np.random.Generator) -> PairSample:
        data = self.config.data
        sample = resize_sample(read_pair(record), data.size)
        if _draw_reversal(record, data.reversed, rng):
            captions = record.reversed_captions
            sample = replace(sample, before=sample.after, after=sample.before, captions=captions)
        if not data.augment:
            return sample
        sample = flip_sample(sample, flip)
        before, after = (jitter_colour(date, rng, 0.15) for date in (sample.before, sample.after))
        after = shift_image(after, rng, 1)
        before, after = (disturb(date, rng, data.disturb) for date in (before, after))
        return replace(sample, before=before, after=after)


class FeatureCaptionSource(_CaptionSource):
    """Batches of cached trunk maps; flips are taken from the cache."""

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield shuffled batches."""
        for indices in self.batches(number):
            rng = np.random.default_rng((self.config.train.seed, number, int(indices[0])))
            # Drawn as if every record had all flips; records with fewer use each of theirs equally often.
            views = rng.integers(len(self.cache.flips), size=len(indices)) % self.cache.views(indices)
            records = [self.records[i] for i in indices.tolist()]
            swapped = [_draw_reversal(record, self.config.data.reversed, rng) for record in records]
            batch = PairBatch()
            self.cache.add(batch, indices, views)
            assert batch.features is not None
            for i in np.flatnonzero(swapped):
                batch.features[i] = batch.features[i].flip(0)  # (2, C, h, w)
            add_changed(batch, [record.changed for record in records])
            captions = []
            for record, swap, view in zip(records, swapped, views.tolist(), strict=True):
                sentences = record.reversed_captions if swap else record.captions
                captions.append(flip_words(str(rng.choice(sentences)), self.cache.flips[view]))
            self.text.add(batch, captions)
            yield batch
