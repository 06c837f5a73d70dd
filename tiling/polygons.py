"""From bands of change probability to polygons, exactly as if the scene had been one band.

A region is a set of changed pixels that touch. Everything about it is put together in whole pixels, where
nothing is rounded: corners of outlines are collected, areas and probabilities added up. Only the finished
region is filtered, then simplified, then moved to the map, in this order: each earlier step would change
the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from affine import Affine
from scipy import ndimage
from shapely.geometry import MultiPolygon, Polygon

from tiling.geodesy import on_map
from tiling.mosaic import Band
from tiling.outlines import Corners, Outlines, components, find_corners

# Probabilities are added up as whole multiples of this: such sums are exact in any order.
PROBABILITY_STEP = 2.0**-24
# Simplifying without crossings takes the square of the number of rings: minutes for a noisy map.
MOST_RINGS = 5000
# Bands are worked on in slices of about this many pixels, which bounds the memory beside them.
SLICE_PX = 2**18
# Corners are collected until there are this many, or twice as many as regions need that are still open.
MOST_CORNERS = 2**18


@dataclass(frozen=True)
class ChangeRegion:
    """One connected region of changed pixels.

    Attributes:
        pixel_polygon: outline in columns and rows of the working grid, simplified; a MultiPolygon where
            parts touch only at corners of pixels.
        polygon: the same in map coordinates.
        mean_probability: mean over its pixels, 0..1.
        area_px: number of its pixels (the area before simplifying).
    """

    pixel_polygon: Polygon | MultiPolygon
    polygon: Polygon | MultiPolygon
    mean_probability: float
    area_px: int


@dataclass(frozen=True)
class _Parts:
    """Sets of pixels that share edges, by id; id 0 is none.

    Attributes:
        area: (n,) int64 number of pixels.
        total: (n,) float64 sum of their probabilities in whole steps.
        first: (n,) int64 first pixel in reading order: row x 2^32 + column.
    """

    area: np.ndarray
    total: np.ndarray
    first: np.ndarray

    @classmethod
    def none(cls) -> _Parts:
        return cls(np.zeros(1, np.int64), np.zeros(1), np.full(1, np.iinfo(np.int64).max))

    def __len__(self) -> int:
        return len(self.area)

    def grouped(self, group: np.ndarray, count: int) -> _Parts:
        """Return ``count`` sets, each of the parts that ``group`` gives its number."""
        first = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(first, group, self.first)
        area = np.bincount(group, self.area, minlength=count).astype(np.int64)
        return _Parts(area, np.bincount(group, self.total, minlength=count), first)

    def chosen(self, where: np.ndarray) -> _Parts:
        return _Parts(self.area[where], self.total[where], self.first[where])

    @classmethod
    def joined(cls, parts: list[_Parts]) -> _Parts:
        columns = zip(*((p.area, p.total, p.first) for p in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


class Polygonizer:
    """Takes bands from the top of the scene to its bottom; keeps open only what touches the last row.

    Finished regions are kept as whole numbers, 8 bytes a corner.

    Args:
        threshold: a valid pixel of at least this probability is changed.
        min_area_px: regions of fewer pixels are dropped as soon as they are finished.
    """

    def __init__(self, threshold: float, min_area_px: float = 0.0) -> None:
        self.threshold, self.min_area_px = threshold, min_area_px
        self._place: tuple[int, int] | None = None  # the next row, the first column
        self._seam = np.zeros(0, np.int32)  # the ids of the last row
        self._parts = [_Parts.none()]
        self._count = 1  # of parts, with the one that is none
        self._corners: list[Corners] = []
        self._edge_ties: list[np.ndarray] = []
        self._corner_ties: list[np.ndarray] = []
        self._pending, self._most_pending = 0, MOST_CORNERS
        self._closed: list[tuple[_Parts, Outlines]] = []

    def add(self, band: Band) -> None:
        """Take the next band.

        Raises:
            ValueError: the band does not start where the last one ended, or has other columns.
        """
        rows, width = band.probability.shape
        if self._place is None:
            self._place, self._seam = (band.row_off, band.col_off), np.zeros(width, np.int32)
        if (band.row_off, band.col_off) != self._place or width != len(self._seam):
            raise ValueError(
                f"expected row {self._place[0]}, column {self._place[1]}, width {len(self._seam)}; "
                f"got {band.row_off}, {band.col_off}, {width}"
            )
        step = max(1, SLICE_PX // width)
        for row in range(0, rows, step):
            probability, valid = band.probability[row : row + step], band.valid[row : row + step]
            self._add(probability, valid & (probability >= self.threshold))

    def finish(self, simplify_px: float = 0.0, transform: Affine | None = None) -> list[ChangeRegion]:
        """Return the regions from top to bottom, then left to right.

        Outlines are simplified by at most ``simplify_px`` pixels; holes stay. A region with more than 5,000
        holes and parts is noise and stays as it is. ``transform`` maps columns and rows to map coordinates
        (default: it leaves them as they are).
        """
        if self._place is not None:
            # What touches the last row ends there: its lower corners lie on the line to a row without change.
            self._collect(np.zeros((1, len(self._seam)), np.int32), self._place[0])
        self._settle()
        matrix = transform if transform is not None else Affine.identity()
        numbered: list[tuple[int, ChangeRegion]] = []
        for regions, traced in self._closed:
            outlines = traced.polygons()
            if simplify_px > 0:
                plain = traced.ring_counts() <= MOST_RINGS
                outlines[plain] = shapely.simplify(outlines[plain], simplify_px, preserve_topology=True)
            mapped = shapely.transform(outlines, lambda xy: np.column_stack(on_map(matrix, *xy.T)))
            means = regions.total * PROBABILITY_STEP / regions.area
            columns = (regions.first, outlines, mapped, means, regions.area)
            for first, outline, polygon, mean, area in zip(*columns, strict=True):
                numbered.append((int(first), ChangeRegion(outline, polygon, float(mean), int(area))))
        return [region for _, region in sorted(numbered, key=lambda pair: pair[0])]

    def _add(self, probability: np.ndarray, changed: np.ndarray) -> None:
        """Take the next rows."""
        assert self._place is not None
        row, col = self._place
        self._place = (row + len(changed), col)
        if not (changed.any() or self._seam.any()):
            return
        labels, count = ndimage.label(changed, output=np.int32)
        flat = np.flatnonzero(changed)
        of = labels.ravel()[flat] - 1
        steps = np.rint(probability.ravel()[flat].astype(np.float64) / PROBABILITY_STEP)
        rows, cols = np.divmod(flat, changed.shape[1])
        first = np.empty(count, np.int64)
        first[of[::-1]] = ((rows + row) << 32 | (cols + col))[::-1]  # the last writer wins
        self._parts.append(
            _Parts(np.bincount(of, minlength=count), np.bincount(of, steps, minlength=count), first)
        )
        labels[changed] += np.int32(self._count - 1)
        self._count += count
        self._collect(labels, row)
        if self._pending > self._most_pending:
            self._settle()

    def _collect(self, ids: np.ndarray, row: int) -> None:
        """Find the corners above each of the rows of ``ids``, and what hangs together there."""
        assert self._place is not None
        framed = np.zeros((len(ids) + 1, ids.shape[1] + 2), np.int32)
        framed[0, 1:-1], framed[1:, 1:-1] = self._seam, ids
        corners, touching = find_corners(framed, row, self._place[1])
        self._corners.append(corners)
        self._pending += len(corners)
        self._corner_ties.append(touching)
        both = (self._seam > 0) & (ids[0] > 0)
        ties = np.stack([self._seam[both], ids[0][both]], axis=1)
        # One tie for pixels side by side, not one each: all of this is kept until regions are settled.
        self._edge_ties.append(ties[np.insert((ties[1:] != ties[:-1]).any(axis=1), 0, True)[: len(ties)]])
        self._seam = ids[-1].copy()

    def _settle(self) -> None:
        """Join what hangs together; trace the outlines of regions that ended, keep the corners of others."""
        corners, parts = Corners.joined(self._corners), _Parts.joined(self._parts)
        edge_ties = np.concatenate([_NO_TIES, *self._edge_ties])
        part_count, part = components(len(parts), edge_ties)
        region_count, region = components(len(parts), np.concatenate([edge_ties, *self._corner_ties]))
        parts = parts.grouped(part, part_count)
        region_of = np.empty(part_count, np.int64)
        region_of[part] = region
        is_open = np.zeros(region_count, bool)
        is_open[region[self._seam[self._seam > 0]]] = True
        regions = parts.grouped(region_of, region_count)
        is_done = ~is_open & (regions.area >= max(1.0, self.min_area_px))
        if is_done.any():
            ordered = np.flatnonzero(is_done[region_of])
            ordered = ordered[np.argsort(region_of[ordered], kind="stable")]
            number = np.zeros(part_count, np.int64)
            number[ordered] = np.arange(len(ordered))
            done = corners.chosen(is_done[region[corners.owner]], number[part])
            self._closed.append((regions.chosen(is_done), Outlines.trace(done, region_of[ordered])))
        open_parts = is_open[region_of]
        number = np.where(open_parts, np.cumsum(open_parts), 0)
        corners = corners.chosen(is_open[region[corners.owner]], number[part])
        self._corners, self._pending = [corners], len(corners)
        self._most_pending = max(MOST_CORNERS, 2 * len(corners))
        self._parts = [_Parts.none(), parts.chosen(open_parts)]
        self._count = int(open_parts.sum()) + 1
        self._seam = np.where(self._seam > 0, number[part][self._seam], 0).astype(np.int32)
        self._edge_ties, self._corner_ties = [], [_chained(region_of[open_parts])]


_NO_TIES = np.zeros((0, 2), np.int32)


def _chained(region_of: np.ndarray) -> np.ndarray:
    """Return ties between parts (ids from 1) that hold those of one region together."""
    order = np.argsort(region_of, kind="stable")
    same = region_of[order[1:]] == region_of[order[:-1]]
    return np.stack([order[:-1][same], order[1:][same]], axis=1).astype(np.int32) + np.int32(1)


def polygonize(
    bands: Iterable[Band],
    threshold: float,
    *,
    min_area_px: float = 0.0,
    simplify_px: float = 0.0,
    transform: Affine | None = None,
) -> list[ChangeRegion]:
    """Return the changed regions of a scene that comes as bands; see :class:`Polygonizer`."""
    polygonizer = Polygonizer(threshold, min_area_px)
    for band in bands:
        polygonizer.add(band)
    return polygonizer.finish(simplify_px=simplify_px, transform=transform)


def group_regions(regions: Sequence[ChangeRegion], distance_px: float) -> list[list[int]]:
    """Return the numbers of ``regions`` by event: regions at most ``distance_px`` apart belong together.

    The distance is that of the outlines in pixels of the working grid; a row of regions, each near the next,
    is one event. Every region is in one event; events are in order of their first region, and the numbers
    within one ascend.
    """
    outlines = np.array([region.pixel_polygon for region in regions], dtype=object)
    if not len(outlines):
        return []
    near = shapely.STRtree(outlines).query(outlines, predicate="dwithin", distance=distance_px)
    count, event = components(len(outlines), near.T)
    members: list[list[int]] = [[] for _ in range(count)]
    for number, of in enumerate(event):
        members[of].append(number)
    return sorted(members)
