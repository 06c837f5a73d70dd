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

The authors' released code does some of it otherwise; ``follow = "code"`` does so too:

* Eq. 2 has dropout between its layers.
* Eq. 3: channels are centred before they are correlated, for which alpha was chosen.
* Eq. 5 is a stack of layers, two by default, each with residual and LayerNorm.
* Eq. 7 has LayerNorm and dropout before the ReLU (its training on CLEVR-Change leaves the LayerNorm out).
* Eq. 9 has the residual and LayerNorm of the decoder: the words are in what they are compared with.
* Eq. 12: both means are over all places for words of the longest caption of a batch, padding too (theirs: a
  fixed number of places).
* Eq. 13-14: one InfoNCE of the mean of the similarities and their transposed, instead of one each way.

Not switched, for they are of all five models here: two more channels with the coordinates of a position
(Eq. 1, on CLEVR-Change), fixed positions of the words (Eq. 8), ReLU instead of GELU (Eq. 10), dropout on the
weights of attention instead of its output, cubic resizing of images, the weights to begin with; the caption
loss is a mean over all words of a batch where Eq. 15 prints a sum over one caption's, and on CLEVR-Change
changed and unchanged pairs have batches of their own in it, in Eq. 3 and in Eq. 14.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from rscc.config import MOST_PARTS, ModelConfig, build, check_follow
from rscc.errors import ConfigInvalid
from rscc.models.shared.blocks import Attention, CrossImageLayer
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.decoder import CaptionDecoder, DecoderLayer
from rscc.models.shared.losses import decorrelation_loss, info_nce, masked_mean, matrix_info_nce
from rscc.settings import check_choice
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
        follow: ``paper`` or, where the authors' released code does something else, ``code``.
        layers: of the attention of Eq. 5 in the code; the paper has one.
    """

    alpha: float = 0.003
    diagonal: float = 1.0
    temperature: float = 0.5
    difference: str = "shared"
    follow: str = "paper"
    layers: int = 2

    def __post_init__(self) -> None:
        if min(self.alpha, self.diagonal) < 0 or self.temperature <= 0:
            raise ConfigInvalid(
                "model.options: alpha and diagonal must not be negative, the temperature must be above 0"
            )
        check_choice("model.options.difference", self.difference, ("shared", "subtraction"), " or ")
        check_follow(self.follow, self.difference)
        if not 1 <= self.layers <= MOST_PARTS:
            raise ConfigInvalid(f"model.options: layers must be 1 to {MOST_PARTS}")


class Dirl(ChangeCaptioner):
    """DIRL+CCR on the shared trunk and decoder; its words teach through the decoder, no text encoder."""

    auxiliary_terms = ("decorrelation", "ccr")

    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """The parts that only this paper has; the ``text_encoder`` is not used."""
        self.options = build(DirlOptions, config.options, "model.options")
        width, heads, dropout = config.width, config.heads, config.dropout
        by_code = self.options.follow == "code"
        between = [nn.ReLU(), nn.Dropout(dropout)] if by_code else [nn.ReLU()]
        self.embed = nn.Sequential(nn.Linear(width, 4 * width), *between, nn.Linear(4 * width, width))
        if by_code:
            self.shared_layers = nn.ModuleList(
                CrossImageLayer(width=width, heads=heads, dropout=dropout) for _ in range(self.options.layers)
            )
        elif self.options.difference == "shared":
            self.shared_attention = Attention(width=width, heads=heads, dropout=dropout)
        self.join = nn.Linear(2 * width, width)
        self.even = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout)) if by_code else nn.Identity()

    def encode_pair(self, pair: PairView) -> DifferenceFeatures:
        """Eq. 5-7; ``pair`` holds the representations of Eq. 1, each (B, HW, D)."""
        shared_before, shared_after = self._shared(pair.before, pair.after)  # Eq. 5
        differences = [pair.before - shared_before, pair.after - shared_after]  # Eq. 6
        tokens = self.even(self.join(torch.cat(differences, dim=-1))).relu()  # Eq. 7
        return DifferenceFeatures(tokens, pair)

    def _shared(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        if self.options.difference == "subtraction":
            return after, before
        if self.options.follow == "paper":
            return self.shared_attention(before, after), self.shared_attention(after, before)
        for layer in self.shared_layers:
            before, after = layer(before, after)
        return before, after

    def auxiliary_losses(
        self, features: DifferenceFeatures, decoded: DecoderOutput, batch: PairBatch
    ) -> dict[str, Tensor]:
        """Eq. 2-4 (decorrelation) and Eq. 12-14 (ccr)."""
        assert batch.tokens is not None, "decoded from them"
        pair = features.pair
        one, other = (self.embed(image).flatten(0, 1) for image in (pair.before, pair.after))  # Eq. 2
        options = self.options
        if options.follow == "code":
            one, other = (image - image.mean(0) for image in (one, other))
            words, attended = decoded.words.mean(1), self._with_words(decoded).mean(1)
            similarity = words.float() @ attended.float().T
            mean = (similarity + similarity.T) / 2
            ccr = matrix_info_nce(mean, mean, temperature=options.temperature)
        else:
            learned = batch.tokens[:, 1:] != self.vocabulary.pad
            words, attended = (masked_mean(x, learned) for x in (decoded.words, decoded.attended))  # Eq. 12
            ccr = info_nce(words, attended, temperature=options.temperature, cosine=False)
        return {
            "decorrelation": decorrelation_loss(one, other, alpha=options.alpha, diagonal=options.diagonal),
            "ccr": ccr,
        }

    def _with_words(self, decoded: DecoderOutput) -> Tensor:
        """Return what the last layer of the decoder makes of Eq. 9: residual and LayerNorm, (B, L, D)."""
        layer = cast(DecoderLayer, cast(CaptionDecoder, self.decoder).layers[-1])
        return layer.norms[1](decoded.words + decoded.attended)
