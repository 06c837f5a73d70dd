"""What a run computes once per pair and stores: features of a frozen trunk, and extracted changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rscc.data.caches import (
    ExtractionCache,
    FeatureCache,
    build_extraction_cache,
    build_feature_cache,
    trunk_grid,
)
from rscc.data.pairs import FLIPS, PairRecord
from rscc.errors import ConfigInvalid
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.training.start import Run


@dataclass(frozen=True)
class Caches:
    """What is stored of some pairs.

    Attributes:
        features: of the frozen trunk; None when it runs in every step.
        extracted: changes extracted without learning; None for models that do not look at them.
    """

    features: FeatureCache | None = None
    extracted: ExtractionCache | None = None

    @classmethod
    def join(cls, parts: Sequence[Caches]) -> Caches:
        """Return what is stored of all pairs, one part after the other; all parts hold the same things."""
        features = [part.features for part in parts if part.features is not None]
        extracted = [part.extracted for part in parts if part.extracted is not None]
        return cls(
            FeatureCache.join(features) if features else None,
            ExtractionCache.join(extracted) if extracted else None,
        )


NOTHING = Caches()


def fill_caches(
    run: Run,
    model: ChangeCaptioner,
    parts: Sequence[Sequence[PairRecord]],
    val: Sequence[PairRecord],
    *,
    extract: bool,
) -> tuple[list[Caches], Caches]:
    """Compute what a run needs of its training pairs, part by part, and of its validation pairs, or load it.

    The first part, the data set itself, is stored in all flips; of further parts and of the validation pairs
    one view is enough, for it is what fills the disk.

    Args:
        run: what is asked for; its features lie in ``run.paths.cache``, or in its output folder.
        model: with its trunk as it stays, when that is frozen.
        parts: training pairs of the data set, then those of further folders.
        extract: whether the model will look at what its extractor gives.

    Raises:
        ConfigInvalid: features are to be cached for a model that needs images in every step.
        DatasetLayoutInvalid: an image cannot be read.
        ExtraNotInstalled, WeightsNotFound: the segmenter of the extraction is not installed.
    """
    config, folder = run.config, run.paths.cache or run.paths.output / "features"
    if config.train.cache_features and model.needs_images:
        raise ConfigInvalid(
            "train.cache_features: a CLIP retriever sees the images in every step; "
            "set it to false, or model.options.retriever to 'offline'"
        )
    model.eval()
    size = config.data.size

    def progress(what: str, done: int, total: int) -> None:
        if done == total or done % 160 == 0:
            run.report(f"{what}: {done} of {total} pairs")

    def fill(records: Sequence[PairRecord], flips: Sequence[str]) -> Caches:
        features = extracted = None
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
        if extract and model.extractor is not None:
            extracted = build_extraction_cache(
                model.extractor.to(next(model.parameters()).device),
                records,
                folder,
                size=size,
                grid=trunk_grid(model.backbone, size),
                progress=partial(progress, "extracted changes"),
            )
        return Caches(features, extracted)

    first, *others = parts
    caches = [fill(first, FLIPS if config.data.augment else FLIPS[:1])]
    caches += [fill(part, FLIPS[:1]) for part in others]
    return caches, fill(val, FLIPS[:1])
