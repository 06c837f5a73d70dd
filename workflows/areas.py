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
    from tiling import mended
    from workflows.polygon_files import PolygonFiles

    files = PolygonFiles(OptionInvalid, MOST_FEATURES)
    frame, _ = files.read(text)
    with files.one_line(printable(text)):
        areas = [mended(one) for one in frame.to_crs("EPSG:4326").geometry.dropna().values]
    area = shapely.union_all(shapely.buffer(areas, 0))
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
