"""What rscc batch says to a person of an archive: before a run, and at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rscc.terminal import area_words, duration

if TYPE_CHECKING:
    from workflows.archive import ArchiveSummary
    from workflows.archive_estimate import Estimate

# Reasons of failures that are told; rscc status has them all.
REASONS = 5


def archive_summary(found: ArchiveSummary, output: Path) -> str:
    """Say in a few lines what a run over an archive came to."""
    before = f" ({found.skipped_as_done:,} of them before)" if found.skipped_as_done else ""
    lines = [
        f"{found.done:,} of {found.pairs:,} pairs done{before} in {found.seconds:.1f} s",
        f"changes {found.changes:,}, {area_words(found.area_m2)}",
    ]
    if found.failed:
        lines.append(f"failed  {found.failed:,} (rscc status {output} --failed lists them)")
        lines += [f"        {reason.count:,}: {reason.line}" for reason in found.reasons[:REASONS]]
    return "\n".join(
        [*lines, f"layers  {output / 'changes.gpkg'} (open it in QGIS), changes.parquet, summary.csv"]
    )


def estimate_text(found: Estimate) -> str:
    """Say in a few lines what a run over an archive would do and take."""
    planned = found.planned
    new = f", {planned.new:,} new" if planned.new else ""
    changed = f", {planned.changed:,} with changed inputs or settings" if planned.changed else ""
    lines = [
        f"pairs   {planned.total:,}: {planned.done:,} done, {planned.failed:,} failed, "
        f"{planned.pending:,} to do{new}{changed}"
    ]
    unknown = [(found.remote, "on servers, their size not asked"), (found.missing, "missing")]
    lines.append(
        f"scenes  {_size(found.input_bytes)} to read"
        + "".join(f", {count:,} {what}" for count, what in unknown if count)
    )
    if found.looked_at < planned.pending:
        lines.append(
            f"sample  headers of {found.looked_at:,} of the {planned.pending:,} pairs to do were read; "
            "what follows is taken from them"
        )
    for reason in found.reasons:
        lines.append(f"refused {reason.count:,} of {found.looked_at:,}: {reason.line}")
    lines.append(f"tiles   {found.tiles:,}")
    if found.worker_seconds is None or found.seconds is None:
        lines.append("time    unknown: this model has no stated speed; it is known once 20 pairs are done")
    else:
        source = {
            "archive": "as fast as the pairs that are done",
            "stated": "server cores with bf16, without words",
        }
        lines.append(
            f"time    {duration(found.worker_seconds)} of one worker, {duration(found.seconds)} with "
            f"{found.workers:,} ({source[found.speed or 'stated']})"
        )
    lines.append(f"disk    about {_size(found.disk_bytes)}, {_size(found.free_bytes)} are free")
    return "\n".join(lines)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
