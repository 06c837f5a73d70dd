"""The gated decoder layer of CHEERS (Li et al., 2025, Eq. 13-17) in the shared decoder.

Choices where the paper is ambiguous:

* SelfAttention before Eq. 13 is the sublayer of Vaswani et al., with residual and LayerNorm.
* The weights of Eq. 14-15 are one number each per word, unbounded as printed. Before training they are 0.5 on
  average, so that both attentions start with the same share; for single words they vary by about 0.4.
* No feed-forward network follows Eq. 17, as printed.
"""

import torch
from torch import Tensor, nn

from rscc.models.shared.blocks import Attention
from rscc.models.shared.decoder import DecoderLayer, LayerCache


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

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See :meth:`DecoderLayer.forward`; the attended differences are H^F of Eq. 16."""
        words = self.norms[0](x + self.self_attention(x, x, causal=True))
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
