"""Retrieval of the entities in a pair of images, by similarity of images and words (CHEERS, DAVIR).

Both papers compare images and entities in the space of a pretrained CLIP: :class:`ClipRetriever` does so with
any open_clip model. Its weights are large and not always available, so :class:`OfflineRetriever` can replace
it: a linear map from the trunk's averaged last map to the space of a text encoder, fitted on the training
split. It knows the entities of that split and no others, and similarity means that the captions of the split
name the entity when such a thing changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.errors import ConfigInvalid
from rscc.structures import PairView, TrainingMaterial
from rscc.text.encoders import load_clip

Date = Literal["before", "after"]
Score = Literal["gain", "either"]
DATES: tuple[Date, Date] = ("before", "after")

OFFLINE = "offline"
"""Name of the fitted retriever in a config; the other form is ``open_clip:ARCHITECTURE:TAG_OR_FILE``."""


def named_entities(phrases: Sequence[Sequence[str]], names: Sequence[str]) -> np.ndarray:
    """Return which of M entities are among the phrases of each of N pairs: (N, M) bool."""
    named = [[name in pair for name in names] for pair in map(set, phrases)]
    return np.array(named, dtype=bool).reshape(len(phrases), len(names))


class Retriever(nn.Module, ABC):
    """Compares images with a list of entities; it is not trained with the captioner.

    Attributes:
        entity_features: (M, d) unit vectors of the names; zeros until the retriever is fitted or loaded.
    """

    entity_features: Tensor

    def __init__(self, *, names: Sequence[str], width: int):
        super().__init__()
        self.names = tuple(names)
        self.register_buffer("entity_features", torch.zeros(len(self.names), width))

    @abstractmethod
    def image_features(self, pair: PairView, date: Date, weights: Tensor | None) -> Tensor:
        """Features (B, d) of one date in the space of the entities, not normalised, in float32."""

    @torch.no_grad()
    def similarities(self, pair: PairView, *, date: Date, weights: Tensor | None = None) -> Tensor:
        """Cosine similarity of one date's images to every entity, (B, M) float32.

        Args:
            weights: (B, h, w) in 0..1 on the pair's grid, weight of each position. All 0 counts as all 1.
        """
        with _full_precision(pair.maps_before.device):
            features = self.image_features(pair, date, None if weights is None else _or_ones(weights))
            return F.normalize(features.float(), dim=-1) @ self.entity_features.float().T


class OfflineRetriever(Retriever):
    """A linear map of the trunk's averaged last map, fitted on the training split; see the module."""

    mean: Tensor
    scale: Tensor
    map: Tensor

    def __init__(self, *, names: Sequence[str], width: int, channels: int):
        """Make an empty retriever for ``width`` d and ``channels`` C of the trunk's last map."""
        super().__init__(names=names, width=width)
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))
        self.register_buffer("map", torch.zeros(width, channels))

    @classmethod
    def fit(
        cls,
        material: TrainingMaterial,
        *,
        names: Sequence[str],
        entity_features: Tensor,
        named: np.ndarray,
        score: Score = "gain",
        temperature: float = 0.1,
        steps: int = 30,
    ) -> OfflineRetriever:
        """Fit the map so that the entities that a pair's captions name have the largest scores (InfoNCE).

        The score is that of the paper. ``gain`` is S_aft - S_bef (CHEERS, Eq. 1): named entities become
        similar to the second date and dissimilar to the first. Entities that vanished are learned with the
        same sign, because retrieval uses the absolute difference. Pairs known to be unchanged are left out.
        ``either`` is the larger of S_bef and S_aft (DAVIR, Eq. 9), for all pairs. The number of steps
        regularises: with more of them, retrieval on held-out pairs gets worse.

        Args:
            material: ``pooled``, ``changed`` and ``seed`` are read; the same ones give the same map.
            names: of M entities.
            entity_features: (M, d), of any length.
            named: (N, M) bool, the entities named by each pair's captions (:func:`named_entities`); pairs
                without any are left out.
            score: ``gain`` or ``either``.
            temperature: of the softmax over the entities.
            steps: of Adam over all pairs, at the rate 1 / C.
        """
        assert material.pooled is not None, "prepares_from_features asks for them"
        features = F.normalize(entity_features.detach().float().cpu(), dim=-1)
        pooled = torch.from_numpy(np.ascontiguousarray(material.pooled, dtype=np.float32))  # (N, 2, C)
        retriever = cls(names=names, width=features.shape[1], channels=pooled.shape[2])
        retriever.entity_features.copy_(features)
        retriever.mean.copy_(pooled.mean((0, 1)))
        retriever.scale.copy_(1 / pooled.std((0, 1)).clamp(min=1e-6))
        target = torch.from_numpy(named).float()
        teaches = target.sum(1) > 0
        if score == "gain":
            teaches &= torch.tensor([flag is not False for flag in material.changed])
        generator = torch.Generator().manual_seed(material.seed)
        learned = torch.randn(retriever.map.shape, generator=generator) / retriever.map.shape[1] ** 0.5
        if teaches.any():
            images = ((pooled - retriever.mean) * retriever.scale)[teaches]
            target = target[teaches]
            optimizer = torch.optim.Adam([learned.requires_grad_()], lr=1 / learned.shape[1])
            with torch.enable_grad():
                for _ in range(steps):
                    similarity = F.normalize(images @ learned.T, dim=-1) @ features.T  # (N, 2, M)
                    gain = similarity[:, 1] - similarity[:, 0]
                    scores = gain if score == "gain" else similarity.amax(1)
                    loss = -((scores / temperature).log_softmax(1) * target).sum() / target.sum()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        retriever.map.copy_(learned.detach())
        return retriever

    def image_features(self, pair: PairView, date: Date, weights: Tensor | None) -> Tensor:
        """See :meth:`Retriever.image_features`."""
        maps = (pair.maps_before if date == "before" else pair.maps_after).float()
        pooled = maps.mean((2, 3))
        if weights is not None:
            pooled = (maps * weights.unsqueeze(1)).sum((2, 3)) / weights.sum((1, 2)).unsqueeze(1)
        return ((pooled - self.mean) * self.scale) @ self.map.float().T


