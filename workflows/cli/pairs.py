"""The command ``rscc pairs``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from workflows.cli.options import OverwriteOption, argument, option, takes_options
from workflows.cli.terminal import Terminal
from workflows.pairs.options import CatalogOptions
from workflows.printable import counted, printable_lines

if TYPE_CHECKING:
    from workflows.pairs.catalog import Catalog


@takes_options(
    CatalogOptions,
    *("pair", "first_date", "last_date", "max_cloud", "min_overlap", "match", "glob", "assets"),
    *("collections", "bounds", "offline", "allow_hosts"),
)
def pairs(
    sources: Annotated[
        list[str],
        argument(
            "SOURCES",
            "A table; a folder of dated scenes; two folders with the same file names; or STAC: the "
            "folder, .json or address of a catalog, or the address of an API",
        ),
    ],
    options: CatalogOptions,
    output: Annotated[
        Path,
        option(
            "Table to write: .csv, .tsv, .txt, .parquet or .geoparquet",
            "FILE",
            "--output",
            "-o",
            panel="Output",
        ),
    ] = Path("pairs.csv"),
    overwrite: OverwriteOption = False,
    *,
    terminal: Terminal,
) -> None:
    """Find pairs of scenes and write them to a table for rscc batch."""
    from workflows.pairs.catalog import skip_warnings
    from workflows.pairs.delivery.pictures import write_stack
    from workflows.pairs.sources import read_catalog
    from workflows.pairs.table import check_table, write_pairs

    target = check_table(output, overwrite, sources)
    with terminal.progress() as update:
        catalog = read_catalog(sources, options, update)
    terminal.warn(*catalog.warnings, *skip_warnings(catalog.skipped))
    catalog.check()
    for stack in catalog.stacks:
        write_stack(stack)
    facts = _facts(catalog, target, write_pairs(catalog.rows, target))
    terminal.result(_summary(catalog, facts), facts)


def _summary(catalog: Catalog, facts: dict[str, Any]) -> str:
    first, last, sites = facts["first_date"], facts["last_date"], facts["sites"]
    place = f" at {counted(sites, 'site')}" if sites else ""
    span = f", {first} to {last}" if first else ""
    lines = [f"{counted(facts['pairs'], 'pair')} of {counted(facts['scenes'], 'scene')}{place}{span}"]
    # What is left of deliveries is in the lines of what was chosen.
    if words := replace(catalog, skipped=[one for one in catalog.skipped if not one.quiet]).left_out_words():
        lines.append(f"left out {words}")
    lines += [f"chosen   {line}" for line in catalog.chosen]
    if facts["stacks"]:
        first, more = facts["stacks"][0], len(facts["stacks"]) - 1
        lines.append(f"written  {first}" + (f" and {counted(more, 'more stack')}" if more else ""))
    lines.append(f"table    {facts['output']}")
    if facts["layer"] is not None:
        lines.append(f"layer    {facts['layer']} (footprints of the pairs, for QGIS)")
    lines.append(f"next     check and edit the table, then: rscc batch {facts['output']} --out ARCHIVE")
    return printable_lines(lines)


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
        "chosen": list(catalog.chosen),
        "stacks": [stack.scene.location for stack in catalog.stacks],
        "warnings": list(catalog.warnings),
    }
