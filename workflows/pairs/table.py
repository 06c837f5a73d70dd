"""The table of pairs that a person looks at and edits before the work: CSV or GeoParquet."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiling import is_address, is_odd, plain_only
from workflows.addresses import public_path
from workflows.dates import parse_date
from workflows.errors import DateInvalid, FormatUnsupported, PairTableInvalid
from workflows.files import check_free, guarded_cell, is_formula, unguarded_cell, write_together
from workflows.pairs.names import ALLOWED, is_pair_id, made_ids
from workflows.pairs.parquet import flat, from_wkt, parquet_bytes, read_parquet, to_wkt
from workflows.pairs.rows import COLUMNS, Draft, PairRow, RawTable
from workflows.pairs.sidecars import percent

CSV_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".geoparquet")
KINDS = f"tables of pairs are {', '.join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))}"
# Characters of a cell: a coastline of millions of corners.
_LONGEST_CELL = 2**27


def read_pairs(path: str | Path, warn: Callable[[str], None] | None = None) -> list[PairRow]:
    """Read a table of pairs: CSV (commas, semicolons or tabs) or Parquet, columns as in :class:`PairRow`.

    Only ``before`` and ``after`` are required. Relative paths are relative to the table's folder. A pair
    without a name is named after its site and dates, or its files: see
    :func:`workflows.pairs.names.made_ids`. Other columns are passed over; ``warn`` is called with a line
    that names them.

    Raises:
        PairTableInvalid: the file cannot be read or has no pair, or a row is wrong; the message says which.
        FormatUnsupported: another suffix.
    """
    path = Path(path)
    table = _read(path)
    missing = [name for name in ("before", "after") if name not in table.columns]
    if missing:
        raise PairTableInvalid(
            f"{path}: it has no column {' and no column '.join(missing)}; a table of pairs has at least "
            "before and after"
        )
    others = [name for name in table.columns if name not in COLUMNS]
    if others and warn:
        warn(f"{path}: passed over {', '.join(others)}; known columns are {', '.join(COLUMNS)}")
    if table.outlines_unused and warn:
        warn(
            f"{path}: passed over footprint; the ground is taken from a geometry, or from text where none is"
        )
    if not table.rows:
        raise PairTableInvalid(f"{path}: it has no rows; give each pair of scenes one")
    return _checked(path, table)


def is_table(path: str | Path) -> bool:
    """Return whether a table of pairs may have this name."""
    return Path(path).suffix.lower() in CSV_SUFFIXES + PARQUET_SUFFIXES


def layer_path(path: Path) -> Path:
    """Return the path of the layer of footprints that lies beside the table ``path``."""
    return path.with_name(f"{path.stem}_footprints.geojson")


def check_table(path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = ()) -> Path:
    """Make sure that a table and its layer can be written to ``path``; ``inputs`` stay as they are.

    Raises:
        FormatUnsupported, OutputFolderMissing, OutputExists, OutputNotWritable: it cannot.
    """
    path = _table_path(path)
    check_free((path, layer_path(path)), overwrite, inputs)
    return path


def write_pairs(rows: Sequence[PairRow], path: str | Path) -> Path | None:
    """Write the table, and the footprints as a GeoJSON layer beside it; returns where that layer is.

    Scenes under the table's folder are named relative to it, so that both can be moved together. None is
    returned, and no layer is there, where no footprint is known.

    Raises:
        FormatUnsupported: neither CSV nor Parquet.
        OutputNotWritable: the system refused; neither file was touched.
    """
    path = _table_path(path)
    layer = layer_path(path) if any(row.footprint is not None for row in rows) else None
    records = [_record(row, path) for row in rows]
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


def _table_path(path: str | Path, remedy: str = "give the output such a name") -> Path:
    if not is_table(path):
        raise FormatUnsupported(f"{path}: {KINDS}; {remedy}")
    return Path(path)


def _read(path: str | Path) -> RawTable:
    path = _table_path(path, "this is none by its name")
    if is_odd(path):
        raise PairTableInvalid(f"{path}: it is a pipe, a socket or a device; save the table in a file")
    if not path.is_file():
        raise PairTableInvalid(f"{path}: there is no such file; check the path, or make one with rscc pairs")
    return read_parquet(path) if path.suffix.lower() in PARQUET_SUFFIXES else _read_csv(path)


def _read_csv(path: Path) -> RawTable:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    try:
        with open(path, encoding="utf-8-sig", newline="", opener=plain_only) as file:
            first = re.sub(r'"[^"]*("|$)', "", file.readline())
            file.seek(0)
            # Spreadsheets of many countries write semicolons.
            mark = max(",;\t", key=first.count)
            reader = csv.reader(file, delimiter=mark, strict=True)
            columns = [name.strip().lower() for name in next(reader, [])]
            twice = {name for name in columns if name in COLUMNS and columns.count(name) > 1}
            if twice:
                raise PairTableInvalid(f"{path}: it has two columns {', '.join(sorted(twice))}; keep one")
            rows = list(_csv_rows(path, reader, columns))
    except UnicodeDecodeError as error:
        raise PairTableInvalid(f"{path}: this is no text in UTF-8; save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise PairTableInvalid(f"{path}: line {reader.line_num}: {error}; save it as CSV in UTF-8") from error
    except OSError as error:
        raise PairTableInvalid(
            f"{path}: it cannot be read ({error.strerror}); check its permissions"
        ) from error
    return RawTable([name for name in columns if name], rows, from_wkt(path, rows))


def _csv_rows(path: Path, reader: Any, columns: list[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    for cells in reader:
        if not any(cells):
            continue
        if len(cells) > len(columns) and any(cells[len(columns) :]):
            raise PairTableInvalid(
                f"{path}: line {reader.line_num}: it has {len(cells)} cells, the header has {len(columns)}; "
                "put a text that holds the separator in quotes"
            )
        texts = dict(zip(columns, cells, strict=False))
        if "site" in texts:
            texts["site"] = unguarded_cell(texts["site"].strip())
        yield f"line {reader.line_num}", texts


def _checked(path: Path, table: RawTable) -> list[PairRow]:
    """Return the rows with everything in place; the first wrong one ends it."""
    folder = path.absolute().parent
    seen: dict[str, str] = {}
    unnamed: dict[tuple[str, str], str] = {}
    rows: list[PairRow] = []
    nameless: list[int] = []
    for number, ((where, texts), footprint) in enumerate(
        zip(table.rows, flat(path, table.rows, table.footprints), strict=True)
    ):
        try:
            row = _row(folder, {name: text.strip() for name, text in texts.items()}, footprint)
            if row.pair:
                _first(seen, row.pair.lower(), where, f"the pair {row.pair!r}")
            else:
                nameless.append(number)
                _first(unnamed, (row.before, row.after), where, "the same two scenes")
        except (ValueError, DateInvalid) as error:
            raise PairTableInvalid(f"{path}: {where}: {error}") from error
        rows.append(row)
    drafts = []
    for number in nameless:
        # As the table has them: a table that is moved with its scenes keeps its names.
        before, after = (table.rows[number][1][role].strip() for role in ("before", "after"))
        drafts.append(Draft(rows[number], public_path(before), public_path(after), (before, after)))
    for number, name in zip(nameless, made_ids(drafts, seen), strict=True):
        rows[number] = replace(rows[number], pair=name)
        where = table.rows[number][0]
        first = seen.setdefault(name.lower(), where)
        if first != where:
            raise PairTableInvalid(
                f"{path}: {where}: its scenes are those of {first} but for signatures; give both rows a name "
                "in the column pair, or take one out"
            )
    return rows


def _row(folder: Path, texts: Mapping[str, str], footprint: Any) -> PairRow:
    """Return one row, its ``pair`` empty where it has no name; a ValueError says what is wrong with it."""
    for role, text in texts.items():
        if "\0" in text:
            raise ValueError(f"{role} holds a character that no text has (NUL); write the table anew")
    name = texts.get("pair", "")
    if name and not is_pair_id(name):
        raise ValueError(f"{name!r} cannot name a pair; use {ALLOWED}")
    scenes = {role: texts.get(role, "") for role in ("before", "after")}
    for role, text in scenes.items():
        if not text:
            raise ValueError(f"the scene {role} is missing; name it, or take the row out")
    places: dict[str, Any] = {role: _absolute(folder, text) for role, text in scenes.items()}
    if places["before"] == places["after"]:
        same = public_path(scenes["before"])
        raise ValueError(f"before and after are the same scene, {same}; correct one, or take the row out")
    facts: dict[str, Any] = {"site": texts.get("site") or None, "footprint": footprint}
    facts |= {role: parse_date(texts[role]) for role in ("date_before", "date_after") if texts.get(role)}
    facts |= {role: _cloud(role, texts.get(role, "")) for role in ("cloud_before", "cloud_after")}
    return PairRow(name, **places, **facts)


def _first(seen: dict[Any, str], key: Any, where: str, what: str) -> None:
    if key in seen:
        raise ValueError(f"{what} stands at {seen[key]} already; give this one another name or take it out")
    seen[key] = where


def _cloud(role: str, text: str) -> float | None:
    value = percent(text)
    if text and value is None:
        raise ValueError(f"{role} is {text!r}; give percent, 0 to 100, or leave it empty")
    return value


def _absolute(folder: Path, text: str) -> str:
    if text.startswith("/vsi") or is_address(text):
        return text
    return os.path.normpath(os.path.join(folder, text))


def _record(row: PairRow, path: Path) -> dict[str, Any]:
    """Return the values of a row by column without its footprint, scenes as the table ``path`` names them."""
    folder = os.path.join(path.absolute().parent, "")
    values = {name: getattr(row, name) for name in COLUMNS if name != "footprint"}
    for role in ("before", "after"):
        if values[role].startswith(folder):
            text = Path(values[role][len(folder) :]).as_posix()
            # So that it is read as a path.
            unclear = text != text.lstrip() or is_formula(text) or is_address(text)
            values[role] = f"./{text}" if unclear else text
    return values


def _csv_text(records: Sequence[Mapping[str, Any]], rows: Sequence[PairRow], mark: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=mark, lineterminator="\n")
    shapes = [row.footprint for row in rows]
    with_shapes = any(shape is not None for shape in shapes)
    writer.writerow(COLUMNS if with_shapes else COLUMNS[:-1])
    outlines = to_wkt(shapes) if with_shapes else [()] * len(rows)
    for record, outline in zip(records, outlines, strict=True):
        safe = {**record, "site": guarded_cell(record["site"] or "")}.values()
        cells = [f"{value:.10g}" if isinstance(value, float) else value or "" for value in safe]
        writer.writerow([*cells, *outline])
    return text.getvalue()


def _layer_lines(rows: Sequence[PairRow], records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a GeoJSON layer, one pair on a line; of an address nothing that may be a secret."""
    from shapely.geometry.polygon import orient

    from workflows.report.geojson import geometry_member, joined, parts_of

    yield '{"type": "FeatureCollection", "features": [\n'
    mark = ""
    for row, record in zip(rows, records, strict=True):
        if row.footprint is None:
            continue
        shape = geometry_member(joined([orient(part) for part in parts_of(row.footprint)]))
        scenes = {role: public_path(record[role]) for role in ("before", "after")}
        feature = {"type": "Feature", "properties": {**record, **scenes}, "geometry": shape}
        yield mark + json.dumps(feature, ensure_ascii=False)
        mark = ",\n"
    yield "\n]}\n"
