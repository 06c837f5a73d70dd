"""CHEERS: change entity-guided heterogeneous representation disentangling.

Li et al., 2025; equation numbers are the paper's. Choices where the paper is ambiguous:

* Sec. 3.1.1 takes the subjects of all captions of the training split, those of unchanged pairs too
  ("difference", "scene"), as here, but for the rarest (see the options). A stand-in for CLIP, for machines
  without its weights, is in :mod:`rscc.models.shared.retrieval`. A linear layer maps the entities to the
  model width.
* Eq. 1 prints the signed difference S_bef - S_aft, which is largest for what has vanished; the sentences
  around it ask for "the largest difference in cosine similarity between the two images", and entities that
  appear have the other sign. Here it is the absolute difference. Entities that are less similar than the
  average entity to both dates come last, should too few entities pass the constraint.
* Eq. 2 prints Sim(j, k) in the denominator, j being a position of the source: k runs over the target here, so
  that each source position or entity distributes a share of 1 over the positions of the target. A sum over
  the source would give the largest of three entities at least 1/3 at every position, however badly it fits.
* Eq. 5 differs from Eq. 3 by the sign before the same linear layer, which could learn either: CRE and DRE can
  become the same function, and differ only in where they are used.
* Eq. 6 and 10 compute C' and D' for their maps alone: the guides have Eq. 2-3 or 5, and no Eq. 4. Each of a
  layer's two CRE and two DRE (Figure 2) serves both dates. L_C and L_D are means over the dates and layers.
* Eq. 8 is an attention without residual or LayerNorm, because Eq. 10 subtracts it; one serves both dates.
* Eq. 9 defines neither q nor k: they are the attended common features of the first and second date, averaged
  over their positions; the other pairs of the batch are the negatives, in both directions, by cosine
  similarity. SCORER+CBR, which it cites, compares token by token (its Eq. 2-4). The temperature is not given.
* Further layers take D_bef and D_aft for F_bef and F_aft; Eq. 12 joins those of the last.
* Table 6 uses CLIP's image towers instead of the ResNet-101: here the patches of their last layer, after its
  norm (``model.backbone = "timm/vit_large_patch14_clip_224.openai"`` or
  ``"timm/vit_base_patch32_clip_224.openai"``).
* F_bef and F_aft contain the shared trunk's positions; the paper mentions none.
* Eq. 18 prints a sum over the words. The shared caption loss is their mean, so that the other terms of Eq. 19
  weigh more at the same weights.
* Table 4 does not describe its baseline. Here it subtracts each date from the other and joins both by Eq. 12;
  with CRE or DRE alone, the attention of Eq. 8 stays, and the missing one leaves its target as it is. Without
  the gate, the shared decoder layer sees the differences only.
* SelfAttention before Eq. 13 is the sublayer of Vaswani et al., with residual and LayerNorm.
* The weights of Eq. 14-15 are one number each per word, unbounded as printed. Before training they are 0.5 on
  average, so that both attentions start with the same share; for single words they vary by about 0.4.
* No feed-forward network follows Eq. 17, as printed.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.config import MOST_PARTS, ModelConfig
from rscc.errors import ConfigInvalid
from rscc.models.shared.blocks import Attention
from rscc.models.shared.decoder import Decoder, DecoderLayer, LayerCache
from rscc.models.shared.entities import EntityCaptioner, EntityFeatures, EntityOptions, PhraseReader
from rscc.models.shared.losses import info_nce
from rscc.models.shared.retrieval import DATES
from rscc.settings import build, check, check_choice, check_sizes
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView
from rscc.text.encoders import TextEncoder
from rscc.text.parsing import noun_phrases, subjects

_READERS = {"subjects": subjects, "noun_phrases": noun_phrases}


@dataclass(frozen=True, kw_only=True)
class CheersOptions(EntityOptions):
    """Options of CHEERS (``model.options`` of a config).

    The rows of Table 4 are: Baseline, none of ``commonality``, ``difference`` and ``gate``; CRE, DRE and
    GATE, that one alone; HDR, the first two; CHEERS, all. Without the first two the weights of the losses
    ``consistency`` and ``contrast`` must be 0.

    Attributes:
        layers: of Eq. 6-11 (Figure 6).
        temperature: tau of Eq. 9.
        commonality: CRE (Eq. 2-4) and its consistency (Eq. 7).
        difference: DRE (Eq. 5) and its consistency (Eq. 11).
        gate: the gated decoder (Eq. 13-17).
        scaled: True multiplies the shares of Eq. 2 by the number of positions. As printed they are about
            1 / HW everywhere, from which the linear layer of Eq. 3 learns slowly.
        phrases: ``subjects`` (Sec. 3.1.1), or ``noun_phrases`` for requests, which have no subjects.
        entities: k of Eq. 1 (Figure 5: 3).
    """

    layers: int = 2
    temperature: float = 0.5
    commonality: bool = True
    difference: bool = True
    gate: bool = True
    scaled: bool = False
    phrases: str = "subjects"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "model.options", layers=(1, MOST_PARTS))
        check(self.temperature > 0, "model.options: the temperature must be above 0")
        check_choice("model.options.phrases", self.phrases, _READERS, " or ")

    @property
    def disentangles(self) -> bool:
        """Whether any part of Eq. 6-11 is used."""
        return self.commonality or self.difference

    @property
    def retrieves(self) -> bool:
        """Whether entities are needed."""
        return self.disentangles or self.gate


@dataclass
class CheersFeatures(EntityFeatures):
    """Adds the tensors that the losses compare.

    Attributes:
        entities: (B, k, D), the retrieved entities in the model's width; None in the baseline.
        common_maps: P_C and P'_C of Eq. 7, each (B, HW, D), per layer and date.
        difference_maps: P_D and P'_D of Eq. 11 in the same way.
        attended: C_bef and C_aft after Eq. 8, averaged over their positions, (B, D) each, per layer.
    """

    entities: Tensor | None = None
    common_maps: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    difference_maps: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    attended: list[tuple[Tensor, Tensor]] = field(default_factory=list)


def retrieve_entities(before: Tensor, after: Tensor, count: int) -> Tensor:
    """Return the numbers (B, k) of the entities whose similarity differs most between the dates (Eq. 1).

    ``before`` and ``after`` (B, M) are cosine similarities to every entity, ``count`` is k, at most M; the
    largest difference comes first.
    """
    # 3 is more than two cosine similarities can differ by.
    relevant = (before > before.mean(1, keepdim=True)) | (after > after.mean(1, keepdim=True))
    return ((before - after).abs() - 3 * (~relevant).to(before.dtype)).topk(count, dim=1).indices


def largest_shares(target: Tensor, source: Tensor) -> Tensor:
    """Return (B, N, 1) in 0..1: the share that each position of the target (B, N, D) gets of its best source.

    The source is (B, M, D); Eq. 2, and the maximum of Eq. 3.
    """
    similarity = F.normalize(target.float(), dim=-1) @ F.normalize(source.float(), dim=-1).transpose(1, 2)
    return similarity.float().softmax(dim=1).amax(dim=2, keepdim=True)  # (B, N, M) over N


class ProbabilityMap(nn.Module):
    """Eq. 2 with Eq. 3 (of CRE) or with Eq. 5 (of DRE)."""

    def __init__(self, *, width: int, difference: bool, scaled: bool):
        super().__init__()
        self.difference, self.scaled = difference, scaled
        self.expand = nn.Linear(1, width)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Map source (B, M, D) and target (B, N, D) to (B, N, D), before any sigmoid."""
        shares = largest_shares(target, source)
        if self.scaled:
            shares = shares * target.shape[1]
        return self.expand(1 - shares if self.difference else shares)


