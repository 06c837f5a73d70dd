"""Extraction of changes between two images without learning (DAVIR, Eq. 2-3).

The difference is thresholded, changed pixels are clustered by DBSCAN, every cluster prompts a segmenter with
its box and centre, and the segmented objects that agree with their cluster make the mask. Choices where the
paper is ambiguous:

* "Diff" and "delta" are not given. Two dates differ in light, season and sensor, which alone exceeds any
  threshold everywhere. So both dates are first brought to one mean and one standard deviation per band,
  halfway between theirs, by a linear map; a change of much of the picture shifts that map, and is found less
  completely. The difference is then the mean absolute difference over the bands, in grey levels. This does
  not help against shadows or misaligned dates.
* DBSCAN over single pixels would take seconds. The difference is averaged over squares of ``cell`` pixels,
  which also removes single pixels, and the squares are clustered; the region R_c of a cluster is its squares.
* The centre C_c is the square of the cluster nearest to the cluster's mean: the mean of a bent cluster may
  lie outside of it.
* "M_c = S(I_t, P_c)": the second date is segmented, as in Sec. 3.1, although vanished objects are not visible
  there; Eq. 3 leaves the image open.

Without a segmenter the mask is the union of the regions R_c themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from rscc.errors import ConfigInvalid

if TYPE_CHECKING:
    from rscc.models.shared.segmenters import SamSegmenter


@dataclass(frozen=True)
class Extraction:
    """Settings of the extraction; the paper gives none of these values.

    Attributes:
        delta: minimum difference of a square in grey levels, 0..255 (Eq. 2).
        cell: side of the squares in pixels.
        eps: DBSCAN's neighbourhood radius in squares; 1.5 covers the eight around a square.
        min_samples: DBSCAN's minimum number of squares around a core square, itself included.
        iou: tau of Eq. 3, intersection over union of a segmented object and its cluster's region.
    """

    delta: float = 45.0
    cell: int = 4
    eps: float = 1.5
    min_samples: int = 5
    iou: float = 0.5

    def __post_init__(self) -> None:
        if self.delta < 0 or self.eps <= 0 or min(self.cell, self.min_samples) < 1:
            raise ConfigInvalid(
                "the extraction of changes needs delta from 0, eps above 0, cell and min_samples from 1"
            )
        if not 0 <= self.iou <= 1:
            raise ConfigInvalid(f"the extraction's iou is {self.iou}; use a number in 0..1")


class Clusters(NamedTuple):
    """The clusters c of Eq. 2.

    Attributes:
        regions: R_c, (K, H, W) bool.
        boxes: B_c, (K, 4) float32, left, top, right and bottom edge in pixels.
        points: C_c, (K, 2) float32, x and y in pixels.
    """

    regions: np.ndarray
    boxes: np.ndarray
    points: np.ndarray


def difference(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the difference of two dates, (3, H, W) RGB in 0..255, per pixel: (H, W) float32 grey levels.

    Brightness and contrast are matched first. It is symmetric in the dates.
    """
    dates = [image.astype(np.float32) for image in (before, after)]
    means = [image.mean(axis=(1, 2), keepdims=True) for image in dates]
    spreads = [image.std(axis=(1, 2), keepdims=True) for image in dates]
    spread = (spreads[0] + spreads[1]) / 2
    # A band of one value has no contrast to match.
    one, other = (
        (image - mean) * np.divide(spread, deviation, out=np.ones_like(deviation), where=deviation > 0.5)
        for image, mean, deviation in zip(dates, means, spreads, strict=True)
    )
    return np.abs(one - other).mean(axis=0)


