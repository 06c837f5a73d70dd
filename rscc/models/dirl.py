"""DIRL+CCR: distractors-immune representation learning with cross-modal contrastive regularization.

Tu et al., ECCV 2024; equation numbers are the paper's. Choices where the paper is ambiguous:

* Eq. 2 has four times the width between its two layers.
* Eq. 3 sums over the batch; every position of every image counts as one sample, because B images alone could
  not separate D > B channels. As printed, channels are not centred.
* Eq. 5 has one attention for both dates and no residual, because Eq. 6 subtracts its output.
* Eq. 8 gives the queries of Eq. 9: in the shared decoder, after residual and LayerNorm. Eq. 9 is taken as
  printed, without the residual that the decoder adds, which would copy the words into what they are compared
  with. Both are those of the last layer.
* Eq. 12 divides the attended features by HW, but there is one per word: both means are over the words that
  are learned from, without padding.
* The supplementary with alpha was not available; 0.003 is the value of the authors' published code.
* The baseline Subtraction of Figure 4 takes the other image as the shared features of Eq. 5.

The authors' released code differs in these points, which ``follow = "code"`` reproduces:

* Eq. 1, 8, 15 and the batches: see :mod:`rscc.models.shared.released_code`.
* Eq. 2 has dropout between its layers.
* Eq. 3: channels are standardised, by their unbiased deviation, before they are correlated; alpha was chosen
  for that.
* Eq. 5 is a stack of layers, two by default, each with residual and LayerNorm; dropout is also on the weights
  of its attention.
* Eq. 7 has LayerNorm and dropout before the ReLU.
* Eq. 8-11: a LayerNorm follows the word embedding, and Eq. 10 has ReLU instead of GELU.
* Eq. 9 has the residual and LayerNorm of the decoder: the words are in what they are compared with.
* Eq. 12: both means are over ``model.max_words`` positions, padding included.
* Eq. 13-14: one InfoNCE of the mean of the similarities and their transpose, instead of one each way.
* All weights start from Xavier's uniform distribution.

``follow = "code-clevr-change"`` is its other script: coordinates in Eq. 1, no LayerNorm in Eq. 7 and behind
the word embedding, and a decoder that starts from torch's defaults.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from rscc.config import MOST_PARTS, ModelConfig, check_follow
from rscc.errors import ConfigInvalid
from rscc.models.shared.blocks import Attention, CrossImageLayer
from rscc.models.shared.decoder import CaptionDecoder, DecoderLayer
from rscc.models.shared.losses import decorrelation_loss, info_nce, masked_mean, matrix_info_nce
from rscc.models.shared.released_code import ReleasedCaptioner, ReleasedDecoder, start_attention
from rscc.settings import build, check_choice, check_sizes
from rscc.structures import DecoderOutput, DifferenceFeatures, PairBatch, PairView
from rscc.text.encoders import TextEncoder


@dataclass(frozen=True)
class DirlOptions:
    """Options of DIRL+CCR (``model.options`` of a config).

    Attributes:
        alpha: weight of the different channels in Eq. 4; 0 leaves discrimination out (Table 7).
        diagonal: weight of the corresponding channels in Eq. 4; 0 leaves non-perturbation out (Table 7).
        temperature: tau of Eq. 14 (Sec. 4.2: 0.5).
        difference: ``shared`` (Eq. 5-6), or ``subtraction`` for the baseline of Figure 4.
        follow: ``paper``, or ``code`` for the authors' released code, or ``code-clevr-change`` for its script
            for CLEVR-Change.
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
        check_follow(self.follow, self.difference, "code", "code-clevr-change")
        check_sizes(self, "model.options", layers=(1, MOST_PARTS))


class CodeDecoderLayer(DecoderLayer):
    """Decoder layer of the released code (Eq. 8-11)."""

    def __init__(self, *, width: int, heads: int, dropout: float):
        nn.Module.__init__(self)  # other parts of the same names
        self.self_attention = _code_attention(width, heads, dropout)
        self.cross_attention = _code_attention(width, heads, dropout)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)


