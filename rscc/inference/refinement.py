"""Redraws masks of change along the objects that a promptable segmenter sees there.

A change head's outlines are as coarse as its finest map; a segmenter's follow the object's edge. But it knows
nothing of change, and a prompt may mean the roof, the house with its yard, or the whole block. So its mask is
taken only where it agrees with the model's, and from the date on which it agrees better: what was built is
to be seen after, what vanished before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

if TYPE_CHECKING:
    from rscc.models.shared.extraction import Segmenter

LEAST_AGREEMENT = 0.6
"""Intersection over union with the model's mask from which a segmenter's mask is taken."""
_TOUCHING = ndimage.generate_binary_structure(2, 2)


@dataclass(frozen=True)
class RefinedMask:
    """A mask that takes the place of the model's.

    Attributes:
        mask: (H, W) bool, one connected piece.
        agreement: intersection over union with the model's mask, in 0..1.
        date: ``before`` or ``after``, the date it was drawn on.
    """

    mask: np.ndarray
    agreement: float
    date: str


def refine_masks(
    segmenter: Segmenter,
    before: np.ndarray,
    after: np.ndarray,
    masks: Sequence[np.ndarray],
    *,
    least: float = LEAST_AGREEMENT,
) -> list[RefinedMask | None]:
    """Redraw masks of change of one crop.

    The prompt is the mask's box, with the point of it that lies deepest inside.

    Args:
        segmenter: see :mod:`rscc.models.shared.segmenters`; it is asked once for each date.
        before, after: (3, H, W) uint8 RGB.
        masks: (H, W) bool each, none empty.
        least: agreement from which a mask is taken, in 0..1.

    Returns:
        For every mask the one to take in its place; None where no date has one that agrees enough.
    """
    if not len(masks):
        return []
    boxes = np.array([_box(mask) for mask in masks], np.float32)
    points = np.array([_point(mask) for mask in masks], np.float32)
    dates = {"after": after, "before": before}
    drawn = {date: segmenter.segment(image, boxes, points) for date, image in dates.items()}
    refined = []
    for number, mask in enumerate(masks):
        candidates = [_candidate(masks_of_date[number], mask, date) for date, masks_of_date in drawn.items()]
        # The first of two that agree equally: after, where most changes are to be seen.
        best = max(candidates, key=lambda candidate: candidate.agreement)
        refined.append(best if best.agreement >= max(least, 1e-9) else None)
    return refined


def _candidate(drawn: np.ndarray, mask: np.ndarray, date: str) -> RefinedMask:
    """Keep the piece of a segmenter's mask that covers most of the model's."""
    pieces, count = ndimage.label(drawn, _TOUCHING)
    covers = np.bincount(pieces[mask], minlength=count + 1)[1:]
    if not covers.any():
        return RefinedMask(np.zeros_like(mask), 0.0, date)
    piece = pieces == 1 + int(covers.argmax())
    return RefinedMask(piece, float((piece & mask).sum() / (piece | mask).sum()), date)


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return cols[0], rows[0], cols[-1] + 1, rows[-1] + 1


def _point(mask: np.ndarray) -> tuple[float, float]:
    """Return x and y of the middle of the pixel farthest from the edge of a mask."""
    depth = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    row, col = np.unravel_index(int(depth.argmax()), mask.shape)
    return col + 0.5, row + 0.5
