"""Tables of pairs as (Geo)Parquet, and footprints as text: WKT cells in CSV and Parquet."""

import io
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon

from rscc.files import parsed_json
from tiling import checked_crs
from workflows.bounded import check_depth, check_parquet
from workflows.errors import PairTableInvalid
from workflows.pairs.rows import COLUMNS, RawTable

Row = tuple[str, Mapping[str, str]]
"""Place in the file, and texts by column."""
MAX_CHARACTERS = 2**29
"""Bytes of all cells of a file, and of its geometries."""
_CLOUDS = ("cloud_before", "cloud_after")
_POLYGON_TYPES = (3, 6)  # of shapely: Polygon, MultiPolygon
_REMEDY = "correct it or leave it empty"


def read_parquet(path: Path, most: int) -> RawTable:
    """Read a Parquet file with or without geometry, in any reference system."""
    import pyarrow.parquet

    try:
        metadata = pyarrow.parquet.read_metadata(path)
        if metadata.num_rows > most:
            raise PairTableInvalid(f"{path}: more than {most:,} rows; split it")
        schema = metadata.schema.to_arrow_schema()
        geo = (schema.metadata or {}).get(b"geo")
        shapes, geometry = (None, None) if geo is None else _shapes(path, geo)
        read = [name for name in schema.names if name not in (geometry, "bbox")]
        names = {name.lower(): name for name in read}
        twice = [name for name in COLUMNS if sum(one.lower() == name for one in read) > 1]
        if twice:
            raise PairTableInvalid(f"{path}: two columns are named {', '.join(twice)}; keep one")
        # A table converted from CSV has no geometry, but footprints as text.
        as_text = shapes is None and "footprint" in names and _is_text(schema.field(names["footprint"]).type)
        known = [name for name in COLUMNS if name in names and (name != "footprint" or as_text)]
        # Invalid UTF-8, and dates beyond year 9999, raise here.
        columns = {names[name]: name for name in known}
        check_parquet(path, MAX_CHARACTERS, [], list(columns))
        cells = pyarrow.parquet.read_table(path, columns=list(columns)).to_pylist()
    except (PairTableInvalid, MemoryError):
        raise
    except Exception as error:  # a damaged file can raise any error of the libraries
        raise PairTableInvalid(f"{path}: damaged, or no Parquet file; write it again") from error
    rows = [
        (f"row {number}", {columns[name]: _text(value) for name, value in row.items()})
        for number, row in enumerate(cells, start=1)
    ]
    return RawTable(list(names), rows, from_wkt(path, rows) if shapes is None else shapes)


def parquet_bytes(records: Sequence[Mapping[str, Any]], footprints: Sequence[Any]) -> bytes:
    """Return a GeoParquet 1.1 file of ``records``, all columns but the footprint, and their footprints."""
    import geopandas
    import pandas

    columns = {
        name: pandas.array(
            [record[name] for record in records], dtype="Float64" if name in _CLOUDS else "string"
        )
        for name in (records[0] if records else COLUMNS[:-1])
    }
    frame = geopandas.GeoDataFrame(columns, geometry=list(footprints), crs="EPSG:4326")
    file = io.BytesIO()
    frame.to_parquet(file, index=False, schema_version="1.1.0", write_covering_bbox=True)
    return file.getvalue()


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))


def _shapes(path: Path, geo: bytes) -> tuple[list[Any], str]:
    """Return the geometry of each row in degrees of WGS84, and the name of its column."""
    import geopandas

    facts = parsed_json(geo)
    column = facts["primary_column"]
    crs = facts["columns"][column].get("crs")
    if crs is not None:
        checked_crs(crs if isinstance(crs, str) else json.dumps(crs), str(path))
    check_parquet(path, MAX_CHARACTERS, [column], [column])
    shapes = geopandas.read_parquet(path, columns=[column]).geometry
    if shapes.crs is not None and not shapes.crs.equals("EPSG:4326", ignore_axis_order=True):
        shapes = shapes.to_crs("EPSG:4326")
    return list(shapes), column


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, datetime | date):
        return value.isoformat()[:10]
    return str(value)


def from_wkt(path: Path, rows: Sequence[Row]) -> Sequence[Any]:
    """Return the geometry in the WKT cell of each row of the table ``path``, None for an empty cell."""
    texts = [cells.get("footprint", "").strip() or None for _, cells in rows]
    if not any(texts):
        return [None] * len(rows)
    for (place, _), text in zip(rows, texts, strict=True):
        try:
            check_depth(text or "")
        except ValueError as error:
            raise PairTableInvalid(f"{path}: {place}: the footprint: {error}; {_REMEDY}") from error
    with np.errstate(all="ignore"):  # infinite corners are refused by flat_polygons
        shapes = shapely.from_wkt(texts, on_invalid="ignore")
    for (place, _), text, shape in zip(rows, texts, shapes, strict=True):
        if text is not None and shape is None:
            raise PairTableInvalid(f"{path}: {place}: the footprint is no polygon in WKT; {_REMEDY}")
    return list(shapes)


def flat_polygons(
    path: Path, rows: Sequence[Row], shapes: Sequence[Any]
) -> list[Polygon | MultiPolygon | None]:
    """Return the geometries without heights; None for an empty one."""
    if all(shape is None for shape in shapes):
        return [None] * len(rows)
    flattened = shapely.force_2d(np.array(shapes, dtype=object))
    corners, owners = shapely.get_coordinates(flattened, return_index=True)  # (n, 2), (n,)
    infinite = set(owners[~np.isfinite(corners).all(1)].tolist())
    for number, ((place, _), shape) in enumerate(zip(rows, flattened, strict=True)):
        if shape is not None and shapely.get_type_id(shape) not in _POLYGON_TYPES:
            raise PairTableInvalid(
                f"{path}: {place}: the footprint is a {shape.geom_type}, not a polygon; {_REMEDY}"
            )
        if number in infinite:
            raise PairTableInvalid(
                f"{path}: {place}: the footprint has an infinite corner; check its reference system, or "
                f"{_REMEDY}"
            )
    return [None if shape is None or shape.is_empty else shape for shape in flattened]


def to_wkt(shapes: Sequence[Any]) -> list[str]:
    """Return the cell of each geometry, empty for None."""
    return [text or "" for text in shapely.to_wkt(shapes, rounding_precision=6)]
