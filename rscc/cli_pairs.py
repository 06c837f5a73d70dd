"""The command ``rscc pairs``; registered in the cli."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rscc.cli_options import BoundsOption, Debug, JsonOption, QuietOption, extra, read_bounds

if TYPE_CHECKING:
    from workflows.catalog import Catalog

PairChoice = StrEnum(
    "PairChoice",
    {"consecutive": "consecutive", "first_last": "first-last", "all": "all", "yearly": "yearly"},
)
# So many lines of one kind show what is wrong; the others are counted.
_MOST_LINES = 10


def pairs(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCES",
            help="A table; a folder of dated scenes; two folders of scenes with the same names; STAC: a "
            "catalog's folder, a .json file, or the address of a catalog or an API.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Table to write: .csv, .tsv or .parquet.")
    ] = Path("pairs.csv"),
    pair: Annotated[
        PairChoice, typer.Option("--pair", help="Which of the dated scenes of a place make a pair.")
    ] = PairChoice.consecutive,
    first_date: Annotated[
        str | None,
        typer.Option("--from", metavar="DATE", help="Only scenes from this day, month or year on."),
    ] = None,
    last_date: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="Only scenes up to this day, month or year.")
    ] = None,
    max_cloud: Annotated[
        float | None,
        typer.Option(
            "--max-cloud", metavar="PERCENT", help="Leave out scenes that are known to have more clouds."
        ),
    ] = None,
    min_overlap: Annotated[
        float,
        typer.Option(
            "--min-overlap",
            metavar="PERCENT",
            help="So much of the smaller scene must lie in the other for a pair.",
        ),
    ] = 50.0,
    match: Annotated[
        str | None,
        typer.Option(
            "--match",
            metavar="REGEX",
            help="Its group in a scene's path is its site or, with two folders, what makes a pair.",
        ),
    ] = None,
    glob: Annotated[
        str | None,
        typer.Option("--glob", metavar="PATTERN", help="Only files with such a name, like '*_visual.tif'."),
    ] = None,
    asset: Annotated[
        list[str] | None,
        typer.Option(
            "--asset", metavar="NAME", help="STAC: asset to take; several: the first that is there."
        ),
    ] = None,
    collection: Annotated[
        list[str] | None, typer.Option("--collection", metavar="NAME", help="STAC: only of this; repeatable.")
    ] = None,
    bbox: BoundsOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing table.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Find pairs of scenes and write them to a table, to look at and to edit before rscc batch."""
    from rscc.terminal import progress_bar, show_warnings
    from workflows.catalog import CatalogOptions
    from workflows.catalog_sources import read_catalog
    from workflows.pair_table import check_table, write_pairs

    options = CatalogOptions(
        pair=str(pair),  # type: ignore[arg-type]
        max_cloud=max_cloud,
        first_date=first_date,
        last_date=last_date,
        min_overlap=min_overlap,
        match=match,
        glob=glob,
        assets=tuple(asset or ()),
        collections=tuple(collection or ()),
        bounds=read_bounds(bbox),
    )
    target = check_table(output, overwrite)
    with progress_bar(shown=not quiet and sys.stderr.isatty()) as progress, extra("stac"):
        found = read_catalog(sources, options, progress)
    show_warnings(_lines(found))
    found.check()
    layer = write_pairs(found.rows, target)
    if not quiet:
        typer.echo(_summary(found, target, layer), err=as_json)
    if as_json:
        typer.echo(json.dumps(_plain(found, target, layer), ensure_ascii=False))


def _lines(found: Catalog) -> list[str]:
    """Return what is worth a warning: all about the whole, and of each kind of what was left out a few."""
    lines = list(found.warnings)
    for kind in found.left_out():
        told = [skipped.line for skipped in found.skipped if skipped.kind == kind and skipped.line]
        lines += told[:_MOST_LINES]
        if len(told) > _MOST_LINES:
            lines.append(f"{len(told) - _MOST_LINES:,} more {kind}; --json lists them all")
    return lines


def _summary(found: Catalog, target: Path, layer: Path | None) -> str:
    lines = [f"{_count(len(found.rows), 'pair')} of {_count(found.scenes, 'scene')}{_where_and_when(found)}"]
    if found.skipped:
        lines.append(f"left out {found.left_out_words()}")
    lines.append(f"table    {target}")
    if layer is not None:
        lines.append(f"layer    {layer} (the ground of each pair, for QGIS)")
    lines.append(f"next     look at the table, edit it, then: rscc batch {target} --out ARCHIVE")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _where_and_when(found: Catalog) -> str:
    sites = _sites(found)
    first, last = _span(found)
    place = f" at {_count(sites, 'site')}" if sites else ""
    return f"{place}, {first} to {last}" if first and last else place


def _sites(found: Catalog) -> int:
    return len({row.site for row in found.rows if row.site is not None})


def _span(found: Catalog) -> tuple[str | None, str | None]:
    """Return the first and the last date of all pairs, None where no date is known."""
    dates = [date for row in found.rows for date in (row.date_before, row.date_after) if date]
    return (min(dates), max(dates)) if dates else (None, None)


def _plain(found: Catalog, target: Path, layer: Path | None) -> dict[str, Any]:
    first, last = _span(found)
    return {
        "source": found.source,
        "output": str(target),
        "layer": None if layer is None else str(layer),
        "pairs": len(found.rows),
        "scenes": found.scenes,
        "sites": _sites(found),
        "first_date": first,
        "last_date": last,
        "left_out": found.left_out(),
        "skipped": [skipped.line for skipped in found.skipped if skipped.line],
        "warnings": list(found.warnings),
    }
