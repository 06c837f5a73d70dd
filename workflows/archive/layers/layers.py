"""The layers of an archive: all changes as GeoParquet and GeoPackage, a summary, a STAC catalog.

Pairs are read one by one, so memory does not grow with the archive. The layers have the same bytes whoever
did the pairs, in whatever order; only the summary has times.
"""

import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import shapely
from shapely.geometry import MultiPolygon

from rscc.files import guarded_cell, parsed_json, read_file
from rscc.sequences import batches
from workflows.archive.claim import Claim
from workflows.archive.folder import REPORT, ArchiveFolder
from workflows.archive.index import DONE, PairState
from workflows.archive.layers.stac import catalog_lines, pair_geometry
from workflows.dates import parse_date
from workflows.errors import ReportsDamaged
from workflows.progress import Progress, report_progress
from workflows.report.edited import completed
from workflows.report.formats.parquet import (
    GEOMETRY,
    GROUP,
    PLAIN_SCHEMA,
    Row,
    change_row,
    read_groups,
    write_changes,
)
from workflows.report.geojson import CRS, parts_of
from workflows.report.qgis import pairs_style, qgis_style
from workflows.report.reading import LARGEST_BYTES

# Returns the pairs of an archive in the order of its table, which may be too many for a list.
Rows = Callable[[], Iterable[PairState]]
# To be raised when the same pairs are to give other layers.
_VERSION = 3
# Columns of a pair: nothing that changes from run to run.
_PLACE = ("pair", "site", "state", "date_before", "date_after", "before", "after")
_COUNTS = {"changes": pa.int64(), "area_m2": pa.float64(), "tiles": pa.int64()}
_FAILURE = ("kind", "error", "line")
# Members of the run record that the layers have.
_SHARED = ("model", "settings", "versions", "settings_sha256")
_SUMMARY = (*_PLACE, *_COUNTS, "seconds", *_FAILURE)
_PAIRS = pa.schema(
    {
        **dict.fromkeys(_PLACE, pa.string()),
        **_COUNTS,
        **dict.fromkeys(_FAILURE, pa.string()),
        GEOMETRY: pa.binary(),
    }
)
_FILES = {
    "changes.parquet": ("application/vnd.apache.parquet", "All changes (GeoParquet)"),
    "changes.gpkg": ("application/geopackage+sqlite3", "All changes and all pairs (GeoPackage)"),
    "summary.csv": ("text/csv", "State of every pair"),
}


def write_layers(
    claim: Claim, rows: Rows, progress: Progress | None = None, made_of: str | None = None
) -> str:
    """Write the layers of an archive; they replace the old ones together, or not at all.

    Args:
        rows: returns its pairs in the order of the table, the same at each call.
        made_of: what an earlier call returned for the layers that are there; they stay if it is the same.

    Returns:
        The hash of the pairs, with the times of their reports.

    Raises:
        ReportsDamaged: reports of pairs that are done are missing or damaged; ``pairs`` names them.
    """
    folder = claim.folder
    with claim.drafting() as draft:
        digest, count = _gather(rows(), draft / folder.summary.name)
        if digest == made_of and all(layer.is_file() for layer in folder.layers):
            (draft / folder.summary.name).unlink()
        else:
            _write(folder, draft, rows, lambda pairs: report_progress(progress, "layers", pairs, count))
    return digest


def _gather(rows: Iterable[PairState], summary: Path) -> tuple[str, int]:
    """Write the summary; return the hash of the rows, and their number."""
    digest, count = hashlib.sha256(str(_VERSION).encode()), 0
    with summary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_SUMMARY)
        for row in rows:
            count += 1
            digest.update(repr((row.key, row.stamp, row.footprint, *_columns(row).values())).encode())
            writer.writerow([_cell(name, getattr(row, name)) for name in _SUMMARY])
    return digest.hexdigest(), count