class ClipRetriever(Retriever):
    """The towers of an open_clip model, as in the papers (CHEERS: ViT-L/14); frozen.

    They are loaded on first use and are not saved with the captioner, which stores their name only.
    """

    def __init__(self, *, names: Sequence[str], width: int, architecture: str, source: str):
        """Make a retriever without entity features, which :meth:`of` computes.

        Args:
            architecture: of open_clip (``ViT-L-14``).
            source: a tag of the architecture (``openai``) or a local checkpoint file. A file does not record
                its activation: OpenAI's own weights need the architecture's ``-quickgelu`` form.
        """
        super().__init__(names=names, width=width)
        self.architecture, self.source = architecture, source
        self._towers: list[Any] = []  # a list, so that they are not among the module's parameters

    @classmethod
    def of(cls, names: Sequence[str], *, architecture: str, source: str) -> ClipRetriever:
        """Load the towers and encode the names.

        Raises:
            WeightsNotFound: unknown architecture or tag, no such file, or the download failed.
        """
        towers = _load_towers(architecture, source)  # raises ExtraNotInstalled before the import below
        import open_clip

        with torch.no_grad():
            features = towers.encode_text(open_clip.get_tokenizer(architecture)(list(names)), normalize=True)
        retriever = cls(names=names, width=features.shape[1], architecture=architecture, source=source)
        retriever.entity_features.copy_(features)
        retriever._towers.append(towers)
        return retriever

    def image_features(self, pair: PairView, date: Date, weights: Tensor | None) -> Tensor:
        """See :meth:`Retriever.image_features`; positions with weight 0 get the mean colour."""
        if pair.images is None:
            raise ConfigInvalid(
                "a CLIP retriever needs the images, and cached features were given; "
                "set train.cache_features to false, or model.options.retriever to 'offline'"
            )
        if not self._towers:
            self._towers.append(_load_towers(self.architecture, self.source))
        images = pair.images[0 if date == "before" else 1]
        towers = self._towers[0] = self._towers[0].to(images.device)
        visual = towers.visual
        size = visual.image_size if isinstance(visual.image_size, tuple) else (visual.image_size,) * 2
        mean, std = (
            torch.tensor(values, device=images.device).view(1, 3, 1, 1)
            for values in (visual.image_mean, visual.image_std)
        )
        resized = F.interpolate(images.float() / 255, size=size, mode="bicubic", antialias=True).clamp(0, 1)
        normalised = (resized - mean) / std
        if weights is not None:
            shares = F.interpolate(weights.unsqueeze(1), size=size, mode="bilinear", align_corners=False)
            normalised = normalised * shares
        return towers.encode_image(normalised)


_load_towers = partial(load_clip, instead="set model.options.retriever to 'offline'")


def parse_retriever(kind: str) -> tuple[str, str] | None:
    """Read the retriever of a config: None for ``offline``, else (architecture, tag or file)."""
    if kind == OFFLINE:
        return None
    head, _, rest = kind.partition(":")
    architecture, _, source = rest.partition(":")
    if head != "open_clip" or not architecture or not source:
        raise ConfigInvalid(
            f"model.options.retriever is {kind!r}; use 'offline' or 'open_clip:ARCHITECTURE:TAG_OR_FILE'"
        )
    return architecture, source


def empty_retriever(kind: str, *, names: Sequence[str], width: int, channels: int) -> Retriever:
    """Make the retriever of a config with buffers of the right sizes, to be filled from a saved model."""
    if clip := parse_retriever(kind):
        return ClipRetriever(names=names, width=width, architecture=clip[0], source=clip[1])
    return OfflineRetriever(names=names, width=width, channels=channels)


def _or_ones(weights: Tensor) -> Tensor:
    """Weights (B, h, w) in float32; all 0 becomes all 1."""
    weights = weights.float()
    return torch.where(weights.sum((1, 2), keepdim=True) > 0, weights, torch.ones_like(weights))


def _full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Disable autocast, so that the order of entities does not depend on rounding."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
