"""Weights and vocabulary of the model that a training starts from (``rscc train --from`` and ``--trunk``)."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from rscc.config import Config, ModelConfig
from rscc.errors import ConfigInvalid, ModelFolderInvalid
from rscc.model_folder import ModelFolder, find_model, open_model_folder
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.tokenizer import load_vocabulary
from rscc.text.vocabulary import Vocabulary
from rscc.weights import load_weights

TRUNK_PREFIXES = ("backbone.", "change_head.")
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
