"""Changes as one GeoParquet file, written and read in groups of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import shapely
from shapely.geometry import MultiPolygon, shape

from workflows.report.change import FLAGS, LISTS, PROPERTIES, attributes_of, fits
from workflows.report.geojson import CRS, parts_of

GROUP = 10_000
GEOMETRY = "geometry"
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_BBOX = pa.struct([(corner, pa.float64()) for corner in _CORNERS])
_KINDS = {
    **dict.fromkeys(("id", "count", "count_sure"), pa.int64()),
    **dict.fromkeys(LISTS, pa.list_(pa.string())),
    **dict.fromkeys(
        (
            "score",
            "change_probability",
            "area_m2",
            "largest_m2",
            "median_m2",
            "changed_m2",
            "changed_back_m2",
        ),
        pa.float64(),
    ),
    **dict.fromkeys(FLAGS, pa.bool_()),
}
SCHEMA = pa.schema(
    {
        **{name: _KINDS.get(name, pa.string()) for name in ("pair", "site", *PROPERTIES)},
        GEOMETRY: pa.binary(),
        "bbox": _BBOX,
    }
)
PLAIN_SCHEMA = pa.schema(
    {name: pa.string() if name in LISTS else SCHEMA.field(name).type for name in SCHEMA.names[:-1]}
)
# Of one pair alone: the attributes of its report.
REPORT_SCHEMA = pa.schema([field for field in SCHEMA if field.name not in ("pair", "site")])


def change_row(feature: Any) -> dict[str, Any]:
    """Return what the table has of one feature of a report: its properties and its geometry.

    Raises:
        Exception: nothing that rscc wrote has such values; of whatever class they bring shapely to raise.
    """
    own = attributes_of(feature)
    for name, value in own.items():
        if not fits(name, value):
            raise ValueError(f"{name} is damaged")
    geometry = MultiPolygon(parts_of(shape(feature["geometry"])))
    if not np.isfinite(shapely.get_coordinates(geometry)).all():
        raise ValueError("an outline has corners nowhere")
    return {**own, GEOMETRY: geometry}


class ChangeTable:
    """GeoParquet 1.1 of changes, in the order in which they come; take it in a ``with`` block.

    Geometries are multipolygons in longitude and latitude (WGS84) as WKB; ``bbox`` is the box of each, so
    that readers can pass over groups of rows. The same changes make the same bytes. ``schema`` has the
    columns of :data:`SCHEMA` that are wanted.
    """

    def __init__(self, path: Path, schema: pa.Schema = SCHEMA) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._bounds = np.array([np.inf, np.inf, -np.inf, -np.inf])

    def __enter__(self) -> ChangeTable:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, pair: str | None, site: str | None, changes: Iterable[Mapping[str, Any]]) -> None:
        """Add the changes of one pair, as :func:`change_row` returns them."""
        for change in changes:
            self._rows.append({"pair": pair, "site": site, **change})
            if len(self._rows) == GROUP:
                self._write()

    def finish(self, record: Mapping[str, Any] | None) -> None:
        """Write what is left, and ``record``, the run record that all changes share, as metadata ``rscc``."""
        self._write()
        column: dict[str, Any] = {
            "encoding": "WKB",
            "geometry_types": ["MultiPolygon"],
            "crs": pyproj.CRS(CRS).to_json_dict(),
            "covering": {"bbox": {corner: ["bbox", corner] for corner in _CORNERS}},
        }
        if np.isfinite(self._bounds).all():
            column["bbox"] = self._bounds.tolist()
        geo = {"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}
        metadata = {"geo": geo, "rscc": record}
        self._writer.add_key_value_metadata(
            {key: json.dumps(value, ensure_ascii=False) for key, value in metadata.items()}
        )

    def _write(self) -> None:
        if not self._rows:
            return
        geometries = np.array([row[GEOMETRY] for row in self._rows], dtype=object)
        bounds = shapely.bounds(geometries)  # (n, 4); not a number where a geometry is empty
        known = bounds[np.isfinite(bounds).all(1)]
        if len(known):
            self._bounds[:2] = np.minimum(self._bounds[:2], known[:, :2].min(0))
            self._bounds[2:] = np.maximum(self._bounds[2:], known[:, 2:].max(0))
        for row, wkb, corners in zip(self._rows, shapely.to_wkb(geometries), bounds.tolist(), strict=True):
            row[GEOMETRY] = wkb
            row["bbox"] = None if np.isnan(corners[0]) else dict(zip(_CORNERS, corners, strict=True))
        self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema), row_group_size=GROUP)
        self._rows.clear()


def read_record(path: Path) -> bytes | None:
    """Return the text of the run record in a file, if there is one.

    Raises:
        OSError, ValueError: it is no Parquet.
    """
    with _plain_errors():
        metadata: dict[bytes, bytes] = pq.read_metadata(path).metadata or {}
    return metadata.get(b"rscc")


def read_rows(path: Path, most: int) -> Iterator[dict[str, Any]]:
    """Yield the attributes and the geometry (WKB) of changes, of those columns that there are.

    Raises:
        OSError, ValueError: it is no Parquet, or unpacked has more bytes than ``most``.
    """
    with _plain_errors(), pq.ParquetFile(path) as file:
        groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
        if sum(group.total_byte_size for group in groups) > most:
            raise ValueError(f"unpacked it has more than {most / 2**20:,.0f} MiB")
        columns = [name for name in (*PROPERTIES, GEOMETRY) if name in file.schema_arrow.names]
        if not {"id", GEOMETRY} <= set(columns):
            raise ValueError("it has no changes")
        for batch in file.iter_batches(GROUP, columns=columns):
            yield from batch.to_pylist()


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Make a ValueError of what pyarrow says of a damaged file, whatever it calls it."""
    try:
        yield
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def read_groups(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield what :class:`ChangeTable` wrote, for formats without lists: those as JSON, no boxes."""
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
