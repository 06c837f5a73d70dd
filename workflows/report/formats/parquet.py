"""Write and read changes as GeoParquet, in groups of rows."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import shapely
from shapely.geometry import MultiPolygon, shape

from rscc.files import parsed_json
from rscc.sequences import batches
from workflows.bounded import check_parquet
from workflows.report.change import KINDS, LISTS, PROPERTIES, Change, attributes_of, given_columns, is_valid
from workflows.report.geojson import CRS, parts_of

GROUP = 10_000
GEOMETRY = "geometry"
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
BBOX = pa.struct([(corner, pa.float64()) for corner in _CORNERS])
_TYPES = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    list: pa.list_(pa.string()),
}
SCHEMA = pa.schema(
    {
        **dict.fromkeys(("pair", "site"), pa.string()),
        **{name: _TYPES[KINDS[name]] for name in PROPERTIES},
        GEOMETRY: pa.binary(),
        "bbox": BBOX,
    }
)
PLAIN_SCHEMA = pa.schema(
    {name: pa.string() if name in LISTS else SCHEMA.field(name).type for name in SCHEMA.names[:-1]}
)
# Columns of the report of a single pair.
REPORT_SCHEMA = pa.schema([field for field in SCHEMA if field.name not in ("pair", "site")])
Row = dict[str, Any]
_PLAIN = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def given_fields(changes: Sequence[Change]) -> list[pa.Field]:
    """Return the columns of given outlines: of one type where all values are, else texts."""
    found: dict[str, set[type]] = {}
    for change in changes:
        for name, value in change.attributes.items():
            found.setdefault(name, set()).update(() if value is None else (type(value),))
    types = {
        name: float if kinds == {int, float} else kinds.pop() if len(kinds) == 1 else str
        for name, kinds in found.items()
    }
    return [pa.field(name, _PLAIN.get(kind, pa.string())) for name, kind in types.items()]


def given_cells(change: Change, fields: Sequence[pa.Field]) -> Row:
    """Return the values of a change in the columns of :func:`given_fields`."""
    cells = [(field, change.attributes.get(field.name)) for field in fields]
    return {
        field.name: str(value) if field.type == pa.string() and value is not None else value
        for field, value in cells
    }


def change_row(feature: Any) -> Row:
    """Return the row of one feature of a report: the attributes of every report and its geometry.

    Raises:
        Exception: the feature is damaged; of any class, because shapely raises many.
    """
    own = attributes_of(feature)
    for name, value in own.items():
        if not is_valid(name, value):
            raise ValueError(f"{name} is damaged")
    geometry = MultiPolygon(parts_of(shape(feature["geometry"])))
    if not np.isfinite(shapely.get_coordinates(geometry)).all():
        raise ValueError("an outline has corners nowhere")
    return {**own, GEOMETRY: geometry}


def write_changes(
    path: Path, rows: Iterable[Row], record: Callable[[], Any], schema: pa.Schema = SCHEMA
) -> None:
    """Write a GeoParquet 1.1 file; the same rows make the same bytes.

    Geometries are multipolygons in longitude and latitude (WGS84) as WKB, each with its ``bbox``, by which
    readers skip groups of rows.

    Args:
        rows: cells by column, the geometry as a shape.
        record: returns the run record that all rows share, the metadata ``rscc``; called after the last row.
    """
    whole = np.full(4, np.nan)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in batches(rows, GROUP):
            geometries = np.array([row[GEOMETRY] for row in group], dtype=object)
            # Not a number where a geometry is empty.
            bounds, around = shapely.bounds(geometries).tolist(), shapely.total_bounds(geometries)
            whole = np.concatenate([np.fmin(whole[:2], around[:2]), np.fmax(whole[2:], around[2:])])
            cells = [
                {
                    **row,
                    GEOMETRY: wkb,
                    "bbox": None if np.isnan(corners[0]) else dict(zip(_CORNERS, corners, strict=True)),
                }
                for row, wkb, corners in zip(group, shapely.to_wkb(geometries), bounds, strict=True)
            ]
            writer.write_table(pa.Table.from_pylist(cells, schema), row_group_size=GROUP)
        column: dict[str, Any] = {
            "encoding": "WKB",
            "geometry_types": ["MultiPolygon"],
            "crs": pyproj.CRS(CRS).to_json_dict(),
            "covering": {"bbox": {corner: ["bbox", corner] for corner in _CORNERS}},
        }
        if np.isfinite(whole).all():
            column["bbox"] = whole.tolist()
        geo = {"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}
        metadata = {"geo": geo, "rscc": record()}
        writer.add_key_value_metadata(
            {key: json.dumps(value, ensure_ascii=False) for key, value in metadata.items()}
        )


def read_record(path: Path) -> bytes | None:
    """Return the text of the run record in a file; None without one."""
    metadata: dict[bytes, bytes] = pq.read_metadata(path).metadata or {}
    return metadata.get(b"rscc")


def read_rows(path: Path, most: int) -> list[Row]:
    """Return attributes and geometry (WKB) of changes, as far as the file has these columns.

    Raises:
        ValueError: it has no changes, or more bytes than ``most`` unpacked.
    """
    record = read_record(path)
    wanted = (*PROPERTIES, *given_columns(record and parsed_json(record)), GEOMETRY)
    with pq.ParquetFile(path) as file:
        columns = [name for name in dict.fromkeys(wanted) if name in file.schema_arrow.names]
        if not {"id", GEOMETRY} <= set(columns):
            raise ValueError("it has no changes")
        check_parquet(path, most, [GEOMETRY], columns)
        rows: list[Row] = file.read(columns).to_pylist()
    return rows


def read_groups(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows that :func:`write_changes` wrote, for formats without lists: lists as JSON, no boxes."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(GROUP, columns=PLAIN_SCHEMA.names):
            columns = [
                _as_json(column) if name in LISTS else column
                for name, column in zip(PLAIN_SCHEMA.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=PLAIN_SCHEMA)


def _as_json(column: pa.Array) -> pa.Array:
    texts = [None if v is None else json.dumps(v, ensure_ascii=False) for v in column.to_pylist()]
    return pa.array(texts, pa.string())
