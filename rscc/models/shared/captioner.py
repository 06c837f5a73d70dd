"""What all change captioners share: trunk, decoder, change heads, losses and generation.

A paper's model subclasses :class:`ChangeCaptioner` and brings ``encode_pair`` and ``auxiliary_losses``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.config import ModelConfig
from rscc.models.shared.backbone import Backbone
from rscc.models.shared.blocks import ChangedHead, ChangeHead, Positions2d, enlarge_maps
from rscc.models.shared.decoder import CaptionDecoder, Decoder, DecoderLayer
from rscc.models.shared.extraction import ChangeExtractor
from rscc.models.shared.generation import Hypothesis, beam_search, greedy_search
from rscc.models.shared.grounding import Grounding
from rscc.models.shared.losses import (
    caption_cross_entropy,
    change_mask_loss,
    changed_loss,
    check_loss_weights,
    required,
)
from rscc.models.shared.search_rules import ForbiddenWords, SearchRules
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView, TrainingMaterial
from rscc.text.consensus import supported_order
from rscc.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from rscc.text.encoders import TextEncoder

SHARED_TERMS = ("caption", "change_mask", "changed")


class ChangeCaptioner(nn.Module, ABC):
    """Base of the five papers' models.

    Attributes:
        auxiliary_terms: names of the loss terms that this model's ``auxiliary_losses`` can give.
        text_terms: those of them that need a text encoder and the captions' noun and verb segments.
        training_only: beginnings of the names of parameters that captioning does not need.
        decoder_layer: class of the decoder's layers.
        prepares: whether :meth:`prepare` does anything, so that its material must be gathered.
        localiser: how changed pixels are found where the change head was not trained, a key of
            :data:`rscc.model_folder.LOCALISATIONS`.
        extractor: finds changes without learning, for a model that looks at ``extracted`` of a
            :class:`~rscc.structures.PairView`; None for the others.
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
        """Build the shared parts; ``text_encoder`` is for the losses of papers that align with words."""
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        width = config.width
        self.backbone = backbone
        self.project = nn.Linear(backbone.channels[-1], width)
        self.positions = Positions2d(width=width)
        self.change_head: nn.Module = ChangeHead(channels=backbone.channels, width=config.head_width)
        self.changed_head = ChangedHead(width=width, dropout=config.dropout)
        self.decoder = self.build_decoder(config)
        self.build_encoder(config, text_encoder)
        self.grounding = Grounding(width=width) if config.grounded else None

    def build_decoder(self, config: ModelConfig) -> Decoder:
        """Make the caption decoder; a paper with a layer of its own hands that on."""
        return CaptionDecoder(config=config, vocabulary_size=len(self.vocabulary), layer=self.decoder_layer)

    @abstractmethod
    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """The paper: make its own parts, after the shared ones.

        Raises:
            ConfigInvalid: ``config.options`` are not this paper's.
        """

    @classmethod
    def needs_text_encoder(cls, weights: dict[str, float]) -> bool:
        """Return whether training with these loss weights takes a text encoder."""
        return any(weights.get(term, 0) > 0 for term in cls.text_terms)

    def prepare(self, material: TrainingMaterial) -> None:
        """The paper: learn from the training split what must stand before the training begins."""

    @property
    def prepares_from_features(self) -> bool:
        """Whether :meth:`prepare` reads averaged features: the trunk must see the training split for them."""
        return False

    @property
    def needs_images(self) -> bool:
        """Whether encoding a pair takes its images, which cached features do not hold."""
        return False

    def preparation_weights(self, extracted: Tensor) -> Tensor:
        """The paper: how much :meth:`prepare` looks at each position of the trunk's last map.

        Args:
            extracted: (N, h, w) in 0..1 on that map's grid, as in :class:`~rscc.structures.PairView`.
        """
        return extracted

    @abstractmethod
    def encode_pair(self, pair: PairView) -> DifferenceFeatures:
        """The paper: image representations to differences; the logits are filled in by the caller."""

    def memory(self, features: DifferenceFeatures) -> Tensor:
        """What the decoder attends to, (B, N, D)."""
        return features.tokens

    def on_ground(self, features: DifferenceFeatures, attention: Tensor) -> Tensor:
        """Bring attention to the memory (B, L, N) onto the grid: (B, L, h * w), rows sum to 1 at most.

        Here the memory begins with one token per position; a paper that orders it otherwise overrides this.
        """
        height, width = features.pair.grid
        return attention[..., : height * width]

    def entities(self, features: DifferenceFeatures) -> list[tuple[str, ...]]:
        """Names of the entities that were retrieved for each pair; none here."""
        return [()] * len(features.tokens)

    def attention_maps(self, features: DifferenceFeatures) -> dict[str, Tensor]:
        """Maps (B, h, w) of any grid that the paper looks at its images with, by their title; none here."""
        return {}

    @abstractmethod
    def auxiliary_losses(
        self, features: DifferenceFeatures, decoded: DecoderOutput, batch: PairBatch
    ) -> dict[str, Tensor]:
        """The paper: its own loss terms, unweighted, by the names in ``auxiliary_terms``."""

    def encode(
        self,
        before: Tensor,
        after: Tensor,
        *,
        extracted: Tensor | None = None,
        head: bool = True,
        focus: Tensor | None = None,
    ) -> DifferenceFeatures:
        """Encode uint8 or float RGB images in 0..255, each (B, 3, H, W).

        Args:
            before, after: the images.
            extracted, focus: see :meth:`encode_last_maps`; the change head does not mind the focus.
            head: whether the change head is run, too; a grounded model always runs it.
        """
        maps_before, maps_after = self.trunk(before, after)
        logits = self.change_head(maps_before, maps_after) if head or self.grounding is not None else None
        encoded = self.encode_last_maps(
            maps_before[-1],
            maps_after[-1],
            images=(before, after),
            extracted=extracted,
            change=None if logits is None else logits.detach().float().sigmoid(),
            focus=focus,
        )
        encoded.change_logits = logits
        return encoded

    def trunk(self, before: Tensor, after: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Run both dates through the trunk in one pass; three maps each."""
        maps = self.backbone(torch.cat([before, after]))
        count = before.shape[0]
        return [m[:count] for m in maps], [m[count:] for m in maps]

    def pooled(self, maps: Tensor) -> Tensor:
        """Average maps (..., h, w) over the positions that the config puts together."""
        return F.avg_pool2d(maps, self.config.pool) if self.config.pool > 1 else maps

    def encode_last_maps(
        self,
        before: Tensor,
        after: Tensor,
        *,
        images: tuple[Tensor, Tensor] | None = None,
        extracted: Tensor | None = None,
        change: Tensor | None = None,
        focus: Tensor | None = None,
    ) -> DifferenceFeatures:
        """Encode the trunk's last maps (B, C, h, w) of both dates, which may come from a cache.

        With a focus f the later map is ``before + f * (after - before)``: where f is 0 the model sees no
        difference, whatever it makes of differences.

        Args:
            before, after: the maps.
            images, extracted: see :class:`~rscc.structures.PairView`; ``extracted`` on the maps' grid.
            change: the change head's probabilities (B, H / 4, W / 4), which a grounded model reads.
            focus: (B, H, W) in 0..1 of any size, averaged over the positions: how much of what changed there
                is to be described; None is 1 everywhere.
        """
        before, after = self.pooled(before), self.pooled(after)
        extracted = None if extracted is None else self.pooled(extracted)
        grid = (before.shape[-2], before.shape[-1])
        if focus is not None:
            focus = F.adaptive_avg_pool2d(focus.float(), grid)  # (B, h, w)
            after = self.backbone.weigh(before, after, focus)
            if change is not None:
                change = change * enlarge_maps(focus, (change.shape[-2], change.shape[-1]))
        positions = self.positions(*grid)
        # (B, h * w, D) each
        tokens = [self.project(m.flatten(2).transpose(1, 2)) + positions for m in (before, after)]
        if self.grounding is not None:
            assert change is not None, "a grounded model reads the change head's map"
            tokens[1] = tokens[1] + self.grounding(change, grid)
        view = PairView(tokens[0], tokens[1], before, after, grid, images, extracted, focus)
        encoded = self.encode_pair(view)
        encoded.changed_logits = self.changed_head(encoded.tokens)
        return encoded

    def decode(self, features: DifferenceFeatures, tokens: Tensor) -> DecoderOutput:
        """Teacher forcing over ``tokens`` (B, L)."""
        return self.decoder(self.memory(features), tokens)

    def loss_terms(self) -> tuple[str, ...]:
        """Names of all terms; the config must weight each of them, with 0 to leave one out."""
        return (*SHARED_TERMS, *self.auxiliary_terms)

    def losses(
        self, batch: PairBatch, weights: dict[str, float], *, label_smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        """Return the unweighted terms whose weight is above 0.

        Raises:
            ConfigInvalid: a term without a weight, a weight without a term, or a term that the batch
                cannot give (captions or masks are missing).
        """
        check_loss_weights(self.loss_terms(), weights)
        weighted = {name for name, weight in weights.items() if weight > 0}
        if weighted == {"change_mask"}:  # the trunk and its head alone: no captioner is run
            dates = (required(one, "change_mask", "images") for one in (batch.before, batch.after))
            logits = self.change_head(*self.trunk(*dates))
            return {"change_mask": self._mask_term(logits, batch)}
        return self.losses_of(self.encode_batch(batch), batch, weights, label_smoothing=label_smoothing)

    def encode_batch(self, batch: PairBatch) -> DifferenceFeatures:
        """Encode the cached trunk maps of a batch, or its images where there are none.

        Raises:
            ConfigInvalid: the batch has neither.
        """
        if batch.features is not None:
            before, after = batch.features.unbind(1)
            return self.encode_last_maps(before, after, extracted=batch.extracted, change=batch.change)
        before, after = (required(one, "caption", "images") for one in (batch.before, batch.after))
        return self.encode(before, after, extracted=batch.extracted)

    def losses_of(
        self,
        features: DifferenceFeatures,
        batch: PairBatch,
        weights: dict[str, float],
        *,
        label_smoothing: float = 0.0,
    ) -> dict[str, Tensor]:
        """Return the terms as :meth:`losses` does, of a batch that is encoded already.

        Raises:
            ConfigInvalid: a term that the batch cannot give.
        """
        weighted = {name for name, weight in weights.items() if weight > 0}
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
            decoded = self.decode(features, tokens[:, :-1])
            if "caption" in weighted:
                terms["caption"] = caption_cross_entropy(
                    decoded.logits, tokens, pad=self.vocabulary.pad, label_smoothing=label_smoothing
                )
            if weighted & set(self.auxiliary_terms):
                auxiliary = self.auxiliary_losses(features, decoded, batch)
                terms.update({name: value for name, value in auxiliary.items() if name in weighted})
        return terms

    def _mask_term(self, logits: Tensor, batch: PairBatch) -> Tensor:
        mask = required(batch.mask, "change_mask", "masks")
        return change_mask_loss(logits, mask, required(batch.mask_known, "change_mask", "masks"))

    def search_rules(
        self, prefixes: Sequence[Sequence[str]] = (), runs: Sequence[Sequence[str]] = ()
    ) -> SearchRules:
        """Return what captions must hold to; ``prefixes`` begin none of them, ``runs`` stand nowhere."""
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
            features: of the pairs.
            beams: width of the search; 1 takes the likeliest word at every step.
            rules: what the captions must hold to; None are those of :meth:`search_rules`.
            support: with more than one beam, how wide a search is at least whose hypotheses are chosen by
                support; 0 chooses by likelihood.
            avoided: words; sentences with one of them come after all others.
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
