"""Areas of interest: the polygons of a vector file, as text in WGS84."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflows.bounded import check_depth
from workflows.errors import OptionInvalid
from workflows.printable import printable

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

MOST_FEATURES = 1_000_000


def read_area(text: str) -> str:
    """Return the polygons of a vector file (any CRS) as one geometry in WGS84, WKT."""
    import shapely

    # Here, so that the help of a command loads no tiling.
    from workflows.polygon_files import PolygonFiles

    frame, _ = PolygonFiles(OptionInvalid, MOST_FEATURES).read(text)
    area = shapely.union_all(frame.to_crs("EPSG:4326").geometry.dropna().make_valid().buffer(0).values)
    if area.is_empty or not shapely.is_valid(area):
        raise OptionInvalid(f"{printable(text)}: it has no polygons; --area takes a file with polygons")
    return shapely.to_wkt(area, rounding_precision=7)


def area_of(text: str) -> BaseGeometry | None:
    """Return the geometry of an area's text; None if it is none with an area."""
    import shapely
    from shapely.errors import ShapelyError

    try:
        check_depth(text)
        area = shapely.from_wkt(text)
    except (ShapelyError, TypeError, ValueError, AttributeError):
        return None
    return area if area.area > 0 else None
