"""The changes of all pairs as one GeoParquet file, written and read in groups of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import shapely
from shapely.geometry import MultiPolygon, shape

CRS = "EPSG:4326"
GROUP = 10_000
GEOMETRY = "geometry"
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_BBOX = pa.struct([(corner, pa.float64()) for corner in _CORNERS])
PROPERTIES = pa.schema(
    [
        ("id", pa.int64()),
        ("caption", pa.string()),
        ("alternatives", pa.list_(pa.string())),
        ("score", pa.float64()),
        ("change_probability", pa.float64()),
        ("area_m2", pa.float64()),
        ("date_before", pa.string()),
        ("date_after", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("model", pa.string()),
        ("model_version", pa.string()),
    ]
)
SCHEMA = pa.schema(
    [
        ("pair", pa.string()),
        ("site", pa.string()),
        *((field.name, field.type) for field in PROPERTIES),
        (GEOMETRY, pa.binary()),
        ("bbox", _BBOX),
    ]
)


class ChangeTable:
    """GeoParquet 1.1 of changes, in the order in which they come; take it in a ``with`` block.

    Geometries are multipolygons in longitude and latitude (WGS84) as WKB; ``bbox`` is the box of each, so
    that readers can pass over groups of rows. The same changes make the same bytes.
    """

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._bounds = np.array([np.inf, np.inf, -np.inf, -np.inf])

    def __enter__(self) -> ChangeTable:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, pair: str, site: str | None, features: Iterable[Mapping[str, Any]]) -> None:
        """Add the features of the report of one pair."""
        for feature in features:
            own = {name: feature["properties"][name] for name in PROPERTIES.names}
            geometry = several(shape(feature["geometry"]))
            self._rows.append({"pair": pair, "site": site, **own, GEOMETRY: geometry})
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
        self._writer.write_table(pa.Table.from_pylist(self._rows, SCHEMA), row_group_size=GROUP)
        self._rows.clear()


def several(geometry: Any) -> MultiPolygon:
    """Return a polygon as a multipolygon of one part, so that a layer has one type."""
    return geometry if isinstance(geometry, MultiPolygon) else MultiPolygon([geometry])


def read_groups(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield what :class:`ChangeTable` wrote, for formats without lists: alternatives as JSON, no boxes."""
    place = PLAIN_SCHEMA.get_field_index("alternatives")
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(GROUP, columns=PLAIN_SCHEMA.names):
            columns = batch.columns
            texts = [
                None if v is None else json.dumps(v, ensure_ascii=False) for v in columns[place].to_pylist()
            ]
            columns[place] = pa.array(texts, pa.string())
            yield pa.RecordBatch.from_arrays(columns, schema=PLAIN_SCHEMA)


PLAIN_SCHEMA = pa.schema(
    [
        (field.name, pa.string() if field.name == "alternatives" else field.type)
        for field in SCHEMA
        if field.name != "bbox"
    ]
)