def _code_attention(width: int, heads: int, dropout: float) -> Attention:
    attention = Attention(width=width, heads=heads, dropout=dropout, weight_dropout=dropout)
    start_attention(attention)
    return attention


class Dirl(ReleasedCaptioner):
    """DIRL+CCR on the shared trunk and decoder; it needs no text encoder."""

    auxiliary_terms = ("decorrelation", "ccr")

    def build_encoder(self, config: ModelConfig, text_encoder: TextEncoder | None) -> None:
        """Build the parts of Eq. 2 and 5-7; the ``text_encoder`` is not used."""
        self.options = build(DirlOptions, config.options, "model.options")
        width, heads, dropout = config.width, config.heads, config.dropout
        self.join = nn.Linear(2 * width, width)
        if self.follows_code(config):
            self._build_by_code(config)
            return
        self.embed = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.even: nn.Module = nn.Identity()
        if self.options.difference == "shared":
            self.shared_attention = Attention(width=width, heads=heads, dropout=dropout)

    def _build_by_code(self, config: ModelConfig) -> None:
        width, heads, dropout = config.width, config.heads, config.dropout
        on_clevr_change = self.options.follow == "code-clevr-change"
        self.build_released_tokens(config, coordinates=on_clevr_change)
        self.embed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
        )
        self.even = _normed_dropout(width, dropout, normed=not on_clevr_change)
        self.shared_layers = nn.ModuleList(
            CrossImageLayer(attention=_code_attention(width, heads, dropout), norm=nn.LayerNorm(width))
            for _ in range(self.options.layers)
        )
        _start_uniform(self.project, self.positions, self.embed, self.shared_layers)
        if not on_clevr_change:
            _start_uniform(self.join, self.decoder)

    def build_released_decoder(self, config: ModelConfig) -> ReleasedDecoder:
        """Make the decoder of the released code (Eq. 8-11)."""
        normed = config.options["follow"] == "code"
        return ReleasedDecoder(
            config=config,
            vocabulary_size=len(self.vocabulary),
            pad=self.vocabulary.pad,
            layer=CodeDecoderLayer,
            finish=_normed_dropout(config.width, config.dropout, normed=normed),
        )

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
        scale = 1.0
        if options.follow != "paper":
            one, other = (image - image.mean(0) for image in (one, other))
            scale = (len(one) - 1) / len(one)  # the mean of products of values over their unbiased deviations
            words, attended = decoded.words.mean(1), self._with_words(decoded).mean(1)
            similarity = words.float() @ attended.float().T
            mean = (similarity + similarity.T) / 2
            ccr = matrix_info_nce(mean, mean, temperature=options.temperature)
        else:
            learned = batch.tokens[:, 1:] != self.vocabulary.pad
            words, attended = (masked_mean(x, learned) for x in (decoded.words, decoded.attended))  # Eq. 12
            ccr = info_nce(words, attended, temperature=options.temperature, cosine=False)
        return {
            "decorrelation": decorrelation_loss(
                one, other, alpha=options.alpha, diagonal=options.diagonal, scale=scale
            ),
            "ccr": ccr,
        }

    def _with_words(self, decoded: DecoderOutput) -> Tensor:
        """Return Eq. 9 of the decoder's last layer with residual and LayerNorm, (B, L, D)."""
        layer = cast(DecoderLayer, cast(CaptionDecoder, self.decoder).layers[-1])
        return layer.norms[1](decoded.words + decoded.attended)


def _normed_dropout(width: int, dropout: float, *, normed: bool) -> nn.Module:
    return nn.Sequential(nn.LayerNorm(width) if normed else nn.Identity(), nn.Dropout(dropout))


def _start_uniform(*parts: nn.Module) -> None:
    """Start matrices from Xavier's uniform distribution, but for those of :func:`start_attention`."""
    for part in parts:
        for name, parameter in part.named_parameters():
            joined = name.endswith(("query.weight", "key.weight", "value.weight"))
            if parameter.dim() > 1 and not joined:
                nn.init.xavier_uniform_(parameter)
