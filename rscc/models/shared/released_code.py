"""Parts that the released codes of SCORER+CBR and DIRL+CCR share, for ``follow = "code"``.

Against the parts that all five models share:

* Tokens (Eq. 1): half of the width encodes the column, half the row; on CLEVR-Change the trunk's maps get two
  more channels with the coordinates of each position.
* Decoder: fixed sinusoidal positions, added to the word embedding before its projection; dropout also on the
  attention's weights. Captions are padded to ``model.max_words``; self-attention has no padding as key.
* Caption loss: mean over all words of a batch.
* Changed and unchanged pairs are two batches: every term is the mean of the terms of both.

Images are resized bilinearly here, the trunk's features there come from cubic resizing.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.config import ModelConfig
from rscc.models.shared.blocks import Attention
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.decoder import CaptionDecoder, Decoder, DecoderLayer
from rscc.structures import PairBatch

GRID = 14
"""Rows and columns that the positions are trained on."""


class ReleasedDecoder(CaptionDecoder):
    """Words from difference tokens by the released code; captions may hold padding.

    Args:
        finish: what follows the projection of the word embedding.
    """

    def __init__(
        self,
        *,
        config: ModelConfig,
        vocabulary_size: int,
        pad: int,
        layer: type[DecoderLayer],
        finish: nn.Module,
    ):
        super().__init__(config=config, vocabulary_size=vocabulary_size, layer=layer)
        self.masked = pad
        self.words = nn.Embedding(vocabulary_size, config.word_width, padding_idx=pad)
        del self.positions
        self.register_buffer("positions", sinusoids(config.max_words, config.word_width), persistent=False)
        self.finish = finish

    def _embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        places = self.positions[start : start + tokens.shape[1]]
        return self.finish(self.widen(self.words(tokens) + places))


class HalfPositions2d(nn.Module):
    """Trainable positions of a grid: half of the width is the column's vector, half the row's.

    For other grids than 14 x 14 the vectors are interpolated linearly.
    """

    def __init__(self, *, width: int):
        super().__init__()
        self.columns = nn.Parameter(torch.randn(GRID, width // 2))
        self.rows = nn.Parameter(torch.randn(GRID, width // 2))

    def forward(self, height: int, width: int) -> Tensor:
        """Return (1, height * width, D)."""
        columns, rows = (
            F.interpolate(vectors.T[None], size=size, mode="linear", align_corners=True)[0].T
            for vectors, size in ((self.columns, width), (self.rows, height))
        )
        pairs = [columns[None].expand(height, -1, -1), rows[:, None].expand(-1, width, -1)]
        return torch.cat(pairs, dim=-1).flatten(0, 1)[None]


def sinusoids(length: int, width: int) -> Tensor:
    """Return fixed positions (length, width): sines in even channels, cosines in odd ones."""
    place = torch.arange(length).float().unsqueeze(1)
    frequencies = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10_000.0) / width))
    positions = torch.zeros(length, width)
    positions[:, 0::2] = torch.sin(place * frequencies)
    positions[:, 1::2] = torch.cos(place * frequencies[: width // 2])
    return positions


def with_coordinates(maps: Tensor) -> Tensor:
    """Append the column and the row of each position, from -1 to below 1, to maps (B, C, h, w)."""
    height, width = maps.shape[-2:]
    columns = torch.arange(width, device=maps.device) * 2 / width - 1
    rows = torch.arange(height, device=maps.device) * 2 / height - 1
    places = torch.stack([columns.expand(height, width), rows[:, None].expand(height, width)])
    return torch.cat([maps, places.to(maps.dtype).expand(len(maps), -1, -1, -1)], dim=1)


def start_attention(attention: Attention) -> None:
    """Start an attention as :class:`torch.nn.MultiheadAttention` does."""
    for part in (attention.query, attention.key, attention.value):
        nn.init.xavier_uniform_(part.weight, gain=math.sqrt(0.5))  # three parts of one (3D, D) matrix
        nn.init.zeros_(part.bias)
    if isinstance(attention.out, nn.Linear):
        nn.init.zeros_(attention.out.bias)


class ReleasedCaptioner(ChangeCaptioner):
    """A captioner that can follow its authors' released code.

    Attributes:
        coordinates: whether the trunk's maps get two more channels.
    """

    coordinates = False

    @staticmethod
    def follows_code(config: ModelConfig) -> bool:
        """Return whether a config follows the released code."""
        return config.options.get("follow", "paper") != "paper"

    def build_decoder(self, config: ModelConfig) -> Decoder:
        """See :meth:`ChangeCaptioner.build_decoder`."""
        if not self.follows_code(config):
            return super().build_decoder(config)
        return self.build_released_decoder(config)

    @abstractmethod
    def build_released_decoder(self, config: ModelConfig) -> ReleasedDecoder:
        """Make the decoder of the released code."""

    def build_released_tokens(self, config: ModelConfig, *, coordinates: bool) -> None:
        """Replace projection and positions by those of the released code."""
        self.coordinates = coordinates
        self.project = nn.Linear(self.backbone.channels[-1] + 2 * coordinates, config.width)
        self.positions = HalfPositions2d(width=config.width)

    def represent(self, maps: Tensor) -> Tensor:
        """See :meth:`ChangeCaptioner.represent`."""
        return super().represent(with_coordinates(maps) if self.coordinates else maps)

    def decoder_input(self, tokens: Tensor) -> Tensor:
        """Return captions (B, L) padded to ``model.max_words``; by the paper, all but the last word."""
        if not self.follows_code(self.config):
            return super().decoder_input(tokens)
        return F.pad(tokens, (0, self.config.max_words - tokens.shape[1]), value=self.vocabulary.pad)

    def caption_loss(self, logits: Tensor, tokens: Tensor, label_smoothing: float) -> Tensor:
        """Return the mean over all words of a batch; by the paper, over the words, then the captions."""
        if not self.follows_code(self.config):
            return super().caption_loss(logits, tokens, label_smoothing)
        return F.cross_entropy(
            logits[:, : tokens.shape[1] - 1].transpose(1, 2).float(),
            tokens[:, 1:],
            ignore_index=self.vocabulary.pad,
            label_smoothing=label_smoothing,
        )

    def losses(
        self, batch: PairBatch, weights: dict[str, float], *, label_smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        """See :meth:`ChangeCaptioner.losses`; by the code, the mean over changed and unchanged pairs."""
        if not self.follows_code(self.config):
            return super().losses(batch, weights, label_smoothing=label_smoothing)
        kinds = [
            super(ReleasedCaptioner, self).losses(part, weights, label_smoothing=label_smoothing)
            for part in _kinds(batch)
        ]
        return {name: torch.stack([terms[name] for terms in kinds]).mean() for name in kinds[0]}


def _kinds(batch: PairBatch) -> Iterator[PairBatch]:
    """Yield changed and unchanged pairs apart; all together where it is not known of each."""
    if batch.changed is None or batch.changed_known is None or not batch.changed_known.all():
        yield batch
        return
    changed = batch.changed > 0.5
    for kind in (changed, ~changed):
        if kind.any():
            yield batch.select(kind.nonzero().squeeze(1))
