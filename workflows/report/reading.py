"""Read a report from its file. A file may come from anybody, so nothing in it is trusted."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rscc.files import parsed_json, read_file
from tiling import is_special_file
from workflows.bounded import bounded_memory, open_database
from workflows.errors import ReportInvalid
from workflows.printable import printable
from workflows.report.change import VERDICTS, Change, Chips, attributes_of, given_columns, id_of, is_valid
from workflows.report.edited import completed
from workflows.report.formats.layers import (
    LAYER_FORMATS,
    READ_ERRORS,
    Geopackage,
    parquet_features,
    parquet_record,
)
from workflows.report.geojson import outlines_in
from workflows.report.report import Report

LARGEST_BYTES = 256 * 2**20
"""Largest report that is read, also after unpacking; reading takes several times as much memory."""
ANOTHER = "give a .geojson, .gpkg or .parquet file that rscc caption or rscc batch wrote"
_RECORD = ("inputs", "model", "settings", "tiling")


def open_report(path: str | Path) -> Report:
    """Read a report.

    Changes that a person drew or reshaped in a GIS are completed, see :mod:`workflows.report.edited`.

    Args:
        path: a ``.geojson``, ``.gpkg`` or ``.parquet`` file that rscc wrote.

    Returns:
        The report; its run record has at least the members ``inputs``, ``model``, ``settings`` and
        ``tiling``, all dictionaries.

    Raises:
        ReportInvalid: the file is missing, too large, damaged, or not a report that rscc wrote.
    """
    path = Path(path)
    content = report_content(path)
    record: Any = content.get("rscc")
    features: Any = content.get("features")
    valid = isinstance(record, dict) and all(isinstance(record.get(name), dict) for name in _RECORD)
    if not valid or not isinstance(features, list) or content.get("type") != "FeatureCollection":
        raise ReportInvalid(
            f"{printable(path)}: this is no report of rscc; {ANOTHER}; what a GIS saves under another "
            "name lacks the run record"
        )
    unnamed = next((n for n, feature in enumerate(features, start=1) if id_of(feature) is None), None)
    if unnamed is not None:
        raise no_report(path, f"its feature {unnamed} has no id")
    columns = given_columns(record)
    return Report([_change(path, feature, columns) for feature in features], record, path=path)


def report_content(path: Path) -> dict[str, Any]:
    """Return the GeoJSON in a file, or that its layer of changes is: ``features`` and ``rscc``.

    Changes that a person drew into it are completed, see :func:`workflows.report.edited.completed`.

    Raises:
        ReportInvalid: the file is missing, too large, cut off, or of no format that rscc writes and reads.
    """
    _check_readable(path)
    kind = path.suffix.lower()
    if kind in LAYER_FORMATS:
        return _layer_content(path)
    _check_size(path)
    if kind in (".fgb", ".geojsonl"):
        raise no_report(path, f"a {kind} has no run record")
    try:
        text = read_file(path, LARGEST_BYTES)
        content = parsed_json(text)
    except OSError as error:
        what = f"it cannot be read ({error.strerror}); check its permissions"
        raise ReportInvalid(f"{printable(path)}: {what}") from error
    except json.JSONDecodeError as error:
        cut = text.lstrip().startswith(b"{") and _at_end(error)
        raise no_report(path, "it is cut off" if cut else "it is no JSON") from error
    except ValueError as error:
        why = "" if isinstance(error, UnicodeDecodeError) else f" ({error})"
        raise no_report(path, f"it is no JSON{why}") from error
    if not isinstance(content, dict):
        raise no_report(path, "it is no GeoJSON")
    if isinstance(features := content.get("features"), list):
        content["features"] = completed(features, content.get("rscc"))
    return content


def layer_record(path: Path) -> Any:
    """Return the run record in a layer of :data:`LAYER_FORMATS`, of a pair or of an archive; None without."""
    with _layer(path) as layer:
        return parquet_record(path) if layer is None else layer.record()


def chips_in(path: Path) -> Chips:
    """Return the pictures of changes in a GeoPackage; none of a file of another format."""
    if path.suffix.lower() != ".gpkg":
        return {}
    with _layer(path) as layer:
        return {} if layer is None else layer.chips()


def no_report(path: Path, what: str) -> ReportInvalid:
    """Return the error that says what is wrong with a file, and which files are reports."""
    return ReportInvalid(f"{printable(path)}: {what}; {ANOTHER}")


def _layer_content(path: Path) -> dict[str, Any]:
    with _layer(path) as layer:
        record = parquet_record(path) if layer is None else layer.record()
        # The record of an archive names no scenes: its pairs have different ones.
        if isinstance(record, dict) and "inputs" not in record:
            raise ReportInvalid(
                f"{printable(path)}: it is the layer of an archive, not a report; give the report of one of "
                "its pairs, ARCHIVE/pairs/PAIR/changes.geojson, or convert the layer with ogr2ogr"
            )
        _check_size(path)
        rows = parquet_features(path, LARGEST_BYTES) if layer is None else layer.features()
        features = completed(list(rows), record)
    return {"type": "FeatureCollection", "rscc": record, "features": features}


@contextmanager
def _layer(path: Path) -> Iterator[Geopackage | None]:
    """Bound what reading a layer takes; yield what reads a GeoPackage, None for a GeoParquet file."""
    try:
        with bounded_memory():
            if path.suffix.lower() == ".gpkg":
                with open_database(path) as base:
                    yield Geopackage(base, LARGEST_BYTES)
            else:
                yield None
    except READ_ERRORS as error:
        reason = "it takes too much memory" if isinstance(error, MemoryError) else printable(str(error))
        raise no_report(path, f"it cannot be read ({reason})") from error


def _check_readable(path: Path) -> None:
    """Refuse anything but a regular file."""
    if path.is_dir():
        there = path / "pairs"
        if there.is_dir():
            raise ReportInvalid(
                f"{printable(path)}: it is an archive; give the report of one of its pairs, "
                f"{printable(there)}/PAIR/changes.geojson"
            )
        raise no_report(path, "it is a folder")
    if not path.exists():
        raise no_report(path, "there is no such file")
    if is_special_file(path):
        raise no_report(path, "it is a pipe, a socket or a device")


def _check_size(path: Path) -> None:
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        raise ReportInvalid(
            f"{printable(path)}: it has {size / 2**20:,.0f} MiB; reports are read up to "
            f"{LARGEST_BYTES / 2**20:,.0f} MiB, so caption smaller parts of the scene"
        )


def _at_end(error: json.JSONDecodeError) -> bool:
    # Half a word, number or escape is reported at its start.
    return error.msg.startswith("Unterminated") or error.pos >= len(error.doc.rstrip()) - 8


def _change(path: Path, feature: Mapping[str, Any], columns: Sequence[str]) -> Change:
    """Return a feature as a change; an attribute that it lacks has its default.

    Args:
        columns: the further attributes of outlines that were given.
    """
    number = id_of(feature)
    try:
        values = attributes_of(feature)
    except KeyError as error:
        raise no_report(path, f"change {number} lacks attributes that every report has") from error
    for name, value in values.items():
        if not is_valid(name, value):
            if name == "review_status":
                raise ReportInvalid(
                    f"{printable(path)}: the review_status of change {number} is {value!r}; make it one of "
                    f"{', '.join(VERDICTS)}, or empty"
                )
            raise no_report(path, f"the attribute {name} of change {number} is damaged")
        values[name] = tuple(value) if isinstance(value, list) else value
    outlines = outlines_in(feature.get("geometry"))
    if outlines is None:
        raise no_report(path, f"change {number} has no outline in degrees of longitude and latitude")
    given = {name: feature["properties"].get(name) for name in columns}
    known = {name: value for name, value in given.items() if isinstance(value, str | int | float | None)}
    return Change(geometry=outlines, **values, attributes=known)
