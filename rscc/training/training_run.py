"""A training run: its config, its inputs, the model it starts from, and the folder that it writes."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from rscc.config import Config, ModelConfig
from rscc.data.labels import read_labelled
from rscc.data.single_dates import read_roads
from rscc.errors import ConfigInvalid, ModelFolderInvalid
from rscc.model_folder import ModelFolder, find_model, open_model_folder
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.tokenizer import load_vocabulary
from rscc.text.vocabulary import Vocabulary
from rscc.weights import load_weights

Report = Callable[[str], None]
"""Receives one line of text."""

TRUNK = ("backbone", "change_head")
# What a run writes into its folder: model folders, and the files of the training loop.
_MODELS, _LOOP_FILES = ("model", "tuned"), ("checkpoint.pt", "best.safetensors", "log.jsonl", "config.json")
# What the card of a fine-tuned model says as that of its start.
_KEPT = ("gsd_range", "licence", "limits", "support", "sentences", "search_size")
# Options that CHEERS and DAVIR set when they are prepared; sizes of weights depend on them.
_PREPARED_OPTIONS = ("entity_names", "entity_width")


@dataclass(frozen=True)
class Start:
    """The model that a training starts from: its folder and its vocabulary."""

    folder: ModelFolder
    vocabulary: Vocabulary

    @property
    def whole(self) -> bool:
        """Whether it is a whole captioner, not a part of one."""
        return not self.folder.card.parts

    def prepared(self, config: ModelConfig) -> ModelConfig:
        """Return a config with the entities of this model, unless it names entities itself."""
        options = self.folder.config.options
        if config.options.get("entity_names"):
            return config
        entities = {key: options[key] for key in _PREPARED_OPTIONS if key in options}
        return replace(config, options={**config.options, **entities})


def open_start(model: str | Path) -> Start:
    """Open a model by its name or folder."""
    folder = open_model_folder(find_model(model), check_hashes=True)
    return Start(folder, load_vocabulary(folder.path / "vocabulary.json"))


@dataclass(frozen=True)
class RunPaths:
    """Where a run reads and writes.

    Attributes:
        data: root of the captioned data set.
        output: run folder; the finished model is ``output/model``.
        masks: folders of further pairs with change masks, see
            :func:`~rscc.data.benchmarks.change_masks.change_masks`, or data sets of TorchGeo, see
            :func:`~rscc.data.benchmarks.change_masks.torchgeo_pairs`.
        trunk: model folder or name to take the trunk and the change head from.
        backbone_weights: file of pretrained trunk weights; not together with ``trunk`` or ``start``.
        cache: folder of cached features; None: in ``output``.
        start: model folder or name to take all weights and the vocabulary from; a ``trunk`` replaces its
            trunk and change head.
        corpus: file of captions without images, for ``train.objective = "language"``.
        also: further folders in the layout of ``data.name`` whose train split is learned too.
        roads: folder of single dates with road masks, see
            :func:`rscc.training.head_training.fit_roads`; None: the road head of the start stays.
        labelled, labels: folder of further pairs, and their table of labels, to learn facts from; see
            :func:`rscc.data.labels.read_labelled`.
    """

    data: Path
    output: Path
    masks: tuple[Path, ...] = ()
    trunk: str | None = None
    backbone_weights: Path | None = None
    cache: Path | None = None
    start: str | None = None
    corpus: Path | None = None
    also: tuple[Path, ...] = ()
    roads: Path | None = None
    labelled: Path | None = None
    labels: Path | None = None


@dataclass(frozen=True)
class Run:
    """One training run.

    Attributes:
        config, paths: what is learned and how; where the run reads and writes.
        name, command: name of the new model and the command line, for its card.
    """

    config: Config
    paths: RunPaths
    name: str
    command: str
    device: str = "cpu"
    report: Report = print
    start: Start | None = None

    @property
    def masks_only(self) -> bool:
        """Whether only the loss of the change masks has a weight, so that no captions are needed."""
        return all(weight == 0 or term == "change_mask" for term, weight in self.config.loss.items())

    @property
    def whole_start(self) -> Start | None:
        """The start, if it is a whole captioner and this run trains captions: then the run fine-tunes it."""
        return self.start if self.start is not None and self.start.whole and not self.masks_only else None

    @property
    def freezes_trunk(self) -> bool:
        """Whether trunk and change head are not trained."""
        return set(TRUNK) <= set(self.config.train.frozen)

    @property
    def keeps_trunk(self) -> bool:
        """Whether trunk and change head stay those of the start."""
        return self.paths.start is not None and self.paths.trunk is None and self.freezes_trunk

    @property
    def learns_facts_alone(self) -> bool:
        """Whether only the fact heads of the start are trained further."""
        start, settings = self.whole_start, self.config.train
        if start is None or not (settings.facts and settings.facts_alone):
            return False
        return bool(start.folder.card.facts_sha256) and not self.paths.also and self.keeps_trunk


def check_output(paths: RunPaths, *, resume: bool = False, overwrite: bool = False) -> None:
    """Check that the run folder can be written without losing anything.

    Args:
        resume, overwrite: continue the run in that folder, or replace it.

    Raises:
        ConfigInvalid: both are given; the folder is a file; a start or trunk is its ``model`` or ``tuned``;
            one of these is no model folder; or it holds a run, and neither is given.
    """
    if resume and overwrite:
        raise ConfigInvalid("--resume continues a run, --overwrite replaces it; give one of them")
    if paths.output.exists() and not paths.output.is_dir():
        raise ConfigInvalid(f"{paths.output}: this is a file; give --output a folder for the run")
    models = [paths.output / name for name in _MODELS]
    for source in (paths.start, paths.trunk):
        if source is not None and find_model(source).resolve() in [path.resolve() for path in models]:
            raise ConfigInvalid(
                f"{source}: this run would overwrite the model it starts from; give another --output"
            )
    for path in models:
        if os.path.lexists(path) and not (path / "model.json").is_file():
            raise ConfigInvalid(f"{path}: exists already and is no model folder; give another --output")
    files = [*models, *(paths.output / name for name in _LOOP_FILES)]
    existing = next(filter(os.path.lexists, files), None)
    if existing is not None and not (resume or overwrite):
        raise ConfigInvalid(
            f"{existing}: exists already; add --resume to continue that run or --overwrite to replace it, or "
            "give another --output"
        )


def clear_output(folder: Path) -> None:
    """Remove the files of an earlier run's loop, so that no later run continues it."""
    for name in _LOOP_FILES:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "tuned", ignore_errors=True)


