"""Changed pixels to regions: connected pixels that changed at about the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

# Neighbours share an edge or a corner.
EIGHT = np.ones((3, 3))
# Least number of pixels of a region, and least probability of its surest one.
SMALLEST, PEAK = 8, 0.45
# Pixels that changed so many months earlier or later belong to another region, if they are at least so many;
# fewer go to the region next to them.
MONTHS, PART = 3.0, 20


@dataclass(frozen=True)
class Pixels:
    """Pixels that may have changed, as columns of a table; n of them.

    Attributes:
        row, col: (n,) on the grid.
        probability: (n,) 0..1 that it changed, of the pixel and those around.
        first: (n,) index of the first date with the change.
        level: (n, dates) float16, -1 as before the change and 1 as after it; NaN where hidden.
        before, after: (n, 3) float16 mean grey values.
    """

    row: np.ndarray
    col: np.ndarray
    probability: np.ndarray
    first: np.ndarray
    level: np.ndarray
    before: np.ndarray
    after: np.ndarray

    def __getitem__(self, chosen: np.ndarray) -> Pixels:
        """Return some of the pixels."""
        return Pixels(*(getattr(self, one.name)[chosen] for one in fields(self)))

    @classmethod
    def joined(cls, parts: list[Pixels]) -> Pixels:
        """Return the pixels of all parts, of which there is at least one."""
        return cls(*(np.concatenate([getattr(p, one.name) for p in parts]) for one in fields(cls)))


def find_regions(pixels: Pixels, months: np.ndarray) -> Iterator[Pixels]:
    """Yield the pixels of each region, in the order of their first rows.

    Args:
        months: of each date, counted from any.
    """
    for member in _components(pixels):
        if len(member) < SMALLEST or pixels.probability[member].max() < PEAK:
            continue
        whole = pixels[member]
        label = _split_by_date(whole, months)
        for number in np.unique(label):
            part = whole[label == number]
            if part.probability.max() >= PEAK:
                yield part


def _components(pixels: Pixels) -> list[np.ndarray]:
    """Return the indices of the pixels of each connected part."""
    count = len(pixels.row)
    if not count:
        return []
    order = np.lexsort((pixels.col, pixels.row))
    width = int(pixels.col.max()) + 3
    place = (pixels.row[order].astype(np.int64) + 1) * width + pixels.col[order] + 1
    ties = []
    for step in (1, width - 1, width, width + 1):
        at = np.minimum(np.searchsorted(place, place + step), count - 1)
        found = np.flatnonzero(place[at] == place + step)
        ties.append(np.stack([found, at[found]]))
    one, other = np.concatenate(ties, axis=1)
    graph = coo_array((np.ones(len(one), bool), (one, other)), shape=(count, count))
    number, label = connected_components(graph, directed=False)
    grouped = np.argsort(label, kind="stable")
    bounds = np.cumsum(np.bincount(label, minlength=number))[:-1]
    return [order[group] for group in np.split(grouped, bounds)]


def _split_by_date(pixels: Pixels, months: np.ndarray) -> np.ndarray:
    """Return the number of the region of each pixel of a connected part.

    The commonest date takes the pixels near it in time, then the commonest of the rest, and so on.
    """
    rows, cols = pixels.row - pixels.row.min(), pixels.col - pixels.col.min()
    when = months[pixels.first]
    rest, label = np.ones(len(when), bool), np.zeros((rows.max() + 1, cols.max() + 1), np.int32)
    number = 0
    while rest.any():
        distance = np.abs(months[:, None] - when[rest])
        support = (np.clip(1 - 0.4 * distance, 0, 1) * pixels.probability[rest]).sum(axis=1)
        near = rest & (np.abs(when - months[support.argmax()]) <= MONTHS)
        parts = np.zeros_like(label)
        parts[rows[near], cols[near]] = 1
        parts, _ = ndimage.label(parts, EIGHT)
        for one in np.flatnonzero(np.bincount(parts.ravel())[1:] >= PART) + 1:
            number += 1
            label[parts == one] = number
        rest &= ~near
    if number == 0:
        return np.ones(len(when), np.int32)
    nearest = ndimage.distance_transform_edt(label == 0, return_distances=False, return_indices=True)
    return np.asarray(label[tuple(nearest)][rows, cols])
