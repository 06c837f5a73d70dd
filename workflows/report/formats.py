"""The formats of a report but GeoJSON, each with the same attributes; lists are JSON where a format has none.

Coordinates are longitude and latitude (WGS84), in a GeoPackage those of the grid that was worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyogrio
import shapely
from shapely.errors import ShapelyError
from shapely.geometry import MultiPolygon, Polygon, shape

from tiling import geodesic_area_m2, transformer
from workflows.report.change import Change, Chips, feature_of
from workflows.report.expressions import CHIP_FIELDS
from workflows.report.geojson import CRS, json_text, parts_of
from workflows.report.geopackage import Layer, write_geopackage, writing
from workflows.report.parquet import GEOMETRY, GROUP, PLAIN_SCHEMA, REPORT_SCHEMA, ChangeTable, change_row
from workflows.report.qgis import qgis_style
from workflows.report.record import Run, grid_crs, of_scenes, text_in

Row = dict[str, Any]
_GEOMETRY = pa.field(GEOMETRY, pa.binary())
_CHANGES = pa.schema([PLAIN_SCHEMA.field(name) for name in PLAIN_SCHEMA.names if name in REPORT_SCHEMA.names])
_WITH_CHIPS = pa.schema([*((name, pa.binary()) for name in CHIP_FIELDS), *_CHANGES])
_OUTLINES = pa.schema([("change", pa.int64()), ("outline", pa.int64()), ("area_m2", pa.float64()), _GEOMETRY])
_SEEN = ("before", "after", "date_before", "date_after", "model", "model_version")
_FOOTPRINT = pa.schema([*((name, pa.string()) for name in _SEEN), _GEOMETRY])


def content_of(
    path: Path, changes: Sequence[Change], run: Run, chips: Chips | None = None
) -> Iterable[str] | Callable[[Path], None]:
    """Return what a report at ``path`` holds: its text, or what writes it to a path.

    Each feature is made when it is written: as plain values all together would take many times the memory.
    Only a GeoPackage has room for ``chips``.
    """
    match path.suffix.lower():
        case ".parquet":
            return partial(_write_parquet, changes, run)
        case ".fgb":
            return partial(_write_flatgeobuf, changes)
        case ".gpkg":
            return partial(_write_geopackage, changes, run, chips or {})
    return (json_text(feature_of(change)) + "\n" for change in changes)


def _write_parquet(changes: Sequence[Change], run: Run, path: Path) -> None:
    with ChangeTable(path, REPORT_SCHEMA) as table:
        table.add(None, None, (change_row(feature_of(change)) for change in changes))
        table.finish(run)


def _write_flatgeobuf(changes: Sequence[Change], path: Path) -> None:
    with _named_by_format(path, "changes.fgb") as file, writing(file) as name:
        pyogrio.write_arrow(
            pa.RecordBatchReader.from_batches(_CHANGES, _batches(_CHANGES, map(partial(_row, {}), changes))),
            name,
            layer="changes",
            driver="FlatGeobuf",
            geometry_name=GEOMETRY,
            geometry_type="MultiPolygon",
            crs=CRS,
        )


def _write_geopackage(changes: Sequence[Change], run: Run, chips: Chips, path: Path) -> None:
    schema = _WITH_CHIPS if chips else _CHANGES
    crs = grid_crs(changes, run)
    to_grid = transformer(CRS, crs).transform
    rows = _batches(schema, map(partial(_row, chips), changes), to_grid)
    outlines = _batches(_OUTLINES, _outlines(changes), to_grid)
    ground = _batches(_FOOTPRINT, _footprint(run), to_grid)
    layers = (
        Layer("changes", schema, rows, "Changed places with their captions", qgis_style()),
        Layer("outlines", _OUTLINES, outlines, "The outlines of each change, one by one"),
        Layer("footprint", _FOOTPRINT, ground, "The ground that both scenes show"),
    )
    with _named_by_format(path, "changes.gpkg") as file:
        write_geopackage(file, layers, crs=crs, record=run)


@contextmanager
def _named_by_format(path: Path, name: str) -> Iterator[Path]:
    """Yield a path with the suffix that GDAL knows the format by; what is written there comes to ``path``."""
    with TemporaryDirectory(prefix=".rscc-", dir=path.parent) as folder:
        yield Path(folder) / name
        (Path(folder) / name).replace(path)


def _row(chips: Chips, change: Change) -> Row:
    """Return the attributes, the pictures and the geometry of a change; lists as JSON."""
    feature = feature_of(change)
    values = {
        name: json_text(value) if isinstance(value, list) else value
        for name, value in feature["properties"].items()
    }
    pictures = dict(zip(CHIP_FIELDS, chips.get(change.id, (None, None)), strict=True))
    return {**values, **pictures, GEOMETRY: shape(feature["geometry"])}


def _outlines(changes: Iterable[Change]) -> Iterator[Row]:
    for change in changes:
        outlines = parts_of(shape(feature_of(change)["geometry"]))
        for number, outline in enumerate(outlines, start=1):
            area = round(geodesic_area_m2(outline), 2)
            yield {"change": change.id, "outline": number, "area_m2": area, GEOMETRY: outline}


def _footprint(run: Run) -> list[Row]:
    """Return the ground of a run; nothing where it is not known."""
    try:
        ground = shape(run["ground"])
        parts = parts_of(ground) if isinstance(ground, Polygon | MultiPolygon) else []
    # A record may come from anybody.
    except (AttributeError, KeyError, TypeError, ValueError, ShapelyError):
        return []
    if not parts:
        return []
    scenes = of_scenes(run, "path")
    dates = {f"date_{role}": day for role, day in of_scenes(run, "date").items()}
    model = {"model": text_in(run, "model", "name"), "model_version": text_in(run, "model", "version")}
    return [{**scenes, **dates, **model, GEOMETRY: ground}]


def storable(value: Any) -> Any:
    """Return a value whose texts have U+FFFD for the character 0, at which many formats end a text."""
    if isinstance(value, list):
        return [storable(one) for one in value]
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _batches(
    schema: pa.Schema, rows: Iterable[Row], project: Callable[..., Any] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows by groups, their geometries as multipolygons; ``project`` moves the coordinates."""
    waiting: list[Row] = []
    for row in rows:
        geometry = MultiPolygon(parts_of(row[GEOMETRY]))
        if project is not None:
            geometry = shapely.transform(geometry, project, interleaved=False)
        values = {name: storable(value) for name, value in row.items()}
        waiting.append({**values, GEOMETRY: shapely.to_wkb(geometry)})
        if len(waiting) == GROUP:
            yield pa.RecordBatch.from_pylist(waiting, schema)
            waiting.clear()
    yield pa.RecordBatch.from_pylist(waiting, schema)
