"""From a config and folders to a trained model folder: puts data, model, loop and validation together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rscc.config import Config
from rscc.data.features import pooled_features
from rscc.data.pairs import PairRecord
from rscc.data.registry import DATASETS
from rscc.errors import ConfigInvalid
from rscc.finetuning import compare_scores, pairs_told, read_splits
from rscc.finishing import finish, learns_the_flag, no_change_prefixes
from rscc.kept import Kept, keep_all
from rscc.language_stage import train_language
from rscc.models import model_class
from rscc.models.backbone import build_backbone
from rscc.models.captioner_base import ChangeCaptioner
from rscc.self_critical import self_critical
from rscc.starting import TRUNK_PARTS, Start, load_trunk, open_start, take_start
from rscc.structures import TrainingMaterial
from rscc.text_encoders import TextEncoder, load_text_encoder
from rscc.train import Report, Trainer, Validate, load_best
from rscc.training_batches import batch_source, learns_masks_only
from rscc.training_pairs import every_caption, training_parts
from rscc.validation import caption_validation, mask_validation
from rscc.vocabulary import Vocabulary
from rscc.weights import ModelFolder, find_model


@dataclass(frozen=True)
class RunPaths:
    """Where a run reads and writes.

    Attributes:
        data: root of the captioned data set.
        output: run folder; the finished model lies in ``output/model``.
        masks: folders of further pairs with change masks, see :class:`~rscc.data.change_masks.ChangeMasks`.
        trunk: model folder or name whose trunk and change head are the start.
        backbone_weights: file of pretrained trunk weights; not together with ``trunk`` or ``start``.
        text_encoder: text encoder, see :func:`rscc.text_encoders.load_text_encoder`.
        cache: folder of cached features; None puts it into ``output``.
        start: model folder or name of which every weight is the start, and the vocabulary too; where a
            ``trunk`` is given, that one's trunk and change head win.
        corpus: file of captions without images, for ``train.objective = "language"``.
        also: further folders in the layout of ``data.name``, whose train split joins the training pairs.
    """

    data: Path
    output: Path
    masks: tuple[Path, ...] = ()
    trunk: str | None = None
    backbone_weights: Path | None = None
    text_encoder: str = "sentence"
    cache: Path | None = None
    start: str | None = None
    corpus: Path | None = None
    also: tuple[Path, ...] = ()


def train_model(
    config: Config,
    paths: RunPaths,
    *,
    name: str,
    command: str,
    resume: bool = False,
    device: str = "cpu",
    report: Report = print,
) -> ModelFolder:
    """Train by a config and write the model folder ``paths.output / "model"``.

    Args:
        config: the whole run.
        paths: where things are.
        name: name of the new model, for its card.
        command: the command line, for its card.
        resume: go on with the run that lies in ``paths.output``.
        device: where to train.
        report: receives one line per epoch.

    Raises:
        RsccError: bad config, data set, weights; or a loss that is not finite.
    """
    if config.data.name not in DATASETS:
        raise ConfigInvalid(f"data.name is {config.data.name!r}; known are {', '.join(DATASETS)}")
    reader = DATASETS[config.data.name]
    if config.train.objective == "language":
        train = reader(paths.data, "train", trust=config.data.trust).records
        return train_language(
            config, paths, train, name=name, command=command, resume=resume, device=device, report=report
        )
    if paths.corpus is not None:
        raise ConfigInvalid("a corpus is learnt with train.objective 'language' only; leave --corpus out")
    start = None if paths.start is None else open_start(paths.start)
    tunes = start is not None and start.whole and not learns_masks_only(config)
    train, val = _read_pairs(config, paths, tunes=tunes, report=report)
    parts = training_parts(config, train, paths.also, captioned=not learns_masks_only(config))
    train, captions = parts[0], every_caption(parts)
    if start is None:
        vocabulary = Vocabulary.build(captions, min_count=config.data.min_count)
    else:
        vocabulary = start.words_with(captions, config.data.min_count)
    torch.manual_seed(config.train.seed)
    model = build_model(config, vocabulary, paths, start=start).to(device)
    vocabulary = model.vocabulary
    folder = paths.cache or paths.output / "features"
    extract = not learns_masks_only(config)
    kept, val_kept = keep_all(model, config, folder, parts, val, extract=extract, report=report)
    if model.prepares and not (start and start.whole):
        model.prepare(_material(model, config, train, kept[0]))
    every = [record for part in parts for record in part]
    source = batch_source(config, paths, every, vocabulary, Kept.join(kept))
    critical = config.train.objective == "self_critical"
    trainer = Trainer(
        model,
        source,
        _validation(config, paths, train, val, val_kept),
        config=config,
        folder=paths.output,
        report=report,
        objective=self_critical(config, model, train) if critical else None,
    )
    result = trainer.run(resume=resume)
    made = finish(
        load_best(model, result),
        result,
        config,
        val=val,
        val_kept=val_kept,
        captions=train,
        name=name,
        command=command,
        paths=paths,
    )
    if paths.start is not None and tunes:
        report("scores on the validation split, before and after:")
        report(compare_scores(paths.start, made.path, val, device=device))
    return made


def _read_pairs(
    config: Config, paths: RunPaths, *, tunes: bool, report: Report
) -> tuple[list[PairRecord], list[PairRecord]]:
    """Read training and validation pairs; a run that tunes a model may do without a validation split."""
    reader, trust = DATASETS[config.data.name], config.data.trust
    if tunes:
        train, val, held_out = read_splits(reader, paths.data, trust=trust, seed=config.train.seed)
        learns_flag = learns_the_flag(config, train)
        for line in pairs_told(train, val, held_out=held_out, learns_flag=learns_flag):
            report(line)
        return train, val
    train, val = reader(paths.data, "train", trust=trust).records, reader(paths.data, "val").records
    if not learns_masks_only(config):
        train, val = ([record for record in records if record.captions] for records in (train, val))
    return train, val


def _validation(
    config: Config, paths: RunPaths, train: Sequence[PairRecord], val: Sequence[PairRecord], kept: Kept
) -> Validate:
    """Make the validation that chooses the checkpoint; ``kept`` is of ``val``."""
    size, bf16 = config.data.size, config.train.bf16
    if config.train.select == "mask_f1":
        if all(record.mask is None for record in val):
            raise ConfigInvalid(
                f"train.select is 'mask_f1', but no validation pair of {paths.data} has a mask"
            )
        return mask_validation(val, size=size, bf16=bf16)
    return caption_validation(
        val,
        size=size,
        no_change_prefixes=no_change_prefixes(train),
        cache=kept.features,
        extracted=kept.extracted,
        bf16=bf16,
        flag_decides=learns_the_flag(config, train),
    )


def build_model(
    config: Config, vocabulary: Vocabulary, paths: RunPaths, *, start: Start | None = None
) -> ChangeCaptioner:
    """Build the model of a config with its pretrained trunk, the weights of its start, and any text encoder.

    A trunk that comes with a language model brings the vocabulary too; ``vocabulary`` is for the others and
    begins with that of ``start``. A start that was prepared is not prepared anew: its entities stay.

    Raises:
        ConfigInvalid: unknown names, or weights of one part from two places.
        ModelFolderInvalid: the weights of trunk or start do not fit the config.
        WeightsNotFound: a file of weights is missing.
    """
    whole = start is not None and start.whole
    if paths.backbone_weights is not None and (paths.trunk is not None or whole):
        raise ConfigInvalid("give either backbone weights or a model folder that holds a trunk, not both")
    kind = model_class(config.model.paper)
    encoder: TextEncoder | None = None
    prepared = whole and kind.prepares  # what such models ask of a text encoder, they ask before training
    if kind.needs_text_encoder(config.loss) and not prepared:
        encoder = load_text_encoder(paths.text_encoder)
    given = paths.trunk is not None or paths.backbone_weights is not None or whole
    backbone = build_backbone(
        config.model.backbone,
        weights=paths.backbone_weights,
        download=not given and "/" in config.model.backbone,
    )
    if backbone.vocabulary is not None:
        vocabulary = backbone.vocabulary
    settings = config.model if start is None else start.prepared(config.model)
    model = kind(config=settings, backbone=backbone, vocabulary=vocabulary, text_encoder=encoder)
    if start is not None:
        take_start(model, start, without=TRUNK_PARTS if paths.trunk is not None else ())
    if paths.trunk is not None:
        load_trunk(model, find_model(paths.trunk))
    return model


def _material(
    model: ChangeCaptioner, config: Config, train: Sequence[PairRecord], kept: Kept
) -> TrainingMaterial:
    return TrainingMaterial(
        captions=[list(record.captions) for record in train],
        changed=[record.changed for record in train],
        pooled=_pooled(model, config, train, kept) if model.prepares_from_features else None,
        seed=config.train.seed,
    )


def _pooled(model: ChangeCaptioner, config: Config, train: Sequence[PairRecord], kept: Kept) -> np.ndarray:
    size, bf16 = config.data.size, config.train.bf16
    model.eval()
    weights = None
    if kept.extracted is not None:
        shares = torch.from_numpy(kept.extracted.shares.astype(np.float32))
        weights = model.preparation_weights(shares).numpy()
    if kept.features is not None:
        return kept.features.pooled(weights)
    return pooled_features(model.backbone, train, size=size, bf16=bf16, weights=weights)
