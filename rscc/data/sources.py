"""Where training batches come from: crops with masks, images with captions, cached features with captions.

A source gives the batches of an epoch as a function of (seed, epoch) alone, so that a run that was
stopped and resumed sees what an undisturbed one sees.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from rscc.data.augmentation import augment_for_masks, disturb, jitter_colour, random_crop, shift_image
from rscc.data.caches import ExtractionCache, FeatureCache
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
    reverse_sample,
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
    """What turns captions into the fields of a batch.

    Attributes:
        vocabulary: turns words into ids.
        max_words: longest caption in tokens.
        segments: noun and verb segments of every caption and its flipped forms; None where nobody asks.
    """

    vocabulary: Vocabulary
    max_words: int
    segments: dict[str, tuple[str, str]] | None = None

    def add(self, batch: PairBatch, captions: Sequence[str]) -> None:
        """Fill in ``tokens`` (padded to the longest), ``nouns`` and ``verbs`` from one caption per sample."""
        ids = [self.vocabulary.encode(caption, self.max_words) for caption in captions]
        longest = max(map(len, ids))
        batch.tokens = torch.tensor([one + [self.vocabulary.pad] * (longest - len(one)) for one in ids])
        if self.segments is not None:
            batch.nouns = [self.segments[caption][0] for caption in captions]
            batch.verbs = [self.segments[caption][1] for caption in captions]


def all_forms(records: Sequence[PairRecord]) -> list[str]:
    """Return every caption of the records, forwards and backwards, in every flip, each once."""
    captions = {one for record in records for one in (*record.captions, *record.reversed_captions)}
    return sorted({flip_words(caption, flip) for caption in captions for flip in FLIPS})


def _is_reversed(record: PairRecord, share: float, rng: np.random.Generator) -> bool:
    """Draw whether a pair is shown backwards; with ``share`` 0 the generator is not touched."""
    return share > 0 and bool(rng.random() < share) and bool(record.reversed_captions)


class _Shuffled(Sized):
    """Cuts the places of its items into batches, in an order that depends on seed and epoch."""

    batch_size: int
    seed: int

    def steps(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self.batches(0))

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Cut an epoch; the last, smaller batch stays unless it is a single pair (InfoNCE needs two)."""
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self))
        cut = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        return cut if len(cut) <= 1 or len(cut[-1]) > 1 else cut[:-1]


