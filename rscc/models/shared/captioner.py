"""Base class of all change captioners: trunk, decoder, change heads, losses and generation.

The model of a paper subclasses :class:`ChangeCaptioner` and implements ``encode_pair`` and
``auxiliary_losses``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rscc.config import ModelConfig
from rscc.models.shared.blocks import Positions2d
from rscc.models.shared.change_detector import (
    ChangeDetector,
    ChangedHead,
    ChangeHead,
    Grounding,
    average_positions,
)
from rscc.models.shared.decoder import CaptionDecoder, Decoder, DecoderLayer
from rscc.models.shared.extraction import ChangeExtractor
from rscc.models.shared.generation import (
    ForbiddenWords,
    Hypothesis,
    SearchRules,
    beam_search,
    greedy_search,
    supported_order,
)
from rscc.models.shared.losses import (
    caption_cross_entropy,
    change_mask_loss,
    changed_loss,
    check_loss_weights,
    required,
)
from rscc.models.trunks.backbone import Backbone
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView, TrainingMaterial
from rscc.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from rscc.text.encoders import TextEncoder

SHARED_TERMS = ("caption", "change_mask", "changed")


class ChangeCaptioner(nn.Module, ABC):
    """Base of the five papers' models.

    Attributes:
        auxiliary_terms: names of the loss terms of ``auxiliary_losses``.
        text_terms: those of them that need a text encoder and the captions' noun and verb segments.
        training_only: prefixes of the names of parameters that captioning does not need.
        decoder_layer: class of the decoder's layers.
        prepares: whether :meth:`prepare` needs its material.
        localiser: how changed pixels are found where the change head was not trained, a key of
            :data:`rscc.model_card.LOCALISATIONS`.
        extractor: finds changes without learning, for a model that reads ``extracted`` of a
            :class:`~rscc.structures.PairView`; None for other models.
    """

    auxiliary_terms: tuple[str, ...] = ()
    text_terms: tuple[str, ...] = ()
    training_only: tuple[str, ...] = ()
    decoder_layer: type[DecoderLayer] = DecoderLayer
    prepares = False
    localiser = "attention"
    extractor: ChangeExtractor | None = None

    def __init__(
        self,
        *,
        config: ModelConfig,
        backbone: Backbone,
        vocabulary: Vocabulary,
        text_encoder: TextEncoder | None = None,
    ):
        """Build all parts; ``text_encoder`` is for losses that align with words."""
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        width = config.width
        self.backbone = backbone
        self.project = nn.Linear(backbone.channels[-1], width)
        self.positions: nn.Module = Positions2d(width=width)
        self.change_head: nn.Module = ChangeHead(channels=backbone.channels, width=config.head_width)
        self.changed_head = ChangedHead(width=width, dropout=config.dropout)
        self.decoder = self.build_decoder(config)
        self.build_encoder(config, text_encoder)
        self.grounding = Grounding(width=width) if config.grounded else None

    def build_decoder(self, config: ModelConfig) -> Decoder:
        """Make the caption decoder."""
        return CaptionDecoder(config=config, vocabulary_size=len(self.vocabulary), layer=self.decoder_layer)

    @abstractmethod
    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """Make the parts of the paper, after the shared ones."""

    @classmethod
    def needs_text_encoder(cls, weights: dict[str, float]) -> bool:
        """Return whether training with these loss weights needs a text encoder."""
        return any(weights.get(term, 0) > 0 for term in cls.text_terms)

    def prepare(self, material: TrainingMaterial) -> None:
        """Prepare the model on the training split before training begins."""

    @property
    def prepares_from_features(self) -> bool:
        """Whether :meth:`prepare` reads averaged trunk features of the training split."""
        return False

    @property
    def needs_images(self) -> bool:
        """Whether encoding a pair needs its images; then features cannot be cached."""
        return False

    def preparation_weights(self, extracted: Tensor) -> Tensor:
        """Return the weight in :meth:`prepare` of each position of the trunk's last map.

        Args:
            extracted: (N, h, w) in 0..1 on that map's grid, as in :class:`~rscc.structures.PairView`.
        """
        return extracted

    @abstractmethod
    def encode_pair(self, pair: PairView) -> DifferenceFeatures:
        """Encode image representations as differences; the caller fills in the logits."""

    def memory(self, features: DifferenceFeatures) -> Tensor:
        """Return the memory of the decoder, (B, N, D)."""
        return features.tokens

    def on_ground(self, features: DifferenceFeatures, attention: Tensor) -> Tensor:
        """Map attention to the memory (B, L, N) to the grid: (B, L, h * w), rows sum to 1 at most.

        This expects a memory that begins with one token per position; other papers override it.
        """
        height, width = features.pair.grid
        return attention[..., : height * width]

    def entities(self, features: DifferenceFeatures) -> list[tuple[str, ...]]:
        """Return the names of the entities retrieved for each pair; none here."""
        return [()] * len(features.tokens)

    def attention_maps(self, features: DifferenceFeatures) -> dict[str, Tensor]:
        """Return the paper's attention maps (B, h, w), of any grid, by title; none here."""
        return {}

    @abstractmethod
    def auxiliary_losses(
        self, features: DifferenceFeatures, decoded: DecoderOutput, batch: PairBatch
    ) -> dict[str, Tensor]:
        """Return the paper's own loss terms, unweighted, by the names in ``auxiliary_terms``."""

    def encode(
        self,
        before: Tensor,
        after: Tensor,
        *,
        extracted: Tensor | None = None,
        head: bool = True,
    ) -> DifferenceFeatures:
        """Encode uint8 or float RGB images in 0..255, each (B, 3, H, W).

        Args:
            extracted: see :meth:`encode_last_maps`.
            head: whether to run the change head; a grounded model always runs it.
        """
        maps_before, maps_after = self.trunk(before, after)
        logits = self.change_head(maps_before, maps_after) if head or self.grounding is not None else None
        encoded = self.encode_last_maps(
            maps_before[-1],
            maps_after[-1],
            images=(before, after),
            extracted=extracted,
            change=None if logits is None else logits.detach().float().sigmoid(),
        )
        encoded.change_logits = logits
        return encoded

    def trunk(self, before: Tensor, after: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Run both dates through the trunk in one pass; three maps each."""
        maps = self.backbone(torch.cat([before, after]))
        count = before.shape[0]
        return [m[:count] for m in maps], [m[count:] for m in maps]

    def pooled(self, maps: Tensor) -> Tensor:
        """Average maps (..., h, w) over squares of positions, by ``config.pool``."""
        return average_positions(maps, self.config.pool)

    def detector(self) -> ChangeDetector:
        """Return the part that finds changed pixels; it shares the weights."""
        return ChangeDetector(backbone=self.backbone, change_head=self.change_head, pool=self.config.pool)

    def encode_last_maps(
        self,
        before: Tensor,
        after: Tensor,
        *,
        images: tuple[Tensor, Tensor] | None = None,
        extracted: Tensor | None = None,
        change: Tensor | None = None,
    ) -> DifferenceFeatures:
        """Encode the trunk's last maps (B, C, h, w) of both dates, which may be cached.

        Args:
            before, after: the maps.
            images, extracted: see :class:`~rscc.structures.PairView`; ``extracted`` on the maps' grid.
            change: the change head's probabilities (B, H / 4, W / 4), which a grounded model reads.
        """
        before, after = self.pooled(before), self.pooled(after)
        extracted = None if extracted is None else self.pooled(extracted)
        grid = (before.shape[-2], before.shape[-1])
        tokens = [self.represent(before), self.represent(after)]
        if self.grounding is not None:
            assert change is not None, "a grounded model reads the change head's map"
            tokens[1] = tokens[1] + self.grounding(change, grid)
        view = PairView(tokens[0], tokens[1], before, after, grid, images, extracted)
        encoded = self.encode_pair(view)
        encoded.changed_logits = self.changed_head(encoded.tokens)
        return encoded

    def represent(self, maps: Tensor) -> Tensor:
        """Project trunk maps (B, C, h, w) to the model's width and add positions: (B, h * w, D)."""
        return self.project(maps.flatten(2).transpose(1, 2)) + self.positions(*maps.shape[-2:])

    def decode(self, features: DifferenceFeatures, tokens: Tensor) -> DecoderOutput:
        """Teacher forcing over ``tokens`` (B, L)."""
        return self.decoder(self.memory(features), tokens)

    def loss_terms(self) -> tuple[str, ...]:
        """Return the names of all terms; a config must give each a weight, 0 to leave it out."""
        return (*SHARED_TERMS, *self.auxiliary_terms)

    def losses(
        self, batch: PairBatch, weights: dict[str, float], *, label_smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        """Return the unweighted terms whose weight is above 0.

        Raises:
            ConfigInvalid: a term without a weight, a weight without a term, or a term whose captions or masks
                the batch lacks.
        """
        check_loss_weights(self.loss_terms(), weights)
        weighted = {name for name, weight in weights.items() if weight > 0}
        if weighted == {"change_mask"}:  # needs trunk and change head only
            dates = (required(one, "change_mask", "images") for one in (batch.before, batch.after))
            logits = self.change_head(*self.trunk(*dates))
            return {"change_mask": self._mask_term(logits, batch)}
        features = self.encode_batch(batch)
        terms: dict[str, Tensor] = {}
        if "change_mask" in weighted:
            logits = required(features.change_logits, "change_mask", "images (cached features do not do)")
            terms["change_mask"] = self._mask_term(logits, batch)
        if "changed" in weighted:
            changed = required(batch.changed, "changed", "change flags")
            known = required(batch.changed_known, "changed", "change flags")
            terms["changed"] = changed_loss(features.changed_logits, changed, known)
        if weighted & {"caption", *self.auxiliary_terms}:
            tokens = required(batch.tokens, "caption", "captions")
            decoded = self.decode(features, self.decoder_input(tokens))
            if "caption" in weighted:
                terms["caption"] = self.caption_loss(decoded.logits, tokens, label_smoothing)
            if weighted & set(self.auxiliary_terms):
                auxiliary = self.auxiliary_losses(features, decoded, batch)
                terms.update({name: value for name, value in auxiliary.items() if name in weighted})
        return terms

    def decoder_input(self, tokens: Tensor) -> Tensor:
        """Return what the decoder reads of captions (B, L): all but the last word."""
        return tokens[:, :-1]

    def caption_loss(self, logits: Tensor, tokens: Tensor, label_smoothing: float) -> Tensor:
        """Return the caption loss from the logits of :meth:`decoder_input` and captions (B, L)."""
        return caption_cross_entropy(logits, tokens, pad=self.vocabulary.pad, label_smoothing=label_smoothing)

    def encode_batch(self, batch: PairBatch) -> DifferenceFeatures:
        """Encode the cached trunk maps of a batch, or its images where there are none."""
        if batch.features is not None:
            before, after = batch.features.unbind(1)
            return self.encode_last_maps(before, after, extracted=batch.extracted, change=batch.change)
        before, after = (required(one, "caption", "images") for one in (batch.before, batch.after))
        return self.encode(before, after, extracted=batch.extracted)

    def _mask_term(self, logits: Tensor, batch: PairBatch) -> Tensor:
        mask = required(batch.mask, "change_mask", "masks")
        return change_mask_loss(logits, mask, required(batch.mask_known, "change_mask", "masks"))

    def search_rules(
        self, prefixes: Sequence[Sequence[str]] = (), runs: Sequence[Sequence[str]] = ()
    ) -> SearchRules:
        """Return the rules of a search; no caption starts with a prefix or contains a run."""
        words = self.vocabulary
        return SearchRules(
            bos=words.bos,
            eos=words.eos,
            max_words=self.config.max_words - 1,
            banned=(words.pad, words.bos, words.unk),
            forbidden=ForbiddenWords.of_words(prefixes, words, runs),
        )

    @torch.no_grad()
    def generate_from(
        self,
        features: DifferenceFeatures,
        *,
        beams: int = 1,
        rules: SearchRules | None = None,
        support: int = 0,
        avoided: Collection[int] = (),
    ) -> list[list[Hypothesis]]:
        """Decode captions from encoded pairs; per pair the hypotheses, best first.

        Args:
            beams: width of the search; 1 takes the likeliest word at every step.
            rules: constraints of the search; None for :meth:`search_rules`.
            support: minimum width of a search with more than one beam that ranks by support (see
                :mod:`rscc.models.shared.generation`); 0 ranks by likelihood.
            avoided: ids of words; sentences with one of them are ranked last.
        """
        rules = rules or self.search_rules()
        memory = self.memory(features)
        if beams == 1:
            return [[one] for one in greedy_search(self.decoder, memory, rules)]
        ranked = beam_search(self.decoder, memory, rules, beams=max(beams, support))
        if support:
            ranked = [self._supported(row) for row in ranked]
        avoided_ids = frozenset(avoided)
        return [sorted(row, key=lambda one: not avoided_ids.isdisjoint(one.ids))[:beams] for row in ranked]

    def _supported(self, ranked: list[Hypothesis]) -> list[Hypothesis]:
        texts = [self.vocabulary.decode(one.ids) for one in ranked]
        order = supported_order(texts, [one.mean_log_probability for one in ranked])
        return [ranked[place] for place in order]
