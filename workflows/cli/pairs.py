"""The command ``rscc pairs``; registered in the cli."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rscc.errors import extra
from workflows.cli.options import Debug, JsonOption, ProgressForm, ProgressOption, QuietOption, takes_options
from workflows.pairs.options import CatalogOptions
from workflows.texts import counted, shown_lines

if TYPE_CHECKING:
    from workflows.pairs.catalog import Catalog

# So many lines of one kind show what is wrong; the others are counted.
_MOST_LINES = 10


@takes_options(
    CatalogOptions,
    output=(
        "pair", "first_date", "last_date", "max_cloud", "min_overlap", "match", "glob", "assets",
        "collections", "bounds", "offline", "allow_hosts",
    ),
)  # fmt: skip
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
        Path,
        typer.Option("--output", "-o", help="Table to write: .csv, .tsv, .txt, .parquet or .geoparquet."),
    ] = Path("pairs.csv"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing table.")] = False,
    progress: ProgressOption = ProgressForm.auto,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
    *,
    options: CatalogOptions,
) -> None:
    """Find pairs of scenes and write them to a table, to look at and to edit before rscc batch."""
    from workflows.cli.terminal import show_result, show_warnings, shown_progress
    from workflows.pairs.sources import read_catalog
    from workflows.pairs.table import check_table, write_pairs

    target = check_table(output, overwrite, sources)
    with shown_progress(progress, quiet) as update, extra("stac"):
        catalog = read_catalog(sources, options, update)
    show_warnings(_lines(catalog), progress)
    catalog.check()
    facts = _facts(catalog, target, write_pairs(catalog.rows, target))
    show_result(_summary(catalog, facts), facts, progress, quiet=quiet, as_json=as_json)


def _lines(catalog: Catalog) -> list[str]:
    """Return what is worth a warning: all about the whole, and of each kind of what was left out a few."""
    lines = list(catalog.warnings)
    for kind in catalog.left_out():
        named = [skipped.line for skipped in catalog.skipped if skipped.kind == kind and skipped.line]
        lines += named[:_MOST_LINES]
        if len(named) > _MOST_LINES:
            lines.append(f"{len(named) - _MOST_LINES:,} more {kind}; --json lists them all")
    return lines


def _summary(catalog: Catalog, facts: dict[str, Any]) -> str:
    first, last, sites = facts["first_date"], facts["last_date"], facts["sites"]
    place = f" at {counted(sites, 'site')}" if sites else ""
    span = f", {first} to {last}" if first else ""
    lines = [f"{counted(facts['pairs'], 'pair')} of {counted(facts['scenes'], 'scene')}{place}{span}"]
    if catalog.skipped:
        lines.append(f"left out {catalog.left_out_words()}")
    lines.append(f"table    {facts['output']}")
    if facts["layer"] is not None:
        lines.append(f"layer    {facts['layer']} (the ground of each pair, for QGIS)")
    lines.append(f"next     look at the table, edit it, then: rscc batch {facts['output']} --out ARCHIVE")
    return shown_lines(lines)


def _facts(catalog: Catalog, target: Path, layer: Path | None) -> dict[str, Any]:
    dates = [date for row in catalog.rows for date in (row.date_before, row.date_after) if date]
    return {
        "source": catalog.source,
        "output": str(target),
        "layer": None if layer is None else str(layer),
        "pairs": len(catalog.rows),
        "scenes": catalog.scenes,
        "sites": len({row.site for row in catalog.rows if row.site is not None}),
        "first_date": min(dates, default=None),
        "last_date": max(dates, default=None),
        "left_out": catalog.left_out(),
        "skipped": [skipped.line for skipped in catalog.skipped if skipped.line],
        "warnings": list(catalog.warnings),
    }
