"""What is in the file of a report, as GeoJSON has it; it may come from anybody, so nothing in it is trusted.

A GeoPackage is read as the SQLite file that it is, not by GDAL: that would open whatever else lies under the
name, and what that refers to.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import shapely
from shapely.errors import ShapelyError

from rscc.files import parsed_json
from tiling import ReprojectionFailed, is_odd, plain_only, transformer
from workflows.errors import ReportInvalid
from workflows.report.change import FLAGS, LISTS, PROPERTIES, Chips
from workflows.report.edited import completed
from workflows.report.expressions import CHIP_FIELDS
from workflows.report.geojson import DECIMALS, geometry_member, joined, polygons_in, rounded
from workflows.texts import shown

LARGEST_BYTES = 256 * 2**20
"""Of a report that is read: it takes some times as much memory."""
ANOTHER = "give a .geojson, .gpkg or .parquet file that rscc caption or rscc batch wrote"
LAYER = "changes"
LAYER_FORMATS = (".gpkg", ".parquet")
# Of the header of the geometry of a GeoPackage: what comes before the box, and how long that is by its kind.
_HEADER, _BOXES = 8, {1: 32, 2: 48, 3: 48, 4: 64}


def report_content(path: Path) -> dict[str, Any]:
    """Return the GeoJSON that is in a file, or that its layer of changes is: ``features`` and ``rscc``.

    Changes that a person drew into it are completed, see :func:`workflows.report.edited.completed`.

    Raises:
        ReportInvalid: the file is missing, too large, cut off, or none that rscc writes and reads.
    """
    _check_readable(path)
    kind = path.suffix.lower()
    if kind in LAYER_FORMATS:
        with _layer(path) as layer:
            record = _record(layer)
            # What an archive's pairs share names no scenes.
            if isinstance(record, dict) and "inputs" not in record:
                raise ReportInvalid(
                    f"{shown(path)}: it is the layer of an archive, not a report; give the report of one of "
                    "its pairs, ARCHIVE/pairs/PAIR/changes.geojson, or convert the layer with ogr2ogr"
                )
            _check_size(path)
            changes = completed(list(layer.features()), record)
            return {"type": "FeatureCollection", "rscc": record, "features": changes}
    _check_size(path)
    if kind in (".fgb", ".geojsonl"):
        raise no_report(path, f"a {kind} has no run record")
    try:
        with open(path, encoding="utf-8", opener=plain_only) as file:
            text = file.read()
        content = parsed_json(text)
    except OSError as error:
        what = f"it cannot be read ({error.strerror}); check its permissions"
        raise ReportInvalid(f"{shown(path)}: {what}") from error
    except json.JSONDecodeError as error:
        cut = text.lstrip().startswith("{") and _at_end(error)
        raise no_report(path, "it is cut off" if cut else "it is no JSON") from error
    except ValueError as error:
        raise no_report(path, "it is no JSON") from error
    if not isinstance(content, dict):
        raise no_report(path, "it is no GeoJSON")
    if isinstance(features := content.get("features"), list):
        content["features"] = completed(features, content.get("rscc"))
    return content


def _check_readable(path: Path) -> None:
    """Raise ReportInvalid for what is no file."""
    if path.is_dir():
        there = path / "pairs"
        if there.is_dir():
            raise ReportInvalid(
                f"{shown(path)}: it is an archive; give the report of one of its pairs, "
                f"{shown(there)}/PAIR/changes.geojson"
            )
        raise no_report(path, "it is a folder")
    if not path.exists():
        raise no_report(path, "there is no such file")
    if is_odd(path):
        raise no_report(path, "it is a pipe, a socket or a device")


def no_report(path: Path, what: str) -> ReportInvalid:
    """Return the error that says what a file is, or lacks, that is to be a report, and what to give."""
    return ReportInvalid(f"{shown(path)}: {what}; {ANOTHER}")


def _check_size(path: Path) -> None:
    """Raise ReportInvalid for what is too large."""
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        raise ReportInvalid(
            f"{shown(path)}: it has {size / 2**20:,.0f} MiB; reports are read up to "
            f"{LARGEST_BYTES / 2**20:,.0f} MiB, so caption a part of the scene with --bbox"
        )


def layer_record(path: Path) -> Any:
    """Return the run record in a layer of :data:`LAYER_FORMATS`, of one pair or of an archive; None without.

    Raises:
        ReportInvalid: it cannot be read.
    """
    with _layer(path) as layer:
        return _record(layer)


def chips_in(path: Path) -> Chips:
    """Return the pictures of changes that lie in a GeoPackage; nothing of a file of another format.

    Raises:
        ReportInvalid: it cannot be read.
    """
    if path.suffix.lower() != ".gpkg":
        return {}
    with _layer(path) as layer:
        return layer.chips() if isinstance(layer, _Geopackage) else {}


@contextmanager
def _layer(path: Path) -> Iterator[_Geopackage | _Parquet]:
    """Open a layer, and say what cannot be read of it."""
    try:
        if path.suffix.lower() == ".gpkg":
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
                yield _Geopackage(path, base)
        else:
            yield _Parquet(path)
    # Bytes that are no letters are a ValueError.
    except (OSError, ValueError, TypeError, sqlite3.Error, ElementTree.ParseError) as error:
        raise no_report(path, f"it cannot be read ({shown(str(error))})") from error


def _record(layer: _Geopackage | _Parquet) -> Any:
    text = layer.record()
    return None if text is None else parsed_json(text)


class _Parquet:
    """The changes in a GeoParquet file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self) -> bytes | None:
        """Return the text of the run record, if there is one."""
        from workflows.report.parquet import read_record  # pyarrow: not for every report

        return read_record(self.path)

    def features(self) -> Iterator[dict[str, Any]]:
        """Yield the changes as features; their outlines are None where they cannot be read."""
        from workflows.report.parquet import GEOMETRY, read_rows

        for row in read_rows(self.path, LARGEST_BYTES):
            yield _feature(row, _outline(row[GEOMETRY]))


