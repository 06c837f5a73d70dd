"""CHEERS: change entity-guided heterogeneous representation disentangling.

Li et al., 2025; equation numbers are the paper's. Where the paper leaves a choice open:

* Sec. 3.1.1 takes the subjects of all captions of the training split, those of unchanged pairs too
  ("difference", "scene"). They are kept here; the rarest are not, as the options say. Eq. 1 with its
  constraint is in :mod:`rscc.models.retrieval`, and so is what stands in for CLIP where its weights cannot be
  had. A linear layer maps the entities to the model width.
* Eq. 2 prints Sim(j, k) in the denominator, j being a position of the source: k runs over the target here, so
  that each source position or entity spreads a share of 1 over the positions of the target. A sum over the
  source would give the largest of three entities at least 1/3 at every position, however little it fits.
* Eq. 5 differs from Eq. 3 by the sign before the same linear layer, which could learn either: CRE and DRE can
  become the same function, and only their places tell them apart.
* Eq. 6 and 10 compute C' and D' for their maps alone: the guides have Eq. 2-3 or 5, and no Eq. 4. Each of a
  layer's two CRE and two DRE (Figure 2) serves both dates. L_C and L_D are means over the dates and layers.
* Eq. 8 is an attention without residual or LayerNorm, for Eq. 10 subtracts it; one for both dates.
* Eq. 9 names neither q nor k: they are the attended common features of the first and second date, averaged
  over their positions; the other pairs of the batch are the negatives, in both directions, by cosine
  similarity, as in the works it names. The temperature is not given.
* Further layers take D_bef and D_aft for F_bef and F_aft; Eq. 12 joins those of the last.
* F_bef and F_aft carry the shared trunk's positions; the paper names none.
* Eq. 18 prints a sum over the words. The shared caption loss is their mean, beside which the other terms of
  Eq. 19 count for more at the same weights.
* Table 4 does not describe its baseline. Here it subtracts each date from the other and joins both by Eq. 12;
  with CRE or DRE alone, the attention of Eq. 8 stays, and the missing one leaves its target as it is. Without
  the gate, the shared decoder layer sees the differences only. Eq. 13-17 are :mod:`rscc.models.gated_layer`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.config import ModelConfig, build
from rscc.errors import ConfigInvalid
from rscc.language import noun_phrases, subjects
from rscc.models.blocks import Attention
from rscc.models.captioner_base import ChangeCaptioner
from rscc.models.decoder import Decoder, DecoderLayer
from rscc.models.entities import check_entity_options, fits_retriever, make_retriever, with_entities
from rscc.models.gated_layer import GatedLayer
from rscc.models.losses import info_nce
from rscc.models.retrieval import Retriever, empty_retriever, retrieve_entities
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView, TrainingMaterial
from rscc.text_encoders import TextEncoder

_READERS = {"subjects": subjects, "noun_phrases": noun_phrases}


@dataclass(frozen=True)
class CheersOptions:
    """What only CHEERS knows (``model.options`` of a config).

    The rows of Table 4 are: Baseline, none of ``commonality``, ``difference`` and ``gate``; CRE, DRE and
    GATE, that one alone; HDR, the first two; CHEERS, all. Without the first two the weights of the losses
    ``consistency`` and ``contrast`` must be 0: there is nothing that they could compare.

    Attributes:
        layers: of Eq. 6-11 (Figure 6).
        entities: retrieved for a pair (Figure 5: 3).
        temperature: tau of Eq. 9.
        commonality: CRE (Eq. 2-4) and its consistency (Eq. 7).
        difference: DRE (Eq. 5) and its consistency (Eq. 11).
        gate: the gated decoder (Eq. 13-17).
        scaled: True multiplies the shares of Eq. 2 by the number of positions. As printed they are about
            1 / HW everywhere, of which the linear layer of Eq. 3 learns slowly where they are larger.
        retriever: ``offline``, or ``open_clip:ARCHITECTURE:TAG_OR_FILE`` (Sec. 3.1: CLIP ViT-L/14).
        phrases: ``subjects`` (Sec. 3.1.1), or ``noun_phrases`` for captions that have none, such as requests.
        most_entities: how many of the most frequent entities are kept; the paper keeps all.
        least_count: captions that an entity must stand in.
        entity_names: the entities, filled in when training begins.
        entity_width: size of their features, filled in when training begins.
    """

    layers: int = 2
    entities: int = 3
    temperature: float = 0.5
    commonality: bool = True
    difference: bool = True
    gate: bool = True
    scaled: bool = False
    retriever: str = "offline"
    phrases: str = "subjects"
    most_entities: int = 100
    least_count: int = 5
    entity_names: tuple[str, ...] = ()
    entity_width: int = 384

    def __post_init__(self) -> None:
        counts = (self.layers, self.entities, self.most_entities, self.least_count, self.entity_width)
        if min(counts) < 1 or self.temperature <= 0:
            raise ConfigInvalid("model.options: numbers, sizes and the temperature must be above 0")
        if self.phrases not in _READERS:
            raise ConfigInvalid(f"model.options.phrases is {self.phrases!r}; use {' or '.join(_READERS)}")
        check_entity_options(self)

    @property
    def disentangles(self) -> bool:
        """Whether anything of Eq. 6-11 is there."""
        return self.commonality or self.difference

    @property
    def retrieves(self) -> bool:
        """Whether entities are needed at all."""
        return self.disentangles or self.gate


@dataclass
class CheersFeatures(DifferenceFeatures):
    """Adds what was retrieved and what the losses compare.

    Attributes:
        chosen: (B, k) numbers of the retrieved entities, the likeliest first; None in the baseline.
        entities: (B, k, D), the same in the model's width.
        common_maps: P_C and P'_C of Eq. 7, each (B, HW, D), per layer and date.
        difference_maps: P_D and P'_D of Eq. 11 in the same way.
        attended: C_bef and C_aft after Eq. 8, averaged over their positions, (B, D) each, per layer.
    """

    chosen: Tensor | None = None
    entities: Tensor | None = None
    common_maps: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    difference_maps: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    attended: list[tuple[Tensor, Tensor]] = field(default_factory=list)


def largest_shares(target: Tensor, source: Tensor) -> Tensor:
    """How much of its best source position falls on each target position (Eq. 2 and the maximum of Eq. 3).

    Args:
        target: (B, N, D).
        source: (B, M, D).

    Returns:
        (B, N, 1) in 0..1.
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

    def forward(self, before: Tensor, after: Tensor, found: CheersFeatures) -> tuple[Tensor, Tensor]:
        """Map F_bef and F_aft (B, HW, D) to D_bef and D_aft; adds to ``found`` what the losses compare."""
        assert found.entities is not None
        common = [before, after]
        if self.commonality is not None:
            for i, (source, target) in enumerate(((after, before), (before, after))):
                common[i], own = self.commonality(source, target)  # Eq. 6: C_i
                found.common_maps.append((own, self.commonality_guide(found.entities, target)))
        attended = [
            self.attention(common[0], common[1]),
            self.attention(common[1], common[0]),
        ]  # Eq. 8
        found.attended.append((attended[0].mean(1), attended[1].mean(1)))
        differences = [before - attended[0], after - attended[1]]
        if self.difference is not None:
            for i, source in enumerate((before, after)):
                target = differences[i]
                differences[i], own = self.difference(source, target)  # Eq. 10: D_i
                found.difference_maps.append((own, self.difference_guide(found.entities, target)))
        return differences[0], differences[1]


