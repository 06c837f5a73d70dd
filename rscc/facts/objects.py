"""Splits a mask into objects: buildings so close together that a model draws them as one.

A patch of changed pixels is split at its waists. The distance of each pixel to the patch's border is taken as
a height: two buildings that touch are two hills, and the saddle between them is the waist. A hill counts if
it rises more than :data:`RISE` above the saddle to a higher one, and the ground that slopes up to it is the
object (h-maxima, then a watershed).
"""

from collections.abc import Iterator

import numpy as np
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from skimage.morphology import h_maxima
from skimage.segmentation import watershed

RISE = 1.5
"""Minimum height of a hill above the saddle in pixels, chosen on validation data, where 1 to 2 are equal."""
WIDE = 0.6
"""Height of a saddle, as a share of the lower hill, from which the waist is wide: both may be one building.

Of 21 split outlines of training scenes with wide waists, 6 contain as many true buildings as parts; of 113
without, 88 do.
"""
SMOOTHING = 1.5
"""Standard deviation, in pixels, of the smoothing of heights, because pixelated edges make small hills."""
_ROUNDING = 1e-6


def object_sizes(mask: np.ndarray) -> np.ndarray:
    """Return the pixels of each object of a mask (H, W) bool, as :func:`split_objects` finds them."""
    return np.bincount(split_objects(mask)[0].ravel())[1:]


def both_sizes(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return :func:`object_sizes`, and the same with objects merged at wide waists, see :data:`WIDE`."""
    labels, count, heights = split_objects(mask)
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    if count < 2:
        return sizes, sizes
    tops = ndimage.maximum(heights, labels, np.arange(count + 1))
    wide = [
        (one - 1, other - 1)
        for one, other, saddle in _saddles(labels, heights)
        if saddle >= WIDE * min(tops[one], tops[other])
    ]
    rows, columns = zip(*wide, strict=True) if wide else ((), ())
    among = coo_array((np.ones(len(wide)), (rows, columns)), shape=(count, count))
    merged = connected_components(among, directed=False)[1]
    return sizes, np.bincount(merged, weights=sizes).astype(int)


def split_objects(mask: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """Return the objects of a mask (H, W) bool.

    Returns:
        (H, W) int32 with the number of the object, from 1, that each pixel of the mask belongs to, 0
        elsewhere; how many there are; and the height of each pixel, (H, W) float.
    """
    padded = np.pad(mask, 1)  # the edge of the picture counts as a border
    heights = ndimage.gaussian_filter(ndimage.distance_transform_edt(padded), SMOOTHING)
    heights[~padded] = 0
    inside = heights[1:-1, 1:-1]
    patches, count = ndimage.label(padded)
    if count == 1 and _has_one_hill(heights):
        return mask.astype(np.int32), 1, inside  # a fast path for most outlines
    hills, _ = ndimage.label(h_maxima(heights, RISE), np.ones((3, 3)))
    hilly = np.zeros(count + 1, bool)
    hilly[patches[hills > 0]] = True
    # Patches too small for a hill are one object each.
    low, _ = ndimage.label(padded & ~hilly[patches])
    labels = watershed(-heights, np.where(low > 0, low + hills.max(), hills), mask=padded)
    return labels[1:-1, 1:-1].astype(np.int32), int(labels.max()), inside


def _has_one_hill(heights: np.ndarray) -> bool:
    """Return whether heights certainly have one hill: no other top is as high, nor beyond a low saddle."""
    highest, around = heights.max(), np.ones((3, 3))
    tops = heights[(heights == ndimage.maximum_filter(heights, 3)) & (heights > 0)]
    levels = highest - RISE + _ROUNDING, highest - _ROUNDING
    return bool(tops.min() > levels[0]) and all(
        ndimage.label(heights > level, around)[1] == 1 for level in levels
    )


def _saddles(labels: np.ndarray, heights: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """Yield two adjacent objects, from 1, and the height between them, for each pair of adjacent pixels."""
    for first, second in (
        (np.s_[:, :-1], np.s_[:, 1:]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[:-1, :-1], np.s_[1:, 1:]),
        (np.s_[:-1, 1:], np.s_[1:, :-1]),
    ):
        one, other = labels[first], labels[second]
        met = (one != other) & (one > 0) & (other > 0)
        ways = np.minimum(heights[first], heights[second])[met]
        yield from zip(one[met].tolist(), other[met].tolist(), ways.tolist(), strict=True)
