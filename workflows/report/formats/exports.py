"""Formats that other programs ask for and rscc does not read back: CSV, KML and shapefiles."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import shapely
from shapely.geometry import shape

from rscc.files import guarded_cell
from workflows.report.change import GIVEN, Change, columns_of, feature_of
from workflows.report.formats.parquet import GEOMETRY
from workflows.report.geojson import CRS, json_text

SHAPEFILE = (".shx", ".dbf", ".prj", ".cpg", ".shp")
"""The files of a shapefile; the last completes it."""
_TEXT = 254
"""Characters of a text in a shapefile."""
_NAME = 10
"""Characters of the name of an attribute there."""


def csv_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Yield the lines of a table: attributes, a point inside the change, and its outline as WKT (WGS84).

    No cell is one that a spreadsheet evaluates.
    """
    columns = columns_of(changes)
    yield _csv_line([*map(guarded_cell, columns), "longitude", "latitude", "wkt"])
    for change in changes:
        feature = feature_of(change)
        outline = shape(feature["geometry"])
        point = outline.representative_point()
        values = [_cell(feature["properties"].get(name)) for name in columns]
        digits = 7 if change.outline_of != GIVEN else -1  # as many as they have
        yield _csv_line([*values, f"{point.x:.7f}", f"{point.y:.7f}", shapely.to_wkt(outline, digits)])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return guarded_cell(value)
    return guarded_cell("; ".join(value)) if isinstance(value, list) else json_text(value)


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def kml_writer(changes: Sequence[Change]) -> Callable[[Path], None]:
    """Return a function that writes changes as placemarks, named by their captions."""

    def write(path: Path) -> None:
        with TemporaryDirectory(prefix=".rscc-", dir=path.parent) as folder:
            made = Path(folder) / "changes.kml"
            frame = _frame(changes)
            # Programs show the field Name beside a placemark; fields that differ in case alone are one.
            frame = frame.rename(columns=lambda name: "source_name" if name.lower() == "name" else name)
            frame.assign(Name=frame["caption"]).to_file(made, driver="KML", engine="pyogrio")
            made.replace(path)

    return write


def shapefile(path: Path, changes: Sequence[Change]) -> dict[Path, list[bytes]]:
    """Return the files of a shapefile and what they hold; long texts are cut."""
    with TemporaryDirectory(prefix="rscc-") as folder:
        made = Path(folder) / "changes.shp"
        frame = _frame(changes, _TEXT)
        frame.rename(columns=_short_names(frame.columns)).to_file(
            made, driver="ESRI Shapefile", engine="pyogrio", encoding="UTF-8"
        )
        return {path.with_suffix(end): [made.with_suffix(end).read_bytes()] for end in SHAPEFILE}


def _short_names(columns: Iterable[str]) -> dict[str, str]:
    """Return a name of at most :data:`_NAME` characters for each column; no two are the same."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for column in columns:
        short = column if column == GEOMETRY else column[:_NAME]
        number = 1
        while short.lower() in taken:
            number += 1
            short = f"{column[: _NAME - len(str(number))]}{number}"
        taken.add(short.lower())
        names[column] = short
    return names


def _frame(changes: Sequence[Change], most: int | None = None) -> Any:
    from geopandas import GeoDataFrame

    features = [feature_of(change) for change in changes]
    rows = [{name: _plain(value, most) for name, value in one["properties"].items()} for one in features]
    geometry = [shape(one["geometry"]) for one in features]
    return GeoDataFrame(rows, columns=columns_of(changes), geometry=geometry, crs=CRS)


def _plain(value: Any, most: int | None) -> Any:
    text = "; ".join(value) if isinstance(value, list) else value
    return text[:most] if isinstance(text, str) else text
