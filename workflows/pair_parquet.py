"""Tables of pairs as (Geo)Parquet: texts and numbers in columns, footprints as the geometry."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflows.errors import PairTableInvalid
from workflows.pair_footprints import from_wkt

if TYPE_CHECKING:
    from workflows.pair_table import RawTable

_CLOUDS = ("cloud_before", "cloud_after")


def read_parquet(path: Path) -> RawTable:
    """Read a Parquet file with or without geometry, in any reference system.

    Raises:
        PairTableInvalid: it is none, or has a column twice.
    """
    import pyarrow
    import pyarrow.parquet
    from pyproj.exceptions import ProjError
    from shapely.errors import ShapelyError

    from workflows.pair_table import COLUMNS, RawTable

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
    except (pyarrow.ArrowException, OSError, ValueError, ShapelyError, ProjError) as error:
        raise PairTableInvalid(f"{path}: this is no sound Parquet file; write it again") from error
    columns = {name: table.column(names[name]).to_pylist() for name in known}
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

    from workflows.pair_table import COLUMNS

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
