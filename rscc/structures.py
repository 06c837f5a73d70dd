"""The typed values that travel between the parts of ``rscc``; shapes are in the docstrings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


NO_CHANGE_CAPTION = "there is no difference"


@dataclass(frozen=True)
class Caption:
    """One sentence about one pair of images.

    Attributes:
        text: the sentence, lower case, words separated by one space.
        score: estimated probability that the sentence is right, in 0..1: that nothing changed, or that
            something did and the decoder's sentence agrees with what people say of it as well as most of them
            do. Of a model without a calibration (:class:`rscc.inference.calibration.Calibration`) it is the
            likelihood; of facts see :class:`rscc.inference.facts.GroundedCaption`.
        changed: False when the model decided that nothing changed.
        alternatives: other sentences of the beam, best first, without ``text``.
        likelihood: geometric mean of the words' probabilities, in 0..1; None for what is not decoded: the
            fixed "no change" sentence, and sentences of facts.
    """

    text: str
    score: float
    changed: bool
    alternatives: tuple[str, ...] = ()
    likelihood: float | None = None


@dataclass(frozen=True)
class ChangePrediction:
    """What the model sees of change in a batch of tiles.

    Attributes:
        change_probability: (B, H, W) float32 in 0..1, per pixel.
        changed_probability: (B,) float32 in 0..1, P(anything changed) per tile.
    """

    change_probability: np.ndarray
    changed_probability: np.ndarray


@dataclass
class PairBatch:
    """A batch of image pairs and what is known about each; unknown things are None or masked out.

    Attributes:
        before, after: (B, 3, H, W) uint8 RGB, or None when ``features`` are given.
        features: trunk maps of both dates, (B, 2, C, h, w), cached; None when images are given.
        tokens: (B, L) int64 caption ids with begin, end and padding; None without captions.
        nouns, verbs: per sample the joined noun / verb segments of the caption; None without captions.
        mask: (B, H, W) float32 in {0, 1}; None when no sample has one.
        mask_known: (B,) bool, whether ``mask`` of this sample may be learned from.
        changed: (B,) float32 in {0, 1}; ``changed_known``: (B,) bool.
        extracted: (B, h, w) float32 in 0..1, as in :class:`PairView`; None when nothing was extracted.
        change: (B, H / 4, W / 4) float32 in 0..1, what a frozen change head gives for the pairs of
            ``features``; None where nothing reads it.
        references: per sample all captions that are true of it as it stands, ``tokens``' among them; None
            without captions.
    """

    before: torch.Tensor | None = None
    after: torch.Tensor | None = None
    features: torch.Tensor | None = None
    tokens: torch.Tensor | None = None
    nouns: list[str] | None = None
    verbs: list[str] | None = None
    mask: torch.Tensor | None = None
    mask_known: torch.Tensor | None = None
    changed: torch.Tensor | None = None
    changed_known: torch.Tensor | None = None
    extracted: torch.Tensor | None = None
    change: torch.Tensor | None = None
    references: list[list[str]] | None = None


@dataclass(frozen=True)
class PairView:
    """All that an encoder may look at in a batch of pairs.

    Attributes:
        before, after: (B, h * w, D) image representations, projected to the model's width, with positions.
        maps_before, maps_after: (B, C, h, w), the trunk's last maps that they were made of.
        grid: (h, w).
        images: both dates as (B, 3, H, W) RGB in 0..255; None when the maps come from a cache.
        extracted: (B, h, w) in 0..1, the share of a position that an extraction without learning calls
            changed (DAVIR, Eq. 3); None when the caller has none.
        focus: (B, h, w) in 0..1, how much of each position's change is to be described; the maps have been
            weighed by it already. None is 1 everywhere.
    """

    before: torch.Tensor
    after: torch.Tensor
    maps_before: torch.Tensor
    maps_after: torch.Tensor
    grid: tuple[int, int]
    images: tuple[torch.Tensor, torch.Tensor] | None = None
    extracted: torch.Tensor | None = None
    focus: torch.Tensor | None = None


@dataclass(frozen=True)
class TrainingMaterial:
    """What a model may learn from before its training begins (:meth:`ChangeCaptioner.prepare`).

    Attributes:
        captions: of each of N training pairs.
        changed: whether anything changed in each pair; None when unknown.
        pooled: (N, 2, C) float32, the trunk's last map of both dates, averaged over its positions; for a
            model that extracts changes by :meth:`ChangeCaptioner.preparation_weights`. None for a model
            that does not read them (:attr:`ChangeCaptioner.prepares_from_features`).
        seed: of everything random.
    """

    captions: list[list[str]]
    changed: list[bool | None]
    pooled: np.ndarray | None
    seed: int


@dataclass
class DifferenceFeatures:
    """What an encoder makes of a pair; papers that need more subclass it with typed fields.

    Attributes:
        tokens: (B, N, D) difference tokens.
        pair: what they were made of.
        changed_logits: (B,) logits of P(anything changed), set by the shared head.
        change_logits: (B, H / 4, W / 4) logits of change per pixel; None when cached features were encoded.
    """

    tokens: torch.Tensor
    pair: PairView
    changed_logits: torch.Tensor = field(init=False)
    change_logits: torch.Tensor | None = None


@dataclass
class DecoderOutput:
    """Teacher-forced decoding.

    Attributes:
        logits: (B, L, V) of the next words.
        hidden: (B, L, D), the last layer's output, before the logits.
        words: (B, L, D), word features after the last layer's self-attention, which ask the differences.
        attended: (B, L, D), what the last layer's cross-attention found for each word, without the word.
    """

    logits: torch.Tensor
    hidden: torch.Tensor
    words: torch.Tensor
    attended: torch.Tensor