class Cheers(ChangeCaptioner):
    """CHEERS on the shared trunk and decoder.

    The text encoder is asked once, for the entities, by :meth:`prepare`; a trained model has their features.
    """

    auxiliary_terms = ("consistency", "contrast")
    prepares = True
    retriever: Retriever

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
        self._text_encoder = [text_encoder]  # a list: it is no part of the model
        layers = self.options.layers if self.options.disentangles else 0
        self.disentangling = nn.ModuleList(
            Disentangling(config=config, options=self.options) for _ in range(layers)
        )
        self.join = nn.Linear(2 * config.width, config.width)
        if self.options.retrieves:
            self.entity_projection = nn.Linear(self.options.entity_width, config.width)
            self.retriever = empty_retriever(
                self.options.retriever,
                names=self.options.entity_names,
                width=self.options.entity_width,
                channels=self.backbone.channels[-1],
            )

    @classmethod
    def needs_text_encoder(cls, weights: dict[str, float]) -> bool:
        """It always does: the offline retriever's entity features come from it.

        The loss weights do not tell that a CLIP retriever, or the baseline of Table 4, would not ask it.
        """
        return True

    @property
    def prepares_from_features(self) -> bool:
        """The offline retriever is fitted on them."""
        return self.options.retrieves and fits_retriever(self.options)

    def prepare(self, material: TrainingMaterial) -> None:
        """Collect the entities of the training captions and make the retriever (Sec. 3.1).

        Raises:
            ConfigInvalid: no text encoder, or too few entities in the captions.
            ExtraNotInstalled, WeightsNotFound: spaCy, its parser or CLIP is missing.
        """
        options = self.options
        if not options.retrieves:
            return
        retriever = make_retriever(
            material,
            options,
            self._text_encoder[0],
            read=_READERS[options.phrases],
            called="entities",
            paper="CHEERS",
        )
        device = self.join.weight.device
        self.retriever = retriever.to(device)
        self.config = with_entities(self.config, retriever)
        self.options = build(CheersOptions, self.config.options, "model.options")
        width = self.options.entity_width
        if width != options.entity_width:
            self.entity_projection = nn.Linear(width, self.config.width, device=device)
        self._text_encoder = [None]

    def encode_pair(self, pair: PairView) -> CheersFeatures:
        """Eq. 1 and 6-12; ``pair`` holds F_bef and F_aft, each (B, HW, D).

        Raises:
            ConfigInvalid: the model was neither prepared nor loaded, or its retriever needs images.
        """
        before, after = pair.before, pair.after
        found = CheersFeatures(before, pair)
        if self.options.retrieves:
            found.chosen = self.retrieve(pair)
            found.entities = self.entity_projection(self.retriever.entity_features.float()[found.chosen])
        one, other = before, after
        for layer in self.disentangling:
            one, other = layer(one, other, found)
        if not self.options.disentangles:
            one, other = before - after, after - before
        found.tokens = self.join(torch.cat([one, other], dim=-1))  # Eq. 12
        return found

    def retrieve(self, pair: PairView) -> Tensor:
        """Numbers (B, k) of the retrieved entities (Eq. 1)."""
        if not self.retriever.names:
            raise ConfigInvalid("this CHEERS has no entities: train it, or load a trained one")
        return retrieve_entities(
            self.retriever.similarities(pair, date="before"),
            self.retriever.similarities(pair, date="after"),
            self.options.entities,
        )

    def entities(self, features: DifferenceFeatures) -> list[tuple[str, ...]]:
        """Names of the entities retrieved for each pair, the likeliest first; none in the baseline."""
        assert isinstance(features, CheersFeatures)
        if features.chosen is None:
            return super().entities(features)
        return [tuple(self.retriever.names[number] for number in row) for row in features.chosen.tolist()]

    def memory(self, features: DifferenceFeatures) -> Tensor:
        """The entities, where the decoder is gated, before the differences: (B, k + HW, D)."""
        assert isinstance(features, CheersFeatures)
        if not self.options.gate or features.entities is None:
            return features.tokens
        return torch.cat([features.entities, features.tokens], dim=1)

    def on_ground(self, features: DifferenceFeatures, attention: Tensor) -> Tensor:
        """What a word looks at but the entities."""
        return super().on_ground(
            features, attention[..., self.options.entities if self.options.gate else 0 :]
        )

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
            torch.stack([F.mse_loss(own.float(), guide.float()) for own, guide in maps]).mean()
            for maps in (features.common_maps, features.difference_maps)
            if maps
        ]
        tau = self.options.temperature
        contrast = [info_nce(one, other, temperature=tau) for one, other in features.attended]
        return {"consistency": torch.stack(consistency).sum(), "contrast": torch.stack(contrast).mean()}
