"""RDD+ACR: region-aware difference distilling with attribute-guided contrastive regularization.

Li et al., AAAI 2025; equation numbers are the paper's. Choices where the paper is ambiguous:

* Eq. 5 concatenates the two enriched differences along the channels and maps them back to the model width, so
  that F_c has one token per position, as the R^(HW x C) of the paper requires.
* Eq. 2 prints before minus after and calls it what is new in the second image: as printed. The sign does not
  matter to the learnt weights that read it.
* Eq. 6-9 name attention and fully connected layers; a LayerNorm follows each as in Vaswani et al., and the
  fully connected layer of Eq. 8 is their two, four times as wide between, with GELU.
* The number N of distilling steps and the temperature are not given; the config sets them.
* Eq. 9 joins three scales: their tokens are concatenated in sequence here, the only way to join scales of
  different lengths. The decoder's memory is printed as R^(HW x C) before Eq. 14: ``memory = "positions"``, as
  in the paper's configs, keeps the HW tokens of the positions, which have attended to the regions. ``"all"``,
  the default and the setting of the shipped models, keeps all HW + k_o + k_a: the decoder may attend to the
  regional differences themselves.
* The text encoder is CLIP's, of a size that is not given. Where its weights are not available, MiniLM
  replaces it: ``train.text_encoder`` of a config, or ``--text-encoder``.
* Learnable prompts are described as 4 tokens before the segments, citing both CoOp and its conditional form;
  here they are CoOp's: one set of vectors for nouns and one for verbs.
* The "manually designed" prompts of Table 6 are not given: the configs contain ours, for their images.
* Table 4 does not say what happens to Eq. 9 without regional differences: the fusion stays and sees what
  there is, in "GDE" the coarse difference alone. "V&N" distils both from the coarse difference. "Direct-sub"
  passes Eq. 2 to the decoder unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from rscc.config import MOST_PARTS, ModelConfig
from rscc.errors import ConfigInvalid
from rscc.models.shared.blocks import Attention, AttentionLayer, feed_forward
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.losses import info_nce
from rscc.settings import build, check, check_choice, check_sizes
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView
from rscc.text.encoders import TextEncoder, insert_prompt
from rscc.text.parsing import NOUN_TEMPLATE, PROMPTS, VERB_TEMPLATE

PROMPT_TOKENS = 4
# Table 4: which regional differences are distilled, in this order; "V&N" both at once.
ATTRIBUTES = ("direct-sub", "none", "N", "V", "V&N", "V+N", "N+V")


@dataclass(frozen=True)
class RddOptions:
    """Options of RDD+ACR (``model.options`` of a config).

    Attributes:
        attributes: regional differences on top of the global one, a row of Table 4: ``direct-sub`` (Eq. 2
            alone), ``none`` (GDE alone), ``N`` objects, ``V`` actions, ``V&N`` both from the coarse
            difference, ``V+N`` objects from actions, ``N+V`` actions from objects (the paper's model).
            Omitted differences have no parameters, and the model has no loss term for them.
        object_vectors: learnable object vectors (Figure 4: 32).
        action_vectors: learnable action vectors (Figure 4: 5 CLEVR-Change, 10 LEVIR-CC, 10 Spot-the-Diff).
        distilling_steps: N, how many times one distilling block is applied, with the same weights.
        memory: what the decoder reads of Eq. 9: ``positions`` (HW tokens, as printed) or ``all``.
        prompt: ``none``, ``fixed`` or ``learnable`` (Table 6).
        noun_template, verb_template: the ``fixed`` prompts before nouns and verbs. The defaults describe
            aerial images: the configs of other data have their own.
        temperature: tau of Eq. 11-12.
        same_words_are_negatives: True as in the paper; False excludes pairs with equal segments from the
            negatives, which matters where half of the captions state that nothing changed.
    """

    attributes: str = "N+V"
    object_vectors: int = 32
    action_vectors: int = 10
    distilling_steps: int = 2
    memory: str = "all"
    prompt: str = "learnable"
    noun_template: str = NOUN_TEMPLATE
    verb_template: str = VERB_TEMPLATE
    temperature: float = 0.07
    same_words_are_negatives: bool = True

    def __post_init__(self) -> None:
        most = 1, MOST_PARTS
        check_sizes(self, "model.options", object_vectors=most, action_vectors=most, distilling_steps=most)
        check(self.temperature > 0, "model.options: the temperature must be above 0")
        check_choice("model.options.prompt", self.prompt, PROMPTS)
        check_choice("model.options.memory", self.memory, ("positions", "all"))
        check_choice("model.options.attributes", self.attributes, ATTRIBUTES)


@dataclass
class RddFeatures(DifferenceFeatures):
    """Adds the pooled regional differences F_object and F_action of Eq. 10, each (B, D) or None."""

    objects: Tensor | None = None
    actions: Tensor | None = None


class DistillingBlock(AttentionLayer):
    """One step of Eq. 6-8: the source attends to itself, the vectors to the source, then an FFN."""

    def forward(self, vectors: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """Map vectors (B, k, D) and source (B, M, D) to their next state."""
        source = self.norms[0](self.self_attention(source, source))  # Eq. 6
        vectors = self.norms[1](self.cross_attention(vectors, source))  # Eq. 7
        vectors = self.norms[2](self.feed_forward(vectors) + vectors)  # Eq. 8
        return vectors, source


class Distilling(nn.Module):
    """Learnable vectors, initially Gaussian, distilled N times by one block (shared weights)."""

    def __init__(self, *, vectors: int, steps: int, width: int, heads: int, dropout: float):
        super().__init__()
        self.steps = steps
        self.vectors = nn.Parameter(torch.randn(vectors, width))
        self.block = DistillingBlock(width=width, heads=heads, dropout=dropout)

    def forward(self, source: Tensor) -> Tensor:
        """Distil (B, M, D) into (B, k, D)."""
        vectors = self.vectors.expand(source.shape[0], -1, -1)
        for _ in range(self.steps):
            vectors, source = self.block(vectors, source)
        return vectors


class AttributeTokens(nn.Module):
    """Attribute-guided tokens: maps the joined noun (or verb) segments of B captions to (B, width).

    The text encoder is frozen and may be shared, so it is not part of the module's parameters or saved
    weights; it follows the adapter's device. Without learnable prompts the vector of a text never changes and
    is computed once.

    Attributes:
        prompt: one of :data:`~rscc.text.parsing.PROMPTS`.
        prompt_vectors: (4, D) parameter, None unless ``learnable``.
        adapter: three fully connected layers.
    """

    def __init__(self, *, encoder: TextEncoder, width: int, prompt: str = "learnable", template: str = ""):
        """Build the module; ``template`` precedes the segments when ``prompt`` is ``fixed``."""
        super().__init__()
        self.prompt, self.template = prompt, template
        # A tuple hides the encoder from nn.Module, which keeps its frozen weights out of checkpoints.
        self._encoder = (encoder,)
        self.prompt_vectors: nn.Parameter | None = None
        if prompt == "learnable":
            self.prompt_vectors = nn.Parameter(0.02 * torch.randn(PROMPT_TOKENS, encoder.token_width))
        self.adapter = nn.Sequential(
            nn.Linear(encoder.width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
        )
        self._vectors: dict[str, Tensor] = {}

    @property
    def encoder(self) -> TextEncoder:
        """The frozen text encoder."""
        return self._encoder[0]

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return one token per text, (B, width); equal texts are encoded once."""
        device = next(self.adapter.parameters()).device
        if self.encoder.device != device:
            self.encoder.to(device)
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        if self.prompt_vectors is not None:
            words = self.encoder.embed_tokens(list(numbers), room=PROMPT_TOKENS)
            vectors = self.encoder.encode_embeddings(*insert_prompt(*words, self.prompt_vectors))
        else:
            vectors = self._cached_vectors(list(numbers), device)
        tokens = self.adapter(vectors)  # (unique, width)
        return tokens[torch.tensor([numbers[text] for text in texts], device=device)]

    def _cached_vectors(self, texts: list[str], device: torch.device) -> Tensor:
        new = [text for text in texts if text not in self._vectors]
        if new:
            prompted = [f"{self.template} {text}".strip() for text in new] if self.prompt == "fixed" else new
            # Stored vectors must be usable in a later training step, whatever the mode of this call.
            with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
                vectors = self.encoder.encode(prompted).float()
            self._vectors.update(zip(new, vectors.cpu().unbind(), strict=True))
        return torch.stack([self._vectors[text] for text in texts]).to(device)


class Rdd(ChangeCaptioner):
    """RDD+ACR on the shared trunk and decoder."""

    auxiliary_terms = ("n2o", "v2a")
    text_terms = ("n2o", "v2a")
    training_only = ("noun_tokens.", "verb_tokens.")

    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """Without a ``text_encoder`` the model captions but cannot compute n2o and v2a."""
        self.options = build(RddOptions, config.options, "model.options")
        width, heads, dropout = config.width, config.heads, config.dropout
        steps, kinds = self.options.distilling_steps, self.options.attributes
        whole = kinds != "direct-sub"
        if whole:
            self.enrich = Attention(width=width, heads=heads, dropout=dropout)
            self.join = nn.Linear(2 * width, width)
        distilling = partial(Distilling, steps=steps, width=width, heads=heads, dropout=dropout)
        self.object_distilling = distilling(vectors=self.options.object_vectors) if "N" in kinds else None
        self.action_distilling = distilling(vectors=self.options.action_vectors) if "V" in kinds else None
        if whole:
            self.fusion_attention = Attention(width=width, heads=heads, dropout=dropout)
            self.fusion_feed_forward = feed_forward(width, dropout=dropout)
            self.fusion_norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.noun_tokens: AttributeTokens | None = None
        self.verb_tokens: AttributeTokens | None = None
        tokens = partial(AttributeTokens, width=width, prompt=self.options.prompt)
        if text_encoder is not None and self.object_distilling is not None:
            self.noun_tokens = tokens(encoder=text_encoder, template=self.options.noun_template)
        if text_encoder is not None and self.action_distilling is not None:
            self.verb_tokens = tokens(encoder=text_encoder, template=self.options.verb_template)

    def loss_terms(self) -> tuple[str, ...]:
        """Without the alignments whose regional differences ``options.attributes`` leaves out."""
        parts = {"n2o": self.object_distilling, "v2a": self.action_distilling}
        return tuple(term for term in super().loss_terms() if parts.get(term, self) is not None)

    def encode_pair(self, pair: PairView) -> RddFeatures:
        """Eq. 2-10; ``pair`` holds F_bef and F_aft of Eq. 1, each (B, HW, D)."""
        before, after = pair.before, pair.after
        difference = before - after  # Eq. 2
        if self.options.attributes == "direct-sub":
            return RddFeatures(difference, pair)
        keys, values = self.enrich.project(difference)
        enriched = [self.enrich.attend(image, keys, values) for image in (before, after)]  # Eq. 3-4
        coarse = self.join(torch.cat(enriched, dim=-1))  # Eq. 5: F_c
        objects, actions = self.distil(coarse)  # Eq. 6-8
        tokens = self.fuse(*(scale for scale in (coarse, objects, actions) if scale is not None))  # Eq. 9
        if self.options.memory == "positions":
            tokens = tokens[:, : coarse.shape[1]]
        pooled = [None if regions is None else regions.mean(1) for regions in (objects, actions)]  # Eq. 10
        return RddFeatures(tokens, pair, objects=pooled[0], actions=pooled[1])

    def distil(self, coarse: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Distil F_object^N (B, k_o, D) and F_action^N (B, k_a, D) in the order of ``options.attributes``."""
        nouns, verbs, order = self.object_distilling, self.action_distilling, self.options.attributes
        if nouns is not None and verbs is not None and order != "V&N":
            if order == "N+V":
                objects = nouns(coarse)
                return objects, verbs(objects)
            actions = verbs(coarse)
            return nouns(actions), actions
        return None if nouns is None else nouns(coarse), None if verbs is None else verbs(coarse)

    def fuse(self, *scales: Tensor) -> Tensor:
        """Multi-scale fusion (Eq. 9) of (B, HW, D), (B, k_o, D) and (B, k_a, D): (B, HW + k_o + k_a, D)."""
        x = torch.cat(scales, dim=1)
        x = self.fusion_norms[0](x + self.fusion_attention(x, x))
        return self.fusion_norms[1](x + self.fusion_feed_forward(x))

    def auxiliary_losses(
        self, features: DifferenceFeatures, decoded: DecoderOutput, batch: PairBatch
    ) -> dict[str, Tensor]:
        """Eq. 11-13: nouns to objects (n2o) and verbs to actions (v2a)."""
        assert isinstance(features, RddFeatures)
        if self.noun_tokens is None and self.verb_tokens is None:
            raise ConfigInvalid(
                "loss.n2o and loss.v2a need a text encoder; give one or set their weights to 0"
            )
        if batch.nouns is None or batch.verbs is None:
            raise ConfigInvalid("loss.n2o and loss.v2a need captions, which this data set does not give")
        terms = {}
        if self.noun_tokens is not None and features.objects is not None:
            terms["n2o"] = self._align(self.noun_tokens(batch.nouns), features.objects, batch.nouns)
        if self.verb_tokens is not None and features.actions is not None:
            terms["v2a"] = self._align(self.verb_tokens(batch.verbs), features.actions, batch.verbs)
        return terms

    def _align(self, words: Tensor, regions: Tensor, texts: list[str]) -> Tensor:
        same = None
        if not self.options.same_words_are_negatives:
            numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
            ids = torch.tensor([numbers[text] for text in texts], device=regions.device)
            same = ids.unsqueeze(0) == ids.unsqueeze(1)
        return info_nce(words, regions, temperature=self.options.temperature, same=same)
