"""Trains a model from a config and folders to a finished model folder."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from rscc.config import Config
from rscc.data.benchmarks.registry import DATASETS
from rscc.data.caches import PairCache, fill_caches
from rscc.data.pairs import PairRecord
from rscc.data.trunk_maps import pooled_features
from rscc.devices import fast_bf16, keep_freed_memory, pick_device
from rscc.errors import ConfigInvalid
from rscc.evaluation.metrics import caption_metrics
from rscc.model_folder import DETECTOR, ModelFolder
from rscc.models.backbones import build_backbone
from rscc.models.papers import model_class
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.losses import check_loss_weights
from rscc.structures import TrainingMaterial
from rscc.text.encoders import TextEncoder, load_text_encoder
from rscc.text.vocabulary import Vocabulary
from rscc.training.finetuning import choose_better, learn_facts
from rscc.training.language_stage import train_language
from rscc.training.model_export import export_model
from rscc.training.training_data import (
    batch_source,
    every_caption,
    learns_the_flag,
    no_change_prefixes,
    read_pairs,
    training_parts,
)
from rscc.training.training_loop import Trainer, Validate, freeze, load_best
from rscc.training.training_run import (
    Report,
    Run,
    RunPaths,
    check_inputs,
    check_output,
    clear_output,
    load_start,
    open_start,
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
        resume: continue the run in ``paths.output``; without a checkpoint there it starts from the beginning.
        report: receives one line per epoch, and other messages.

    Raises:
        RsccError: bad config, data set or weights; an output that exists; a device that is not available; or
            a loss that is not finite.
    """
    if config.data.name not in DATASETS:
        raise ConfigInvalid(f"data.name is {config.data.name!r}; known are {', '.join(DATASETS)}")
    keep_freed_memory()
    run = Run(config, paths, name, command, str(pick_device(device)), report)
    check_output(paths, resume=resume, overwrite=overwrite)
    if not run.masks_only:
        caption_metrics()
    if config.train.objective == "language":
        train = DATASETS[config.data.name](paths.data, "train", trust=config.data.trust)
        return train_language(_with_fast_precision(run), train, resume=resume)
    run = replace(run, start=None if paths.start is None else open_start(paths.start))
    check_inputs(run)
    train, val = read_pairs(run)
    run = _with_fast_precision(run)
    if run.learns_facts_alone:
        return _train_facts_alone(run, train, val, resume=resume)
    return _train_captioner(run, train, val, resume=resume)


def _with_fast_precision(run: Run) -> Run:
    """Return the run, in float32 where bfloat16 is slower, which is reported."""
    config = run.config
    if not config.train.bf16 or fast_bf16(torch.device(run.device)):
        return run
    run.report("computing in float32: bfloat16 is slower on this machine")
    return replace(run, config=replace(config, train=replace(config.train, bf16=False)))


def _train_facts_alone(
    run: Run, train: Sequence[PairRecord], val: Sequence[PairRecord], *, resume: bool
) -> ModelFolder:
    output = run.paths.output
    if resume and (output / "checkpoint.pt").is_file():
        raise ConfigInvalid(
            f"{output}: its run trained more than facts; give --epochs and the other options of that run, or "
            "start in a new folder"
        )
    if resume:
        run.report("training facts writes no checkpoint: the run starts from the beginning")
    made = learn_facts(run, train, val)
    clear_output(output)
    return made


def _train_captioner(
    run: Run, train: Sequence[PairRecord], val: Sequence[PairRecord], *, resume: bool
) -> ModelFolder:
    config, paths, start = run.config, run.paths, run.start
    parts = training_parts(run, train)
    train, captions = parts[0], every_caption(parts)
    build_vocabulary = Vocabulary.build if start is None else start.vocabulary.extended
    vocabulary = build_vocabulary(captions, config.data.min_count)
    torch.manual_seed(config.train.seed)
    model = build_model(run, vocabulary).to(run.device)
    # Check what the loop needs before the caches, which may take hours.
    check_loss_weights(model.loss_terms(), config.loss)
    freeze(model, config.train.frozen)
    folder = paths.cache or paths.output / "features"
    caches, val_cache = fill_caches(
        model, config, folder, parts, val, extract=not run.masks_only, report=run.report
    )
    if model.prepares and not (start and start.whole):
        model.prepare(training_material(model, config, train, caches[0]))
    records = [record for part in parts for record in part]
    trainer = Trainer(
        model,
        batch_source(run, records, model.vocabulary, PairCache.join(caches)),
        _validation(run, train, val, val_cache),
        config=config,
        folder=paths.output,
        report=run.report,
    )
    result = trainer.run(resume=resume)
    best = load_best(model, result)
    made = export_model(run, best, result, train=train, val=val, val_cache=val_cache)
    return made if run.whole_start is None else choose_better(run, made, val)


def _validation(
    run: Run, train: Sequence[PairRecord], val: Sequence[PairRecord], cache: PairCache
) -> Validate:
    config = run.config
    if config.train.select == "mask_f1":
        if all(record.mask is None for record in val):
            raise ConfigInvalid(
                f"train.select is 'mask_f1', but no validation pair of {run.paths.data} has a mask"
            )
        return mask_validation(val, config)
    return caption_validation(
        val,
        config,
        no_change_prefixes=no_change_prefixes(train),
        cache=cache,
        flag_decides=learns_the_flag(config, train),
    )


def build_model(run: Run, vocabulary: Vocabulary) -> ChangeCaptioner:
    """Build the model of a run with its pretrained trunk, the weights of its start, and any text encoder.

    A trunk with a language model has a vocabulary of its own; ``vocabulary`` is for the others and begins
    with that of the start. The entities of a prepared start are kept.
    """
    config, paths, start = run.config, run.paths, run.start
    whole = start is not None and start.whole
    kind = model_class(config.model.paper)
    encoder: TextEncoder | None = None
    prepared = whole and kind.prepares  # such models use a text encoder only while they are prepared
    if kind.needs_text_encoder(config.loss) and not prepared:
        encoder = load_text_encoder(config.train.text_encoder)
    has_weights = paths.trunk is not None or paths.backbone_weights is not None or whole
    backbone = build_backbone(
        config.model.backbone,
        weights=paths.backbone_weights,
        download=not has_weights and "/" in config.model.backbone,
    )
    if backbone.vocabulary is not None:
        vocabulary = backbone.vocabulary
    settings = config.model if start is None else start.prepared(config.model)
    model = kind(config=settings, backbone=backbone, vocabulary=vocabulary, text_encoder=encoder)
    if start is not None:
        load_start(model, start, skip=DETECTOR if paths.trunk is not None else ())
    if paths.trunk is not None:
        load_start(model, open_start(paths.trunk), only=DETECTOR)
    return model


def training_material(
    model: ChangeCaptioner, config: Config, train: Sequence[PairRecord], cache: PairCache
) -> TrainingMaterial:
    """Return what a model is prepared from; ``cache`` is of the pairs ``train``, or empty."""
    pooled = weights = None
    if model.prepares_from_features:
        model.eval()
        if cache.extracted:
            shares = torch.from_numpy(np.stack(cache.extracted).astype(np.float32))
            weights = model.preparation_weights(shares).numpy()
        if cache.maps:
            pooled = cache.pooled(weights)
        else:
            size, bf16 = config.data.size, config.train.bf16
            pooled = pooled_features(model.backbone, train, size=size, bf16=bf16, weights=weights)
    return TrainingMaterial(
        captions=[list(record.captions) for record in train],
        changed=[record.changed for record in train],
        pooled=pooled,
        seed=config.train.seed,
    )
