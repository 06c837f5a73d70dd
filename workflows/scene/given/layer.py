"""A layer of changes that somebody else outlined: its polygons in WGS84, and its columns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon

from tiling import ReprojectionFailed, mended, polygons_in, to_wgs84, transformer
from workflows.errors import GivenInvalid
from workflows.printable import counted, printable
from workflows.report.change import PROPERTIES
from workflows.report.geojson import joined

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

MOST_FEATURES, MOST_COLUMNS, MOST_TEXT = 200_000, 200, 10_000
"""Features, columns, and characters of a value that are taken."""
_IDS = ("id", "fid", "objectid", "gid", "uid")
"""Columns that hold the ids of features, the first that there is."""
_PREFIX = "source_"
# Names that columns of our own files have.
_TAKEN = {*PROPERTIES, "geometry", "geom", "bbox", "pair", "site", "longitude", "latitude", "wkt"}
_TAKEN |= {"chip_before", "chip_after", "fid", "rowid"}
_LARGEST = 2**53
_WGS84 = "EPSG:4326"


PlainValue = str | int | float | bool | None


@dataclass(frozen=True)
class GivenOutline:
    """One feature of a layer of changes.

    Attributes:
        geometry: its valid outline in WGS84 longitude and latitude, degrees, as the report has it.
        source_id: its id in its own layer; None without one.
        attributes: its other columns, by names that no attribute of a report has.
    """

    geometry: Polygon | MultiPolygon
    source_id: str | None = None
    attributes: Mapping[str, PlainValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """What a report says of a given outline besides what it says of any change.

    Attributes:
        source_id, attributes: see :class:`GivenOutline`.
        supported: share, 0..1, of its judged pixels that reach the report's threshold of change probability;
            None where it is not judged.
        not_judged: why there are no facts, see :mod:`workflows.scene.given.judge`; None where it is judged.
    """

    source_id: str | None
    attributes: Mapping[str, Any]
    supported: float | None = None
    not_judged: str | None = None


@dataclass(frozen=True)
class GivenLayer:
    """Outlines that were given.

    Attributes:
        name: of its file, for messages and the run record.
        outlines: in the order of the layer.
        kind: ``polygons``, or of a raster ``mask``, ``probability`` or ``classes``.
        layer: name of the layer in its file; None where a file has one.
        columns: names of the attributes that outlines may have.
        mended: numbers, from 1, of features that were invalid.
        left_out: how many features have no geometry.
    """

    name: str
    outlines: tuple[GivenOutline, ...]
    kind: str = "polygons"
    layer: str | None = None
    columns: tuple[str, ...] = ()
    mended: tuple[int, ...] = ()
    left_out: int = 0

    def record(self) -> dict[str, Any]:
        """Return what the run record says of it."""
        return {
            "file": self.name,
            "layer": self.layer,
            "kind": self.kind,
            "features": len(self.outlines) + self.left_out,
            "mended": len(self.mended),
            "left_out": self.left_out,
            "columns": list(self.columns),
        }

    def warnings(self) -> Iterator[str]:
        """Yield what a user should know of it, one line each."""
        if self.mended:
            first = ", ".join(map(str, self.mended[:5])) + (", ..." if len(self.mended) > 5 else "")
            yield f"{self.name}: {counted(len(self.mended), 'invalid polygon')} mended: feature {first}"
        if self.left_out:
            yield f"{self.name}: {counted(self.left_out, 'feature')} without geometry left out"


def layer_of(frame: GeoDataFrame, name: str, layer: str | None = None) -> GivenLayer:
    """Return the polygons of a table.

    Outlines in WGS84 stay as they are, to the last bit; others are moved corner by corner.

    Raises:
        GivenInvalid: it has no CRS, too many features or columns, or a feature that is no polygon or lies
            nowhere; features count from 1.
    """
    shown = printable(name)
    others = [column for column in frame.columns if column != frame.geometry.name]
    if len(frame) > MOST_FEATURES or len(others) > MOST_COLUMNS:
        raise GivenInvalid(
            f"{shown}: {len(frame):,} features with {len(others):,} columns; at most {MOST_FEATURES:,} and "
            f"{MOST_COLUMNS} are read; cut the layer to the ground of the scenes"
        )
    if frame.crs is None:
        raise GivenInvalid(
            f"{shown}: has no coordinate reference system; set it with ogr2ogr -a_srs EPSG:..."
        )
    names = attribute_names(map(str, others))
    id_column = next((one for key in _IDS for one in others if str(one).lower() == key), None)
    ids = frame.index if id_column is None else frame[id_column]
    cells = {
        names[str(column)]: [_plain(value) for value in frame[column]]
        for column in others
        if column != id_column
    }
    outlines, mended, left_out = [], [], 0
    for row, (shape, source_id) in enumerate(zip(np.asarray(frame.geometry), ids, strict=True)):
        if shape is None or shape.is_empty:
            left_out += 1
            continue
        valid, was_mended = _outline(shape, f"{shown}: feature {row + 1}")
        if was_mended:
            mended.append(row + 1)
        known = {name: column[row] for name, column in cells.items()}
        text = _plain(source_id)
        moved = _in_degrees(valid, frame.crs, f"{shown}: feature {row + 1}")
        outlines.append(GivenOutline(moved, None if text is None else str(text), known))
    return GivenLayer(name, tuple(outlines), "polygons", layer, tuple(cells), tuple(mended), left_out)


def attribute_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the attribute for each column: its name, with a prefix where one of ours has that name."""
    names: dict[str, str] = {}
    taken = set(_TAKEN)
    for column in columns:
        name = printable(column).strip()[:60] or "column"
        while name.lower() in taken:
            name = f"{_PREFIX}{name}"
        taken.add(name.lower())
        names[column] = name
    return names