def _write(folder: ArchiveFolder, draft: Path, rows: Rows, done: Callable[[int], None]) -> None:
    """Make all layers but the summary in ``draft``."""
    # pyogrio brings pandas, which takes longer than a run that finds nothing to do.
    from workflows.report.formats.geopackage import Layer, write_geopackage

    parquet, pairs = draft / folder.parquet.name, draft / "pairs.arrow"
    record = _tables(folder, rows, parquet, pairs, done)
    changes = read_groups(parquet)
    layers = (
        Layer("changes", PLAIN_SCHEMA, changes, "Changes with their captions", qgis_style()),
        Layer("pairs", _PAIRS, _groups(pairs), "Pairs of scenes and their states", pairs_style()),
    )
    write_geopackage(draft / folder.geopackage.name, layers, crs=CRS, record=record)
    pairs.unlink()
    finished = (row.pair for row in rows() if row.state == DONE)
    facts = {f"rscc:{name}": value for name, value in (record or {}).items()}
    with (draft / folder.catalog.name).open("w", encoding="utf-8") as file:
        file.writelines(catalog_lines(finished, facts, _FILES))


def _tables(
    folder: ArchiveFolder, rows: Rows, parquet: Path, pairs: Path, done: Callable[[int], None]
) -> dict[str, Any] | None:
    """Write the changes to ``parquet`` and the pairs to ``pairs``; return the run record that all share."""
    record: dict[str, Any] | None = None
    damaged: list[str] = []

    def all_changes(stream: Any) -> Iterator[Row]:
        """Yield the rows of the changes, and write those of the pairs."""
        nonlocal record
        number = 0
        for group in batches(rows(), GROUP):
            sound = []
            for row in group:
                try:
                    report = _report(folder, row)
                    pair, found = _pair(row, report), [] if report is None else report["features"]
                    changes = [change_row(feature) for feature in found]
                    shared = None if report is None else {name: report["rscc"][name] for name in _SHARED}
                except Exception:  # a tampered report may make shapely raise anything
                    damaged.append(row.pair)
                    continue
                yield from ({"pair": row.pair, "site": row.site, **change} for change in changes)
                if shared is not None:
                    record = shared if record is None else in_common(record, shared)
                sound.append(pair)
            stream.write_batch(pa.RecordBatch.from_pylist(sound, _PAIRS))
            number += len(group)
            done(number)

    with pa.OSFile(str(pairs), "wb") as sink, pa.ipc.new_stream(sink, _PAIRS) as stream:
        write_changes(parquet, all_changes(stream), lambda: record)
    if damaged:
        raise ReportsDamaged(folder.pair_folder(damaged[0]) / REPORT, damaged)
    return record


def _report(folder: ArchiveFolder, row: PairState) -> dict[str, Any] | None:
    """Return the report of a pair; None if it is not done."""
    if row.state != DONE:
        return None
    report: dict[str, Any] = parsed_json(read_file(folder.pair_folder(row.pair) / REPORT, LARGEST_BYTES))
    return {**report, "features": completed(report["features"], report["rscc"])}


def in_common(record: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that two run records share; reports with marks may be of other options."""
    return {name: value for name, value in record.items() if name in other and other[name] == value}


def _pair(row: PairState, report: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return one row of the layer of pairs."""
    columns, geometry = _columns(row), pair_geometry(row, report)
    if report is not None:
        inputs = report["rscc"]["inputs"]
        dates = {f"date_{role}": inputs[role]["date"] for role in ("before", "after")}
        columns |= {name: None if date is None else parse_date(date) for name, date in dates.items()}
    wkb = None if geometry is None else shapely.to_wkb(MultiPolygon(parts_of(geometry)))
    return columns | {GEOMETRY: wkb}


def _columns(row: PairState) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _PAIRS.names[:-1]}


def _groups(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
        yield from stream


def _cell(name: str, value: Any) -> Any:
    """Return a cell of the summary: rounded numbers, text on one line without a formula of a spreadsheet."""
    if isinstance(value, float):
        return f"{value:.2f}"
    if not isinstance(value, str) or name == "pair":
        return value
    return guarded_cell(" ".join(value.splitlines()))
