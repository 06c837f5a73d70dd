"""Summaries of ``rscc batch``: what a run did, and what a dry run expects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflows.cli.terminal import area_text
from workflows.printable import counted, printable_lines
from workflows.progress import duration

if TYPE_CHECKING:
    from workflows.archive.estimate import Estimate
    from workflows.archive.run import ArchiveSummary

REASONS = 5
"""Reasons of failures, and warnings, that are listed; ``rscc status`` lists all."""


def archive_summary(result: ArchiveSummary, output: Path) -> str:
    """Return a few lines about a run over the archive, or the shard, in ``output``."""
    before = f" ({result.skipped_as_done:,} of them before)" if result.skipped_as_done else ""
    lines = [
        f"{result.done:,} of {result.pairs:,} pairs done{before} in {result.seconds:.1f} s",
        f"changes {result.changes:,}, {area_text(result.area_m2)}",
    ]
    if result.failed:
        lines.append(f"failed  {result.failed:,} (list: rscc status {output} --failed)")
        lines += [f"        {reason.count:,}: {reason.line}" for reason in result.reasons[:REASONS]]
    if result.warnings:
        kinds = counted(len(result.warnings), "kind")
        lines.append(f"warned  {kinds} of warnings (list: rscc status {output} --warnings)")
        lines += [f"        {warning.count:,}: {warning.line}" for warning in result.warnings[:REASONS]]
    if result.kept:
        lines.append(kept_line(result.kept))
    if result.left:
        lines.append(f"layers  written when the {result.left:,} pairs of other shards are finished")
    else:
        lines.append(f"layers  {output / 'changes.gpkg'} (open it in QGIS), changes.parquet, summary.csv")
    if result.page:
        lines.append(f"page    {result.page} (open it in a browser)")
    return printable_lines(lines)


def kept_line(pairs: Sequence[str]) -> str:
    """Return the line about outdated reports that were kept because people marked them."""
    first = pairs[0] if len(pairs) == 1 else f"{pairs[0]} and others"
    return f"kept    {len(pairs):,} outdated reports with marks: {first} (--overwrite replaces them)"


def estimate_text(result: Estimate) -> str:
    """Return a few lines about what a run over an archive would do, and its cost."""
    planned = result.planned
    details = [
        (planned.new, "new"),
        (planned.changed, "with changed inputs or settings"),
        (planned.removed, "with a removed or damaged report"),
    ]
    lines = [
        f"pairs   {planned.total:,}: {planned.done:,} done, {planned.failed:,} failed, "
        f"{planned.pending:,} to do" + _listed(details)
    ]
    if planned.kept:
        lines.append(kept_line(planned.kept))
    unknown = [(result.remote, "on servers, of unknown size"), (result.missing, "missing")]
    lines.append(f"scenes  {size_text(result.input_bytes)} to read" + _listed(unknown))
    if result.looked_at < planned.pending:
        lines.append(
            f"sample  extrapolated from the headers of {result.looked_at:,} of the {planned.pending:,} pairs"
        )
    for reason in result.reasons:
        lines.append(f"refused {reason.count:,} of {result.looked_at:,}: {reason.line}")
    lines += [f"tiles   {result.tiles:,}", *_time_lines(result)]
    lines.append(f"disk    about {size_text(result.disk_bytes)}, {size_text(result.free_bytes)} are free")
    return printable_lines(lines)


def _listed(counts: Sequence[tuple[int, str]]) -> str:
    return "".join(f", {count:,} {what}" for count, what in counts if count)


def _time_lines(result: Estimate) -> Iterator[str]:
    if result.worker_seconds is None or result.seconds is None:
        yield "time    unknown until 20 pairs are done"
        return
    text = (
        f"{duration(result.worker_seconds)} of one worker, {duration(result.seconds)} with {result.workers:,}"
    )
    source = "the pairs that are done" if result.speed == "archive" else "this machine, measured on one tile"
    yield f"time    {text} (at the speed of {source})"


def size_text(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
