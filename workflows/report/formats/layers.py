"""Read the changes of a report from a GeoPackage or GeoParquet file; the file may come from anybody.

A GeoPackage is read as the SQLite file that it is, not by GDAL: GDAL would open whatever else lies under the
name, and what that refers to. Only plain tables are read, and time and bytes are bounded.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import shapely
from pyproj import CRS
from pyproj.exceptions import CRSError
from shapely.errors import ShapelyError
from shapely.geometry import MultiPolygon, Polygon

from rscc.files import parsed_json
from tiling import (
    ReprojectionFailed,
    UnsafeReference,
    checked_crs,
    pole_in,
    polygons_in,
    to_wgs84,
    transformer,
)
from workflows.bounded import check_depth
from workflows.report.change import FLAGS, GIVEN, LISTS, PROPERTIES, Chips, given_columns
from workflows.report.geojson import DECIMALS, geometry_member, joined, rounded

LAYER = "changes"
LAYER_FORMATS = (".gpkg", ".parquet")
CHIP_FIELDS = ("chip_before", "chip_after")
"""Pictures of a change, JPEG: columns of a GeoPackage that was written with its scenes."""
READ_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    MemoryError,
    LookupError,
    NotImplementedError,
    sqlite3.Error,
    ElementTree.ParseError,
    UnsafeReference,
)
"""What reading a damaged layer raises."""
_METADATA, _REFERENCES = "gpkg_metadata", "gpkg_metadata_reference"
_TABLES = (LAYER, _METADATA, _REFERENCES, "gpkg_geometry_columns", "gpkg_spatial_ref_sys")
# Bytes of the geometry header of a GeoPackage before the bounding box, and of the box by its kind.
_HEADER, _BOXES = 8, {1: 32, 2: 48, 3: 48, 4: 64}


def parquet_record(path: Path) -> Any:
    """Return the run record in a GeoParquet file; None without one."""
    from workflows.report.formats.parquet import read_record  # pyarrow: not for every report

    text = read_record(path)
    return None if text is None else parsed_json(text)


def parquet_features(path: Path, most: int) -> Iterator[dict[str, Any]]:
    """Yield the changes in a GeoParquet file as features; ``most`` bytes may be read, after unpacking."""
    from workflows.report.formats.parquet import GEOMETRY, read_rows

    for row in read_rows(path, most):
        yield _feature(row, _outline(row.pop(GEOMETRY), exact=row.get("outline_of") == GIVEN))


class Geopackage:
    """The layer of changes of a GeoPackage; ``most`` bytes may be read from it."""

    def __init__(self, base: sqlite3.Connection, most: int) -> None:
        self._base, self._left = base, most
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
        base.execute("PRAGMA mmap_size = 0")
        marks = ", ".join("?" * len(_TABLES))
        kinds = dict(self._rows(f"SELECT name, type FROM sqlite_master WHERE name IN ({marks})", *_TABLES))
        if kinds.get(LAYER) != "table":
            raise ValueError(f"it has no layer {LAYER}")
        # A view or a generated column can yield any number of rows from a few bytes.
        for name, kind in kinds.items():
            if kind != "table" or any(row[6] for row in self._rows(f"PRAGMA table_xinfo({name})")):
                raise ValueError(f"{name} is not a plain table")
        self._has_record = {_METADATA, _REFERENCES} <= kinds.keys()

    def record(self) -> Any:
        """Return the run record, which the metadata of the layer have under ``rscc``; None without one."""
        if not self._has_record:
            return None
        texts = self._rows(
            f"SELECT metadata FROM {_METADATA} JOIN {_REFERENCES} ON md_file_id = id WHERE table_name = ?",
            LAYER,
        )
        items = [item for (text,) in texts for item in _without_entities(text).iter("MDI")]
        text = next((item.text for item in items if item.get("key") == "rscc"), None)
        return None if text is None else parsed_json(text)

    def features(self) -> Iterator[dict[str, Any]]:
        """Yield the changes as GeoJSON features; an outline that cannot be read is None."""
        columns = self._columns()
        wanted = [name for name in (*PROPERTIES, *given_columns(self.record())) if name in columns]
        outlines = list(
            self._rows(
                "SELECT column_name, definition FROM gpkg_geometry_columns JOIN gpkg_spatial_ref_sys "
                "USING (srs_id) WHERE table_name = ?",
                LAYER,
            )
        )
        if len(outlines) != 1 or outlines[0][0] not in columns:
            raise ValueError(f"its layer {LAYER} has no outlines")
        column, crs = outlines[0][0], checked_crs(str(outlines[0][1]))
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in ("rowid", column, *wanted))
        for number, blob, *values in self._rows(f"SELECT {names} FROM {LAYER} ORDER BY rowid"):
            # QGIS leaves the attribute out where the number of the row is the same.
            row = {"id": number, **dict(zip(wanted, values, strict=True))}
            yield _feature(row, _outline(_wkb(blob), crs, exact=row.get("outline_of") == GIVEN))

    def chips(self) -> Chips:
        """Return the pictures of the changes that have one of each date."""
        columns = self._columns()
        if not {*CHIP_FIELDS} <= {*columns}:
            return {}
        number = "id" if "id" in columns else "rowid"
        rows = self._rows(f"SELECT {number}, {', '.join(CHIP_FIELDS)} FROM {LAYER}")
        return {
            one: (old, new) for one, old, new in rows if isinstance(old, bytes) and isinstance(new, bytes)
        }

    def _columns(self) -> list[str]:
        return [row[1] for row in self._rows(f"PRAGMA table_info({LAYER})")]

    def _rows(self, query: str, *values: str) -> Iterator[Any]:
        """Yield the rows of a query as long as all that was read stays within the limit."""
        for row in self._base.execute(query, values):
            self._left -= sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
            if self._left < 0:
                raise ValueError("it holds more than a report can have")
            yield row


def _without_entities(text: str) -> ElementTree.Element:
    if "<!" in text:
        raise ValueError("its metadata have a document type")
    return ElementTree.fromstring(text)


def _wkb(blob: Any) -> Any:
    """Return the WKB behind the header of a GeoPackage geometry; None for anything else."""
    if not isinstance(blob, bytes) or len(blob) < _HEADER or blob[:2] != b"GP":
        return None
    return blob[_HEADER + _BOXES.get(blob[3] >> 1 & 7, 0) :]


def _outline(wkb: Any, crs: str | None = None, *, exact: bool = False) -> dict[str, Any] | None:
    """Return outlines as GeoJSON; None where there are none.

    Args:
        crs: None for degrees.
        exact: keep every bit of outlines in degrees, which a user gave.
    """
    try:
        if isinstance(wkb, bytes):
            check_depth(wkb)
        parts = polygons_in(shapely.from_wkb(wkb))
        is_moved = crs is not None and not _is_degrees(crs)
        if crs is not None and (is_moved or not exact):
            parts = [_moved(part, crs) for part in parts]
        on_earth = bool((np.abs(shapely.get_coordinates(parts)) <= 180).all())
        if not parts or not on_earth:
            return None
        if exact and not is_moved:
            return geometry_member(joined(parts), exact=True)
        return geometry_member(rounded(joined(parts)))
    except (ShapelyError, TypeError, ValueError, ReprojectionFailed, CRSError):
        return None


@lru_cache(maxsize=8)
def _is_degrees(crs: str) -> bool:
    """Return whether a checked CRS is longitude and latitude of WGS84."""
    return CRS(crs).equals("EPSG:4326", ignore_axis_order=True)


def _moved(part: Polygon, crs: str) -> Polygon | MultiPolygon:
    """Return a polygon in degrees, corner by corner but around a pole."""
    return to_wgs84(part, crs) if pole_in(part, crs) else shapely.transform(part, partial(_degrees, crs))


def _degrees(crs: str, places: np.ndarray) -> np.ndarray:
    """Return rounded longitude and latitude of points (n, 2).

    Near 180 degrees all get the side of the point that lies farthest from it.
    """
    lon, lat = transformer(crs, "EPSG:4326").transform(*places.T)
    with np.errstate(invalid="ignore"):  # infinite where there is no such place
        lon -= 360 * np.round((lon - lon[np.abs(lon).argmin()]) / 360)
    return np.array([[round(one, DECIMALS) for one in place] for place in zip(lon, lat, strict=True)])


def _feature(row: Mapping[str, Any], outline: dict[str, Any] | None) -> dict[str, Any]:
    properties = {name: _json_value(name, value) for name, value in row.items()}
    return {"type": "Feature", "id": row["id"], "geometry": outline, "properties": properties}


def _json_value(name: str, value: Any) -> Any:
    """Return a cell as JSON has it; a wrong value is refused where features become changes."""
    if name in LISTS and isinstance(value, str):
        with suppress(ValueError):
            return parsed_json(value)
    # SQLite has no truth values.
    return bool(value) if name in FLAGS and value in (0, 1) else value
