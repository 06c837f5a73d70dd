"""Outlines of pixel regions from their corners; arrays only, no loop over pixels or regions.

An outline runs along the edges of pixels, so it is known by the points where it turns. Those are seen in
blocks of two by two pixels, whatever band a pixel came with: two rows are enough to find all corners between
them, and nothing has to be merged where bands meet.

A part is a set of pixels that share edges; it has one outer ring. Where two parts touch at a corner, the ring
of each turns back there; where a part touches itself, it encloses something, and a hole touches a ring there.
So no ring meets itself, and every polygon is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components


@dataclass(frozen=True)
class Corners:
    """Points where outlines turn, in reading order.

    Two outlines that turn at one point are two corners, that of the left pixel first.

    Attributes:
        owner: (n,) int32, the id of a pixel inside.
        x: (n,) int32, 2 x column, plus 1 for the right one of two corners at one point.
        y: (n,) int32, 4 x row, plus 2 for the lower one of two corners at one point, plus 1 if the outline,
            which has its inside on the right hand, goes on along the row from here (else along the column).
    """

    owner: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.owner)

    @classmethod
    def joined(cls, corners: list[Corners]) -> Corners:
        """Return the corners of all, in this order."""
        none = np.zeros(0, np.int32)
        parts = [(c.owner, c.x, c.y) for c in corners] or [(none, none, none)]
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def chosen(self, where: np.ndarray, owner: np.ndarray) -> Corners:
        """Return the corners at ``where``, now owned by the id that ``owner`` (one per old id) gives them."""
        return Corners(owner[self.owner[where]].astype(np.int32), self.x[where], self.y[where])


def find_corners(ids: np.ndarray, row: int, col: int) -> tuple[Corners, np.ndarray]:
    """Return the corners on the lines between rows of pixels, and which ids touch only at a corner there.

    Args:
        ids: (rows + 1, columns + 2) int32, 0 outside of regions and in the first and the last column.
        row: the line between the first two rows of ``ids``, in the scene.
        col: the second column of ``ids``, in the scene.

    Returns:
        The corners, and (k, 2) int32 pairs of ids, with repetitions.
    """
    inside = ids != 0
    edge_down = inside[:, :-1] ^ inside[:, 1:]  # an edge along the column, beside each pixel
    above, below = edge_down[:-1], edge_down[1:]
    edge_left = (inside[:-1] ^ inside[1:])[:, :-1]  # an edge along the row, on the left of each point
    flat = np.flatnonzero((above ^ below) | (above & below & edge_left))
    line, point = np.divmod(flat, ids.shape[1] - 1)
    values = ids.ravel()
    corner = line * ids.shape[1] + point
    upper_left, upper_right = values[corner], values[corner + 1]
    lower_left, lower_right = values[corner + ids.shape[1]], values[corner + ids.shape[1] + 1]
    filled = [(value > 0).view(np.int8) for value in (upper_left, upper_right, lower_left, lower_right)]
    count = filled[0] + filled[1] + filled[2] + filled[3]
    double = count == 2
    falling = filled[0] > 0  # of doubles: which of the two diagonals
    left = np.where(falling, upper_left, lower_left)
    right = np.where(falling, lower_right, upper_right)
    any_inside = np.maximum(np.maximum(upper_left, upper_right), np.maximum(lower_left, lower_right))
    along_row = np.where(double, falling, (filled[0] ^ filled[3]) ^ (count == 3))
    low = np.where(double, ~falling, False)

    repeats = np.where(double, 2, 1)
    second = np.cumsum(repeats)[double] - 1
    owner = np.repeat(np.where(double, left, any_inside), repeats)
    owner[second] = right[double]
    x = np.repeat((point + col) * 2, repeats).astype(np.int32)
    x[second] += 1
    y = np.repeat((line + row) * 4 + low * 2 + along_row, repeats).astype(np.int32)
    y[second] ^= 2
    return Corners(owner, x, y), np.stack([left[double], right[double]], axis=1)


@dataclass(frozen=True)
class Outlines:
    """Polygons on whole pixels, as rings in the order of parts, parts in the order of regions.

    Attributes:
        points: (n, 2) int32 columns and rows of the corners, ring after ring, none repeated.
        ring_sizes: the number of corners of each ring.
        rings: the number of rings of each part: the outer one, then the holes.
        parts: the number of parts of each region.
    """

    points: np.ndarray
    ring_sizes: np.ndarray
    rings: np.ndarray
    parts: np.ndarray

    @classmethod
    def trace(cls, corners: Corners, regions: np.ndarray) -> Outlines:
        """Connect corners to rings.

        Args:
            corners: all corners of whole parts, owned by the number of the part, counted from 0.
            regions: the region of each part, ascending.
        """
        size = len(corners)
        following = _following(corners)
        graph = csr_array((np.ones(size, bool), following, np.arange(size + 1)), shape=(size, size))
        number, ring = connected_components(graph, directed=True, connection="strong")
        index = np.arange(size)
        start = np.empty(number, np.int64)
        start[ring[::-1]] = index[::-1]  # the last writer wins: the first corner of each ring
        # The first corner of a part lies on its outer ring.
        order = np.lexsort((start, corners.owner[start]))
        rank = np.empty(number, np.int64)
        rank[order] = np.arange(number)
        start = start[order]
        # Rings are opened before their first corner and strung together: the path runs along all of them.
        last = np.empty(size, np.int64)
        last[following] = index
        last = last[start]
        ahead = following.copy()
        ahead[last[:-1]] = start[1:]
        ahead[last[-1]] = last[-1]
        graph = csr_array((np.ones(size, bool), ahead, np.arange(size + 1)), shape=(size, size))
        path = breadth_first_order(graph, start[0], directed=True, return_predecessors=False)
        points = np.stack([corners.x[path] >> 1, corners.y[path] >> 2], axis=1)
        return cls(
            points,
            np.bincount(rank[ring], minlength=number),
            np.bincount(corners.owner[start], minlength=len(regions)),
            np.unique(regions, return_counts=True)[1],
        )

    def polygons(self) -> np.ndarray:
        """Return a Polygon or MultiPolygon per region; vertices at corners only, in one fixed order.

        What simplifying does depends on where a ring starts, so this does not.
        """
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
        """Return the number of rings, outer and inner, of each region."""
        return np.add.reduceat(self.rings, np.cumsum(self.parts) - self.parts)


def components(count: int, ties: np.ndarray) -> tuple[int, np.ndarray]:
    """Return how many groups ``count`` things form that (k, 2) ``ties`` hold together, and which is whose."""
    ones = np.ones(len(ties), bool)
    graph = coo_array((ones, (ties[:, 0], ties[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)


def _following(corners: Corners) -> np.ndarray:
    """Return for each corner the next one of its outline, with the inside on the right hand."""
    size = len(corners)
    owner, x, y = corners.owner, corners.x, corners.y.copy()
    second = np.flatnonzero(x & 1)
    one_point = (x[second - 1] == x[second] - 1) & (y[second - 1] >> 2 == y[second] >> 2)
    itself = second[one_point & (owner[second - 1] == owner[second])]
    # The edges from the left and the right go on the other way: around what is outside, not inside.
    y[itself] ^= 2
    y[itself - 1] ^= 2
    # Along a row or column edges begin and end in turn, whosever they are; corners are in order of rows.
    across = np.arange(size, dtype=np.int32) ^ 1
    order = np.argsort((x.astype(np.int64) >> 1 << 32) | y, kind="stable").astype(np.int32)
    down = np.empty(size, np.int32)
    down[order[0::2]], down[order[1::2]] = order[1::2], order[0::2]
    return np.where(y & 1, across, down)
