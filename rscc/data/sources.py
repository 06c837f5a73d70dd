"""Where training batches come from: crops with masks, images with captions, cached features with captions.

A source gives the batches of an epoch as a function of (seed, epoch) alone, so that a run that was
stopped and resumed sees what an undisturbed one sees.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
    add_captions,
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


class CaptionText:
    """Vocabulary, noun and verb segments of every caption and of its flipped forms."""

    def __init__(
        self, vocabulary: Vocabulary, *, max_words: int, segments: dict[str, tuple[str, str]] | None = None
    ):
        self.vocabulary = vocabulary
        self.max_words = max_words
        self.segments = segments

    def add(self, batch: PairBatch, captions: Sequence[str]) -> None:
        """Fill the caption fields of a batch."""
        add_captions(batch, captions, self.vocabulary, self.segments, self.max_words)


def all_forms(records: Sequence[PairRecord]) -> list[str]:
    """Return every caption of the records, forwards and backwards, in every flip, each once."""
    captions = {one for record in records for one in (*record.captions, *record.reversed_captions)}
    return sorted({flip_words(caption, flip) for caption in captions for flip in FLIPS})


def _is_reversed(record: PairRecord, share: float, rng: np.random.Generator) -> bool:
    """Draw whether a pair is shown backwards; with ``share`` 0 the generator is not touched."""
    return share > 0 and bool(rng.random() < share) and bool(record.reversed_captions)


class _Shuffled:
    """Cuts the places of ``count`` items into batches, in an order that depends on seed and epoch."""

    def __init__(self, count: int, batch_size: int, seed: int):
        self.count, self.batch_size, self.seed = count, batch_size, seed

    def steps(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self.batches(0))

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Cut an epoch; the last, smaller batch stays unless it is a single pair (InfoNCE needs two)."""
        order = np.random.default_rng((self.seed, epoch)).permutation(self.count)
        cut = [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]
        return cut if len(cut) <= 1 or len(cut[-1]) > 1 else cut[:-1]


class _MaskCrops(Dataset[PairSample]):
    """Random augmented crops at about the model's GSD; reads a pair once and keeps it in memory."""

    def __init__(
        self,
        records: Sequence[PairRecord],
        *,
        size: int,
        gsd: float,
        augment: bool,
        seed: int,
        disturbance: float,
        scales: tuple[float, float],
        one_date: float,
    ):
        self.entries = [record for record in records for _ in range(record.crops)]
        self.size, self.gsd, self.augment, self.seed = size, gsd, augment, seed
        self.disturbance = disturbance
        self.scales, self.one_date = scales, one_date
        self.epoch = 0
        self._samples: dict[Path, PairSample] = {}  # by file: pairs of two folders may have one id

    def _read(self, record: PairRecord) -> PairSample:
        if record.before not in self._samples:
            self._samples[record.before] = read_pair(record)
        return self._samples[record.before]

    def read_all(self) -> None:
        """Read every pair that was not read yet, on threads."""
        records = {record.before: record for record in self.entries}
        with ThreadPoolExecutor() as threads:
            deque(threads.map(self._read, records.values()), maxlen=0)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> PairSample:
        record = self.entries[index]
        sample = self._read(record)
        rng = np.random.default_rng((self.seed, self.epoch, index))
        scale = self.gsd / (record.gsd or self.gsd)
        if self.augment:
            scale *= float(np.exp(rng.uniform(*np.log(self.scales))))
        sample = random_crop(sample, max(32, round(self.size * scale)), self.size, rng)
        if self.one_date > 0 and rng.random() < self.one_date and sample.mask is not None:
            shown = sample.before if rng.random() < 0.5 else sample.after
            nothing = np.zeros_like(sample.mask)
            sample = replace(sample, before=shown, after=shown, mask=nothing, changed=False)
        return augment_for_masks(sample, rng, self.disturbance) if self.augment else sample


class MaskSource(_Shuffled):
    """Batches of crops with masks, read by ``workers`` processes."""

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
        self.crops = _MaskCrops(
            records,
            size=size,
            gsd=gsd,
            augment=augment,
            seed=seed,
            disturbance=disturbance,
            scales=scales,
            one_date=one_date,
        )
        super().__init__(len(self.crops), batch_size, seed)
        self.workers = workers

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield shuffled batches of random crops."""
        self.crops.epoch = number
        if self.workers and multiprocessing.get_start_method() == "fork":
            self.crops.read_all()  # once for all workers of all epochs, which share the memory
        yield from DataLoader(
            self.crops,
            batch_sampler=[batch.tolist() for batch in self.batches(number)],
            collate_fn=collate,
            num_workers=self.workers,
        )


class ImageCaptionSource(_Shuffled):
    """Batches of images with one random caption each; the trunk runs in every step."""

    def __init__(
        self,
        records: Sequence[PairRecord],
        text: CaptionText,
        *,
        batch_size: int,
        size: int,
        augment: bool,
        seed: int,
        extracted: ExtractionCache | None = None,
        reversed_share: float = 0.0,
        disturbance: float = 0.0,
    ):
        """Take records, of which those without captions are left out; ``extracted`` is of all of them.

        Args:
            records: the pairs.
            text: vocabulary and segments of all forms of their captions.
            batch_size: pairs in a batch.
            size: side in pixels that images are resized to.
            augment: flips, colours, shift and disturbances.
            seed: of everything random.
            extracted: changes extracted without learning.
            reversed_share: probability that a pair with reversed captions is shown backwards.
            disturbance: strength of :func:`rscc.data.augmentation.disturb`, 0..1.
        """
        self.places = np.array([i for i, record in enumerate(records) if record.captions], dtype=np.int64)
        self.records, self.text, self.extracted = [records[i] for i in self.places], text, extracted
        super().__init__(len(self.records), batch_size, seed)
        self.size, self.augment = size, augment
        self.reversed_share, self.disturbance = reversed_share, disturbance

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
                batch.extracted = self.extracted.read(self.places[indices], flips)
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


class FeatureCaptionSource(_Shuffled):
    """Batches of cached trunk maps with one random caption each; flips are picked from the cache."""

    def __init__(
        self,
        records: Sequence[PairRecord],
        cache: FeatureCache,
        text: CaptionText,
        *,
        batch_size: int,
        seed: int,
        extracted: ExtractionCache | None = None,
        reversed_share: float = 0.0,
    ):
        """Take records and what was computed of them, in the same order.

        Args:
            records: the pairs, all with captions.
            cache: their maps.
            text: vocabulary and segments of all forms of their captions.
            batch_size: pairs in a batch.
            seed: of everything random.
            extracted: changes extracted without learning.
            reversed_share: probability that a pair with reversed captions is shown backwards.
        """
        self.records, self.cache, self.text = list(records), cache, text
        super().__init__(len(self.records), batch_size, seed)
        self.extracted, self.reversed_share = extracted, reversed_share

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
            batch = PairBatch(features=maps)
            change = self.cache.change(indices, views)
            batch.change = None if change is None else torch.from_numpy(change)
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