def check_inputs(run: Run) -> None:
    """Check, before anything is learned, that every given input is used and can be read.

    Raises:
        ConfigInvalid: an input that this config does not use, or weights of the trunk from two places.
        DatasetLayoutInvalid: the folder of roads, or the table of labels, has another layout or no rows.
    """
    paths = run.paths
    if paths.corpus is not None:
        raise ConfigInvalid("only train.objective 'language' learns a corpus; leave --corpus out")
    if paths.masks and not run.masks_only:
        raise ConfigInvalid(
            f"{paths.masks[0]}: --masks needs a config in which only loss.change_mask has a weight, such as "
            "change_head"
        )
    for folder, option in ((paths.roads, "roads"), (paths.labelled, "labelled")):
        if folder is not None and (run.masks_only or not run.config.train.facts):
            raise ConfigInvalid(f"{folder}: this config learns no facts; leave --{option} out")
    if paths.labels is not None and paths.labelled is None:
        raise ConfigInvalid(f"{paths.labels}: give the folder of its images with --labelled")
    if paths.backbone_weights is not None and (paths.trunk is not None or (run.start and run.start.whole)):
        raise ConfigInvalid("give either backbone weights or a model folder that holds a trunk, not both")
    if paths.roads is not None:
        read_roads(paths.roads)
    if paths.labelled is not None:
        read_labelled(paths.labelled, paths.labels)


def load_start(
    model: ChangeCaptioner, start: Start, *, skip: tuple[str, ...] = (), only: tuple[str, ...] = ()
) -> None:
    """Copy the weights of the start into a new model.

    Weights with one row per word may have more rows here: rows of new words keep their initial values. So do
    weights that only training needs (``model.training_only``) where the folder lacks them.

    Args:
        model: its vocabulary begins with the start's, unless no weight of words is copied.
        skip, only: prefixes of the names of weights that are not copied, and that alone are.

    Raises:
        ModelFolderInvalid: a weight is lacking, unknown here, or of another shape; the message names it.
    """

    def is_copied(name: str) -> bool:
        return name.startswith(only or "") and not name.startswith(skip)

    path = start.folder.path
    parameters = model.state_dict()
    try:
        stored = load_weights(path / "model.safetensors", is_copied)
    except (SafetensorError, OSError) as error:
        raise ModelFolderInvalid(f"{path / 'model.safetensors'}: cannot be read ({error})") from error
    remedy = f"use the model settings of {path.name} (leave out --config and --model)"
    for name, value in parameters.items():
        if name.endswith("num_batches_tracked") or not is_copied(name):
            continue
        if name not in stored:
            expected = start.whole or name.startswith(only or start.folder.card.parts)
            if expected and not name.startswith(model.training_only):
                raise ModelFolderInvalid(f"{path}: lacks {name}, which this config needs; {remedy}")
        elif not _fits(value, stored[name], (len(model.vocabulary), len(start.vocabulary))):
            here, there = (tuple(weight.shape) for weight in (value, stored[name]))
            raise ModelFolderInvalid(f"{path}: {name} is {there} there and {here} by this config; {remedy}")
    if unknown := sorted(set(stored) - set(parameters)):
        raise ModelFolderInvalid(f"{path}: this config's model has no {unknown[0]}; {remedy}")
    with torch.no_grad():
        for name, value in stored.items():
            parameters[name][: len(value)].copy_(value) if value.ndim else parameters[name].copy_(value)


def _fits(parameter: Tensor, stored: Tensor, words: tuple[int, int]) -> bool:
    """Return whether the shapes agree, or differ by the rows of new words: ``words`` here and there."""
    return parameter.shape == stored.shape or (
        parameter.ndim == stored.ndim >= 1
        and parameter.shape[1:] == stored.shape[1:]
        and (parameter.shape[0], stored.shape[0]) == words
        and words[0] > words[1]
    )


def finetuning_config(defaults: Config, start: Start) -> Config:
    """Return the config that fine-tunes a model.

    Args:
        defaults: gives the loop, the data settings and the loss weights.
        start: gives the model's sizes, tile sizes and GSD, and what its card says of limits and licence.

    Raises:
        ConfigInvalid: the start is only a part of a model.
    """
    folder, card = start.folder, start.folder.card
    if not start.whole:
        raise ConfigInvalid(
            f"{folder.path}: holds only a part of a model ({card.description}); give with --config a config "
            "that has a table [model]"
        )
    return replace(
        defaults,
        model=folder.config,
        data=replace(defaults.data, size=card.tile_size, gsd=card.gsd),
        card=replace(
            defaults.card,
            description=f"{card.description}; fine-tuned on other pairs",
            data=f"Started from {card.name} {card.version}, which was trained on: {card.data}",
            **{name: getattr(card, name) for name in _KEPT},
        ),
    )