class Enhancement(nn.Module):
    """CRE (Eq. 2-4), or DRE (Eq. 2, 5, 4)."""

    def __init__(self, *, width: int, difference: bool, scaled: bool):
        super().__init__()
        self.map = ProbabilityMap(width=width, difference=difference, scaled=scaled)
        self.norm = nn.LayerNorm(width)

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Enhance the target (B, N, D) by the source (B, M, D); returns it and its map, both (B, N, D)."""
        probability = self.map(source, target)
        return self.norm(probability.sigmoid() * target + target), probability  # Eq. 4


class Disentangling(nn.Module):
    """One layer of Eq. 6-11."""

    def __init__(self, *, config: ModelConfig, options: CheersOptions):
        super().__init__()
        width, scaled = config.width, options.scaled
        self.attention = Attention(width=width, heads=config.heads, dropout=config.dropout)
        self.commonality: Enhancement | None = None
        self.difference: Enhancement | None = None
        if options.commonality:
            self.commonality = Enhancement(width=width, difference=False, scaled=scaled)
            self.commonality_guide = ProbabilityMap(width=width, difference=True, scaled=scaled)
        if options.difference:
            self.difference = Enhancement(width=width, difference=True, scaled=scaled)
            self.difference_guide = ProbabilityMap(width=width, difference=False, scaled=scaled)

    def forward(self, before: Tensor, after: Tensor, features: CheersFeatures) -> tuple[Tensor, Tensor]:
        """Map F_bef and F_aft (B, HW, D) to D_bef and D_aft; tensors for the losses go to ``features``."""
        assert features.entities is not None
        common = [before, after]
        if self.commonality is not None:
            for i, (source, target) in enumerate(((after, before), (before, after))):
                common[i], probability = self.commonality(source, target)  # Eq. 6: C_i
                features.common_maps.append((probability, self.commonality_guide(features.entities, target)))
        attended = [self.attention(*common), self.attention(*reversed(common))]  # Eq. 8
        features.attended.append((attended[0].mean(1), attended[1].mean(1)))
        differences = [before - attended[0], after - attended[1]]
        if self.difference is not None:
            for i, source in enumerate((before, after)):
                target = differences[i]
                differences[i], probability = self.difference(source, target)  # Eq. 10: D_i
                guide = self.difference_guide(features.entities, target)
                features.difference_maps.append((probability, guide))
        return differences[0], differences[1]


class GatedLayer(DecoderLayer):
    """Decoder layer of Eq. 13-17; its memory is the entities, followed by the differences.

    Attributes:
        entities: number of positions of the memory that are entities.
    """

    def __init__(self, *, width: int, heads: int, dropout: float):
        nn.Module.__init__(self)  # not the shared layer's parts, only attentions of the same names
        self.entities = 1
        self.self_attention = Attention(width=width, heads=heads, dropout=dropout)
        self.entity_attention = Attention(width=width, heads=heads, dropout=dropout)
        self.cross_attention = Attention(width=width, heads=heads, dropout=dropout)
        self.entity_weight = nn.Linear(2 * width, 1)
        self.difference_weight = nn.Linear(2 * width, 1)
        for weight in (self.entity_weight, self.difference_weight):
            nn.init.constant_(weight.bias, 0.5)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(
        self, x: Tensor, memory: Tensor, known: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See :meth:`DecoderLayer.forward`; the attended differences are H^F of Eq. 16."""
        words = self.norms[0](x + self.self_attention(x, x, causal=True, known=known))
        fused, _, _ = self._fuse(words, self.project(memory))
        return self.norms[1](fused + words), words, fused  # Eq. 17

    def project(self, memory: Tensor) -> tuple[Tensor, ...]:
        """Keys and values of the entities, then those of the differences."""
        entities, differences = memory[:, : self.entities], memory[:, self.entities :]
        return *self.entity_attention.project(entities), *self.cross_attention.project(differences)

    def step(self, x: Tensor, cache: LayerCache) -> Tensor:
        """See :meth:`DecoderLayer.step`."""
        keys, values = cache.extend(*self.self_attention.project(x))
        words = self.norms[0](x + self.self_attention.attend(x, keys, values))
        fused, _, _ = self._fuse(words, cache.memory)
        return self.norms[1](fused + words)

    def attention(self, words: Tensor, memory: Tensor) -> Tensor:
        """Both cross-attentions, averaged over the heads and weighted by |alpha| and |beta|: (B, L, N)."""
        projected = self.project(memory)
        _, alpha, beta = self._fuse(words, projected)
        share = alpha.abs() / (alpha.abs() + beta.abs()).clamp(min=1e-6)
        entities = self.entity_attention.weights(words, projected[0]).mean(dim=1)
        differences = self.cross_attention.weights(words, projected[2]).mean(dim=1)
        return torch.cat([share * entities, (1 - share) * differences], dim=2)

    def _fuse(self, words: Tensor, projected: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """Return H^F (B, L, D), alpha and beta (B, L, 1)."""
        entities = self.entity_attention.attend(words, projected[0], projected[1])  # Eq. 13
        differences = self.cross_attention.attend(words, projected[2], projected[3])
        alpha = self.entity_weight(torch.cat([words, entities], dim=-1))  # Eq. 14
        beta = self.difference_weight(torch.cat([words, differences], dim=-1))  # Eq. 15
        return alpha * entities + beta * differences, alpha, beta  # Eq. 16


class Cheers(EntityCaptioner):
    """CHEERS on the shared trunk and decoder."""

    auxiliary_terms = ("consistency", "contrast")
    options: CheersOptions

    def build_decoder(self, config: ModelConfig) -> Decoder:
        """The shared decoder with gated layers, unless the gate is switched off."""
        options = build(CheersOptions, config.options, "model.options")
        self.decoder_layer = GatedLayer if options.gate else DecoderLayer
        decoder = super().build_decoder(config)
        for part in decoder.modules():
            if isinstance(part, GatedLayer):
                part.entities = options.entities
        return decoder

    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """Without a ``text_encoder`` the model can be loaded, but not be prepared for training."""
        self.options = build(CheersOptions, config.options, "model.options")
        layers = self.options.layers if self.options.disentangles else 0
        self.disentangling = nn.ModuleList(
            Disentangling(config=config, options=self.options) for _ in range(layers)
        )
        self.join = nn.Linear(2 * config.width, config.width)
        if self.options.retrieves:
            self.project_entities(self.options.entity_width)
        self.build_retriever(text_encoder)

    @property
    def phrase_reader(self) -> PhraseReader:
        """Subjects (Sec. 3.1.1), or all noun phrases."""
        return _READERS[self.options.phrases]

    def project_entities(self, width: int) -> None:
        """Make the linear layer from entity features to the model width."""
        self.entity_projection = nn.Linear(width, self.config.width, device=self.join.weight.device)

    def encode_pair(self, pair: PairView) -> CheersFeatures:
        """Eq. 1 and 6-12; ``pair`` holds F_bef and F_aft, each (B, HW, D)."""
        before, after = pair.before, pair.after
        features = CheersFeatures(before, pair)
        if self.options.retrieves:
            features.chosen = self.retrieve(pair)
            chosen = self.retriever.entity_features.float()[features.chosen]
            features.entities = self.entity_projection(chosen)
        one, other = before, after
        for layer in self.disentangling:
            one, other = layer(one, other, features)
        if not self.options.disentangles:
            one, other = before - after, after - before
        features.tokens = self.join(torch.cat([one, other], dim=-1))  # Eq. 12
        return features

    def retrieve(self, pair: PairView) -> Tensor:
        """Numbers (B, k) of the retrieved entities (Eq. 1)."""
        self.check_entities()
        before, after = (self.retriever.similarities(pair, date=date) for date in DATES)
        return retrieve_entities(before, after, self.options.entities)

    def memory(self, features: DifferenceFeatures) -> Tensor:
        """The entities, where the decoder is gated, before the differences: (B, k + HW, D)."""
        assert isinstance(features, CheersFeatures)
        if not self.options.gate or features.entities is None:
            return features.tokens
        return torch.cat([features.entities, features.tokens], dim=1)

    def on_ground(self, features: DifferenceFeatures, attention: Tensor) -> Tensor:
        """See :meth:`ChangeCaptioner.on_ground`; attention to entities is left out."""
        first = self.options.entities if self.options.gate else 0
        return super().on_ground(features, attention[..., first:])

    def auxiliary_losses(
        self, features: DifferenceFeatures, decoded: DecoderOutput, batch: PairBatch
    ) -> dict[str, Tensor]:
        """L_C + L_D of Eq. 7 and 11 (consistency) and L_I of Eq. 9 (contrast)."""
        assert isinstance(features, CheersFeatures)
        if not self.options.disentangles:
            raise ConfigInvalid(
                "loss.consistency and loss.contrast need model.options.commonality or difference; "
                "set their weights to 0"
            )
        consistency = [
            torch.stack([F.mse_loss(one.float(), guide.float()) for one, guide in maps]).mean()
            for maps in (features.common_maps, features.difference_maps)
            if maps
        ]
        tau = self.options.temperature
        contrast = [info_nce(one, other, temperature=tau) for one, other in features.attended]
        return {"consistency": torch.stack(consistency).sum(), "contrast": torch.stack(contrast).mean()}
