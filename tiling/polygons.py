"""From bands of change probability to polygons, exactly as if the scene were one band.

A region is a set of touching changed pixels. Its outline, area and probability are collected in whole pixels,
without rounding. Only finished regions are filtered, then simplified, then moved to the map; another order
would change the result.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import shapely
from affine import Affine
from scipy import ndimage
from shapely.geometry import MultiPolygon, Polygon

from tiling.geodesy import on_map
from tiling.mosaic import Band
from tiling.outlines import NO_CORNERS, Outlines, components, find_corners
from tiling.prefetch import map_ahead

# Probabilities are summed as multiples of this, so that sums are exact in any order.
PROBABILITY_STEP = 2.0**-24
# Simplifying takes time with the square of the number of rings: minutes for a noisy map.
MOST_RINGS = 5000
# Bands are processed in slices of about this many pixels, which bounds memory.
SLICE_PX = 2**18
# Regions are finished when this many corners are collected, or twice those of open regions.
MOST_CORNERS = 2**18
# Bands that wait to be outlined.
AHEAD = 4


@dataclass(frozen=True)
class ChangeRegion:
    """One connected region of changed pixels.

    Attributes:
        pixel_polygon: simplified outline in columns and rows of the working grid; a MultiPolygon if parts
            touch only at pixel corners.
        polygon: the same in map coordinates.
        mean_probability: mean over its pixels, 0..1.
        area_px: number of pixels, before simplifying.
    """

    pixel_polygon: Polygon | MultiPolygon
    polygon: Polygon | MultiPolygon
    mean_probability: float
    area_px: int


# A part is a set of pixels that share edges: the number of pixels, the sum of their probabilities in steps
# and the first pixel in reading order, row x 2^32 + column.
_PART = np.dtype([("area", np.int64), ("total", np.float64), ("first", np.int64)])
_NO_PART = np.array([(0, 0.0, np.iinfo(np.int64).max)], _PART)  # id 0


def _merged(parts: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """Merge parts by ``group`` into ``count`` parts."""
    merged = np.repeat(_NO_PART, count)
    merged["area"] = np.bincount(group, parts["area"], minlength=count)
    merged["total"] = np.bincount(group, parts["total"], minlength=count)
    np.minimum.at(merged["first"], group, parts["first"])
    return merged


class Polygonizer:
    """Takes bands from top to bottom; only regions that touch the last row stay open.

    Finished regions take 8 bytes a corner.

    Args:
        threshold: valid pixels of at least this probability are changed.
        min_area_px: smaller regions are dropped once they are finished.
    """

    def __init__(self, threshold: float, min_area_px: float = 0.0) -> None:
        self.threshold, self.min_area_px = threshold, min_area_px
        self._position: tuple[int, int] | None = None  # the next row, the first column
        self._seam = np.zeros(0, np.int32)  # the ids of the last row
        self._parts = [_NO_PART]
        self._count = 1  # of parts, with the one that is none
        self._corners: list[np.ndarray] = []
        self._edge_ties: list[np.ndarray] = []
        self._corner_ties: list[np.ndarray] = []
        self._pending, self._most_pending = 0, MOST_CORNERS
        self._closed: list[tuple[np.ndarray, Outlines]] = []

    def add(self, band: Band) -> None:
        """Take the next band, which continues the last one."""
        rows, width = band.probability.shape
        if self._position is None:
            self._position, self._seam = (band.row_off, band.col_off), np.zeros(width, np.int32)
        assert (band.row_off, band.col_off) == self._position and width == len(self._seam)
        step, is_complete = max(1, SLICE_PX // width), band.is_complete
        for row in range(0, rows, step):
            part = slice(row, row + step)
            self._add(band.probability[part], None if is_complete else band.valid[part])

    def finish(self, simplify_px: float = 0.0, transform: Affine | None = None) -> list[ChangeRegion]:
        """Return the regions from top to bottom, then left to right.

        Outlines are simplified by at most ``simplify_px`` pixels; holes stay. Regions with more than 5,000
        rings are noise and are not simplified. ``transform`` maps columns and rows to map coordinates
        (default: identity).
        """
        if self._position is not None:
            # An empty row closes all regions.
            near = _with_neighbours(self._seam > 0)
            self._collect(np.zeros((1, len(near)), np.int32), self._position[0], near)
        self._settle()
        matrix = transform if transform is not None else Affine.identity()
        numbered: list[tuple[int, ChangeRegion]] = []
        for regions, traced in self._closed:
            outlines = traced.polygons()
            if simplify_px > 0:
                plain = traced.ring_counts() <= MOST_RINGS
                outlines[plain] = shapely.simplify(outlines[plain], simplify_px, preserve_topology=True)
            mapped = shapely.transform(outlines, lambda xy: np.column_stack(on_map(matrix, *xy.T)))
            means = regions["total"] * PROBABILITY_STEP / regions["area"]
            columns = (regions["first"], outlines, mapped, means, regions["area"])
            for first, outline, polygon, mean, area in zip(*columns, strict=True):
                numbered.append((int(first), ChangeRegion(outline, polygon, float(mean), int(area))))
        return [region for _, region in sorted(numbered, key=lambda pair: pair[0])]

    def _add(self, probability: np.ndarray, valid: np.ndarray | None) -> None:
        """Take the next rows; None: all pixels are valid."""
        assert self._position is not None
        row, col = self._position
        self._position = (row + len(probability), col)
        # Most columns of so few rows have no change; the others are pushed together, but for gaps between.
        columns = _with_neighbours((probability.max(axis=0) >= self.threshold) | (self._seam > 0))
        if not len(columns):
            return
        probability = probability[:, columns]
        changed = probability >= self.threshold
        if valid is not None:
            changed &= valid[:, columns]
        labels, count = ndimage.label(changed, output=np.int32)
        rows, cols = np.nonzero(changed)
        of = labels[rows, cols] - 1
        steps = np.rint(probability[rows, cols].astype(np.float64) / PROBABILITY_STEP)
        cols = columns[cols]
        pixels = np.empty(len(of), _PART)
        pixels["area"], pixels["total"], pixels["first"] = 1, steps, (rows + row) << 32 | (cols + col)
        self._parts.append(_merged(pixels, of, count))
        labels[changed] += np.int32(self._count - 1)
        self._count += count
        self._collect(labels, row, columns)
        if self._pending > self._most_pending:
            self._settle()

    def _collect(self, ids: np.ndarray, row: int, columns: np.ndarray) -> None:
        """Find the corners above each row of the ids of some columns, and the regions that touch there."""
        assert self._position is not None
        framed = np.zeros((len(ids) + 1, ids.shape[1] + 2), np.int32)
        seam = self._seam[columns]
        framed[0, 1:-1], framed[1:, 1:-1] = seam, ids
        right = np.append(columns, columns[-1:] + 1) + self._position[1]
        corners, touching = find_corners(framed, row, right)
        self._corners.append(corners)
        self._pending += corners.shape[1]
        self._corner_ties.append(touching)
        both = (seam > 0) & (ids[0] > 0)
        ties = np.stack([seam[both], ids[0][both]], axis=1)
        # One tie for neighbouring pixels instead of one each, to save memory.
        self._edge_ties.append(ties[np.insert((ties[1:] != ties[:-1]).any(axis=1), 0, True)[: len(ties)]])
        self._seam[:] = 0
        self._seam[columns] = ids[-1]

    def _settle(self) -> None:
        """Join connected parts; trace the outlines of finished regions, keep the corners of open ones."""
        corners, parts = np.concatenate([NO_CORNERS, *self._corners], axis=1), np.concatenate(self._parts)
        edge_ties = np.concatenate([_NO_TIES, *self._edge_ties])
        part_count, part = components(len(parts), edge_ties)
        region_count, region = components(len(parts), np.concatenate([edge_ties, *self._corner_ties]))
        parts = _merged(parts, part, part_count)
        region_of = np.empty(part_count, np.int64)
        region_of[part] = region
        is_open = np.zeros(region_count, bool)
        is_open[region[self._seam[self._seam > 0]]] = True
        regions = _merged(parts, region_of, region_count)
        is_done = ~is_open & (regions["area"] >= max(1.0, self.min_area_px))
        if is_done.any():
            ordered = np.flatnonzero(is_done[region_of])
            ordered = ordered[np.argsort(region_of[ordered], kind="stable")]
            number = np.zeros(part_count, np.int64)
            number[ordered] = np.arange(len(ordered))
            done = corners[:, is_done[region[corners[0]]]]
            done[0] = number[part][done[0]]
            self._closed.append((regions[is_done], Outlines.trace(done, region_of[ordered])))
        open_parts = is_open[region_of]
        number = np.where(open_parts, np.cumsum(open_parts), 0)
        corners = corners[:, is_open[region[corners[0]]]]
        corners[0] = number[part][corners[0]]
        self._corners, self._pending = [corners], corners.shape[1]
        self._most_pending = max(MOST_CORNERS, 2 * self._pending)
        self._parts = [_NO_PART, parts[open_parts]]
        self._count = int(open_parts.sum()) + 1
        self._seam = np.where(self._seam > 0, number[part][self._seam], 0).astype(np.int32)
        self._edge_ties, self._corner_ties = [], [_chained(region_of[open_parts])]


_NO_TIES = np.zeros((0, 2), np.int32)


def _with_neighbours(is_used: np.ndarray) -> np.ndarray:
    """Return the columns that are used, or beside one that is."""
    near = is_used.copy()
    near[1:] |= is_used[:-1]
    near[:-1] |= is_used[1:]
    return np.flatnonzero(near)


def _chained(region_of: np.ndarray) -> np.ndarray:
    """Return ties that connect the parts (ids from 1) of each region."""
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
    """Return the changed regions of a scene that comes as bands; see :class:`Polygonizer`.

    A thread outlines a band while the caller's thread makes the next ones.
    """
    polygonizer = Polygonizer(threshold, min_area_px)
    with ThreadPoolExecutor(1, thread_name_prefix="outline") as pool:
        for _ in map_ahead(pool, polygonizer.add, bands, AHEAD):
            pass
    return polygonizer.finish(simplify_px=simplify_px, transform=transform)


def group_regions(regions: Sequence[ChangeRegion], distance_px: float) -> list[list[int]]:
    """Return the indices of regions by group: regions at most ``distance_px`` pixels apart are in one group.

    Groups are in order of their first region, and indices ascend.
    """
    outlines = np.array([region.pixel_polygon for region in regions], dtype=object)
    if not len(outlines):
        return []
    near = shapely.STRtree(outlines).query(outlines, predicate="dwithin", distance=distance_px)
    count, group = components(len(outlines), near.T)
    members: list[list[int]] = [[] for _ in range(count)]
    for index, of in enumerate(group):
        members[of].append(index)
    return sorted(members)
