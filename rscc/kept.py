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


def keep(
    model: ChangeCaptioner,
    config: Config,
    folder: Path,
    train: Sequence[PairRecord],
    val: Sequence[PairRecord],
    *,
    extract: bool,
    report: Callable[[str], None],
) -> tuple[Kept, Kept]:
    """Compute what a run of this config keeps of its training and validation pairs, or find it on disk.

    Args:
        model: with its trunk as it stays, when that is frozen.
        config: of the run.
        folder: where the files lie.
        train, val: the pairs.
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

    size, bf16 = config.data.size, config.train.bf16
    features: list[FeatureCache | None] = [None, None]
    if config.train.cache_features:
        flips = FLIPS if config.data.augment else FLIPS[:1]
        features = [
            build_feature_cache(
                model.backbone,
                records,
                folder,
                size=size,
                flips=views,
                bf16=bf16,
                progress=partial(progress, "features"),
            )
            for records, views in ((train, flips), (val, FLIPS[:1]))
        ]
    extracted: list[ExtractionCache | None] = [None, None]
    if extract and model.extractor is not None:
        grid = trunk_grid(model.backbone, size)
        extracted = [
            build_extraction_cache(
                model.extractor,
                records,
                folder,
                size=size,
                grid=grid,
                progress=partial(progress, "extracted changes"),
            )
            for records in (train, val)
        ]
    return Kept(features[0], extracted[0]), Kept(features[1], extracted[1])
