"""Ties the words to one change where several share a crop: what the captioner is shown of that crop.

The ways were compared on made scenes in which houses appear beside houses that vanish, see
``docs/caption_focus.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

FOCUS_WAYS = ("mask", "others", "weight", "zoom", "none")
"""Ways, the best first.

* ``mask``: all but this change and its surroundings looks in AFTER as it did in BEFORE;
* ``others``: the other known changes look in AFTER as they did in BEFORE;
* ``weight``: the images stay; the model's differences are weighed down outside the surroundings;
* ``zoom``: a tighter crop, enlarged;
* ``none``: the plain crop.
"""

SURROUNDINGS = 24.0
"""Pixels around a change that belong to it: its yard, its drive, the road along it."""
MARGIN = 6.0
"""Pixels around another change that are hidden with it."""
SOFT = 8.0
"""Pixels over which what is hidden passes into what is shown."""
ZOOM, SMALLEST_ZOOM = 1.5, 64
"""A tighter crop has this many times the longer side of the change, and at least so many pixels a side."""


@dataclass(frozen=True)
class View:
    """What the captioner is shown.

    Attributes:
        before, after: (3, T, T) uint8.
        focus: (T, T) float32 in 0..1, see :meth:`rscc.captioner.Captioner.caption`; None is 1 everywhere.
    """

    before: np.ndarray
    after: np.ndarray
    focus: np.ndarray | None = None


def view_of(way: str, before: np.ndarray, after: np.ndarray, own: np.ndarray, others: np.ndarray) -> View:
    """Return a crop as ``way`` shows it; ``zoom`` has another crop and no more to do here.

    Args:
        way: one of :data:`FOCUS_WAYS`.
        before, after: (3, T, T) uint8.
        own, others: (T, T) bool, the pixels of the change that is described and those of all other changes.
    """
    if way in ("none", "zoom") or not others.any() or not own.any():
        return View(before, after)
    from_own = ndimage.distance_transform_edt(~own)
    if way == "others":
        hidden = np.minimum(_fade(ndimage.distance_transform_edt(~others), MARGIN), from_own / SOFT)
        shown = 1 - np.minimum(hidden, 1)
    else:
        shown = _fade(from_own, SURROUNDINGS)
    if way == "weight":
        return View(before, after, shown.astype(np.float32))
    return View(before, np.rint(before + shown * (after.astype(np.float32) - before)).astype(np.uint8))


def zoom_side(width: float, height: float, tile: int) -> int:
    """Return the side of the tighter crop, in pixels, for a change of this size; at most ``tile``."""
    return min(tile, max(SMALLEST_ZOOM, int(np.ceil(ZOOM * max(width, height)))))


def _fade(distance: np.ndarray, solid: float) -> np.ndarray:
    """Return 1 up to ``solid`` pixels away, then falling to 0."""
    return np.clip(1 - (distance - solid) / SOFT, 0, 1)
