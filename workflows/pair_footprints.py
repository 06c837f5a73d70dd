"""The ground of each pair of a table: what is read from text or Parquet, checked, and written as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflows.errors import PairTableInvalid

if TYPE_CHECKING:
    from shapely.geometry import MultiPolygon, Polygon

# Where a row is, and its texts by column.
Row = tuple[str, Mapping[str, str]]
_POLYGONS = (3, 6)  # and of several parts
_REMEDY = "correct it or leave it empty"


def from_wkt(path: Path, rows: Sequence[Row]) -> Sequence[Any]:
    """Return the geometry that each row of the table ``path`` has as text.

    Raises:
        PairTableInvalid: a text is none.
    """
    texts = [cells.get("footprint", "").strip() or None for _, cells in rows]
    if not any(texts):
        return [None] * len(rows)
    import shapely

    shapes = shapely.from_wkt(texts, on_invalid="ignore")
    for (where, _), text, shape in zip(rows, texts, shapes, strict=True):
        if text is not None and shape is None:
            raise PairTableInvalid(f"{path}: {where}: the footprint is no polygon in WKT; {_REMEDY}")
    return list(shapes)


def flat(path: Path, rows: Sequence[Row], shapes: Sequence[Any]) -> list[Polygon | MultiPolygon | None]:
    """Return the geometries without heights; None for an empty one.

    Raises:
        PairTableInvalid: one is no polygon, or has a corner that is no number.
    """
    if all(shape is None for shape in shapes):
        return [None] * len(rows)
    import numpy as np
    import shapely

    found = shapely.force_2d(np.array(shapes, dtype=object))
    corners, owners = shapely.get_coordinates(found, return_index=True)  # (n, 2), (n,)
    endless = set(owners[~np.isfinite(corners).all(1)].tolist())
    for number, ((where, _), shape) in enumerate(zip(rows, found, strict=True)):
        if shape is not None and shapely.get_type_id(shape) not in _POLYGONS:
            raise PairTableInvalid(
                f"{path}: {where}: the footprint is a {shape.geom_type}, not a polygon; {_REMEDY}"
            )
        if number in endless:
            raise PairTableInvalid(
                f"{path}: {where}: the footprint has a corner that is nowhere on Earth; check its reference "
                f"system, or {_REMEDY}"
            )
    return [None if shape is None or shape.is_empty else shape for shape in found]


def to_wkt(shapes: Sequence[Any]) -> list[tuple[str]]:
    """Return the cell of each geometry, empty where there is none."""
    import shapely

    return [(text or "",) for text in shapely.to_wkt(shapes, rounding_precision=6)]
