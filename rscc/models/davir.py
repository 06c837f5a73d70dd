"""DAVIR: difference-aware visiolinguistic regularization.

Anonymous authors; equation numbers are the paper's. Both sizes take the same steps: mask M (Eq. 2-3, in
:mod:`rscc.models.shared.extraction`), soft mask (Eq. 6), tokens and attention (Eq. 4-5), their comparison
(Eq. 7), entities (Eq. 8-9), prompt (Eq. 10), Q-Former (Eq. 11), decoder, loss (Eq. 12). The size
``instructblip`` is the paper's; ``compact`` (:mod:`rscc.models.davir_compact`) is ours. Choices where the
paper is ambiguous:

* A of Eq. 5 is the mean over the heads. Eq. 7 takes the softmax of it, though as attention it has been
  through one already: a second would make every such map almost uniform, with almost no gradient. So A is
  read as the logits before the softmax, up to a constant: sigma(A) is the attention over the patches, with a
  sum of 1. ``sigma_of = "probabilities"`` takes the second softmax. M is compared by its softmax as printed,
  in which full change weighs e times as much as none.
* The width of the blur of Eq. 6 is not given; edge values are repeated beyond the edge.
* Unchanged pairs have an empty M, whose softmax is uniform, and so do pairs without images or M.
* Eq. 8 hides what is unchanged in the images, and so does a CLIP retriever here. The offline retriever
  averages the trunk's last map under the soft mask instead, which creates no edges at the border of a mask.
  An empty mask hides nothing: a black picture would still be similar to some entity.
* Eq. 9 joins the entities of both dates, but T has k of them. They are those with the largest similarity to
  either date, which are always among the k best of one date.
* "Key" noun phrases of the training captions are candidates, without a definition of key: here it is their
  frequency (``most_entities``, ``least_count``).
* "Randomly selected entities", which Sec. 4.5 mentions without a row, are drawn from all candidates, the same
  ones for the same images (``retrieval = "random"``).
* Table 4 without EPC keeps the instruction. Table 6 only names its losses: ``mse`` is the squared distance of
  sigma(A) and sigma(M), ``ce`` the cross-entropy of sigma(A) under sigma(M). Without FAC the weight of the
  loss ``attention`` is 0.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.config import MOST_PARTS, ModelConfig
from rscc.errors import ConfigInvalid
from rscc.models.davir_compact import CompactParts, Encoded, QFormerOutput
from rscc.models.instructblip import InstructBlipParts, InstructBlipVision
from rscc.models.language_model_decoder import LanguageModelDecoder
from rscc.models.shared.decoder import Decoder
from rscc.models.shared.entities import EntityCaptioner, EntityFeatures, EntityOptions, PhraseReader
from rscc.models.shared.extraction import ChangeExtractor, Extraction, grid_shares
from rscc.models.shared.retrieval import DATES
from rscc.settings import build, check_choice
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView
from rscc.text.encoders import TextEncoder
from rscc.text.parsing import noun_phrases

LOSSES = ("kl", "mse", "ce")


@dataclass(frozen=True, kw_only=True)
class DavirOptions(EntityOptions):
    """Options of DAVIR (``model.options`` of a config).

    The rows of Table 4 are: FAC alone, ``prompt`` false; EPC alone, the weight of the loss ``attention`` 0;
    neither, both of these.

    Attributes:
        size: ``compact`` or ``instructblip``, which needs a trunk ``instructblip/...``.
        encoder_layers: of the compact size's encoder.
        queries: of its Q-Former (InstructBLIP: 32).
        query_layers: of its Q-Former.
        entities: k of Eq. 9 (Table 5: 1).
        retrieval: ``similarity`` (Eq. 8-9), or ``random``, an ablation of Sec. 4.5.
        prompt: EPC, the entities in the prompt (Table 4).
        attention_loss: ``kl`` (Eq. 7), ``mse`` or ``ce`` (Table 6).
        sigma_of: see the module; ``logits`` or ``probabilities``.
        blur: standard deviation of the blur of Eq. 6 in positions; 0 leaves it out.
        delta, cell, eps, min_samples, iou: see :class:`rscc.models.shared.extraction.Extraction`.
        segmenter: ``none``, ``sam:FOLDER`` or ``mobile_sam:FILE``, see :mod:`rscc.models.shared.segmenters`.
        instruction: the [Prompt] of Eq. 10, for the language model.
    """

    size: str = "compact"
    encoder_layers: int = 1
    queries: int = 32
    query_layers: int = 2
    entities: int = 1
    retrieval: str = "similarity"
    prompt: bool = True
    attention_loss: str = "kl"
    sigma_of: str = "logits"
    blur: float = 1.0
    delta: float = Extraction.delta
    cell: int = Extraction.cell
    eps: float = Extraction.eps
    min_samples: int = Extraction.min_samples
    iou: float = Extraction.iou
    segmenter: str = "none"
    instruction: str = "Describe what changed from the first image to the second."

    def __post_init__(self) -> None:
        check_choice("model.options.size", self.size, ("compact", "instructblip"), " or ")
        check_choice("model.options.attention_loss", self.attention_loss, LOSSES, " or ")
        check_choice("model.options.retrieval", self.retrieval, ("similarity", "random"), " or ")
        check_choice("model.options.sigma_of", self.sigma_of, ("logits", "probabilities"), " or ")
        super().__post_init__()
        counts = self.encoder_layers, self.queries, self.query_layers
        if not 1 <= min(counts) <= max(counts) <= MOST_PARTS or not 0 <= self.blur <= MOST_PARTS:
            raise ConfigInvalid(f"model.options: numbers and sizes must be 1 to {MOST_PARTS}")
        _ = self.extraction

    @property
    def retrieves(self) -> bool:
        """Whether the prompt contains entities."""
        return self.prompt

    @property
    def extraction(self) -> Extraction:
        """Settings of the extraction (Eq. 2-3)."""
        return Extraction(self.delta, self.cell, self.eps, self.min_samples, self.iou)


@dataclass(kw_only=True)
class DavirFeatures(EntityFeatures):
    """Adds the parts of a pair that the loss compares and the decoder reads.

    Attributes:
        soft_mask: Eq. 6, (B, h, w) in 0..1.
        encoded: Eq. 4-5.
        fused: Eq. 11.
    """

    soft_mask: Tensor
    encoded: Encoded
    fused: QFormerOutput


def gaussian_blur(maps: Tensor, sigma: float) -> Tensor:
    """Blur maps (B, h, w) by a Gaussian of ``sigma`` positions, cut at three of them, edges repeated."""
    reach = math.ceil(3 * sigma)
    if reach == 0:
        return maps
    distance = torch.arange(-reach, reach + 1, device=maps.device, dtype=maps.dtype)
    kernel = torch.exp(-distance.square() / (2 * sigma**2))
    kernel = kernel / kernel.sum()
    # Sums of products, not convolutions: autocast would round those to bfloat16, and with them the entities.
    padded = F.pad(maps, (reach,) * 4, mode="replicate")
    rows = (padded.unfold(2, len(kernel), 1) * kernel).sum(-1)
    return (rows.unfold(1, len(kernel), 1) * kernel).sum(-1)


def attention_distance(
    attention: Tensor, soft_mask: Tensor, *, loss: str = "kl", sigma_of: str = "logits"
) -> Tensor:
    """Compare one date's attention A with the soft mask (Eq. 7, Table 6); the mean over the batch.

    Both are (B, h, w), the mask in 0..1, the attention above 0 somewhere; ``loss`` is one of :data:`LOSSES`,
    for ``sigma_of`` see the module.
    """
    seen = attention.float().flatten(1)
    if sigma_of == "logits":
        seen = seen.clamp(min=1e-12).log()
    log_seen, log_wanted = seen.log_softmax(1), soft_mask.float().flatten(1).log_softmax(1)
    if loss == "kl":
        return (log_seen.exp() * (log_seen - log_wanted)).sum(1).mean()
    if loss == "mse":
        return (log_seen.exp() - log_wanted.exp()).square().sum(1).mean()
    return -(log_wanted.exp() * log_seen).sum(1).mean()


class Davir(EntityCaptioner):
    """DAVIR in either size."""

    auxiliary_terms = ("attention",)
    localiser = "difference"
    score = "either"
    options: DavirOptions

    def build_decoder(self, config: ModelConfig) -> Decoder:
        """Make the shared decoder, or take the language model that came with the trunk."""
        size = build(DavirOptions, config.options, "model.options").size
        if (size == "instructblip") != isinstance(self.backbone, InstructBlipVision):
            raise ConfigInvalid(
                f"model.options.size is {size!r}, but model.backbone is {config.backbone!r}; the trunk "
                "instructblip/<folder or hub name> and the size 'instructblip' go together"
            )
        if not isinstance(self.backbone, InstructBlipVision):
            return super().build_decoder(config)
        rest = self.backbone.rest
        return LanguageModelDecoder(language_model=rest.language_model, vocabulary=rest.vocabulary)

    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """Without a ``text_encoder`` the model can be loaded, but not be prepared for training."""
        self.options = options = build(DavirOptions, config.options, "model.options")
        self.extractor: ChangeExtractor = ChangeExtractor(options.extraction, options.segmenter)
        self.parts: Any
        if options.size == "instructblip":
            assert isinstance(self.backbone, InstructBlipVision)
            assert isinstance(self.decoder, LanguageModelDecoder)
            self.parts = InstructBlipParts(
                fusion=self.backbone.rest.fusion, decoder=self.decoder, instruction=options.instruction
            )
        else:
            self.parts = CompactParts(
                config=config,
                queries=options.queries,
                query_layers=options.query_layers,
                encoder_layers=options.encoder_layers,
                entity_width=options.entity_width if options.prompt else 0,
            )
        self.build_retriever(text_encoder)

    @property
    def phrase_reader(self) -> PhraseReader:
        """All noun phrases (Sec. 3.3)."""
        return noun_phrases

    def project_entities(self, width: int) -> None:
        """Replace the compact size's layer from entity features to the width; the large size reads names."""
        if isinstance(self.parts, CompactParts):
            device = self.backbone.mean.device
            self.parts.entity_projection = nn.Linear(width, self.config.width, device=device)

    @torch.no_grad()
    def preparation_weights(self, extracted: Tensor) -> Tensor:
        """Return the soft mask of Eq. 6 as retrieval uses it, on the trunk's grid."""
        soft = gaussian_blur(F.avg_pool2d(extracted, self.config.pool), self.options.blur)
        return F.interpolate(soft.unsqueeze(1), size=extracted.shape[1:], mode="nearest").squeeze(1)

    def encode_pair(self, pair: PairView) -> DavirFeatures:
        """Eq. 4-6 and 8-11."""
        soft = self.soft_mask(pair)
        encoded = self.parts.encode(pair)
        chosen, entities = None, None
        if self.options.retrieves:
            chosen = self.retrieve(pair, soft)
            entities = self.retriever.entity_features.float()[chosen]
        names = partial(self.entity_names, chosen, len(pair.before))
        fused = self.parts.run_qformer(encoded, entities, names)
        return DavirFeatures(
            encoded.patches, pair, soft_mask=soft, encoded=encoded, fused=fused, chosen=chosen
        )

    @torch.no_grad()
    def soft_mask(self, pair: PairView) -> Tensor:
        """Eq. 6: (B, h, w) in 0..1, from ``pair.extracted``, else from the images, else 0."""
        share = pair.extracted
        self.extractor.to(pair.before.device)
        if share is None and pair.images is not None:
            before, after = (images.to(torch.uint8).cpu().numpy() for images in pair.images)
            masks = [self.extractor(one, other) for one, other in zip(before, after, strict=True)]
            share = torch.from_numpy(grid_shares(np.stack(masks), pair.grid)).to(pair.before.device)
        if share is None:
            return torch.zeros(len(pair.before), *pair.grid, device=pair.before.device)
        if share.shape[1:] != pair.grid:
            share = F.adaptive_avg_pool2d(share.float(), pair.grid)
        return gaussian_blur(share.float(), self.options.blur)

    def retrieve(self, pair: PairView, soft_mask: Tensor) -> Tensor:
        """Numbers (B, k) of the retrieved entities (Eq. 8-9)."""
        self.check_entities()
        if self.options.retrieval == "random":
            return self._drawn(pair)
        before, after = (self.retriever.similarities(pair, date=date, weights=soft_mask) for date in DATES)
        return torch.maximum(before, after).topk(self.options.entities, dim=1).indices

    def _drawn(self, pair: PairView) -> Tensor:
        """Numbers (B, k) of random entities; the maps only seed the draw."""
        means = (pair.maps_before.float() + 2 * pair.maps_after.float()).mean((1, 2, 3))
        drawn = [
            torch.randperm(len(self.retriever.names), generator=torch.Generator().manual_seed(seed))
            for seed in (means * 2**12).long().abs().tolist()
        ]
        return torch.stack(drawn)[:, : self.options.entities].to(pair.before.device)

    def memory(self, features: DifferenceFeatures) -> Tensor:
        """Return the Q-Former's answers and the prompt."""
        assert isinstance(features, DavirFeatures)
        return features.fused.memory

    def on_ground(self, features: DifferenceFeatures, attention: Tensor) -> Tensor:
        """Attention of the answers to the patches, weighted by that of words to answers: (B, L, h * w)."""
        assert isinstance(features, DavirFeatures)
        return self.parts.on_ground(features.encoded, features.fused, attention)

    def attention_maps(self, features: DifferenceFeatures) -> dict[str, Tensor]:
        """The soft mask of Eq. 6, and A of Eq. 5 of both dates, (B, h, w) each."""
        assert isinstance(features, DavirFeatures)
        encoded = features.encoded
        return {
            "extracted change": features.soft_mask,
            "attention, before": encoded.attention_before,
            "attention, after": encoded.attention_after,
        }

    def auxiliary_losses(
        self, features: DifferenceFeatures, decoded: DecoderOutput, batch: PairBatch
    ) -> dict[str, Tensor]:
        """L_attn of Eq. 7."""
        assert isinstance(features, DavirFeatures)
        kind = {"loss": self.options.attention_loss, "sigma_of": self.options.sigma_of}
        encoded = features.encoded
        return {
            "attention": attention_distance(encoded.attention_before, features.soft_mask, **kind)
            + attention_distance(encoded.attention_after, features.soft_mask, **kind)
        }
