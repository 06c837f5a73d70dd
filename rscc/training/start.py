"""Where training starts from: another model's weights and vocabulary (``rscc train --from``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from rscc.config import Config, ModelConfig
from rscc.errors import ConfigInvalid, ModelFolderInvalid
from rscc.model_folder import ModelFolder, find_model, open_model_folder
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.tokenizer import load_vocabulary
from rscc.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class RunPaths:
    """Where a run reads and writes.

    Attributes:
        data: root of the captioned data set.
        output: run folder; the finished model lies in ``output/model``.
        masks: folders of further pairs with change masks, see
            :class:`~rscc.data.benchmarks.change_masks.ChangeMasks`.
        trunk: model folder or name whose trunk and change head are the start.
        backbone_weights: file of pretrained trunk weights; not together with ``trunk`` or ``start``.
        cache: folder of cached features; None puts it into ``output``.
        start: model folder or name of which every weight is the start, and the vocabulary too; where a
            ``trunk`` is given, that one's trunk and change head win.
        corpus: file of captions without images, for ``train.objective = "language"``.
        also: further folders in the layout of ``data.name``, whose train split joins the training pairs.
        roads: folder of single dates with road masks, see :func:`rscc.training.roads.fit_roads`; None: a
            model that tells facts keeps the roads of its start, if it has any.
        labelled, labels: folder of further pairs, and the table of what they show, to learn facts from; see
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


Report = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """A training that was asked for.

    Attributes:
        config: what is learnt, and how.
        paths: where it reads and writes.
        name, command: name of the new model and the command line, for its card.
        device: that computes.
        report: receives one line per epoch, and what else there is to tell.
    """

    config: Config
    paths: RunPaths
    name: str
    command: str
    device: str = "cpu"
    report: Report = print


# What a run writes into its folder: model folders, and what the loop keeps to go on with.
_MODELS, _KEPT = ("model", "tuned"), ("checkpoint.pt", "best.safetensors", "log.jsonl", "config.json")
TRUNK = ("backbone", "change_head")
TRUNK_PARTS = tuple(f"{part}." for part in TRUNK)


def check_output(paths: RunPaths, *, resume: bool = False, overwrite: bool = False) -> None:
    """Make sure that the run folder is none of the run's inputs, no file, and holds nothing to be lost.

    Args:
        resume, overwrite: the run goes on with the one that lies there, or takes its place.

    Raises:
        ConfigInvalid: both are given; it is a file; a start or trunk is its ``model`` or ``tuned``, or one of
            these is no model folder; or a run lies there, and neither is given.
        ModelNotFound: no such model.
    """
    if resume and overwrite:
        raise ConfigInvalid("--resume goes on with a run, --overwrite replaces it; give one of them")
    if paths.output.exists() and not paths.output.is_dir():
        raise ConfigInvalid(f"{paths.output}: this is a file; give --output a folder for the run")
    models = [paths.output / name for name in _MODELS]
    for one in (paths.start, paths.trunk):
        if one is not None and find_model(one).resolve() in [path.resolve() for path in models]:
            raise ConfigInvalid(
                f"{one}: this run would write over the model it begins with; give another --output"
            )
    for path in models:
        if os.path.lexists(path) and not (path / "model.json").is_file():
            raise ConfigInvalid(f"{path}: exists already and is no model folder; give another --output")
    there = next(filter(os.path.lexists, [*models, *(paths.output / name for name in _KEPT)]), None)
    if there is not None and not (resume or overwrite):
        raise ConfigInvalid(
            f"{there}: exists already; add --resume to go on with that run or --overwrite to replace it, or "
            "give another --output"
        )


def clear_output(folder: Path) -> None:
    """Remove what the loop of an earlier run left in a run folder, so that no later one goes on with it."""
    for name in _KEPT:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "tuned", ignore_errors=True)


def sees_as_start(paths: RunPaths, config: Config) -> bool:
    """Return whether trunk and change head of a run stay those of its start."""
    return paths.start is not None and paths.trunk is None and set(TRUNK) <= set(config.train.frozen)


def learns_facts_alone(start: Start, paths: RunPaths, config: Config) -> bool:
    """Return whether only the facts of a start learn on: it tells some, and sees as before."""
    tells = bool(start.folder.card.facts_sha256) and config.train.facts
    return config.train.facts_alone and tells and not paths.also and sees_as_start(paths, config)


# What CHEERS and DAVIR write into their options when they are prepared; sizes of the weights follow from it.
_PREPARED = ("entity_names", "entity_width")


@dataclass(frozen=True)
class Start:
    """A model whose weights are the start of another: its folder and its words."""

    folder: ModelFolder
    vocabulary: Vocabulary

    @property
    def whole(self) -> bool:
        """Whether it is a whole captioner, not a part of one."""
        return not self.folder.card.parts

    def prepared(self, config: ModelConfig) -> ModelConfig:
        """Return the config of a model that is not prepared anew: with the entities that this one knows.

        Entities that the config itself names stay; weights that do not fit them are refused later.
        """
        options = self.folder.config.options
        if config.options.get("entity_names"):
            return config
        entities = {key: options[key] for key in _PREPARED if key in options}
        return replace(config, options={**config.options, **entities})


