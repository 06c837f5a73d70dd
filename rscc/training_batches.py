"""Where the batches of a run come from: crops with masks, images with captions, or what was kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rscc.config import Config
from rscc.data.change_masks import ChangeMasks
from rscc.data.pairs import PairRecord
from rscc.data.sources import (
    BatchSource,
    CaptionText,
    FeatureCaptionSource,
    ImageCaptionSource,
    MaskSource,
    all_forms,
)
from rscc.errors import DatasetLayoutInvalid
from rscc.kept import Kept
from rscc.language import segment_texts
from rscc.models import model_class
from rscc.vocabulary import Vocabulary

if TYPE_CHECKING:
    from rscc.runs import RunPaths


def batch_source(
    config: Config,
    paths: RunPaths,
    train: Sequence[PairRecord],
    vocabulary: Vocabulary,
    kept: Kept,
) -> BatchSource:
    """Make the source of a run's batches.

    Args:
        config, paths: of the run.
        train: all training pairs.
        vocabulary: of the model.
        kept: of ``train``.

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
        )
    segments = None
    if any(config.loss.get(term, 0) > 0 for term in model_class(config.model.paper).text_terms):
        segments = segment_texts(all_forms(train))
    text = CaptionText(vocabulary, max_words=config.model.max_words, segments=segments)
    if kept.features is not None:
        return FeatureCaptionSource(
            train,
            kept.features,
            text,
            batch_size=settings.batch_size,
            seed=settings.seed,
            extracted=kept.extracted,
            reversed_share=data.reversed,
        )
    return ImageCaptionSource(
        train,
        text,
        batch_size=settings.batch_size,
        size=data.size,
        augment=data.augment,
        seed=settings.seed,
        extracted=kept.extracted,
        reversed_share=data.reversed,
        disturbance=data.disturb,
    )


def learns_masks_only(config: Config) -> bool:
    """Tell whether no loss but that of the change masks has a weight, so that captions are not needed."""
    return all(weight == 0 or term == "change_mask" for term, weight in config.loss.items())
