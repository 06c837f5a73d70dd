"""The lines that ``rscc status`` prints about an archive."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflows.cli.terminal import area_text
from workflows.printable import counted, printable_lines
from workflows.progress import duration

if TYPE_CHECKING:
    from workflows.archive.reasons import Reason
    from workflows.archive.status import Run, Status

LISTED = 12
"""Workers that are listed by name."""


def status_text(archive: Path, result: Status) -> str:
    """Return a few lines about the progress of an archive."""
    lines = [
        f"archive  {archive}",
        f"pairs    {_pairs(result)}",
        f"changes  {result.changes:,}, {area_text(result.area_m2)}",
        *(f"speed    {speed}" for speed in _speed(result)),
        f"run      {_run(result)}",
    ]
    if result.at_work and result.running:
        lines.append(f"at work  {', '.join(_running(result))}")
    if result.workers:
        workers = [f"{worker.name} {worker.pairs:,}" for worker in result.workers]
        lines.append(f"workers  {_first(workers)} (pairs in the last 10 minutes)")
    if result.counts.failed:
        lines.append(f"reasons  rscc status {archive} --failed")
    if result.warned:
        lines.append(f"warnings {counted(result.warned, 'pair')} (rscc status {archive} --warnings)")
    return printable_lines(lines)


def reasons_text(reasons: Sequence[Reason]) -> str:
    """Return a line for each reason of failures or warnings, and below it the first such pairs."""
    lines = []
    for reason in reasons:
        more = reason.count - len(reason.pairs)
        error = f" [{reason.error}]" if reason.error else ""
        lines.append(f"{counted(reason.count, 'pair'):>10}  {reason.kind}: {reason.line}{error}")
        lines.append(f"{'':>10}  {', '.join(reason.pairs)}{f' and {more:,} more' if more else ''}")
    return printable_lines(lines)


def _pairs(result: Status) -> str:
    counts = result.counts
    ended = counts.done + counts.failed
    share = f" ({100 * ended / counts.total:.1f} %)" if counts.total else ""
    states = [
        (counts.done, "done"),
        (counts.failed, "failed"),
        (result.running_count, "running"),
        (max(0, counts.pending - result.running_count), "to do"),
        (counts.dropped, "no longer in the table"),
    ]
    listed = ", ".join(f"{count:,} {state}" for count, state in states if count or state == "done")
    return f"{ended:,} of {counts.total:,} finished{share}: {listed}"


def _speed(result: Status) -> Iterator[str]:
    """Yield the speed of the run; nothing if no pair was done and none is left."""
    if result.per_hour is None:
        if result.counts.pending:
            yield "not known before the first pair is finished"
        return
    text = f"{result.per_hour:,.0f} pairs an hour over {duration(result.worked)}"
    if result.per_hour_now is not None:
        text += f", {result.per_hour_now:,.0f} in the last 10 minutes of work"
    if result.counts.pending and result.seconds_left is not None:
        text += f"; about {duration(result.seconds_left)} left"
    yield text


def _run(result: Status) -> str:
    if result.at_work:
        hosts = [f"{each.host} (process {each.pid}{_shard(each)})" for each in result.runs[:3]]
        more = result.at_work - len(hosts)
        if not hosts:
            return "at work, reading the headers of the scenes"
        return f"at work on {', '.join(hosts)}{f' and {more} more' if more else ''}"
    if result.counts.pending:
        return "stopped; the same rscc batch command resumes it"
    return "finished"


def _running(result: Status) -> Iterator[str]:
    for pair in result.running:
        yield f"{pair.pair} ({duration(max(0.0, time.time() - pair.since))})"
    if result.running_count > len(result.running):
        yield f"and {result.running_count - len(result.running):,} more"


def _shard(run: Run) -> str:
    return "" if run.shard == (1, 1) else f", shard {run.shard[0]} of {run.shard[1]}"


def _first(names: Sequence[Any]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")
