"""How much of a scene was not judged, by what hid it, and where."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import shapely
from affine import Affine
from shapely.geometry import MultiPolygon, Polygon

from rscc.visibility.cells import CELL
from tiling import Band, ReprojectionFailed, Window, geodesic_area_m2, polygonize, polygons_in, to_wgs84
from workflows.report.geojson import geometry_member, rounded
from workflows.scene.maps import ChangeMaps
from workflows.scene.visibility.layer import HIDDEN_BY

ROWS = 256
"""Rows of cells that are read at once."""
SMALLEST = 16
"""Cells of the smallest outline that is recorded."""
CERTAIN, WORTH_SAYING = 0.35, 0.1
"""Opacity, above that of dry ground, and share of the ground from which haze is worth a warning."""


def not_judged(maps: ChangeMaps, ground: Polygon | MultiPolygon | None) -> dict[str, Any]:
    """Return the ground asked for that is not judged, as ``run["not_judged"]`` has it.

    ``area_m2``, ``share`` of the ground, ``by`` what hid it in square metres, and the ``outline`` as a
    GeoJSON geometry; None without any. Ground that is hidden on both dates counts once, for the first of
    :data:`~workflows.scene.visibility.layer.HIDDEN_BY`.

    Args:
        ground: None around a pole; else what was asked for is measured in WGS84.
    """
    asked = _asked_pixels(maps)
    if "given" not in maps.about:
        asked = maps.frame.focus  # the maps cover what has data
    grid = maps.frame.grid
    ground = None if ground is None else to_wgs84(grid.ground(asked), grid.crs)
    counts = np.zeros(len(HIDDEN_BY))
    for window, values in _strips(maps):
        inside = maps.seen.grid.covered(window, _asked_pixels(maps))
        counts += np.bincount(values.ravel(), inside.ravel(), len(HIDDEN_BY))
    beyond = asked.width * asked.height - _asked_pixels(maps).width * _asked_pixels(maps).height
    counts[HIDDEN_BY.index("fill")] += beyond / CELL**2
    cells = counts.sum()
    whole = cells * (CELL * grid.gsd) ** 2 if ground is None else geodesic_area_m2(ground)
    shares = dict(zip(HIDDEN_BY[1:], (counts[1:] / cells).tolist(), strict=True))
    share = sum(shares.values())
    return {
        "area_m2": round(whole * share, 1),
        "share": round(share, 6),
        "by": {name: round(whole * one, 1) for name, one in shares.items()},
        "outline": _outline(maps, ground, has_more=beyond > 0) if share else None,
    }


def haze_warnings(maps: ChangeMaps, paths: Sequence[str]) -> list[str]:
    """Return a warning for each date over whose ground haze lies that was removed, one line each."""
    counts = np.zeros(3)
    for window in _windows(maps):
        inside = maps.seen.grid.covered(window, _asked_pixels(maps))
        veiled = maps.seen.cells(window)[2:4] >= 255 * CERTAIN
        counts += [*(veiled * inside).sum((1, 2)), inside.sum()]
    return [
        f"{path}: haze lies over {count / counts[2]:.0%} of the ground; it was removed before changes were "
        "searched, and dense haze is not judged"
        for path, count in zip(paths, counts[:2], strict=True)
        if count >= WORTH_SAYING * counts[2]
    ]


def _asked_pixels(maps: ChangeMaps) -> Window:
    """Return the pixels that were asked for and are on the maps."""
    return maps.frame.focus.intersection(maps.area)


def _outline(
    maps: ChangeMaps, ground: Polygon | MultiPolygon | None, *, has_more: bool
) -> dict[str, Any] | None:
    """Return the ground that is not judged as a GeoJSON MultiPolygon; None where nothing large enough is.

    Args:
        has_more: whether ``ground`` reaches beyond the maps, where there is no data.
    """
    cells, crs = maps.seen.grid, maps.frame.grid.crs
    bands = (
        Band(window.row_off, (values > 0).astype(np.float32), np.broadcast_to(True, values.shape))
        for window, values in _strips(maps)
    )
    start = maps.seen.grid.cells(_asked_pixels(maps))
    transform = (
        maps.frame.grid.transform
        * Affine.translation(cells.col_off + CELL * start.col_off, cells.row_off)
        * Affine.scale(CELL)
    )
    regions = polygonize(bands, 0.5, min_area_px=SMALLEST, simplify_px=1.0, transform=transform)
    try:
        outlines = [to_wgs84(region.polygon, crs) for region in regions]
        if has_more and ground is not None:
            outlines.append(ground.difference(to_wgs84(maps.frame.grid.ground(maps.area), crs)))
    except ReprojectionFailed:
        return None
    if not outlines:
        return None
    hidden = shapely.union_all(outlines)
    parts = polygons_in(rounded(hidden if ground is None else hidden.intersection(ground)))
    return geometry_member(MultiPolygon(parts)) if parts else None


def _strips(maps: ChangeMaps) -> Iterator[tuple[Window, np.ndarray]]:
    """Yield cells of the ground asked for, and what hides each, (rows, columns)."""
    for window in _windows(maps):
        before, after = maps.seen.cells(window)[:2]
        first, second = np.minimum(before, after), np.maximum(before, after)
        yield window, np.where(first > 0, first, second)


def _windows(maps: ChangeMaps) -> Iterator[Window]:
    """Yield the cells of the ground asked for, in strips."""
    cells = maps.seen.grid.cells(_asked_pixels(maps))
    for row in range(cells.row_off, cells.row_end, ROWS):
        yield Window(cells.col_off, row, cells.width, min(ROWS, cells.row_end - row))