def _outline(shape: Any, what: str) -> tuple[Polygon | MultiPolygon, bool]:
    """Return the valid polygon of a feature, and whether it had to be mended."""
    if shape.geom_type not in ("Polygon", "MultiPolygon", "GeometryCollection"):
        raise GivenInvalid(f"{what} is a {shape.geom_type}; give a layer of polygons")
    if not np.isfinite(shapely.get_coordinates(shape)).all():
        raise GivenInvalid(f"{what} has a corner that is no number; remove it")
    flat = shapely.force_2d(shape)
    if flat.geom_type != "GeometryCollection" and flat.is_valid:
        return flat, False
    try:
        parts = polygons_in(mended(flat))
    except ValueError as error:
        raise GivenInvalid(f"{what}: {error}") from error
    if not parts:
        raise GivenInvalid(f"{what} has no area; remove it")
    return joined(parts), True


def _in_degrees(shape: Polygon | MultiPolygon, crs: Any, what: str) -> Polygon | MultiPolygon:
    """Return a polygon in WGS84, corner by corner but across 180 degrees and around a pole."""
    try:
        if crs.equals(_WGS84, ignore_axis_order=True):
            west, south, east, north = shape.bounds
            if west >= -180 and east <= 180 and south >= -90 and north <= 90:
                return shape
            if south < -90 or north > 90 or west < -360 or east > 360:
                raise GivenInvalid(
                    f"{what} lies at {west:g}, {south:g}, outside of longitude and latitude; check the "
                    "coordinate reference system of the layer"
                )
            return to_wgs84(shape, _WGS84)
        move = transformer(crs, _WGS84).transform
        moved = shapely.transform(shape, lambda xy: np.column_stack(move(*xy.T)))
        if not np.isfinite(shapely.get_coordinates(moved)).all():
            raise ReprojectionFailed("a corner has no longitude and latitude")
        west, _, east, _ = moved.bounds
        return to_wgs84(shape, crs) if east - west > 180 or not moved.is_valid else moved
    except ReprojectionFailed as error:
        raise GivenInvalid(f"{what}: {error}; check the coordinate reference system of the layer") from error


def _plain(value: Any) -> PlainValue:
    """Return a cell as a value that all formats have: no texts without end, and no lists."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST else str(value)[:MOST_TEXT]
    if isinstance(value, str):
        return value[:MOST_TEXT].encode("utf-8", "replace").decode()  # no lone surrogates
    if isinstance(value, date):  # and times
        return None if value != value else value.isoformat()
    if isinstance(value, bytes | bytearray):
        return None
    try:
        if isinstance(value, Mapping | Sequence | np.ndarray):
            return json.dumps(value, default=str)[:MOST_TEXT]
        return None if value != value else str(value)[:MOST_TEXT]
    except (TypeError, ValueError, RecursionError):
        return None
