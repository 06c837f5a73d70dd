"""Tables of pairs as (Geo)Parquet: texts and numbers in columns, footprints as the geometry."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflows.errors import PairTableInvalid
from workflows.pairs.rows import COLUMNS, RawTable

if TYPE_CHECKING:
    from shapely.geometry import MultiPolygon, Polygon


_CLOUDS = ("cloud_before", "cloud_after")


def read_parquet(path: Path) -> RawTable:
    """Read a Parquet file with or without geometry, in any reference system.

    Raises:
        PairTableInvalid: it is none, or has a column twice.
    """
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.read_schema(path)
        shapes, geometry = _shapes(path) if b"geo" in (schema.metadata or {}) else (None, None)
        read = [name for name in schema.names if name not in (geometry, "bbox")]
        names = {name.lower(): name for name in read}
        twice = [name for name in COLUMNS if sum(one.lower() == name for one in read) > 1]
        if twice:
            raise PairTableInvalid(f"{path}: it has two columns {', '.join(twice)}; keep one")
        # Without a geometry, a table that was CSV has the outlines as text.
        as_text = shapes is None and "footprint" in names and _is_text(schema.field(names["footprint"]).type)
        known = [name for name in COLUMNS if name in names and (name != "footprint" or as_text)]
        table = pyarrow.parquet.read_table(path, columns=[names[name] for name in known])
        # Texts that are none, and dates beyond all years, come to light here.
        columns = {name: table.column(names[name]).to_pylist() for name in known}
    except PairTableInvalid:
        raise
    except Exception as error:  # whatever a damaged file brings the libraries to say
        raise PairTableInvalid(f"{path}: this is no sound Parquet file; write it again") from error
    rows = [
        (f"row {number}", {name: _text(columns[name][number - 1]) for name in known})
        for number in range(1, table.num_rows + 1)
    ]
    return RawTable(
        list(names),
        rows,
        from_wkt(path, rows) if shapes is None else shapes,
        "footprint" in names and not as_text,
    )


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))


def parquet_bytes(records: Sequence[Mapping[str, Any]], footprints: Sequence[Any]) -> bytes:
    """Return a GeoParquet 1.1 file of ``records`` (the columns but the footprint) and their footprints."""
    import geopandas
    import pandas

    columns = {
        name: pandas.array(
            [record[name] for record in records], dtype="Float64" if name in _CLOUDS else "string"
        )
        for name in COLUMNS[:-1]
    }
    frame = geopandas.GeoDataFrame(columns, geometry=list(footprints), crs="EPSG:4326")
    file = io.BytesIO()
    frame.to_parquet(file, index=False, schema_version="1.1.0", write_covering_bbox=True)
    return file.getvalue()


def _shapes(path: Path) -> tuple[list[Any], str]:
    """Return the geometry of each row in degrees of WGS84, and the name of its column."""
    import geopandas

    frame = geopandas.read_parquet(path)
    shapes = frame.geometry
    if shapes.crs is not None and not shapes.crs.equals("EPSG:4326", ignore_axis_order=True):
        shapes = shapes.to_crs("EPSG:4326")
    return list(shapes), frame.geometry.name


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, datetime | date):
        return value.isoformat()[:10]
    return str(value)


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
    import numpy as np
    import shapely

    with np.errstate(all="ignore"):  # corners nowhere are refused where shapes are made flat
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

    flattened = shapely.force_2d(np.array(shapes, dtype=object))
    corners, owners = shapely.get_coordinates(flattened, return_index=True)  # (n, 2), (n,)
    endless = set(owners[~np.isfinite(corners).all(1)].tolist())
    for number, ((where, _), shape) in enumerate(zip(rows, flattened, strict=True)):
        if shape is not None and shapely.get_type_id(shape) not in _POLYGONS:
            raise PairTableInvalid(
                f"{path}: {where}: the footprint is a {shape.geom_type}, not a polygon; {_REMEDY}"
            )
        if number in endless:
            raise PairTableInvalid(
                f"{path}: {where}: the footprint has a corner that is nowhere on Earth; check its reference "
                f"system, or {_REMEDY}"
            )
    return [None if shape is None or shape.is_empty else shape for shape in flattened]


def to_wkt(shapes: Sequence[Any]) -> list[tuple[str]]:
    """Return the cell of each geometry, empty where there is none."""
    import shapely

    return [(text or "",) for text in shapely.to_wkt(shapes, rounding_precision=6)]
