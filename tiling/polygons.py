"""From bands of change probability to polygons, exactly as if the scene had been one band.

A region is a set of changed pixels that touch. Everything about it is put together in whole pixels, where
nothing is rounded: outlines are merged at the seams, areas and probabilities added up. Only the finished
region is filtered, then simplified, then moved to the map, in this order: each earlier step would change
the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import shapely
from affine import Affine
from rasterio.features import shapes
from scipy import ndimage
from shapely.geometry import MultiPolygon, Polygon

from tiling.mosaic import Band

# Probabilities are added up as whole multiples of this: such sums are exact in any order.
PROBABILITY_STEP = 2.0**-24
# Simplifying without crossings takes the square of the number of rings: minutes for a noisy map.
MOST_RINGS = 5000
_NEIGHBOURS = {4: ndimage.generate_binary_structure(2, 1), 8: ndimage.generate_binary_structure(2, 2)}


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


@dataclass
class _Region:
    """What is known of a region so far: first pixel in reading order, pixels, steps, polygons per band."""

    first: int
    area: int
    total: float
    pieces: list[Polygon] = field(default_factory=list)

    def absorb(self, other: _Region) -> None:
        self.first = min(self.first, other.first)
        self.area += other.area
        self.total += other.total
        self.pieces += other.pieces


class Polygonizer:
    """Takes bands from the top of the scene to its bottom; keeps open only what touches the last row.

    Args:
        threshold: a valid pixel of at least this probability is changed.
        connectivity: 8 if pixels that share a corner touch, 4 if they must share an edge.
    """

    def __init__(self, threshold: float, connectivity: int = 8) -> None:
        if connectivity not in _NEIGHBOURS:
            raise ValueError(f"connectivity must be 4 or 8, got {connectivity}")
        self.threshold, self.connectivity = threshold, connectivity
        self._row: int | None = None
        self._seam = np.zeros(0, np.int64)
        self._open: dict[int, _Region] = {}
        self._closed: list[_Region] = []

    @property
    def open_regions(self) -> int:
        """The number of regions that the next band may still change."""
        return len(self._open)

    def add(self, band: Band) -> None:
        """Take the next band.

        Raises:
            ValueError: the band does not start where the last one ended, or has another width.
        """
        rows, width = band.probability.shape
        if self._row is not None and (band.row_off != self._row or width != len(self._seam)):
            raise ValueError(
                f"expected row {self._row}, width {len(self._seam)}; got {band.row_off}, {width}"
            )
        if self._row is None:
            self._seam = np.zeros(width, np.int64)
        changed = band.valid & (band.probability >= self.threshold)
        labels, count = ndimage.label(changed, _NEIGHBOURS[self.connectivity], output=np.int32)
        regions = self._regions_of(band, changed, labels, count)
        self._merge(labels, regions)
        self._row = band.row_off + rows

    def finish(
        self,
        min_area_px: float = 0.0,
        simplify_px: float = 0.0,
        transform: Affine | None = None,
    ) -> list[ChangeRegion]:
        """Return the regions of at least ``min_area_px`` pixels, from top to bottom, then left to right.

        Outlines are simplified by at most ``simplify_px`` pixels; holes stay. A region with more than 5,000
        holes and parts is noise and stays as it is. ``transform`` maps columns and rows to map coordinates
        (default: it leaves them as they are).
        """
        self._closed += [_merged(region) for region in self._open.values()]
        self._open = {}
        self._seam = np.zeros_like(self._seam)
        kept = sorted(
            (region for region in self._closed if region.area >= min_area_px), key=lambda r: r.first
        )
        outlines = _canonical([region.pieces[0] for region in kept])
        if simplify_px > 0:
            plain = _rings(outlines) <= MOST_RINGS
            outlines[plain] = shapely.simplify(outlines[plain], simplify_px, preserve_topology=True)
        matrix = transform if transform is not None else Affine.identity()
        on_map = shapely.transform(outlines, lambda xy: _moved(xy, matrix))
        return [
            ChangeRegion(outline, polygon, region.total * PROBABILITY_STEP / region.area, region.area)
            for region, outline, polygon in zip(kept, outlines, on_map, strict=True)
        ]

    def _regions_of(self, band: Band, changed: np.ndarray, labels: np.ndarray, count: int) -> list[_Region]:
        """Return what is in this band of the regions 1..count, in this order."""
        if not count:
            return []
        flat = np.flatnonzero(changed)
        of = labels.ravel()[flat] - 1
        steps = np.rint(band.probability.ravel()[flat].astype(np.float64) / PROBABILITY_STEP)
        first = np.empty(count, np.int64)
        first[of[::-1]] = flat[::-1] + band.row_off * band.probability.shape[1]  # the last writer wins
        area, total = np.bincount(of, minlength=count), np.bincount(of, steps, minlength=count)
        regions = [_Region(int(f), int(a), float(t)) for f, a, t in zip(first, area, total, strict=True)]
        for piece, label in _pieces(labels, changed, band.row_off, band.col_off):
            regions[label - 1].pieces.append(piece)
        return regions

    def _merge(self, labels: np.ndarray, regions: list[_Region]) -> None:
        """Join the regions of a new band with the open ones above it; close those that ended.

        Open regions have the ids 1..n of the seam; those of the band follow as n+1...
        """
        above = len(self._open)
        below = np.where(labels[0] > 0, labels[0] + np.int64(above), 0)
        nodes = [*self._open.values(), *regions]
        parent = list(range(len(nodes) + 1))

        def root(node: int) -> int:
            while parent[node] != node:
                parent[node] = parent[parent[node]]
                node = parent[node]
            return node

        for one, other in _touching(self._seam, below, self.connectivity):
            first, second = sorted((root(one), root(other)))
            if first != second:
                parent[second] = first
                nodes[first - 1].absorb(nodes[second - 1])
        lowest = np.where(labels[-1] > 0, labels[-1] + np.int64(above), 0)
        still = {root(int(node)) for node in np.unique(lowest[lowest > 0])}
        number = {node: new for new, node in enumerate(sorted(still), start=1)}
        self._closed += [
            _merged(nodes[node - 1])
            for node in range(1, len(nodes) + 1)
            if parent[node] == node and node not in still
        ]
        self._open = {new: nodes[node - 1] for node, new in number.items()}
        renumbered = np.zeros(len(nodes) + 1, np.int64)
        for node in np.unique(lowest[lowest > 0]):
            renumbered[node] = number[root(int(node))]
        self._seam = renumbered[lowest]


def polygonize(
    bands: Iterable[Band],
    threshold: float,
    *,
    connectivity: int = 8,
    min_area_px: float = 0.0,
    simplify_px: float = 0.0,
    transform: Affine | None = None,
) -> list[ChangeRegion]:
    """Return the changed regions of a scene that comes as bands; see :class:`Polygonizer`."""
    polygonizer = Polygonizer(threshold, connectivity)
    for band in bands:
        polygonizer.add(band)
    return polygonizer.finish(min_area_px, simplify_px, transform)


def _touching(above: np.ndarray, below: np.ndarray, connectivity: int) -> list[tuple[int, int]]:
    """Return the distinct pairs of ids (0: none) that touch across the seam of two rows."""
    sides = [(above, below)]
    if connectivity == 8:
        sides += [(above[:-1], below[1:]), (above[1:], below[:-1])]
    pairs = np.concatenate([np.stack(side, axis=1) for side in sides])
    pairs = np.unique(pairs[(pairs > 0).all(axis=1)], axis=0)
    return [(int(one), int(other)) for one, other in pairs]


def _pieces(
    labels: np.ndarray, changed: np.ndarray, row_off: int, col_off: int
) -> Iterator[tuple[Polygon, int]]:
    """Yield polygons in pixels of the scene, each with the label it has part in.

    Traced with 4-connectivity whatever the regions' own: such polygons are always valid.
    """
    points: list[tuple[float, float]] = []
    sizes: list[int] = []
    owners: list[int] = []
    values: list[int] = []
    for number, (geometry, value) in enumerate(shapes(labels, mask=changed, connectivity=4)):
        values.append(int(value))
        for ring in geometry["coordinates"]:
            points += ring
            sizes.append(len(ring))
            owners.append(number)
    if not values:
        return
    coordinates, ring_ends = _with_seam_points(np.array(points), np.array(sizes), len(labels))
    coordinates += np.array([col_off, row_off])
    # How many rings each polygon has: the first is its outer one.
    polygon_ends = np.concatenate([[0], np.cumsum(np.bincount(owners))])
    polygons = shapely.from_ragged_array(shapely.GeometryType.POLYGON, coordinates, (ring_ends, polygon_ends))
    yield from zip(polygons, values, strict=True)


def _with_seam_points(points: np.ndarray, sizes: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Put a vertex at every pixel of the edges along the top and the bottom row; return points, ring ends.

    So the outlines on the two sides of a seam have the same edges there, which makes them quick to merge.
    """
    ends = np.cumsum(sizes)
    steps = np.ones(len(points), np.int64)
    stretch = np.abs(points[1:, 0] - points[:-1, 0]).astype(np.int64)
    on_seam = (points[1:, 1] == points[:-1, 1]) & np.isin(points[1:, 1], (0, rows))
    steps[:-1] = np.where(on_seam, stretch, 1)
    steps[ends - 1] = 1  # no edge leads from one ring to the next
    start = np.repeat(np.arange(len(points)), steps)
    part = np.arange(len(start)) - np.repeat(np.cumsum(steps) - steps, steps)
    along = np.zeros(points.shape)
    along[:-1] = points[1:] - points[:-1]
    out = points[start] + np.sign(along[start]) * part[:, None]
    return out, np.concatenate([[0], np.cumsum(steps)[ends - 1]])


