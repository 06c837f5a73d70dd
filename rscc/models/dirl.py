"""DIRL+CCR: distractors-immune representation learning with cross-modal contrastive regularization.

Tu et al., ECCV 2024; equation numbers are the paper's. Where the paper leaves a choice open:

* Eq. 2 has four times the width between its two layers.
* Eq. 3 sums over the batch; every position of every image counts as one sample of it, for B images alone
  could not tell D > B channels apart. As printed, channels are not centred.
* Eq. 5 has one attention for both dates and no residual: Eq. 6 subtracts what it gives.
* Eq. 8 gives the features that ask in Eq. 9: in the shared decoder, after residual and LayerNorm. Eq. 9 is
  taken as printed, without the residual that the decoder adds, which would carry the words into what they
  are compared with. Both are those of the last layer.
* Eq. 12 divides the attended features by HW, but there is one per word: both means are over the words that
  are learned from, padding left out.
* The supplementary with alpha was not at hand; 0.003 is the value of the authors' published code.
* The baseline Subtraction of Figure 4 takes the other image as the shared features of Eq. 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rscc.config import ModelConfig, build
from rscc.errors import ConfigInvalid
from rscc.models.shared.blocks import Attention
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.losses import decorrelation_loss, info_nce, masked_mean
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView
from rscc.text.encoders import TextEncoder


@dataclass(frozen=True)
class DirlOptions:
    """What only DIRL+CCR knows (``model.options`` of a config).

    Attributes:
        alpha: weight of the different channels in Eq. 4; 0 leaves discrimination out (Table 7).
        diagonal: weight of the corresponding channels in Eq. 4; 0 leaves non-perturbation out (Table 7).
        temperature: tau of Eq. 14 (Sec. 4.2: 0.5).
        difference: ``shared`` (Eq. 5-6), or ``subtraction`` for the baseline of Figure 4.
    """

    alpha: float = 0.003
    diagonal: float = 1.0
    temperature: float = 0.5
    difference: str = "shared"

    def __post_init__(self) -> None:
        if min(self.alpha, self.diagonal) < 0 or self.temperature <= 0:
            raise ConfigInvalid(
                "model.options: alpha and diagonal must not be negative, the temperature must be above 0"
            )
        if self.difference not in ("shared", "subtraction"):
            raise ConfigInvalid(f"model.options.difference is {self.difference!r}; use shared or subtraction")


class Dirl(ChangeCaptioner):
    """DIRL+CCR on the shared trunk and decoder; its words teach through the decoder, no text encoder."""

    auxiliary_terms = ("decorrelation", "ccr")

    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """The parts that only this paper has; the ``text_encoder`` is not used."""
        self.options = build(DirlOptions, config.options, "model.options")
        width = config.width
        self.embed = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.shared_attention: Attention | None = None
        if self.options.difference == "shared":
            self.shared_attention = Attention(width=width, heads=config.heads, dropout=config.dropout)
        self.join = nn.Linear(2 * width, width)

    def encode_pair(self, pair: PairView) -> DifferenceFeatures:
        """Eq. 5-7; ``pair`` holds the representations of Eq. 1, each (B, HW, D)."""
        before, after = pair.before, pair.after
        shared_before, shared_after = after, before
        if self.shared_attention is not None:
            shared_before = self.shared_attention(before, after)  # Eq. 5
            shared_after = self.shared_attention(after, before)
        differences = [before - shared_before, after - shared_after]  # Eq. 6
        tokens = self.join(torch.cat(differences, dim=-1)).relu()  # Eq. 7
        return DifferenceFeatures(tokens, pair)

    def auxiliary_losses(
        self, features: DifferenceFeatures, decoded: DecoderOutput, batch: PairBatch
    ) -> dict[str, Tensor]:
        """Eq. 2-4 (decorrelation) and Eq. 12-14 (ccr)."""
        assert batch.tokens is not None, "decoded from them"
        # Eq. 2: (B * HW, D)
        one, other = (self.embed(image).flatten(0, 1) for image in (features.before, features.after))
        learned = batch.tokens[:, 1:] != self.vocabulary.pad
        words, attended = (masked_mean(x, learned) for x in (decoded.words, decoded.attended))  # Eq. 12
        options = self.options
        return {
            "decorrelation": decorrelation_loss(one, other, alpha=options.alpha, diagonal=options.diagonal),
            "ccr": info_nce(words, attended, temperature=options.temperature, cosine=False),
        }
