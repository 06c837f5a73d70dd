"""Outlines of a report, in degrees, back on the pixels of the working grid."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon

from tiling import ScenePair, on_map, transformer
from workflows.report.geojson import polygons_in

WGS84 = "EPSG:4326"
STEPS = 8
"""Parts of a pixel that outlines are brought back to: they were traced along pixels, rounded in degrees."""


def in_pixels(geometries: Iterable[Polygon | MultiPolygon], pair: ScenePair) -> list[MultiPolygon]:
    """Return outlines in degrees in pixels of the working grid; empty where they have no place on it."""
    move, to_pixel = transformer(WGS84, pair.grid.crs), ~pair.grid.transform

    def moved(degrees: np.ndarray) -> np.ndarray:
        pixels = np.column_stack(on_map(to_pixel, *move.transform(degrees[:, 0], degrees[:, 1])))
        return np.round(pixels * STEPS) / STEPS

    outlines = shapely.transform(np.array(list(geometries), dtype=object), moved)
    lost = ~np.isfinite(shapely.bounds(outlines)).all(axis=1)
    outlines[lost] = MultiPolygon()
    return [MultiPolygon(polygons_in(outline)) for outline in shapely.make_valid(outlines)]
