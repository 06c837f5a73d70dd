"""What CHEERS and DAVIR do alike before training: collect entities of the captions, make their retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import torch

from rscc.config import ModelConfig
from rscc.errors import ConfigInvalid
from rscc.language import frequent_entities
from rscc.models.retrieval import (
    ClipRetriever,
    OfflineRetriever,
    Retriever,
    Score,
    named_entities,
    parse_retriever,
)
from rscc.structures import TrainingMaterial
from rscc.text_encoders import TextEncoder

Reader = Callable[[Iterable[str]], list[list[str]]]
"""Finds the phrases of each caption that may become entities."""


class EntityOptions(Protocol):
    """Those of a paper's options that entities are collected and retrieved by; the papers describe them."""

    @property
    def entities(self) -> int:
        """How many are retrieved for a pair."""

    @property
    def retriever(self) -> str:
        """See :func:`~rscc.models.retrieval.parse_retriever`."""

    @property
    def most_entities(self) -> int:
        """How many of the most frequent ones are kept."""

    @property
    def least_count(self) -> int:
        """Captions that an entity must stand in."""

    @property
    def entity_names(self) -> tuple[str, ...]:
        """The entities; none before training."""


def check_entity_options(options: EntityOptions) -> None:
    """Refuse options that ask for more entities than there can be, or for an unknown retriever.

    Raises:
        ConfigInvalid: as said.
    """
    if options.most_entities < options.entities or 0 < len(options.entity_names) < options.entities:
        raise ConfigInvalid(
            f"model.options: {options.entities} entities cannot be retrieved from fewer; lower entities"
        )
    parse_retriever(options.retriever)


def fits_retriever(options: EntityOptions) -> bool:
    """Tell whether the retriever is fitted on the training split; CLIP's is taken as it is."""
    return parse_retriever(options.retriever) is None


def make_retriever(
    material: TrainingMaterial,
    options: EntityOptions,
    text_encoder: TextEncoder | None,
    *,
    read: Reader,
    called: str,
    paper: str,
    score: Score = "gain",
) -> Retriever:
    """Collect the entities of the training captions and make the retriever that knows them.

    Args:
        material: of the training split.
        options: of the paper.
        text_encoder: gives the entities' features for the offline retriever.
        read: finds the phrases.
        called: what messages call the phrases.
        paper: what messages call the paper.
        score: that the paper retrieves by, see :meth:`~rscc.models.retrieval.OfflineRetriever.fit`.

    Raises:
        ConfigInvalid: no text encoder, or too few entities in the captions.
        ExtraNotInstalled, WeightsNotFound: spaCy, its parser or CLIP is missing.
    """
    every = read([one for captions in material.captions for one in captions])
    names = frequent_entities(every, options.most_entities, options.least_count)
    if len(names) < options.entities:
        raise ConfigInvalid(
            f"only {len(names)} {called} stand in at least {options.least_count} training captions, and "
            f"model.options.entities is {options.entities}; lower it or model.options.least_count"
        )
    clip = parse_retriever(options.retriever)
    if clip is not None:
        return ClipRetriever.of(names, architecture=clip[0], source=clip[1])
    if text_encoder is None:
        raise ConfigInvalid(f"{paper} needs a text encoder to be trained; build it with one")
    rest = iter(every)
    by_pair = [[one for _ in captions for one in next(rest)] for captions in material.captions]
    with torch.no_grad():
        features = text_encoder.encode(names)
    named = named_entities(by_pair, names)
    return OfflineRetriever.fit(material, names=names, entity_features=features, named=named, score=score)


def with_entities(config: ModelConfig, retriever: Retriever) -> ModelConfig:
    """Return the config of a model that has this retriever: a saved one is built by its sizes."""
    made = {  # a list, as it comes back from a file
        "entity_names": list(retriever.names),
        "entity_width": retriever.entity_features.shape[1],
    }
    return replace(config, options={**config.options, **made})
