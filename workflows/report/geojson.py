"""GeoJSON geometries by RFC 7946: rounded rings that stay valid, right-hand rule, bounding boxes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon, box, shape
from shapely.geometry.polygon import orient

from tiling import mended, polygons_in

CRS = "EPSG:4326"
DECIMALS = 7


def parts_of(geometry: Polygon | MultiPolygon) -> list[Polygon]:
    """Return the polygons that make up ``geometry``."""
    return list(geometry.geoms) if isinstance(geometry, MultiPolygon) else [geometry]


def joined(polygons: list[Polygon]) -> Polygon | MultiPolygon:
    """Return the geometry whose parts these are, the inverse of :func:`parts_of`."""
    return polygons[0] if len(polygons) == 1 else MultiPolygon(polygons)


def outlines_in(member: Any) -> Polygon | MultiPolygon | None:
    """Return the valid outlines of a GeoJSON geometry in degrees; None without any, or outside the Earth.

    The geometry may come from anybody.
    """
    try:
        with np.errstate(all="ignore"):  # corners may be infinite
            geometry = shape(member)
            west, south, east, north = geometry.bounds
            on_earth = -180 <= west <= east <= 180 and -90 <= south <= north <= 90
            parts = polygons_in(mended(geometry)) if on_earth else []
    except Exception:  # shapely raises errors of many classes on a hostile geometry
        return None
    return joined(parts) if parts else None


def box_across(west: float, south: float, east: float, north: float) -> Polygon | MultiPolygon:
    """Return a box in degrees; where west > east it crosses 180 degrees and comes in two parts."""
    if west <= east:
        return box(west, south, east, north)
    return MultiPolygon([box(west, south, 180, north), box(-180, south, east, north)])


def json_text(value: Any) -> str:
    """Return JSON with letters of every script unescaped; a ValueError for NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def json_lines(
    head: Mapping[str, Any], values: Iterable[Mapping[str, Any]], name: str = "features"
) -> Iterator[str]:
    """Yield the text of an object whose last member, ``name``, is a list with one value a line."""
    yield f"{json_text(head)[:-1]}, {json_text(name)}: ["
    start = "\n"
    for value in values:
        yield start + json_text(value)
        start = ",\n"
    yield "]}\n" if start == "\n" else "\n]}\n"


def rounded(geometry: Polygon | MultiPolygon) -> Polygon | MultiPolygon:
    """Round to 7 decimals (about 1 cm) so that the result is valid and its outer rings run counter-clockwise.

    Plain rounding can make rings touch or cross themselves; here narrow places are closed or split instead.
    A geometry smaller than the rounding becomes empty. A rounded geometry stays unchanged.
    """
    if not geometry.is_valid:
        geometry = mended(geometry)
    elif _is_rounded(geometry):
        return joined([orient(part) for part in polygons_in(geometry)])
    snapped = shapely.set_precision(geometry, 10.0**-DECIMALS)
    return joined([orient(part) for part in polygons_in(snapped)])


def geometry_member(geometry: Polygon | MultiPolygon, *, exact: bool = False) -> dict[str, Any]:
    """Return the ``geometry`` member of a feature.

    Args:
        geometry: what :func:`rounded` returned.
        exact: keep every bit of the coordinates of any other geometry.
    """
    coordinates = [
        [
            # Adding zero turns -0.0 into 0.0.
            [
                [x, y] if exact else [round(x, DECIMALS) + 0.0, round(y, DECIMALS) + 0.0]
                for x, y, *_ in ring.coords
            ]
            for ring in (part.exterior, *part.interiors)
        ]
        for part in parts_of(geometry)
    ]
    if isinstance(geometry, Polygon):
        return {"type": "Polygon", "coordinates": coordinates[0]}
    return {"type": "MultiPolygon", "coordinates": coordinates}


def collection_bbox(geometries: Iterable[Polygon | MultiPolygon]) -> list[float] | None:
    """Return ``[west, south, east, north]`` in degrees, or None when there is no geometry.

    The box leaves out the widest empty gap of longitudes, so geometries cut at the antimeridian get a narrow
    box (west > east, as the RFC has it) and not one around the world.
    """
    bounds = [part.bounds for geometry in geometries for part in parts_of(geometry)]
    if not bounds:
        return None
    spans = sorted((west, east) for west, _, east, _ in bounds)
    west, east = spans[0][0], max(span[1] for span in spans)
    widest = west + 360 - east  # the gap across the antimeridian
    reached = spans[0][1]
    for start, end in spans[1:]:
        if start - reached > widest:
            widest, west, east = start - reached, start, reached
        reached = max(reached, end)
    south, north = min(b[1] for b in bounds), max(b[3] for b in bounds)
    return [round(value, DECIMALS) for value in (west, south, east, north)]


def bbox_of(geometry: Polygon | MultiPolygon) -> tuple[float, float, float, float]:
    """Return :func:`collection_bbox` of one geometry that is not empty."""
    bbox = collection_bbox([geometry])
    assert bbox is not None
    west, south, east, north = bbox
    return west, south, east, north


def _is_rounded(geometry: Polygon | MultiPolygon) -> bool:
    coordinates = shapely.get_coordinates(geometry).ravel().tolist()
    # Python's rounding, as they are written; that of numpy differs for a few.
    return not geometry.is_empty and all(value == round(value, DECIMALS) for value in coordinates)