class MaskSource(_Shuffled, Dataset[PairSample]):
    """Batches of random augmented crops with masks at about the model's GSD, read by ``workers`` processes.

    It is the data set of its crops, too; a pair is read once and kept in memory.
    """

    def __init__(
        self,
        records: Sequence[PairRecord],
        *,
        batch_size: int,
        size: int,
        gsd: float,
        augment: bool,
        seed: int,
        workers: int = 0,
        disturbance: float = 0.0,
        scales: tuple[float, float] = (1.0, 1.0),
        one_date: float = 0.0,
    ):
        self.entries = [record for record in records for _ in range(record.crops)]
        self.batch_size, self.size, self.gsd, self.augment = batch_size, size, gsd, augment
        self.seed, self.workers, self.disturbance = seed, workers, disturbance
        self.scales, self.one_date = scales, one_date
        self._epoch = 0
        self._samples: dict[Path, PairSample] = {}  # by file: pairs of two folders may have one id

    def _read(self, record: PairRecord) -> PairSample:
        if record.before not in self._samples:
            self._samples[record.before] = read_pair(record)
        return self._samples[record.before]

    def _read_all(self) -> None:
        """Read every pair that was not read yet, on threads."""
        records = {record.before: record for record in self.entries}
        with ThreadPoolExecutor() as threads:
            deque(threads.map(self._read, records.values()), maxlen=0)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> PairSample:
        record = self.entries[index]
        sample = self._read(record)
        rng = np.random.default_rng((self.seed, self._epoch, index))
        scale = self.gsd / (record.gsd or self.gsd)
        if self.augment:
            scale *= float(np.exp(rng.uniform(*np.log(self.scales))))
        sample = random_crop(sample, max(32, round(self.size * scale)), self.size, rng)
        if self.one_date > 0 and rng.random() < self.one_date and sample.mask is not None:
            shown = sample.before if rng.random() < 0.5 else sample.after
            nothing = np.zeros_like(sample.mask)
            sample = replace(sample, before=shown, after=shown, mask=nothing, changed=False)
        return augment_for_masks(sample, rng, self.disturbance) if self.augment else sample

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield shuffled batches of random crops."""
        self._epoch = number
        if self.workers and multiprocessing.get_start_method() == "fork":
            self._read_all()  # once for all workers of all epochs, which share the memory
        yield from DataLoader(
            self,
            batch_sampler=[batch.tolist() for batch in self.batches(number)],
            collate_fn=collate,
            num_workers=self.workers,
        )


@dataclass
class _CaptionSource(_Shuffled):
    """Pairs with one random caption each.

    Attributes:
        records: the pairs.
        text: vocabulary and segments of all forms of their captions.
        batch_size: pairs in a batch.
        seed: of everything random.
        extracted: changes extracted without learning, of the same records.
        reversed_share: probability that a pair with reversed captions is shown backwards.
    """

    records: Sequence[PairRecord]
    text: CaptionText
    _: KW_ONLY
    batch_size: int
    seed: int
    extracted: ExtractionCache | None = None
    reversed_share: float = 0.0

    def __len__(self) -> int:
        return len(self.records)


@dataclass
class ImageCaptionSource(_CaptionSource):
    """Batches of images; the trunk runs in every step. Records without captions are left out.

    Attributes:
        size: side in pixels that images are resized to.
        augment: flips, colours, shift and disturbances.
        disturbance: strength of :func:`rscc.data.augmentation.disturb`, 0..1.
    """

    _: KW_ONLY
    size: int
    augment: bool
    disturbance: float = 0.0

    def __post_init__(self) -> None:
        self._places = np.array([i for i, record in enumerate(self.records) if record.captions], np.int64)
        self.records = [self.records[i] for i in self._places]

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield shuffled batches."""
        for indices in self.batches(number):
            samples, captions, flips = [], [], []
            for index in indices.tolist():
                rng = np.random.default_rng((self.seed, number, index))
                flips.append(FLIPS[int(rng.integers(len(FLIPS)))] if self.augment else FLIPS[0])
                sample = self._sample(self.records[index], flips[-1], rng)
                samples.append(sample)
                captions.append(str(rng.choice(sample.captions)))
            batch = collate(samples)
            batch.references = [list(sample.captions) for sample in samples]
            if self.extracted is not None:
                batch.extracted = self.extracted.read(self._places[indices], flips)
            self.text.add(batch, captions)
            yield batch

    def _sample(self, record: PairRecord, flip: str, rng: np.random.Generator) -> PairSample:
        sample = resize_sample(read_pair(record), self.size)
        if _is_reversed(record, self.reversed_share, rng):
            sample = reverse_sample(sample, record.reversed_captions)
        if not self.augment:
            return sample
        sample = flip_sample(sample, flip)
        before, after = (jitter_colour(a, rng, 0.15) for a in (sample.before, sample.after))
        after = shift_image(after, rng, 1)
        before, after = (disturb(a, rng, self.disturbance) for a in (before, after))
        return replace(sample, before=before, after=after)


@dataclass
class FeatureCaptionSource(_CaptionSource):
    """Batches of cached trunk maps; flips are picked from the cache. All records have captions.

    Attributes:
        cache: the maps of the same records.
    """

    cache: FeatureCache

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield shuffled batches."""
        for indices in self.batches(number):
            rng = np.random.default_rng((self.seed, number, int(indices[0])))
            # Drawn as if every record had all flips; one that has fewer takes those it has equally often.
            views = rng.integers(len(self.cache.flips), size=len(indices)) % self.cache.views(indices)
            chosen = [self.records[i] for i in indices.tolist()]
            swapped = [_is_reversed(record, self.reversed_share, rng) for record in chosen]
            maps = torch.from_numpy(self.cache.read(indices, views))  # (B, 2, C, h, w)
            for i in np.flatnonzero(swapped):
                maps[i] = maps[i].flip(0)
            batch = PairBatch(features=maps, change=self.cache.change(indices, views))
            flips = [self.cache.flips[view] for view in views.tolist()]
            if self.extracted is not None:
                batch.extracted = self.extracted.read(indices, flips)
            add_changed(batch, [record.changed for record in chosen])
            true = [
                record.reversed_captions if swap else record.captions
                for record, swap in zip(chosen, swapped, strict=True)
            ]
            batch.references = [
                [flip_words(caption, flip) for caption in captions]
                for captions, flip in zip(true, flips, strict=True)
            ]
            captions = [str(rng.choice(references)) for references in batch.references]
            self.text.add(batch, captions)
            yield batch
