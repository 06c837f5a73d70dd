"""Find what hides the ground on each date of a pair, from its cells: a network, and rules that name it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.visibility.cells import CHANNELS, MARGIN
from rscc.visibility.restoration import lights
from rscc.weights import load_weights

WEIGHTS = Path(__file__).parent / "files" / "visibility.safetensors"
CLOUD, SHADOW, HAZE = 2, 3, 4
"""What hides a cell; 0 is clear ground, and 1 is left to missing data."""
DENSE, SHADY = 0.75, 0.3
"""Opacity from which a veil hides the ground, and share of the light that is missing in a shadow."""
OPAQUE, THIN, CLOUD_REACH = 0.8, 0.3, 8
"""A dense veil is a cloud within so many cells of one that is opaque, else haze; a cloud's edge is thin."""
TINT = 15 / 255
"""Largest difference of red and blue in a dense veil."""
LIKELY, LEAST_CONTRAST = 0.35, 4 / 255
"""Opacity from which lost contrast proves a cloud, and deviation of grey that ground must have to lose it."""
FINE, ABOVE, LOST, PUFF = 2, 0.45, 0.65, 0.35
"""Of a small cloud: cells a side over which contrast is averaged, opacity above the haze around it, share of
contrast that is lost, and that opacity beside other clouds."""
WIDE, COARSE = 17, 5
"""Cells a side of the smallest veil that is haze around a cloud, and of the smallest large cloud, over which
its contrast is averaged."""
BROAD, LOCAL, LARGE = 41, 0.3, 6
"""Of a thin cloud: cells a side from which a veil is haze instead, opacity above the haze, and cells a side
of the smallest one, larger than most roofs. What is restored under its uneven veil is not judged. The least
opacity over so many cells is the haze at the edge of a cloud, too."""
SHADOW_REACH = 32
"""Cells from a cloud up to which its shadow, and smaller clouds, are looked for."""
SMALLEST, NARROW, GROWN = 2, 6, 2
"""Cells a side of the smallest veil or shadow, cells that its narrow parts reach from it, and cells by which
what hides the ground is enlarged for its soft edge."""
ROOF, SHOWS_ROOFS = 4, 1.5
"""Cells a side below which a veil is taken for a bright roof, and metres of the coarsest pixel for that."""
_WIDTH = 512
TYPICAL, SPREAD = (0.4, 0.4, 0.4, 0.06, 0.2), (0.2, 0.2, 0.2, 0.05, 0.15)
"""Mean and deviation of the channels of a date, by which they are normalised."""
WIDTHS = (24, 32, 48)
"""Channels at full, half and quarter size of the grid of cells."""


class VeilNetwork(nn.Module):
    """Opacity of the veil over a date and the share of light that a cloud takes there, seen beside another.

    A small U-Net over cells of both dates (Ronneberger et al. 2015).

    (B, 11, H, W) cells of the date, of the other date, and of validity -> (B, 2, H, W) logits. H and W are
    multiples of :data:`~rscc.visibility.cells.WHOLE`.
    """

    typical: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        fine, half, quarter = WIDTHS
        typical, spread = (torch.tensor((*one, *one, rest)) for one, rest in ((TYPICAL, 0.0), (SPREAD, 1.0)))
        self.register_buffer("typical", typical[:, None, None], persistent=False)
        self.register_buffer("spread", spread[:, None, None], persistent=False)
        self.enter = nn.Conv2d(2 * CHANNELS + 1, fine, 3, padding=1)
        self.down = nn.Conv2d(fine, half, 3, stride=2, padding=1)
        self.downer = nn.Conv2d(half, quarter, 3, stride=2, padding=1)
        self.wide = nn.ModuleList(
            nn.Conv2d(quarter, quarter, 3, padding=space, dilation=space) for space in (1, 2, 4)
        )
        self.up = nn.Conv2d(quarter + half, half, 3, padding=1)
        self.upper = nn.Conv2d(half + fine, fine, 3, padding=1)
        self.leave = nn.Conv2d(fine, 2, 1)

    def forward(self, cells: Tensor) -> Tensor:
        """Return logits of opacity and shade; see the class."""
        fine = F.relu(self.enter((cells - self.typical) / self.spread))  # (B, 24, H, W)
        half = F.relu(self.down(fine))  # (B, 32, H/2, W/2)
        deep = F.relu(self.downer(half))  # (B, 48, H/4, W/4)
        for layer in self.wide:
            deep = deep + F.relu(layer(deep))
        half = F.relu(self.up(torch.cat([_doubled(deep), half], dim=1)))
        fine = F.relu(self.upper(torch.cat([_doubled(half), fine], dim=1)))
        logits: Tensor = self.leave(fine)
        return logits


def _doubled(maps: Tensor) -> Tensor:
    return F.interpolate(maps, scale_factor=2.0, mode="bilinear", align_corners=False)