def find_clusters(differing: np.ndarray, settings: Extraction) -> Clusters:
    """Cluster the squares of (H, W) grey levels that differ by more than delta (Eq. 2)."""
    from sklearn.cluster import DBSCAN  # imported here: it takes a second, and most models never cluster

    height, width = differing.shape
    cell = settings.cell
    squares = _cell_means(differing, cell)
    places = np.argwhere(squares > settings.delta)  # (P, 2), row and column
    labels = np.zeros(0, int)
    if len(places):
        labels = DBSCAN(eps=settings.eps, min_samples=settings.min_samples).fit_predict(places)
    regions = np.zeros((labels.max(initial=-1) + 1, *squares.shape), bool)
    boxes, points = np.zeros((len(regions), 4), np.float32), np.zeros((len(regions), 2), np.float32)
    for number, region in enumerate(regions):
        members = places[labels == number]
        region[members[:, 0], members[:, 1]] = True
        (top, left), (bottom, right) = members.min(0) * cell, (members.max(0) + 1) * cell
        boxes[number] = left, top, min(right, width), min(bottom, height)
        nearest = members[np.square(members - members.mean(0)).sum(1).argmin()]
        points[number] = ((nearest + 0.5) * cell).clip(max=(height - 0.5, width - 0.5))[::-1]
    return Clusters(regions.repeat(cell, 1).repeat(cell, 2)[:, :height, :width], boxes, points)


def merge_agreeing(regions: np.ndarray, masks: np.ndarray, least_iou: float) -> np.ndarray:
    """Return the union (H, W) of the masks (K, H, W) whose IoU with their region is at least tau (Eq. 3)."""
    together, either = (both.sum((1, 2)) for both in (regions & masks, regions | masks))
    return np.logical_or.reduce(masks[together >= least_iou * either])


def extract_change(
    before: np.ndarray,
    after: np.ndarray,
    settings: Extraction | None = None,
    segmenter: SamSegmenter | None = None,
) -> np.ndarray:
    """Extract the change mask M, (H, W) bool, of two dates (3, H, W) uint8 RGB (Eq. 2-3).

    Without a ``segmenter`` it consists of the regions of the clusters.
    """
    settings = settings or Extraction()
    regions, boxes, points = find_clusters(difference(before, after), settings)
    if segmenter is None or not len(regions):
        return np.logical_or.reduce(regions)
    return merge_agreeing(regions, segmenter.segment(after, boxes, points), settings.iou)


class ChangeExtractor:
    """:func:`extract_change` with a segmenter that is loaded on first use.

    Attributes:
        identity: text that identifies settings and segmenter, for caches of masks.
    """

    def __init__(self, settings: Extraction, segmenter: str = "none"):
        """Use settings and a segmenter, ``none`` or an argument of ``load_segmenter``."""
        self._settings, self._name = settings, segmenter
        self._segmenter: SamSegmenter | None = None
        self._device = torch.device("cpu")
        self.identity = f"{settings} {segmenter}"

    def to(self, device: torch.device) -> ChangeExtractor:
        """Run the segmenter on a device, also when it is loaded later."""
        if device != self._device:
            self._device = device
            if self._segmenter is not None:
                self._segmenter.to(device)
        return self

    def __call__(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Map two dates (3, H, W) uint8 RGB to M, (H, W) bool."""
        if self._segmenter is None and self._name != "none":
            from rscc.models.shared.segmenters import load_segmenter

            self._segmenter = load_segmenter(self._name).to(self._device)
        return extract_change(before, after, self._settings, self._segmenter)


def grid_shares(masks: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Average masks (B, H, W) over a grid: (B, h, w) float32 in 0..1 (the downsampling of Eq. 6).

    If H is not a multiple of h, neighbouring cells share a row of pixels; columns likewise.
    """
    return F.adaptive_avg_pool2d(torch.from_numpy(masks).double(), grid).float().numpy()


def _cell_means(values: np.ndarray, cell: int) -> np.ndarray:
    """Return means over squares of ``cell`` pixels; those at the lower and right edge may be smaller."""
    height, width = values.shape
    rows, columns = np.arange(0, height, cell), np.arange(0, width, cell)
    sums = np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)
    sizes = np.minimum(cell, height - rows)[:, None] * np.minimum(cell, width - columns)[None, :]
    return sums / sizes
