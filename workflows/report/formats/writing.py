"""Write the formats of a report other than GeoJSON; lists are JSON texts where a format has none.

Coordinates are longitude and latitude (WGS84), in a GeoPackage those of the working grid.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyogrio
import shapely
from shapely.errors import ShapelyError
from shapely.geometry import MultiPolygon, Polygon, shape

from tiling import geodesic_area_m2, transformer
from workflows.files import Content
from workflows.report.change import GIVEN, Change, Chips, feature_of
from workflows.report.formats.exports import csv_lines, kml_writer, shapefile
from workflows.report.formats.geopackage import Layer, write_geopackage, writing
from workflows.report.formats.layers import CHIP_FIELDS
from workflows.report.formats.parquet import (
    GEOMETRY,
    GROUP,
    PLAIN_SCHEMA,
    REPORT_SCHEMA,
    ChangeTable,
    change_row,
    given_cells,
    given_fields,
)
from workflows.report.geojson import CRS, json_text, parts_of, polygons_in
from workflows.report.qgis import qgis_style
from workflows.report.record import Run, grid_crs, of_scenes, text_in

Row = dict[str, Any]
_GEOMETRY = pa.field(GEOMETRY, pa.binary())
_CHANGES = pa.schema([PLAIN_SCHEMA.field(name) for name in PLAIN_SCHEMA.names if name in REPORT_SCHEMA.names])
_WITH_CHIPS = pa.schema([*((name, pa.binary()) for name in CHIP_FIELDS), *_CHANGES])
_OUTLINES = pa.schema([("change", pa.int64()), ("outline", pa.int64()), ("area_m2", pa.float64()), _GEOMETRY])
_SCENES = ("before", "after", "date_before", "date_after", "model", "model_version")
_FOOTPRINT = pa.schema([*((name, pa.string()) for name in _SCENES), _GEOMETRY])


def files_of(
    path: Path, changes: Sequence[Change], record: Run, chips: Chips | None = None
) -> Mapping[Path, Content]:
    """Return the files of a report at ``path``, the last completes it, and what they hold.

    Each feature is made when it is written, to save memory; only a shapefile is made before. Only a
    GeoPackage holds ``chips``.
    """
    match path.suffix.lower():
        case ".parquet":
            return {path: partial(_write_parquet, changes, record)}
        case ".fgb":
            return {path: partial(_write_flatgeobuf, changes)}
        case ".gpkg":
            return {path: partial(_write_geopackage, changes, record, chips or {})}
        case ".csv":
            return {path: csv_lines(changes)}
        case ".kml":
            return {path: kml_writer(changes)}
        case ".shp":
            return shapefile(path, changes)
    return {path: (json_text(feature_of(change)) + "\n" for change in changes)}


def _write_parquet(changes: Sequence[Change], record: Run, path: Path) -> None:
    given = given_fields(changes)
    with ChangeTable(path, pa.schema([*REPORT_SCHEMA, *given])) as table:
        rows = ({**change_row(feature_of(change)), **given_cells(change, given)} for change in changes)
        table.add(None, None, rows)
        table.finish(record)


def _write_flatgeobuf(changes: Sequence[Change], path: Path) -> None:
    given = given_fields(changes)
    schema = pa.schema([*_CHANGES, *given])
    rows = _batches(schema, map(partial(_row, {}, given), changes))
    with writing(path) as name:
        pyogrio.write_arrow(
            pa.RecordBatchReader.from_batches(schema, rows),
            name,
            layer="changes",
            driver="FlatGeobuf",
            geometry_name=GEOMETRY,
            geometry_type="MultiPolygon",
            crs=CRS,
        )


def _write_geopackage(changes: Sequence[Change], record: Run, chips: Chips, path: Path) -> None:
    given = given_fields(changes)
    schema = pa.schema([*(_WITH_CHIPS if chips else _CHANGES), *given])
    # Outlines that were given are not moved there and back.
    is_given = any(change.outline_of == GIVEN for change in changes)
    crs = CRS if is_given else grid_crs(changes, record)
    to_grid = None if crs == CRS else transformer(CRS, crs).transform
    rows = _batches(schema, map(partial(_row, chips, given), changes), to_grid)
    outlines = _batches(_OUTLINES, _outline_rows(changes), to_grid)
    ground = _batches(_FOOTPRINT, _footprint_rows(record), to_grid)
    layers = (
        Layer("changes", schema, rows, "Changed places with their captions", qgis_style()),
        Layer("outlines", _OUTLINES, outlines, "The outlines of each change, one by one"),
        Layer("footprint", _FOOTPRINT, ground, "The ground that both scenes show"),
    )
    write_geopackage(path, layers, crs=crs, record=record)


def _row(chips: Chips, given: Sequence[pa.Field], change: Change) -> Row:
    """Return the attributes, pictures and geometry of a change; lists as JSON."""
    feature = feature_of(change)
    values = {
        name: json_text(value) if isinstance(value, list) else value
        for name, value in feature["properties"].items()
    }
    pictures = dict(zip(CHIP_FIELDS, chips.get(change.id, (None, None)), strict=True))
    return {**values, **given_cells(change, given), **pictures, GEOMETRY: shape(feature["geometry"])}


def _outline_rows(changes: Iterable[Change]) -> Iterator[Row]:
    for change in changes:
        outlines = parts_of(shape(feature_of(change)["geometry"]))
        for number, outline in enumerate(outlines, start=1):
            area = round(geodesic_area_m2(outline), 2)
            yield {"change": change.id, "outline": number, "area_m2": area, GEOMETRY: outline}


def _footprint_rows(record: Run) -> list[Row]:
    """Return the ground of a run; nothing where the record, which may come from anybody, has none."""
    try:
        ground = shape(record["ground"])
        parts = parts_of(ground) if isinstance(ground, Polygon | MultiPolygon) else []
    except (AttributeError, KeyError, TypeError, ValueError, ShapelyError):
        return []
    if not parts:
        return []
    scenes = of_scenes(record, "path")
    dates = {f"date_{role}": day for role, day in of_scenes(record, "date").items()}
    model = {"model": text_in(record, "model", "name"), "model_version": text_in(record, "model", "version")}
    return [{**scenes, **dates, **model, GEOMETRY: ground}]


def _batches(
    schema: pa.Schema, rows: Iterable[Row], project: Callable[..., Any] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows in groups, their geometries as multipolygons; ``project`` transforms the coordinates."""
    waiting: list[Row] = []
    for row in rows:
        geometry = MultiPolygon(parts_of(row[GEOMETRY]))
        if project is not None:
            geometry = shapely.transform(geometry, project, interleaved=False)
            # A polygon around a pole has a slit up to it in degrees.
            if not all(part.is_valid for part in geometry.geoms):
                geometry = MultiPolygon(polygons_in(shapely.make_valid(geometry)))
        # Many formats end a text at the character 0.
        values = {
            name: value.replace("\0", "\ufffd") if isinstance(value, str) else value
            for name, value in row.items()
        }
        waiting.append({**values, GEOMETRY: shapely.to_wkb(geometry)})
        if len(waiting) == GROUP:
            yield pa.RecordBatch.from_pylist(waiting, schema)
            waiting.clear()
    yield pa.RecordBatch.from_pylist(waiting, schema)
