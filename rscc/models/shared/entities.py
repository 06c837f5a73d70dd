"""Base of CHEERS and DAVIR: collects entities of the captions before training, and retrieves them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from rscc.config import MOST_WORDS
from rscc.errors import ConfigInvalid
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.retrieval import (
    ClipRetriever,
    OfflineRetriever,
    Retriever,
    Score,
    empty_retriever,
    named_entities,
    parse_retriever,
)
from rscc.settings import build
from rscc.structures import DifferenceFeatures, TrainingMaterial
from rscc.text.encoders import TextEncoder
from rscc.text.parsing import frequent_entities

PhraseReader = Callable[[Iterable[str]], list[list[str]]]
"""Returns the phrases of each caption that may become entities."""


@dataclass(frozen=True, kw_only=True)
class EntityOptions:
    """Options of collecting and retrieving entities.

    Attributes:
        entities: retrieved for a pair.
        retriever: ``offline``, or ``open_clip:ARCHITECTURE:TAG_OR_FILE`` (the papers: CLIP ViT-L/14).
        most_entities: number of the most frequent entities that are candidates; 0 takes all, as both papers
            do. Each costs ``entity_width`` numbers in the model folder and one similarity per position.
        least_count: minimum number of captions that contain an entity.
        entity_names: the entities, filled in when training begins.
        entity_width: size of their features, filled in when training begins.
    """

    entities: int = 3
    retriever: str = "offline"
    most_entities: int = 0
    least_count: int = 1
    entity_names: tuple[str, ...] = ()
    entity_width: int = 384

    def __post_init__(self) -> None:
        counts = self.entities, self.most_entities or 1, self.least_count, self.entity_width
        if not 1 <= min(counts) <= max(counts) <= MOST_WORDS:
            raise ConfigInvalid(f"model.options: numbers and sizes of entities must be 1 to {MOST_WORDS}")
        if any(0 < number < self.entities for number in (self.most_entities, len(self.entity_names))):
            raise ConfigInvalid(
                f"model.options: {self.entities} entities cannot be retrieved from fewer; lower entities"
            )
        parse_retriever(self.retriever)

    @property
    def retrieves(self) -> bool:
        """Whether entities are needed; the papers' tables have rows without."""
        return True


@dataclass
class EntityFeatures(DifferenceFeatures):
    """Adds ``chosen``, (B, k) numbers of the retrieved entities, the best first; None without any."""

    chosen: Tensor | None = field(default=None, kw_only=True)


class EntityCaptioner(ChangeCaptioner):
    """Base of the models that retrieve entities.

    The text encoder is used once, by :meth:`prepare`; a trained model stores the features of its entities.

    Attributes:
        score: retrieval score of the paper, see :meth:`~rscc.models.shared.retrieval.OfflineRetriever.fit`.
    """

    prepares = True
    score: Score = "gain"
    options: EntityOptions
    retriever: Retriever

    @property
    @abstractmethod
    def phrase_reader(self) -> PhraseReader:
        """Returns the phrases that become entities."""

    @abstractmethod
    def project_entities(self, width: int) -> None:
        """Replace the layer that maps entity features, for features of this width."""

    def build_retriever(self, text_encoder: TextEncoder | None) -> None:
        """Make an empty retriever; it is filled by :meth:`prepare` or by a saved model."""
        self._text_encoder = [text_encoder]  # a list, so that it is not part of the model
        if self.options.retrieves:
            self.retriever = empty_retriever(
                self.options.retriever,
                names=self.options.entity_names,
                width=self.options.entity_width,
                channels=self.backbone.channels[-1],
            )

    @classmethod
    def needs_text_encoder(cls, weights: dict[str, float]) -> bool:
        """Return True: the offline retriever's entity features come from it.

        A CLIP retriever, or a model without entities, needs none, but the loss weights do not show that.
        """
        return True

    @property
    def prepares_from_features(self) -> bool:
        """Whether the retriever is fitted on the training split; CLIP's is not."""
        return self.options.retrieves and parse_retriever(self.options.retriever) is None

    @property
    def needs_images(self) -> bool:
        """Whether the retriever is CLIP's, which has its own image tower."""
        return self.options.retrieves and parse_retriever(self.options.retriever) is not None

    def prepare(self, material: TrainingMaterial) -> None:
        """Collect the entities of the training captions and make the retriever."""
        if not self.options.retrieves:
            return
        width = self.options.entity_width
        retriever = self._fitted_retriever(material)
        self.retriever = retriever.to(self.backbone.mean.device)
        filled = {  # a list, as it is when read from a file
            "entity_names": list(retriever.names),
            "entity_width": retriever.entity_features.shape[1],
        }
        self.config = replace(self.config, options={**self.config.options, **filled})
        self.options = build(type(self.options), self.config.options, "model.options")
        if self.options.entity_width != width:
            self.project_entities(self.options.entity_width)
        self._text_encoder = [None]

    def _fitted_retriever(self, material: TrainingMaterial) -> Retriever:
        options = self.options
        phrases = self.phrase_reader([caption for captions in material.captions for caption in captions])
        names = frequent_entities(phrases, options.most_entities or None, options.least_count)
        if len(names) < options.entities:
            raise ConfigInvalid(
                f"only {len(names)} entities stand in at least {options.least_count} training "
                f"captions, and model.options.entities is {options.entities}; lower it or "
                "model.options.least_count"
            )
        if clip := parse_retriever(options.retriever):
            return ClipRetriever.of(names, architecture=clip[0], source=clip[1])
        (text_encoder,) = self._text_encoder
        if text_encoder is None:
            raise ConfigInvalid(f"{self.config.paper} needs a text encoder to be trained; build it with one")
        rest = iter(phrases)
        by_pair = [[phrase for _ in captions for phrase in next(rest)] for captions in material.captions]
        with torch.no_grad():
            features = text_encoder.encode(names)
        named = named_entities(by_pair, names)
        return OfflineRetriever.fit(
            material, names=names, entity_features=features, named=named, score=self.score
        )

    def check_entities(self) -> None:
        """Raise ConfigInvalid if there are no entities: neither prepared nor loaded."""
        if not self.retriever.names:
            raise ConfigInvalid(f"this {self.config.paper} has no entities: train it, or load a trained one")

    def entities(self, features: DifferenceFeatures) -> list[tuple[str, ...]]:
        """Return the names of the entities retrieved for each pair, the best first."""
        assert isinstance(features, EntityFeatures)
        return self.entity_names(features.chosen, len(features.tokens))

    def entity_names(self, chosen: Tensor | None, pairs: int) -> list[tuple[str, ...]]:
        """Return the names of the entities with numbers (B, k); no names for any pair if None."""
        if chosen is None:
            return [()] * pairs
        return [tuple(self.retriever.names[number] for number in row) for row in chosen.tolist()]
