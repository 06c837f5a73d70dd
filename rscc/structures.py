"""Typed values passed between the parts of ``rscc``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch


NO_CHANGE_CAPTION = "there is no difference"


@dataclass(frozen=True)
class Caption:
    """One sentence about one pair of images.

    Attributes:
        text: the sentence: lower case for a pair of pictures, with a capital letter for a change on a map.
        score: estimated probability that the sentence is right, in 0..1: that nothing changed, or that
            something did and the decoder's sentence agrees with human captions as well as most of these agree
            with each other. Without a calibration (:class:`rscc.facts.calibration.Calibration`) it is the
            likelihood; of facts see :class:`rscc.facts.grounded_captions.GroundedCaption`.
        changed: False if the model decided that nothing changed.
        alternatives: other sentences of the beam, best first, without ``text``.
        likelihood: geometric mean of the words' probabilities, in 0..1; None for the fixed "no change"
            sentence and for sentences of facts, which are not decoded.
    """

    text: str
    score: float
    changed: bool
    alternatives: tuple[str, ...] = ()
    likelihood: float | None = None


@dataclass(frozen=True)
class ChangePrediction:
    """Change in a batch of tiles.

    Attributes:
        change_probability: (B, H, W) float32 in 0..1, per pixel.
        changed_probability: (B,) float32 in 0..1, P(anything changed) per tile.
    """

    change_probability: np.ndarray
    changed_probability: np.ndarray


@dataclass
class PairBatch:
    """A batch of image pairs with labels; unknown labels are None or masked out.

    Attributes:
        before, after: (B, 3, H, W) uint8 RGB, or None when ``features`` are given.
        features: cached trunk maps of both dates, (B, 2, C, h, w); None when images are given.
        tokens: (B, L) int64 caption ids with begin, end and padding; None without captions.
        nouns, verbs: per sample the joined noun / verb segments of the caption; None without captions.
        mask: (B, H, W) float32 in {0, 1}; None when no sample has one.
        mask_known: (B,) bool, whether ``mask`` of the sample is known.
        changed: (B,) float32 in {0, 1}; ``changed_known``: (B,) bool.
        extracted: (B, h, w) float32 in 0..1, as in :class:`PairView`; None without extraction.
        change: (B, H / 4, W / 4) float32 in 0..1, what a frozen change head gives for the pairs of
            ``features``; None where nothing reads it.
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

    def select(self, rows: torch.Tensor) -> PairBatch:
        """Return the samples at some rows, (R,) int64."""

        def part(value: Any) -> Any:
            if isinstance(value, list):
                return [value[row] for row in rows.tolist()]
            return None if value is None else value[rows]

        return PairBatch(**{item.name: part(getattr(self, item.name)) for item in fields(self)})


@dataclass(frozen=True)
class PairView:
    """The input of an encoder: a batch of pairs.

    Attributes:
        before, after: (B, h * w, D) image representations, projected to the model's width, with positions.
        maps_before, maps_after: (B, C, h, w), the trunk's last maps, from which they were projected.
        grid: (h, w).
        images: both dates as (B, 3, H, W) RGB in 0..255; None when the maps come from a cache.
        extracted: (B, h, w) in 0..1, share of each position that was extracted as changed without learning
            (DAVIR, Eq. 3); None when the caller has none.
    """

    before: torch.Tensor
    after: torch.Tensor
    maps_before: torch.Tensor
    maps_after: torch.Tensor
    grid: tuple[int, int]
    images: tuple[torch.Tensor, torch.Tensor] | None = None
    extracted: torch.Tensor | None = None


@dataclass(frozen=True)
class TrainingMaterial:
    """The training split for :meth:`ChangeCaptioner.prepare`.

    Attributes:
        captions: of each of N training pairs.
        changed: whether anything changed in each pair; None if unknown.
        pooled: (N, 2, C) float32, the trunk's last map of both dates, averaged over positions, weighted by
            :meth:`ChangeCaptioner.preparation_weights` for a model that extracts changes. None for a model
            that does not read them (:attr:`ChangeCaptioner.prepares_from_features`).
    """

    captions: list[list[str]]
    changed: list[bool | None]
    pooled: np.ndarray | None
    seed: int


@dataclass
class DifferenceFeatures:
    """The output of an encoder; papers add fields in subclasses.

    Attributes:
        tokens: (B, N, D) difference tokens.
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
        words: (B, L, D), word features after the last layer's self-attention, the queries of its
            cross-attention.
        attended: (B, L, D), output of the last layer's cross-attention, without the word itself.
    """

    logits: torch.Tensor
    hidden: torch.Tensor
    words: torch.Tensor
    attended: torch.Tensor