class VeilDetector:
    """The network and the rules that name what it finds.

    Args:
        smallest: cells a side of the smallest veil or shadow that is not beside a cloud.
    """

    def __init__(self, network: VeilNetwork, device: torch.device, smallest: int = ROOF) -> None:
        self._network, self._device, self._smallest = network.to(device).eval(), device, smallest

    def layers(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Return (10, h, w) uint8: what hides each date, the opacity of its veil in 255ths, and its light.

        Args:
            before, after: (CHANNELS + 1, h, w), see :func:`rscc.visibility.cells.cells_of`; h and w are
                multiples of :data:`~rscc.visibility.cells.WHOLE`.
        """
        veils = [
            _without_contrast(self._veil(one, other), one, other)
            for one, other in ((before, after), (after, before))
        ]
        large = [_without_small(veil, self._smallest) for veil in veils]
        hidden = [
            _hidden_by(veil[0], veil[1], np.where(_is_grey(date) | _is_wide(veil[0]), one, 0))
            for date, veil, one in zip((before, after), large, veils, strict=True)
        ]
        opacity = [np.rint(255 * veil[0]) for veil in large]
        light = [
            np.rint(lights(one, other, veil[0]))
            for one, other, veil in zip((before, after), (after, before), large, strict=True)
        ]
        return np.stack([*hidden, *opacity, *light[0], *light[1]]).astype(np.uint8)

    def _veil(self, date: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return opacity and shade of a date seen beside another, (2, h, w) float32 in 0..1."""
        cells = np.concatenate([date[:CHANNELS], other[:CHANNELS], date[CHANNELS:]])
        width = cells.shape[2]
        parts = []
        for start in range(0, width, _WIDTH):
            left, right = max(0, start - MARGIN), min(width, start + _WIDTH + MARGIN)
            with torch.inference_mode():
                given = torch.from_numpy(cells[None, :, :, left:right]).to(self._device)
                found = self._network(given).sigmoid()[0].cpu().numpy()
            parts.append(found[:, :, start - left : min(width, start + _WIDTH) - left])
        return np.where(date[CHANNELS] > 0, np.concatenate(parts, axis=2), 0)


def _without_contrast(veil: np.ndarray, date: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a veil, (2, h, w), that is opaque where the contrast of the other date is lost under it."""
    fine, coarse = (_lost_contrast(date, other, side) for side in (FINE, COARSE))
    small = (_above_haze(veil[0], veil[0]) >= ABOVE) & (fine >= LOST)
    large = ndimage.binary_opening((veil[0] >= LIKELY) & (coarse >= OPAQUE), np.ones((COARSE, COARSE), bool))
    opaque = small | large
    return np.stack([np.where(opaque, np.maximum(veil[0], OPAQUE), veil[0]), veil[1]])


def _lost_contrast(date: np.ndarray, other: np.ndarray, side: int) -> np.ndarray:
    """Return the share (h, w) of the contrast of the other date that is missing; 0 where it has none."""
    own, ground = (ndimage.uniform_filter(cells[3], side) for cells in (date, other))
    return np.asarray(np.where(ground >= LEAST_CONTRAST, 1 - own / np.maximum(ground, LEAST_CONTRAST), 0))


def _above_haze(opacity: np.ndarray, veil: np.ndarray, side: int = WIDE) -> np.ndarray:
    """Return the opacity (h, w) of what lies in ``veil`` above the part of ``opacity`` that is so wide."""
    haze = ndimage.grey_opening(opacity, (side, side))
    return np.asarray((veil - haze) / np.maximum(1 - haze, 1e-3))


def _without_small(veil: np.ndarray, smallest: int) -> np.ndarray:
    """Return opacity and shade, (2, h, w), without what is narrower than so many cells and stands alone."""
    large = ndimage.grey_opening(veil, (1, smallest, smallest))
    return np.minimum(veil, ndimage.grey_dilation(large, (1, 2 * NARROW + 1, 2 * NARROW + 1)))


def _hidden_by(opacity: np.ndarray, shade: np.ndarray, veil: np.ndarray) -> np.ndarray:
    """Return what hides each cell, (h, w): dense veils, and shadows near clouds.

    Around a cloud, likely veils of any size are clouds as well, and its thin edge belongs to it.

    Args:
        opacity, shade: without what is small.
        veil: both with it, 0 on coloured ground.
    """
    dense = (opacity >= DENSE) & (veil[0] >= DENSE)
    thin = _above_haze(opacity, veil[0], BROAD) >= LOCAL
    thin = ndimage.binary_opening(thin, np.ones((LARGE, LARGE), bool))
    cloud = thin | dense & _near(dense & (opacity >= OPAQUE), CLOUD_REACH)
    shadow = (shade >= SHADY) & _near(cloud, SHADOW_REACH)
    likely = (_above_haze(opacity, veil[0]) >= PUFF) & _near(cloud, SHADOW_REACH)
    haze = ndimage.minimum_filter(opacity, BROAD)
    edge = (veil[0] - haze) / np.maximum(1 - haze, 1e-3) >= THIN
    cloud |= likely | edge & _near(cloud, NARROW)
    hidden = np.zeros(opacity.shape, np.uint8)
    for mask, value in ((dense & ~cloud, HAZE), (shadow, SHADOW), (cloud, CLOUD)):
        hidden[_near(mask, GROWN)] = value
    return hidden


def _is_grey(date: np.ndarray) -> np.ndarray:
    """Return the cells that are grey or around which a date is, (h, w) bool: overexposed sand is not."""
    tint = date[0] - date[2]
    around = ndimage.uniform_filter(tint, 2 * GROWN + 1)
    return np.asarray(np.minimum(np.abs(tint), np.abs(around)) <= TINT)


def _is_wide(opacity: np.ndarray) -> np.ndarray:
    """Return the cells of dense veils that are wider than ground that is bright and coloured, (h, w) bool."""
    return np.asarray(ndimage.grey_opening(opacity, (WIDE, WIDE)) >= DENSE)


def _near(mask: np.ndarray, reach: int) -> np.ndarray:
    if not mask.any():
        return mask
    return np.asarray(ndimage.maximum_filter(mask, 2 * reach + 1))


def load_veil_detector(device: torch.device, gsd: float = 0.5) -> VeilDetector:
    """Load the shipped detector for scenes of so many metres per pixel."""
    network = VeilNetwork()
    network.load_state_dict({name: value.float() for name, value in load_weights(WEIGHTS).items()})
    return VeilDetector(network, device, ROOF if gsd <= SHOWS_ROOFS else SMALLEST)
