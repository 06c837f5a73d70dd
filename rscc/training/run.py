"""From a config and folders to a trained model folder: puts data, model, loop and validation together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from rscc.config import Config
from rscc.data.benchmarks.registry import DATASETS
from rscc.data.caches import pooled_features
from rscc.data.pairs import PairRecord, contradicts_itself
from rscc.devices import fast_bf16, pick_device
from rscc.errors import ConfigInvalid
from rscc.evaluation.metrics import caption_metrics
from rscc.freed_memory import keep_freed_memory
from rscc.model_folder import ModelFolder, find_model, open_model_folder
from rscc.models import model_class
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.losses import check_loss_weights
from rscc.models.trunks import build_backbone
from rscc.structures import TrainingMaterial
from rscc.text.encoders import TextEncoder, load_text_encoder
from rscc.text.vocabulary import Vocabulary
from rscc.training.batches import (
    batch_source,
    check_paths,
    every_caption,
    learns_masks_only,
    training_parts,
)
from rscc.training.caching import Caches, fill_caches
from rscc.training.finetuning import (
    compare_scores,
    describe_pairs,
    doubts_about,
    keep_better,
    learn_facts,
    read_splits,
)
from rscc.training.finish import finish
from rscc.training.language import train_language
from rscc.training.loop import Trainer, Validate, freeze, load_best
from rscc.training.no_change import learns_the_flag, no_change_prefixes
from rscc.training.objectives import Likelihood, self_critical
from rscc.training.start import (
    TRUNK_PARTS,
    Report,
    Run,
    RunPaths,
    Start,
    check_output,
    check_trunk_weights,
    clear_output,
    learns_facts_alone,
    load_trunk,
    open_start,
    sees_as_start,
    take_start,
)
from rscc.training.validation import caption_validation, mask_validation


def train_model(
    config: Config,
    paths: RunPaths,
    *,
    name: str,
    command: str,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "cpu",
    report: Report = print,
) -> ModelFolder:
    """Train by a config and write the model folder ``paths.output / "model"``.

    Args:
        name, command: name of the new model and the command line, for its card.
        resume: go on with the run that lies in ``paths.output``; without a checkpoint there it begins anew,
            and ``report`` is told.
        overwrite: replace the run that lies there.
        report: receives one line per epoch.

    Raises:
        RsccError: bad config, data set, weights; an output that is taken; a device that is not there; or a
            loss that is not finite.
    """
    if config.data.name not in DATASETS:
        raise ConfigInvalid(f"data.name is {config.data.name!r}; known are {', '.join(DATASETS)}")
    keep_freed_memory()
    device = str(pick_device(device))
    check_output(paths, resume=resume, overwrite=overwrite)
    if not learns_masks_only(config):
        caption_metrics()
    reader = DATASETS[config.data.name]
    run = Run(config, paths, name, command, device, report)
    if config.train.objective == "language":
        train = reader(paths.data, "train", trust=config.data.trust).records
        return train_language(_in_fast_precision(run), train, resume=resume)
    check_paths(config, paths)
    start = None if paths.start is None else open_start(paths.start)
    check_trunk_weights(paths, start)
    tunes = start is not None and start.whole and not learns_masks_only(config)
    facts_alone = start is not None and tunes and learns_facts_alone(start, paths, config)
    train, val = _read_pairs(run, tunes=tunes, facts_alone=facts_alone)
    if start is not None and tunes:
        for line in doubts_about(start.folder.card, train):
            report(line)
    run = _in_fast_precision(run)
    config = run.config
    if start is not None and facts_alone:
        if resume and (paths.output / "checkpoint.pt").is_file():
            raise ConfigInvalid(
                f"{paths.output}: its run learnt more than facts, which learn in one go; give --epochs and "
                "the other options of that run, or start in a new folder"
            )
        if resume:
            report("facts are learnt in one go, without a checkpoint to go on from: the run begins anew")
        made = learn_facts(run, start.folder, train, val)
        clear_output(paths.output)
        return made
    parts = training_parts(config, train, paths.also, captioned=not learns_masks_only(config))
    train, captions = parts[0], every_caption(parts)
    learn_words = Vocabulary.build if start is None else start.vocabulary.extended
    vocabulary = learn_words(captions, config.data.min_count)
    torch.manual_seed(config.train.seed)
    model = build_model(config, vocabulary, paths, start=start).to(device)
    objective = (
        self_critical(config, model, train)
        if config.train.objective == "self_critical"
        else Likelihood(config.loss, label_smoothing=config.train.label_smoothing)
    )
    # What the loop would refuse is refused before the features, which may take hours.
    check_loss_weights(objective.loss_terms(model), config.loss)
    freeze(model, config.train.frozen)
    caches, val_caches = fill_caches(run, model, parts, val, extract=not learns_masks_only(config))
    if model.prepares and not (start and start.whole):
        model.prepare(_material(model, config, train, caches[0]))
    every = [record for part in parts for record in part]
    source = batch_source(config, paths, every, model.vocabulary, Caches.join(caches))
    trainer = Trainer(
        model,
        source,
        _validation(config, paths, train, val, val_caches),
        config=config,
        folder=paths.output,
        report=report,
        objective=objective,
    )
    result = trainer.run(resume=resume)
    best = load_best(model, result)
    made = finish(run, best, result, val=val, val_caches=val_caches, captions=train)
    if start is not None and tunes:
        report("scores on the validation split, before and after:")
        comparison = compare_scores(start.folder.path, made.path, val, device=device)
        report(comparison.table)
        if config.train.keep_start:
            same = sees_as_start(paths, config)
            line = keep_better(made, start.folder, comparison, val, same_trunk=same, device=device)
            report(line)
            return open_model_folder(made.path)
    return made


def _in_fast_precision(run: Run) -> Run:
    """Return the run, in float32 where bfloat16 is slower, which is reported."""
    config = run.config
    if not config.train.bf16 or fast_bf16(torch.device(run.device)):
        return run
    run.report("computes in float32: bfloat16 is slower on this machine")
    return replace(run, config=replace(config, train=replace(config.train, bf16=False)))


def _read_pairs(run: Run, *, tunes: bool, facts_alone: bool) -> tuple[list[PairRecord], list[PairRecord]]:
    """Read training and validation pairs; a run that tunes a model may do without a validation split."""
    config, paths, report = run.config, run.paths, run.report
    reader, trust = DATASETS[config.data.name], config.data.trust
    if tunes:
        train, val, held_out = read_splits(reader, paths.data, trust=trust, seed=config.train.seed)
        train = _consistent(train, report)
        learns_flag = facts_alone or learns_the_flag(config, train)  # of facts alone it stays as it is
        for line in describe_pairs(train, val, held_out=held_out, learns_flag=learns_flag):
            report(line)
        return train, val
    train, val = reader(paths.data, "train", trust=trust).records, reader(paths.data, "val").records
    if not learns_masks_only(config):
        train, val = ([record for record in records if record.captions] for records in (train, val))
        train = _consistent(train, report)
    return train, val


def _consistent(records: Sequence[PairRecord], report: Report) -> list[PairRecord]:
    """Leave out the training pairs whose flag and mask contradict each other, and say how many they are."""
    consistent = [record for record in records if not contradicts_itself(record)]
    if dropped := len(records) - len(consistent):
        report(
            f"left out {dropped} of {len(records)} training pairs: called unchanged, but their masks are not"
        )
    return consistent


def _validation(
    config: Config, paths: RunPaths, train: Sequence[PairRecord], val: Sequence[PairRecord], caches: Caches
) -> Validate:
    """Make the validation that chooses the checkpoint; ``caches`` are of ``val``."""
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
        caches=caches,
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
        ConfigInvalid: unknown names.
        ModelFolderInvalid: the weights of trunk or start do not fit the config.
        WeightsNotFound: a file of weights is missing.
    """
    whole = start is not None and start.whole
    kind = model_class(config.model.paper)
    encoder: TextEncoder | None = None
    prepared = whole and kind.prepares  # what such models ask of a text encoder, they ask before training
    if kind.needs_text_encoder(config.loss) and not prepared:
        encoder = load_text_encoder(config.train.text_encoder)
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
    model: ChangeCaptioner, config: Config, train: Sequence[PairRecord], caches: Caches
) -> TrainingMaterial:
    pooled = weights = None
    if model.prepares_from_features:
        model.eval()
        if caches.extracted is not None:
            shares = torch.from_numpy(caches.extracted.shares.astype(np.float32))
            weights = model.preparation_weights(shares).numpy()
        if caches.features is not None:
            pooled = caches.features.pooled(weights)
        else:
            size, bf16 = config.data.size, config.train.bf16
            pooled = pooled_features(model.backbone, train, size=size, bf16=bf16, weights=weights)
    return TrainingMaterial(
        captions=[list(record.captions) for record in train],
        changed=[record.changed for record in train],
        pooled=pooled,
        seed=config.train.seed,
    )
