"""Parts that every paper's model uses: attention and 2-D positions."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Multi-head attention softmax(Q K^T / sqrt(d_k)) V; with ``project_out`` projected once more.

    Dropout is applied to the output. ``weight_dropout``, as in the released codes, is applied to the weights,
    which excludes the fused kernels in training. Precomputed ``keys`` and ``values`` (:meth:`project`) are
    the decoder's cache.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        project_out: bool = True,
    ):
        super().__init__()
        self.heads = heads
        self.weight_dropout = weight_dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width) if project_out else nn.Identity()
        self.drop = nn.Dropout(dropout)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)  # (B, heads, L, d_k)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, M, D) memory to keys and values, each (B, heads, M, d_k)."""
        return self._split(self.key(memory)), self._split(self.value(memory))

    def attend(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        causal: bool = False,
        known: Tensor | None = None,
    ) -> Tensor:
        """Attend from (B, L, D) to projected keys and values; returns (B, L, D).

        With keys and values of B / k samples, every k consecutive rows attend to the same sample, as one row
        of k * L queries; not possible with ``causal``. ``known`` (B, L) bool, only with ``causal``, leaves
        out keys where it is False; the first must be True.
        """
        shape, queries = x.shape, self.query(x)
        if shape[0] != keys.shape[0]:
            queries = queries.view(keys.shape[0], -1, shape[2])
        mask = None
        if known is not None:
            past = torch.ones(2 * known.shape[1:], dtype=torch.bool, device=known.device).tril()
            mask = past & known[:, None, None, :]
        mixed = F.scaled_dot_product_attention(
            self._split(queries),
            keys,
            values,
            attn_mask=mask,
            dropout_p=self.weight_dropout if self.training else 0.0,
            is_causal=causal and mask is None,
        )
        return self.drop(self.out(mixed.transpose(1, 2).reshape(shape)))

    def weights(self, x: Tensor, keys: Tensor) -> Tensor:
        """Return softmax(Q K^T / sqrt(d_k)), (B, heads, L, M) float32, which fused kernels do not return."""
        queries = self._split(self.query(x))
        similar = (queries @ keys.transpose(2, 3)).float()
        return (similar / queries.shape[-1] ** 0.5).softmax(dim=-1)

    def forward(
        self, x: Tensor, memory: Tensor, *, causal: bool = False, known: Tensor | None = None
    ) -> Tensor:
        """Attend from ``x`` (B, L, D) to ``memory`` (B, M, D); returns (B, L, D). See :meth:`attend`."""
        return self.attend(x, *self.project(memory), causal=causal, known=known)


def feed_forward(width: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Two fully connected layers with a GELU between them, at four times the width."""
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
    )


class AttentionLayer(nn.Module):
    """Self-attention, cross-attention and a feed-forward network, with a LayerNorm for each.

    Subclasses combine them in ``forward``.
    """

    def __init__(self, *, width: int, heads: int, dropout: float):
        super().__init__()
        self.self_attention = Attention(width=width, heads=heads, dropout=dropout)
        self.cross_attention = Attention(width=width, heads=heads, dropout=dropout)
        self.feed_forward = feed_forward(width, dropout=dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)


class CrossImageLayer(nn.Module):
    """Adds to each image what it has in common with the other, rebuilt from it (SCORER+CBR Eq. 5-6)."""

    def __init__(self, *, attention: Attention, norm: nn.LayerNorm):
        super().__init__()
        self.attention = attention
        self.norm = norm

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """Map both dates, each (B, N, D), to their next state."""
        one, other = self.attention(before, after), self.attention(after, before)  # Eq. 5
        return self.norm(before + one), self.norm(after + other)  # Eq. 6


class Positions2d(nn.Module):
    """Trainable position encoding of a grid: one vector per row plus one per column.

    Trained on a 16 x 16 grid; for other grids the vectors are interpolated linearly.
    """

    def __init__(self, *, width: int):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(1, width, 16) * 0.02)
        self.columns = nn.Parameter(torch.randn(1, width, 16) * 0.02)

    def forward(self, height: int, width: int) -> Tensor:
        """Return (1, height * width, D)."""
        rows = F.interpolate(self.rows, size=height, mode="linear", align_corners=True)
        columns = F.interpolate(self.columns, size=width, mode="linear", align_corners=True)
        grid = rows.unsqueeze(3) + columns.unsqueeze(2)  # (1, D, height, width)
        return grid.flatten(2).transpose(1, 2)


def enlarge_maps(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize maps (B, h, w) bilinearly to (B, height, width), in float32."""
    resized = F.interpolate(maps.unsqueeze(1).float(), size=size, mode="bilinear", align_corners=False)
    return resized.squeeze(1)
