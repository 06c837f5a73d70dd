"""Outlines of pixel regions from their corners; arrays only, no loop over pixels or regions.

An outline runs along pixel edges, so the points where it turns define it. These are found in blocks of 2 x 2
pixels: two rows are enough for all corners between them, and bands need no merging.

A part is a set of pixels that share edges; it has one outer ring. Where two parts touch at a corner, the
ring of each turns back; where a part touches itself, a hole touches its ring. So no ring crosses or touches
itself, and every polygon is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

# Corners are (3, n) int32 in reading order. Their rows are
#   0: the id of the region;
#   1: 2 x column, plus 1 for the right one of two corners at one point;
#   2: 4 x row, plus 2 for the lower one of two corners at one point, plus 1 if the outline, with its inside
#      on the right, continues along the row (else along the column).
# Two outlines that turn at one point give two corners, that of the left pixel first.
NO_CORNERS = np.zeros((3, 0), np.int32)


def find_corners(ids: np.ndarray, row: int, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the corners between rows of pixels, and the ids that touch only at a corner.

    Args:
        ids: (rows + 1, columns + 2) int32, 0 outside of regions and in the first and last column.
        row: row in the scene of the line between the first two rows of ``ids``.
        columns: column in the scene of the pixels right of each point, (columns + 1,).

    Returns:
        (3, n) corners, and (k, 2) int32 pairs of ids, with repetitions.
    """
    # The four pixels around each point between the pixels.
    around = (ids[:-1, :-1], ids[:-1, 1:], ids[1:, :-1], ids[1:, 1:])
    upper_left, upper_right, lower_left, lower_right = (part != 0 for part in around)
    count = sum(part.view(np.int8) for part in (upper_left, upper_right, lower_left, lower_right))
    diagonal = (count == 2) & (upper_left == lower_right)
    line, point = np.nonzero((count == 1) | (count == 3) | diagonal)
    values = [part[line, point] for part in around]
    double = diagonal[line, point]
    falling = values[0] > 0  # of doubles: the diagonal from upper left to lower right
    left, right = np.where(falling, values[0], values[2]), np.where(falling, values[3], values[1])
    along_row = np.where(double, falling, (falling ^ (values[3] > 0)) ^ (count[line, point] == 3))
    lower = double & ~falling

    repeats = np.where(double, 2, 1)
    second = np.cumsum(repeats)[double] - 1
    corners = np.repeat(
        np.stack(
            [
                np.where(double, left, np.maximum.reduce(values)),
                columns[point] * 2,
                (line + row) * 4 + lower * 2 + along_row,
            ]
        ),
        repeats,
        axis=1,
    ).astype(np.int32)
    corners[0, second] = right[double]
    corners[1, second] += 1
    corners[2, second] ^= 2
    return corners, np.stack([left[double], right[double]], axis=1)


@dataclass(frozen=True)
class Outlines:
    """Polygons on whole pixels: rings in the order of parts, parts in the order of regions.

    Attributes:
        points: (n, 2) int32 columns and rows of corners, ring after ring, not closed.
        ring_sizes: number of corners of each ring.
        rings: number of rings of each part: the outer one, then the holes.
        parts: number of parts of each region.
    """

    points: np.ndarray
    ring_sizes: np.ndarray
    rings: np.ndarray
    parts: np.ndarray

    @classmethod
    def trace(cls, corners: np.ndarray, regions: np.ndarray) -> Outlines:
        """Connect corners to rings.

        Args:
            corners: (3, n), all of complete parts; their ids are indices of parts.
            regions: region of each part, ascending.
        """
        owner, x, y = corners
        size = len(owner)
        following = _following(corners)
        graph = csr_array((np.ones(size, bool), following, np.arange(size + 1)), shape=(size, size))
        number, ring = connected_components(graph, directed=True, connection="strong")
        index = np.arange(size)
        start = np.empty(number, np.int64)
        start[ring[::-1]] = index[::-1]  # the last writer wins: the first corner of each ring
        # The first corner of a part lies on its outer ring.
        order = np.lexsort((start, owner[start]))
        rank = np.empty(number, np.int64)
        rank[order] = np.arange(number)
        start = start[order]
        # Link the end of each ring to the start of the next: one path visits all corners in order.
        last = np.empty(size, np.int64)
        last[following] = index
        last = last[start]
        ahead = following.copy()
        ahead[last[:-1]] = start[1:]
        ahead[last[-1]] = last[-1]
        graph = csr_array((np.ones(size, bool), ahead, np.arange(size + 1)), shape=(size, size))
        path = breadth_first_order(graph, start[0], directed=True, return_predecessors=False)
        points = np.stack([x[path] >> 1, y[path] >> 2], axis=1)
        return cls(
            points,
            np.bincount(rank[ring], minlength=number),
            np.bincount(owner[start], minlength=len(regions)),
            np.unique(regions, return_counts=True)[1],
        )

    def polygons(self) -> np.ndarray:
        """Return a Polygon or MultiPolygon per region, normalized: simplifying depends on ring starts."""
        ends = np.cumsum(self.ring_sizes)
        starts = ends - self.ring_sizes
        closed = np.insert(self.points, ends, self.points[starts], axis=0).astype(np.float64)
        ring_ends = np.concatenate([[0], ends + np.arange(1, len(ends) + 1)])
        part_ends = np.concatenate([[0], np.cumsum(self.rings)])
        parts = shapely.from_ragged_array(shapely.GeometryType.POLYGON, closed, (ring_ends, part_ends))
        owners = np.repeat(np.arange(len(self.parts)), self.parts)
        shaped = shapely.multipolygons(parts, indices=owners)
        single = self.parts == 1
        shaped[single] = shapely.get_geometry(shaped[single], 0)
        return shapely.normalize(shaped)

    def ring_counts(self) -> np.ndarray:
        """Return the number of rings of each region."""
        return np.add.reduceat(self.rings, np.cumsum(self.parts) - self.parts)


def components(count: int, ties: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the number of groups that (k, 2) ``ties`` make of ``count`` items, and the group of each."""
    ones = np.ones(len(ties), bool)
    graph = coo_array((ones, (ties[:, 0], ties[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)


def _following(corners: np.ndarray) -> np.ndarray:
    """Return the next corner of each corner along its outline, with the inside on the right."""
    owner, x, y = corners[0], corners[1], corners[2].copy()
    size = len(owner)
    second = np.flatnonzero(x & 1)
    one_point = (x[second - 1] == x[second] - 1) & (y[second - 1] >> 2 == y[second] >> 2)
    itself = second[one_point & (owner[second - 1] == owner[second])]
    # There the edges continue the other way: around the outside.
    y[itself] ^= 2
    y[itself - 1] ^= 2
    # Along a row or column edges start and end alternately; corners are sorted by rows.
    across = np.arange(size, dtype=np.int32) ^ 1
    order = np.argsort((x.astype(np.int64) >> 1 << 32) | y, kind="stable").astype(np.int32)
    down = np.empty(size, np.int32)
    down[order[0::2]], down[order[1::2]] = order[1::2], order[0::2]
    return np.where(y & 1, across, down)