def open_start(model: str | Path) -> Start:
    """Open the folder of a shipped model's name or of a path.

    Raises:
        ModelNotFound: no such model.
        ModelFolderInvalid: a file is missing or damaged.
    """
    folder = open_model_folder(find_model(model), check_hashes=True)
    return Start(folder, load_vocabulary(folder.path / "vocabulary.json"))


def check_trunk_weights(paths: RunPaths, start: Start | None) -> None:
    """Make sure that the weights of the trunk come from one place.

    Raises:
        ConfigInvalid: backbone weights are given beside a start or trunk that has its own.
    """
    if paths.backbone_weights is not None and (paths.trunk is not None or (start and start.whole)):
        raise ConfigInvalid("give either backbone weights or a model folder that holds a trunk, not both")


def take_start(model: ChangeCaptioner, start: Start, *, without: tuple[str, ...] = ()) -> None:
    """Copy every weight of the start into a new model.

    What has one row per word may have more rows here: those of new words stay as the model was initialised.
    What only training needs (``model.training_only``) starts new where the folder does not hold it.

    Args:
        model: whose vocabulary begins with the start's.
        start: see :func:`open_start`.
        without: beginnings of the names of weights that are left as they are.

    Raises:
        ModelFolderInvalid: a weight is lacking, unknown here, or of another shape; the message says which.
    """
    path = start.folder.path
    parameters = model.state_dict()
    stored = _read(path)
    if without:
        stored = {name: value for name, value in stored.items() if not name.startswith(without)}
    remedy = f"start from it with the model settings of {path.name} (leave out --config and --model)"
    for name, value in parameters.items():
        if name.endswith("num_batches_tracked") or (without and name.startswith(without)):
            continue
        if name not in stored:
            meant = start.whole or name.startswith(start.folder.card.parts)
            if meant and not name.startswith(model.training_only):
                raise ModelFolderInvalid(f"{path}: lacks {name}, which this config asks for; {remedy}")
        elif not _fits(value, stored[name], (len(model.vocabulary), len(start.vocabulary))):
            here, there = (tuple(one.shape) for one in (value, stored[name]))
            raise ModelFolderInvalid(f"{path}: {name} is {there} there and {here} by this config; {remedy}")
    unknown = sorted(set(stored) - set(parameters))
    if unknown:
        raise ModelFolderInvalid(f"{path}: its {unknown[0]} has no place in this config's model; {remedy}")
    with torch.no_grad():
        for name, value in stored.items():
            parameters[name][: len(value)].copy_(value) if value.ndim else parameters[name].copy_(value)


def load_trunk(model: ChangeCaptioner, folder: Path) -> None:
    """Take trunk and change head from another model folder.

    Raises:
        ModelFolderInvalid: they are of another kind or size.
    """
    state = {name: value for name, value in _read(folder).items() if name.startswith(TRUNK_PARTS)}
    parameters = model.state_dict()
    for key in parameters:
        required = key.startswith(TRUNK_PARTS) and not key.endswith("num_batches_tracked")
        if required and (key not in state or state[key].shape != parameters[key].shape):
            raise ModelFolderInvalid(f"{folder}: its trunk or change head does not fit this config ({key})")
    model.load_state_dict(state, strict=False)


def _read(folder: Path) -> dict[str, Tensor]:
    try:
        return {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
    except (SafetensorError, OSError) as error:
        raise ModelFolderInvalid(f"{folder / 'model.safetensors'}: cannot be read ({error})") from error


def _fits(parameter: Tensor, stored: Tensor, words: tuple[int, int]) -> bool:
    """Return whether the shapes agree, or differ by the rows of new words: ``words`` here and there."""
    return parameter.shape == stored.shape or (
        parameter.ndim == stored.ndim >= 1
        and parameter.shape[1:] == stored.shape[1:]
        and (parameter.shape[0], stored.shape[0]) == words
        and words[0] > words[1]
    )


def finetuning_config(defaults: Config, start: Start) -> Config:
    """Return the config that goes on training a model on other data.

    Args:
        defaults: the loop, the data settings and the loss weights.
        start: gives the model's sizes, tile sizes and GSD, how it chooses what it says, and what its card
            says of limits and licence.

    Raises:
        ConfigInvalid: the start is a part of a model only.
    """
    folder = start.folder
    card = folder.card
    if not start.whole:
        raise ConfigInvalid(
            f"{folder.path}: holds a part of a model ({card.description}); give with --config a config that "
            "has a table [model]"
        )
    return replace(
        defaults,
        model=folder.config,
        data=replace(defaults.data, size=card.tile_size, gsd=card.gsd),
        card=replace(
            defaults.card,
            description=f"{card.description}; fine-tuned on other pairs",
            gsd_range=card.gsd_range,
            data=f"Started from {card.name} {card.version}, which was trained on: {card.data}",
            licence=card.licence,
            limits=card.limits,
            support=card.support,
            sentences=card.sentences,
            search_size=card.search_size,
        ),
    )
