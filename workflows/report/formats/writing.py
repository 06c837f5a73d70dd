"""Write the formats of a report other than GeoJSON; texts stand for lists where a format has none.

Coordinates are longitude and latitude (WGS84), in a GeoPackage those of the working grid.
"""

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyogrio
import shapely
from shapely.geometry import MultiPolygon, shape

from rscc.files import guarded_cell
from rscc.sequences import batches as in_groups
from tiling import geodesic_area_m2, polygons_in, transformer
from workflows.files import Content
from workflows.report.change import GIVEN, Change, Chips, columns_of, feature_of
from workflows.report.formats.geopackage import Layer, write_geopackage, writing
from workflows.report.formats.layers import CHIP_FIELDS
from workflows.report.formats.parquet import (
    GEOMETRY,
    GROUP,
    PLAIN_SCHEMA,
    REPORT_SCHEMA,
    Row,
    given_cells,
    given_fields,
    write_changes,
)
from workflows.report.geojson import CRS, json_text, outlines_in, parts_of
from workflows.report.qgis import qgis_style
from workflows.report.record import Run, grid_crs, of_scenes, text_in

SHAPEFILE = (".shx", ".dbf", ".prj", ".cpg", ".shp")
"""The files of a shapefile; the last completes it."""
_GEOMETRY = pa.field(GEOMETRY, pa.binary())
_CHANGES = pa.schema([PLAIN_SCHEMA.field(name) for name in PLAIN_SCHEMA.names if name in REPORT_SCHEMA.names])
_CHIPS = [pa.field(name, pa.binary()) for name in CHIP_FIELDS]
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
            return {path: partial(_write_layer, "FlatGeobuf", json_text, changes)}
        case ".gpkg":
            return {path: partial(_write_geopackage, changes, record, chips or {})}
        case ".csv":
            return {path: partial(_write_csv, changes)}
        case ".kml":
            return {path: partial(_write_layer, "KML", "; ".join, changes)}
        case ".shp":
            return _shapefile(path, changes)
    return {path: (json_text(feature_of(change)) + "\n" for change in changes)}


def _write_parquet(changes: Sequence[Change], record: Run, path: Path) -> None:
    given = given_fields(changes)
    rows = (_row(change, given, list) for change in changes)
    write_changes(path, rows, lambda: record, pa.schema([*REPORT_SCHEMA, *given]))


def _write_csv(changes: Sequence[Change], path: Path) -> None:
    """Write a table: attributes, a point inside each change, and its outline as WKT.

    No cell is one that a spreadsheet evaluates.
    """
    columns = columns_of(changes)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*map(guarded_cell, columns), "longitude", "latitude", "wkt"])
        for change in changes:
            feature = feature_of(change)
            outline = shape(feature["geometry"])
            point = outline.representative_point()
            digits = 7 if change.outline_of != GIVEN else -1  # as many as they have
            cells = [_cell(feature["properties"].get(name)) for name in columns]
            writer.writerow([*cells, f"{point.x:.7f}", f"{point.y:.7f}", shapely.to_wkt(outline, digits)])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = "; ".join(value) if isinstance(value, list) else value
    return guarded_cell(text) if isinstance(text, str) else json_text(text)


def _write_layer(
    driver: str, listed: Callable[[list[str]], str], changes: Sequence[Change], path: Path
) -> None:
    """Write the changes by a driver of GDAL; ``listed`` makes texts of lists."""
    given = given_fields(changes)
    schema = pa.schema([*_CHANGES, *given])
    rows: Iterable[Row] = (_row(change, given, listed) for change in changes)
    if driver == "KML":
        # Programs show the field Name beside a placemark; fields that differ in case alone are one.
        other = {name: "source_name" if name.lower() == "name" else name for name in schema.names}
        schema = pa.schema([("Name", pa.string()), *(one.with_name(other[one.name]) for one in schema)])
        rows = ({"Name": row["caption"], **{other[name]: row[name] for name in other}} for row in rows)
    with writing(path) as name_of_file:
        pyogrio.write_arrow(
            pa.RecordBatchReader.from_batches(schema, batches(schema, rows)),
            name_of_file,
            layer="changes",
            driver=driver,
            geometry_name=GEOMETRY,
            geometry_type="MultiPolygon",
            crs=CRS,
            encoding="UTF-8" if driver == "ESRI Shapefile" else None,
        )