def _merged(region: _Region) -> _Region:
    """Leave a region with one polygon; its edges lie on whole pixels, so the union is exact."""
    if len(region.pieces) > 1:
        region.pieces = [shapely.coverage_union_all(region.pieces)]
    return region


def _rings(outlines: np.ndarray) -> np.ndarray:
    """Return the number of rings, outer and inner, of each outline."""
    parts, owners = shapely.get_parts(outlines, return_index=True)
    return np.bincount(owners, shapely.get_num_interior_rings(parts) + 1, minlength=len(outlines))


def _moved(xy: np.ndarray, matrix: Affine) -> np.ndarray:
    x, y = xy[:, 0], xy[:, 1]
    return np.column_stack([matrix.a * x + matrix.b * y + matrix.c, matrix.d * x + matrix.e * y + matrix.f])


def _canonical(outlines: Sequence[Polygon | MultiPolygon]) -> np.ndarray:
    """Return the same shapes with vertices at corners only, rings and parts in a fixed order.

    Seams leave vertices in straight edges, and what simplifying does depends on where a ring starts: without
    this the bands would show in the result.
    """
    if not len(outlines):
        return np.array([], dtype=object)
    parts, owners = shapely.get_parts(outlines, return_index=True)
    _, points, (ring_ends, polygon_ends) = shapely.to_ragged_array(parts)
    ring = np.repeat(np.arange(len(ring_ends) - 1), np.diff(ring_ends))
    index = np.arange(len(points))
    last = index == ring_ends[ring + 1] - 1  # repeats the first point of its ring
    before = np.where(index == ring_ends[ring], ring_ends[ring + 1] - 2, index - 1)
    after = np.where(last, index, index + 1)
    # Edges follow rows and columns: a corner is where the neighbours differ in both coordinates.
    corner = (points[before] != points[np.minimum(after, len(points) - 1)]).all(axis=1) & ~last
    sizes = np.bincount(ring[corner], minlength=len(ring_ends) - 1)
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    closed = np.insert(points[corner], starts + sizes, points[corner][starts], axis=0)
    ends = np.concatenate([[0], np.cumsum(sizes + 1)])
    parts = shapely.from_ragged_array(shapely.GeometryType.POLYGON, closed, (ends, polygon_ends))
    shaped = shapely.multipolygons(parts, indices=owners)
    single = np.bincount(owners) == 1
    shaped[single] = shapely.get_geometry(shaped[single], 0)
    return shapely.normalize(shaped)
