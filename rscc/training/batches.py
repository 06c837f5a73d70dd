"""Where the batches of a run come from: crops with masks, images with captions, or cached features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rscc.config import Config
from rscc.data.benchmarks.change_masks import ChangeMasks
from rscc.data.benchmarks.registry import DATASETS
from rscc.data.labels import read_labelled
from rscc.data.pairs import PairRecord
from rscc.data.single_dates import read_roads
from rscc.data.sources import (
    BatchSource,
    CaptionText,
    FeatureCaptionSource,
    ImageCaptionSource,
    MaskSource,
    all_forms,
)
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid
from rscc.models import model_class
from rscc.text.parsing import extract_segments
from rscc.text.reversal import reverse_captions
from rscc.text.vocabulary import Vocabulary
from rscc.training.caching import Caches

if TYPE_CHECKING:
    from rscc.training.start import RunPaths


def batch_source(
    config: Config,
    paths: RunPaths,
    train: Sequence[PairRecord],
    vocabulary: Vocabulary,
    caches: Caches,
) -> BatchSource:
    """Make the source of a run's batches of all training pairs; ``caches`` are of these.

    Raises:
        DatasetLayoutInvalid: masks alone are to be learnt, and there are none.
        ExtraNotInstalled, WeightsNotFound: captions are to be segmented, and spaCy or its parser is missing.
    """
    settings, data = config.train, config.data
    if learns_masks_only(config):
        records = [record for record in train if record.mask is not None]
        for folder in paths.masks:
            records += ChangeMasks(folder, datasets=data.mask_datasets, size=data.size).records
        if not records:
            raise DatasetLayoutInvalid(
                f"{paths.data}: no training pair has a mask; give folders of change masks"
            )
        return MaskSource(
            records,
            batch_size=settings.batch_size,
            size=data.size,
            gsd=config.data.gsd,
            augment=data.augment,
            seed=settings.seed,
            workers=settings.workers,
            disturbance=data.disturb,
            scales=data.scales,
            one_date=data.one_date,
        )
    segments = None
    if any(config.loss.get(term, 0) > 0 for term in model_class(config.model.paper).text_terms):
        forms = all_forms(train)
        read = zip(forms, extract_segments(forms), strict=True)
        segments = {caption: (one.noun_text, one.verb_text) for caption, one in read}
    text = CaptionText(vocabulary, max_words=config.model.max_words, segments=segments)
    if caches.features is not None:
        return FeatureCaptionSource(
            train,
            text,
            caches.features,
            batch_size=settings.batch_size,
            seed=settings.seed,
            extracted=caches.extracted,
            reversed_share=data.reversed,
        )
    return ImageCaptionSource(
        train,
        text,
        batch_size=settings.batch_size,
        size=data.size,
        augment=data.augment,
        seed=settings.seed,
        extracted=caches.extracted,
        reversed_share=data.reversed,
        disturbance=data.disturb,
    )


def learns_masks_only(config: Config) -> bool:
    """Return whether no loss but that of the change masks has a weight, so that no caption is needed."""
    return all(weight == 0 or term == "change_mask" for term, weight in config.loss.items())


def check_paths(config: Config, paths: RunPaths) -> None:
    """Refuse, before anything is learnt, what a run with images would not read or could not.

    Raises:
        ConfigInvalid: a corpus, masks, roads or labels are given that this config does not learn.
        DatasetLayoutInvalid: the folder of roads has another layout, or no roads; or the table of labels.
    """
    masks_only = learns_masks_only(config)
    if paths.corpus is not None:
        raise ConfigInvalid("a corpus is learnt with train.objective 'language' only; leave --corpus out")
    if paths.masks and not masks_only:
        raise ConfigInvalid(
            f"{paths.masks[0]}: further masks are learnt where loss.change_mask alone has a weight; "
            "leave --masks out, or take a config such as change_head"
        )
    for folder, what in ((paths.roads, "roads"), (paths.labelled, "labelled")):
        if folder is not None and (masks_only or not config.train.facts):
            raise ConfigInvalid(
                f"{folder}: --{what} is learnt by a model that tells facts, which this config "
                f"does not make; leave --{what} out"
            )
    if paths.labels is not None and paths.labelled is None:
        raise ConfigInvalid(f"{paths.labels}: give the folder of its images with --labelled")
    if paths.roads is not None:
        read_roads(paths.roads)
    if paths.labelled is not None:
        read_labelled(paths.labelled, paths.labels)


def training_parts(
    config: Config, train: Sequence[PairRecord], also: Sequence[Path], *, captioned: bool
) -> list[list[PairRecord]]:
    """Return the pairs of the data set and of each further folder, with captions for the way back.

    Args:
        config: of the run; captions are reversed where ``data.reversed`` is above 0.
        train: training pairs of the data set.
        also: further folders in the layout of ``data.name``, of which the train split is read.
        captioned: leave out pairs of the folders that have no captions.

    Returns:
        ``train`` first, then one list for each folder.

    Raises:
        DatasetLayoutInvalid: a folder is not in that layout, or has no such pair.
    """
    reader = DATASETS[config.data.name]
    parts = [list(train)]
    for folder in also:
        records = reader(folder, "train", trust=config.data.trust).records
        part = [record for record in records if record.captions or not captioned]
        if not part:
            raise DatasetLayoutInvalid(f"{folder}: no training pair has a caption; leave this folder out")
        parts.append(part)
    if config.data.reversed > 0:
        parts = [[add_reversal(record) for record in part] for part in parts]
    return parts


def add_reversal(record: PairRecord) -> PairRecord:
    """Return a record with the captions that are true when its dates are swapped, if there are any."""
    return replace(record, reversed_captions=reverse_captions(record.captions))


def every_caption(parts: Sequence[Sequence[PairRecord]]) -> list[str]:
    """Return all captions of all pairs, forwards and backwards, as often as they stand there."""
    records = chain.from_iterable(parts)
    return [one for record in records for one in (*record.captions, *record.reversed_captions)]