class _Geopackage:
    """The layer of changes of a GeoPackage."""

    def __init__(self, path: Path, base: sqlite3.Connection) -> None:
        self.path, self.base = path, base
        self._ask("PRAGMA trusted_schema = OFF")
        # A view could be made of anything.
        if self._ask("SELECT type FROM sqlite_master WHERE name = ?", LAYER) != [("table",)]:
            raise no_report(path, f"it has no layer {LAYER}")

    def record(self) -> str | None:
        """Return the text of the run record, which the layer's metadata have under ``rscc``."""
        if not self._ask("SELECT 1 FROM sqlite_master WHERE name = 'gpkg_metadata_reference'"):
            return None
        texts = self._ask(
            "SELECT metadata FROM gpkg_metadata JOIN gpkg_metadata_reference ON md_file_id = id "
            "WHERE table_name = ?",
            LAYER,
        )
        items = [item for (text,) in texts for item in _without_entities(text).iter("MDI")]
        return next((item.text for item in items if item.get("key") == "rscc"), None)

    def features(self) -> Iterator[dict[str, Any]]:
        """Yield the changes as features; their outlines are None where they cannot be read."""
        columns = self._columns()
        wanted = [name for name in PROPERTIES if name in columns]
        outlines = self._ask(
            "SELECT column_name, definition FROM gpkg_geometry_columns JOIN gpkg_spatial_ref_sys "
            "USING (srs_id) WHERE table_name = ?",
            LAYER,
        )
        if len(outlines) != 1 or outlines[0][0] not in columns:
            raise no_report(self.path, f"its layer {LAYER} has no outlines")
        ((column, crs),) = outlines
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in ("rowid", column, *wanted))
        for number, blob, *values in self._ask(f"SELECT {names} FROM {LAYER} ORDER BY rowid"):
            # QGIS leaves the attribute out where the number of the row is the same.
            row = {"id": number, **dict(zip(wanted, values, strict=True))}
            yield _feature(row, _outline(_wkb(blob), crs))

    def chips(self) -> Chips:
        """Return the pictures of the changes that have both."""
        columns = self._columns()
        if not {*CHIP_FIELDS} <= {*columns}:
            return {}
        number = "id" if "id" in columns else "rowid"
        rows = self._ask(f"SELECT {number}, {', '.join(CHIP_FIELDS)} FROM {LAYER}")
        return {
            one: (old, new) for one, old, new in rows if isinstance(old, bytes) and isinstance(new, bytes)
        }

    def _columns(self) -> list[str]:
        return [row[1] for row in self._ask(f"PRAGMA table_info({LAYER})")]

    def _ask(self, question: str, *values: str) -> list[Any]:
        return self.base.execute(question, values).fetchall()


def _without_entities(text: str) -> ElementTree.Element:
    if "<!" in text:
        raise ValueError("its metadata have a document type")
    return ElementTree.fromstring(text)


def _wkb(blob: Any) -> Any:
    """Return the WKB in the geometry of a GeoPackage, which begins with a header; None for what is none."""
    if not isinstance(blob, bytes) or len(blob) < _HEADER or blob[:2] != b"GP":
        return None
    return blob[_HEADER + _BOXES.get(blob[3] >> 1 & 7, 0) :]


def _outline(wkb: Any, crs: str | None = None) -> dict[str, Any] | None:
    """Return outlines as GeoJSON has them; None for what is none. ``crs`` is None for degrees."""
    try:
        parts = polygons_in(shapely.from_wkb(wkb))
        if crs is not None:
            parts = [shapely.transform(part, partial(_degrees, crs)) for part in parts]
        on_earth = bool((np.abs(shapely.get_coordinates(parts)) <= 180).all())
        return geometry_member(rounded(joined(parts))) if parts and on_earth else None
    except (ShapelyError, TypeError, ValueError, ReprojectionFailed):
        return None


def _degrees(crs: str, places: np.ndarray) -> np.ndarray:
    """Return longitude and latitude of places (n, 2), rounded.

    At 180 degrees all are on the side of the one that lies farthest from there.
    """
    lon, lat = transformer(crs, "EPSG:4326").transform(*places.T)
    with np.errstate(invalid="ignore"):  # infinite where there is no such place
        lon -= 360 * np.round((lon - lon[np.abs(lon).argmin()]) / 360)
    return np.array([[round(one, DECIMALS) for one in place] for place in zip(lon, lat, strict=True)])


def _feature(row: Mapping[str, Any], outline: dict[str, Any] | None) -> dict[str, Any]:
    properties = {name: _plain(name, row[name]) for name in PROPERTIES if name in row}
    return {"type": "Feature", "id": row["id"], "geometry": outline, "properties": properties}


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON has it; what is none is found where features are read."""
    if name in LISTS and isinstance(value, str):
        with suppress(ValueError):
            return parsed_json(value)
    # SQLite has no truth values.
    return bool(value) if name in FLAGS and value in (0, 1) else value


def _at_end(error: json.JSONDecodeError) -> bool:
    # Half a word, number or escape is found at its start.
    return error.msg.startswith("Unterminated") or error.pos >= len(error.doc.rstrip()) - 8