def _shapefile(path: Path, changes: Sequence[Change]) -> dict[Path, list[bytes]]:
    """Return the files of a shapefile and what they hold; long names and texts are cut."""
    with TemporaryDirectory(prefix="rscc-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one for each name and text that is cut
        made = Path(folder) / "changes.shp"
        _write_layer("ESRI Shapefile", "; ".join, changes, made)
        return {path.with_suffix(end): [made.with_suffix(end).read_bytes()] for end in SHAPEFILE}


def _write_geopackage(changes: Sequence[Change], record: Run, chips: Chips, path: Path) -> None:
    given = given_fields(changes)
    schema = pa.schema([*(_CHIPS if chips else ()), *_CHANGES, *given])
    # Outlines that were given are not moved there and back.
    is_given = any(change.outline_of == GIVEN for change in changes)
    crs = CRS if is_given else grid_crs(changes, record)
    to_grid = None if crs == CRS else transformer(CRS, crs).transform
    rows = (_row(change, given, json_text, chips) for change in changes)

    def layer(
        name: str, schema: pa.Schema, rows: Iterable[Row], about: str, style: str | None = None
    ) -> Layer:
        return Layer(name, schema, batches(schema, rows, to_grid), about, style)

    layers = (
        layer("changes", schema, rows, "Changed places with their captions", qgis_style()),
        layer("outlines", _OUTLINES, _outline_rows(changes), "The outlines of each change, one by one"),
        layer("footprint", _FOOTPRINT, _footprint_rows(record), "The ground that both scenes show"),
    )
    write_geopackage(path, layers, crs=crs, record=record)


def _row(
    change: Change, given: Sequence[pa.Field], listed: Callable[[list[str]], Any], chips: Chips | None = None
) -> Row:
    """Return the attributes, pictures and geometry of a change; ``listed`` makes cells of lists."""
    feature = feature_of(change)
    values = {
        name: listed(value) if isinstance(value, list) else value
        for name, value in feature["properties"].items()
    }
    pictures = dict(zip(CHIP_FIELDS, (chips or {}).get(change.id, ()), strict=False))
    geometry = MultiPolygon(parts_of(shape(feature["geometry"])))
    return {**values, **given_cells(change, given), **pictures, GEOMETRY: geometry}


def _outline_rows(changes: Iterable[Change]) -> Iterator[Row]:
    for change in changes:
        outlines = parts_of(shape(feature_of(change)["geometry"]))
        for number, outline in enumerate(outlines, start=1):
            area = round(geodesic_area_m2(outline), 2)
            yield {"change": change.id, "outline": number, "area_m2": area, GEOMETRY: outline}


def _footprint_rows(record: Run) -> list[Row]:
    """Return the ground of a run; nothing where the record, which may come from anybody, has none."""
    ground = outlines_in(record.get("ground"))
    if ground is None:
        return []
    scenes = of_scenes(record, "path")
    dates = {f"date_{role}": day for role, day in of_scenes(record, "date").items()}
    model = {"model": text_in(record, "model", "name"), "model_version": text_in(record, "model", "version")}
    return [{**scenes, **dates, **model, GEOMETRY: ground}]


def batches(
    schema: pa.Schema, rows: Iterable[Row], project: Callable[..., Any] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows in groups, their geometries as multipolygons; ``project`` transforms the coordinates."""

    def cells(row: Row) -> Row:
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
        return {**values, GEOMETRY: shapely.to_wkb(geometry)}

    for group in in_groups(map(cells, rows), GROUP):
        yield pa.RecordBatch.from_pylist(group, schema)
