"""Parts that every paper's model uses: attention, 2-D positions, the change heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Multi-head attention softmax(Q K^T / sqrt(d_k)) V; with ``project_out`` projected once more.

    Dropout falls on the output, not on the weights: there it would rule out the fused kernels, which are
    several times faster.

    ``keys`` and ``values`` may come precomputed (:meth:`project`), which is the decoder's cache.
    """

    def __init__(self, *, width: int, heads: int, dropout: float = 0.0, project_out: bool = True):
        super().__init__()
        self.heads = heads
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

    def attend(self, x: Tensor, keys: Tensor, values: Tensor, *, causal: bool = False) -> Tensor:
        """Attend from (B, L, D) to projected keys and values; returns (B, L, D).

        Keys and values of B / k samples do for B rows, where every k rows in a row ask the same sample: they
        are asked as one row of k * L queries. That is not for ``causal`` attention.
        """
        shape, queries = x.shape, self.query(x)
        if shape[0] != keys.shape[0]:
            queries = queries.view(keys.shape[0], -1, shape[2])
        mixed = F.scaled_dot_product_attention(self._split(queries), keys, values, is_causal=causal)
        return self.drop(self.out(mixed.transpose(1, 2).reshape(shape)))

    def weights(self, x: Tensor, keys: Tensor) -> Tensor:
        """What the fused kernels keep to themselves: softmax(Q K^T / sqrt(d_k)), (B, heads, L, M) float32."""
        queries = self._split(self.query(x))
        similar = (queries @ keys.transpose(2, 3)).float()
        return (similar / queries.shape[-1] ** 0.5).softmax(dim=-1)

    def forward(self, x: Tensor, memory: Tensor, *, causal: bool = False) -> Tensor:
        """Attend from ``x`` (B, L, D) to ``memory`` (B, M, D); returns (B, L, D)."""
        return self.attend(x, *self.project(memory), causal=causal)


def feed_forward(width: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Two fully connected layers with a GELU between them, where it is four times as wide."""
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
    )


class AttentionLayer(nn.Module):
    """Parts of a layer with self-attention, cross-attention and a feed-forward network; a LayerNorm for each.

    Subclasses say in ``forward`` how they are put together.
    """

    def __init__(self, *, width: int, heads: int, dropout: float):
        super().__init__()
        self.self_attention = Attention(width=width, heads=heads, dropout=dropout)
        self.cross_attention = Attention(width=width, heads=heads, dropout=dropout)
        self.feed_forward = feed_forward(width, dropout=dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)


class CrossImageLayer(nn.Module):
    """What an image has in common with the other is rebuilt from it and added (SCORER+CBR Eq. 5-6)."""

    def __init__(self, *, width: int, heads: int, dropout: float, project_out: bool = True):
        super().__init__()
        self.attention = Attention(width=width, heads=heads, dropout=dropout, project_out=project_out)
        self.norm = nn.LayerNorm(width)

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """Map both dates, each (B, N, D), to their next state."""
        one, other = self.attention(before, after), self.attention(after, before)  # Eq. 5
        return self.norm(before + one), self.norm(after + other)  # Eq. 6


class Positions2d(nn.Module):
    """Trainable position encoding of a grid: one vector per row plus one per column.

    Trained on a ``size`` x ``size`` grid; another grid reads the vectors by linear interpolation.
    """

    def __init__(self, *, width: int, size: int = 16):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(1, width, size) * 0.02)
        self.columns = nn.Parameter(torch.randn(1, width, size) * 0.02)

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


class ChangeHead(nn.Module):
    """Change per pixel from the trunk's three maps of both dates, finest map at stride 4.

    Not part of any of the five papers. At every stride both dates pass the same 1 x 1 convolution a, b;
    [a, b, |a - b|] is mixed and added to the coarser level's result, enlarged.
    """

    def __init__(self, *, channels: tuple[int, ...], width: int):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1) for c in channels)
        self.mix = nn.ModuleList(_conv_norm(3 * width, width) for _ in channels)
        self.smooth = nn.ModuleList(_conv_norm(width, width) for _ in channels[:-1])
        self.logit = nn.Conv2d(width, 1, 1)

    def forward(self, before: list[Tensor], after: list[Tensor]) -> Tensor:
        """Return logits (B, H / 4, W / 4) for maps as ``Backbone`` gives them."""
        levels = []
        for lateral, mix, map_before, map_after in zip(self.lateral, self.mix, before, after, strict=True):
            a, b = lateral(map_before), lateral(map_after)
            levels.append(mix(torch.cat([a, b, (a - b).abs()], dim=1)))
        x = levels[-1]
        for level, smooth in zip(levels[-2::-1], self.smooth, strict=True):
            enlarged = F.interpolate(x, size=level.shape[-2:], mode="bilinear", align_corners=False)
            x = smooth(level + enlarged)
        return self.logit(x).squeeze(1)


def _conv_norm(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(8, outputs), nn.ReLU(inplace=True)
    )


class ChangedHead(nn.Module):
    """P(anything changed) of a pair, from the mean and the maximum of its difference tokens."""

    def __init__(self, *, width: int, dropout: float = 0.0):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(2 * width),
            nn.Linear(2 * width, width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(width, 1),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Map difference tokens (B, N, D) to logits (B,)."""
        return self.net(torch.cat([tokens.mean(1), tokens.amax(1)], dim=-1)).squeeze(-1)
