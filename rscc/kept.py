"""What a run computes once per pair and keeps on disk: features of a frozen trunk, extracted changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rscc.config import Config
from rscc.data.features import (
    ExtractionCache,
    FeatureCache,
    build_extraction_cache,
    build_feature_cache,
    trunk_grid,
)
from rscc.data.pairs import FLIPS, PairRecord
from rscc.models.captioner_base import ChangeCaptioner


@dataclass(frozen=True)
class Kept:
    """What is computed once per pair of a split and kept on disk.

    Attributes:
        features: of the frozen trunk; None when it runs in every step.
        extracted: changes found without learning; None for models that do not look at them.
    """

    features: FeatureCache | None = None
    extracted: ExtractionCache | None = None

    @classmethod
    def join(cls, parts: Sequence[Kept]) -> Kept:
        """Return what is kept of all pairs, one part after the other; all parts keep the same things."""
        features = [part.features for part in parts if part.features is not None]
        extracted = [part.extracted for part in parts if part.extracted is not None]
        return cls(
            FeatureCache.join(features) if features else None,
            ExtractionCache.join(extracted) if extracted else None,
        )


def keep(
    model: ChangeCaptioner,
    config: Config,
    folder: Path,
    records: Sequence[PairRecord],
    *,
    flips: Sequence[str],
    extract: bool,
    report: Callable[[str], None],
) -> Kept:
    """Compute what a run of this config keeps of some pairs, or find it on disk.

    Args:
        model: with its trunk as it stays, when that is frozen.
        config: of the run.
        folder: where the files lie.
        records: the pairs.
        flips: the flips of which features are kept.
        extract: whether the model will look at what its extractor finds.
        report: receives lines on how far it is.

    Raises:
        DatasetLayoutInvalid: an image cannot be read.
        ExtraNotInstalled, WeightsNotFound: the extraction's segmenter cannot be had.
    """
    model.eval()

    def progress(what: str, done: int, total: int) -> None:
        if done == total or done % 160 == 0:
            report(f"{what}: {done} of {total} pairs")

    size = config.data.size
    features: FeatureCache | None = None
    if config.train.cache_features:
        features = build_feature_cache(
            model.backbone,
            records,
            folder,
            size=size,
            flips=flips,
            bf16=config.train.bf16,
            head=model.change_head if config.model.grounded else None,
            disturbance=config.data.disturb,
            progress=partial(progress, "features"),
        )
    extracted: ExtractionCache | None = None
    if extract and model.extractor is not None:
        extracted = build_extraction_cache(
            model.extractor,
            records,
            folder,
            size=size,
            grid=trunk_grid(model.backbone, size),
            progress=partial(progress, "extracted changes"),
        )
    return Kept(features, extracted)


def keep_all(
    model: ChangeCaptioner,
    config: Config,
    folder: Path,
    parts: Sequence[Sequence[PairRecord]],
    val: Sequence[PairRecord],
    *,
    extract: bool,
    report: Callable[[str], None],
) -> tuple[list[Kept], Kept]:
    """Keep what a run needs of its training pairs, part by part, and of its validation pairs.

    The first part, the data set itself, is kept in all flips; of further parts and of the validation pairs
    one view is enough, for it is what fills the disk.
    """
    flips = FLIPS if config.data.augment else FLIPS[:1]
    *kept, kept_val = (
        keep(
            model,
            config,
            folder,
            records,
            flips=flips if i == 0 else FLIPS[:1],
            extract=extract,
            report=report,
        )
        for i, records in enumerate((*parts, val))
    )
    return kept, kept_val
