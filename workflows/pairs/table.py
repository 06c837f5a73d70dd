"""Reads and writes the table of pairs, which a person checks and edits before ``rscc batch``."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shapely.geometry.polygon import orient

from rscc.files import guarded_cell, is_formula, unguarded_cell
from tiling import is_address, is_special_file, open_regular
from workflows.addresses import public_path
from workflows.bounded import bounded_memory
from workflows.dates import parse_date
from workflows.errors import DateInvalid, FormatUnsupported, PairTableInvalid
from workflows.files import check_free, write_together
from workflows.pairs.headers import percent
from workflows.pairs.names import ALLOWED, is_pair_id, made_ids
from workflows.pairs.parquet import flat_polygons, from_wkt, parquet_bytes, read_parquet, to_wkt
from workflows.pairs.rows import COLUMNS, PairRow, RawTable, UnnamedPair, columns_of
from workflows.report.geojson import geometry_member, joined, json_lines, parts_of

CSV_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".geoparquet")
_MAX_CELL = 2**27
"""Characters of a cell: a coastline with millions of corners."""
MAX_BYTES, MAX_ROWS = 2**29, 2_000_000
"""Largest table that is read; its footprints take most of it."""
_MAX_COLUMNS_TEXT = 100_000
# Columns of texts that a spreadsheet could evaluate.
_GUARDED = ("before", "after", "site", "changes")


def read_pairs(path: str | Path, warn: Callable[[str], None] | None = None) -> list[PairRow]:
    """Read a table of pairs with the columns of :class:`PairRow`: CSV (commas, semicolons, tabs) or Parquet.

    Only ``before`` and ``after`` are required. Relative paths are relative to the table's folder. A pair
    without a name gets one by :func:`workflows.pairs.names.made_ids`. Other columns are ignored, and ``warn``
    is called with a line that names them.

    Raises:
        PairTableInvalid: the file cannot be read or has no pair, or a row is wrong; the message says which.
    """
    path = _table_path(path)
    try:
        with bounded_memory():
            return _rows_of(path, _read(path), warn)
    except MemoryError as error:
        raise PairTableInvalid(f"{path}: takes too much memory for a table of pairs; split it") from error


def _rows_of(path: Path, table: RawTable, warn: Callable[[str], None] | None) -> list[PairRow]:
    missing = [name for name in ("before", "after") if name not in table.columns]
    if missing:
        raise PairTableInvalid(f"{path}: no column {' and no column '.join(missing)}; both are required")
    others = [name for name in table.columns if name not in COLUMNS]
    if others and warn:
        warn(f"{path}: ignored columns: {', '.join(others)}; known are {', '.join(COLUMNS)}")
    if not table.rows:
        raise PairTableInvalid(f"{path}: no rows; each pair of scenes needs one")
    return _checked(path, table)


def is_table(path: str | Path) -> bool:
    """Return whether a file name is that of a table of pairs."""
    return Path(path).suffix.lower() in CSV_SUFFIXES + PARQUET_SUFFIXES


def layer_path(path: Path) -> Path:
    """Return the path of the footprint layer beside the table ``path``."""
    return path.with_name(f"{path.stem}_footprints.geojson")


def check_table(path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = ()) -> Path:
    """Make sure that a table and its layer can be written to ``path``, and replace none of ``inputs``."""
    path = _table_path(path)
    check_free((path, layer_path(path)), overwrite, inputs)
    return path


def write_pairs(rows: Sequence[PairRow], path: str | Path) -> Path | None:
    """Write the table, and beside it the footprints as a GeoJSON layer; return the path of the layer.

    Scenes under the table's folder are written relative to it, so that both can be moved together. Without
    footprints there is no layer, and None is returned.
    """
    path = _table_path(path)
    layer = layer_path(path) if any(row.footprint is not None for row in rows) else None
    columns = columns_of(rows)
    records = [_record(row, path, columns) for row in rows]
    contents: dict[Path, Iterable[str | bytes]] = {layer: _layer_lines(rows, records)} if layer else {}
    suffix = path.suffix.lower()
    if suffix in PARQUET_SUFFIXES:
        contents[path] = [parquet_bytes(records, [row.footprint for row in rows])]
    else:
        contents[path] = [_csv_text(records, rows, "\t" if suffix == ".tsv" else ",")]
    write_together(contents)
    if layer is None:
        layer_path(path).unlink(missing_ok=True)
    return layer


def _table_path(path: str | Path) -> Path:
    if not is_table(path):
        raise FormatUnsupported(f"{path}: a table of pairs is {', '.join(CSV_SUFFIXES + PARQUET_SUFFIXES)}")
    return Path(path)


# Reading ---------------------------------------------------------------------------------------------------


def _read(path: Path) -> RawTable:
    if is_special_file(path):
        raise PairTableInvalid(f"{path}: a pipe, a socket or a device; save the table in a file")
    if not path.is_file():
        raise PairTableInvalid(f"{path}: no such file; rscc pairs writes one")
    if path.stat().st_size > MAX_BYTES:
        raise PairTableInvalid(f"{path}: larger than {MAX_BYTES // 2**20} MiB; split it")
    return read_parquet(path, MAX_ROWS) if path.suffix.lower() in PARQUET_SUFFIXES else _read_csv(path)


def _read_csv(path: Path) -> RawTable:
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL))
    try:
        with open(path, encoding="utf-8-sig", newline="", opener=open_regular) as file:
            head = file.readline(_MAX_COLUMNS_TEXT)
            if len(head) == _MAX_COLUMNS_TEXT:
                raise PairTableInvalid(f"{path}: its first line is too long for names of columns")
            first = re.sub(r'"[^"]*("|$)', "", head)
            file.seek(0)
            # Spreadsheets of many countries write semicolons.
            separator = max(",;\t", key=first.count)
            reader = csv.reader(file, delimiter=separator, strict=True)
            columns = [name.strip().lower() for name in next(reader, [])]
            twice = {name for name in columns if name in COLUMNS and columns.count(name) > 1}
            if twice:
                raise PairTableInvalid(f"{path}: two columns are named {', '.join(sorted(twice))}; keep one")
            rows = list(_csv_rows(path, reader, columns))
    except UnicodeDecodeError as error:
        raise PairTableInvalid(f"{path}: not UTF-8; save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise PairTableInvalid(f"{path}: line {reader.line_num}: {error}; save it as CSV in UTF-8") from error
    except OSError as error:
        raise PairTableInvalid(f"{path}: cannot be read ({error.strerror})") from error
    return RawTable([name for name in columns if name], rows, from_wkt(path, rows))


def _csv_rows(path: Path, reader: Any, columns: list[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    count = 0
    for cells in reader:
        if not any(cells):
            continue
        count += 1
        if count > MAX_ROWS:
            raise PairTableInvalid(f"{path}: more than {MAX_ROWS:,} rows; split it")
        if len(cells) > len(columns) and any(cells[len(columns) :]):
            raise PairTableInvalid(
                f"{path}: line {reader.line_num}: {len(cells)} cells, but {len(columns)} columns; put texts "
                "with a separator in quotes"
            )
        texts = {name: cell for name, cell in zip(columns, cells, strict=False) if name in COLUMNS}
        texts |= {name: unguarded_cell(texts[name].strip()) for name in _GUARDED if name in texts}
        yield f"line {reader.line_num}", texts


def _checked(path: Path, table: RawTable) -> list[PairRow]:
    """Return the rows, each complete and unique; the first wrong row raises."""
    folder = path.absolute().parent
    named: dict[str, str] = {}
    rows: list[PairRow] = []
    nameless: list[int] = []
    footprints = flat_polygons(path, table.rows, table.footprints)
    for number, ((place, texts), footprint) in enumerate(zip(table.rows, footprints, strict=True)):
        try:
            row = _row(folder, {name: text.strip() for name, text in texts.items()}, footprint)
            if not row.pair:
                nameless.append(number)
            elif (first := named.setdefault(row.pair.lower(), place)) != place:
                raise ValueError(f"the pair {row.pair!r} is in {first} already")
        except (ValueError, DateInvalid) as error:
            raise PairTableInvalid(f"{path}: {place}: {error}") from error
        rows.append(row)
    pairs = []
    for number in nameless:
        # As written in the table: names stay the same when it is moved with its scenes.
        before, after = (table.rows[number][1][role].strip() for role in ("before", "after"))
        pairs.append(UnnamedPair(rows[number], public_path(before), public_path(after), (before, after)))
    for number, name in zip(nameless, made_ids(pairs, named), strict=True):
        rows[number] = replace(rows[number], pair=name)
        place = table.rows[number][0]
        first = named.setdefault(name.lower(), place)
        if first != place:
            raise PairTableInvalid(
                f"{path}: {place}: the same scenes as in {first}, perhaps with another signature; name both "
                "rows in the column pair, or remove one"
            )
    return rows


def _row(folder: Path, texts: Mapping[str, str], footprint: Any) -> PairRow:
    """Return one row, ``pair`` empty without a name; a ValueError says what is wrong."""
    for role, text in texts.items():
        if "\0" in text:
            raise ValueError(f"{role} contains a NUL character")
    name = texts.get("pair", "")
    if name and not is_pair_id(name):
        raise ValueError(f"{name!r} cannot name a pair; use {ALLOWED}")
    scenes = {role: texts.get(role, "") for role in ("before", "after")}
    for role, text in scenes.items():
        if not text:
            raise ValueError(f"the scene {role} is missing")
    locations: dict[str, Any] = {role: _absolute(folder, text) for role, text in scenes.items()}
    if locations["before"] == locations["after"]:
        raise ValueError(f"before and after are the same scene, {public_path(scenes['before'])}")
    facts: dict[str, Any] = {"site": texts.get("site") or None, "footprint": footprint}
    facts["changes"] = _absolute(folder, texts["changes"]) if texts.get("changes") else None
    facts |= {role: parse_date(texts[role]) for role in ("date_before", "date_after") if texts.get(role)}
    facts |= {role: _cloud(role, texts.get(role, "")) for role in ("cloud_before", "cloud_after")}
    return PairRow(name, **locations, **facts)


def _cloud(role: str, text: str) -> float | None:
    value = percent(text)
    if text and value is None:
        raise ValueError(f"{role} is {text!r}; give percent, 0 to 100, or leave it empty")
    return value


def _absolute(folder: Path, text: str) -> str:
    if text.startswith("/vsi") or is_address(text):
        return text
    return os.path.normpath(os.path.join(folder, text))


# Writing ---------------------------------------------------------------------------------------------------


def _record(row: PairRow, path: Path, columns: Sequence[str]) -> dict[str, Any]:
    """Return the values of a row by column without its footprint, files relative to the table ``path``."""
    folder = os.path.join(path.absolute().parent, "")
    values = {name: getattr(row, name) for name in columns if name != "footprint"}
    for role in ("before", "after", "changes"):
        if (values.get(role) or "").startswith(folder):
            text = Path(values[role][len(folder) :]).as_posix()
            # With ./ so that it is read as a path again.
            is_unclear = text != text.lstrip() or is_formula(text) or is_address(text)
            values[role] = f"./{text}" if is_unclear else text
    return values


def _csv_text(records: Sequence[Mapping[str, Any]], rows: Sequence[PairRow], separator: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    columns = columns_of(rows)
    has_footprints = columns[-1] == "footprint"
    outlines = (
        [[cell] for cell in to_wkt([row.footprint for row in rows])] if has_footprints else [[]] * len(rows)
    )
    writer.writerow(columns)
    for record, outline in zip(records, outlines, strict=True):
        safe = {
            **record,
            **{name: guarded_cell(record[name] or "") for name in _GUARDED if name in record},
        }.values()
        cells = [f"{value:.10g}" if isinstance(value, float) else value or "" for value in safe]
        writer.writerow([*cells, *outline])
    return text.getvalue()


def _layer_lines(rows: Sequence[PairRow], records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a GeoJSON layer, one pair per line, addresses without secrets."""
    features = (
        {
            "type": "Feature",
            "properties": {**record, **{role: public_path(record[role]) for role in ("before", "after")}},
            "geometry": geometry_member(joined([orient(part) for part in parts_of(row.footprint)])),
        }
        for row, record in zip(rows, records, strict=True)
        if row.footprint is not None
    )
    return json_lines({"type": "FeatureCollection"}, features)
