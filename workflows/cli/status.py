"""The command ``rscc status``, and the lines that it prints."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from workflows.cli.options import OverwriteOption, argument, option, switch, takes_options
from workflows.cli.terminal import Terminal, area_text, print_text
from workflows.errors import OptionInvalid
from workflows.printable import counted, listed, printable_json, printable_lines
from workflows.progress import duration

if TYPE_CHECKING:
    from workflows.archive.reasons import Reason
    from workflows.archive.status import Run, Status


@takes_options()
def status(
    archive: Annotated[Path, argument("ARCHIVE", "Folder that rscc batch or rscc monitor writes")],
    watch: Annotated[bool, switch("--watch", "Refresh until all is done or Ctrl-C is pressed")] = False,
    every: Annotated[
        float, option("Time between two refreshes of --watch", "SECONDS", min=0.1, max=86_400)
    ] = 2.0,
    failed: Annotated[bool, switch("--failed", "List why pairs failed")] = False,
    warnings: Annotated[bool, switch("--warnings", "List the warnings of finished pairs")] = False,
    html: Annotated[
        Path | None, option("Write a web page: pairs on a map, totals, times, failures", "FILE")
    ] = None,
    overwrite: OverwriteOption = False,
    *,
    terminal: Terminal,
) -> None:
    """Show the progress of an archive, or the state of a monitor, without disturbing its run."""
    from workflows.monitor.folder import MonitorFolder

    if MonitorFolder(archive).is_monitor():
        if watch or failed or warnings or html is not None:
            raise OptionInvalid(
                f"{archive}: is a monitor, which has no --watch, --failed, --warnings and --html"
            )
        from workflows.cli.monitor import state_of, state_text

        state = state_of(archive)
        terminal.result(state_text(state), state)
        return
    from workflows.archive.folder import ArchiveFolder

    ArchiveFolder(archive).archive_id("rscc batch or rscc monitor")
    if html is not None:
        from workflows.archive.layers.pages import write_archive_page

        if watch:
            raise OptionInvalid("--html writes one page; leave --watch out")
        write_archive_page(archive, html, overwrite)
    with _screen(is_redrawn=watch and not terminal.as_json and sys.stdout.isatty()) as show:
        while True:
            facts, text, is_finished = _look(archive, failed, warnings)
            if html is not None:
                facts["html"] = str(html)
                text = f"{text}\npage     {html}"
            show(printable_json(facts) if terminal.as_json else text)
            if not watch or is_finished:
                break
            time.sleep(every)


def _look(archive: Path, failed: bool, warnings: bool) -> tuple[dict[str, Any], str, bool]:
    """Return the present state as plain values and as text, and whether the archive is finished."""
    from workflows.archive.reasons import failure_reasons, warning_reasons
    from workflows.archive.state import read_state
    from workflows.archive.status import archive_status

    result = archive_status(archive)
    facts, texts = {"archive": str(archive), **asdict(result)}, []
    facts["counts"] |= {"total": result.counts.total}
    if failed:
        with read_state(archive) as state:
            reasons = failure_reasons(state.index.rows("failed"))
        facts["reasons"] = [asdict(reason) for reason in reasons]
        texts.append(reasons_text(reasons) or "no failures")
    if warnings:
        with read_state(archive) as state:
            reasons = warning_reasons(state.index.rows("done", warned=True))
        facts["warnings"] = [asdict(reason) for reason in reasons]
        texts.append(reasons_text(reasons) or "no warnings")
    is_finished = not (result.counts.pending or result.at_work)
    return facts, "\n".join(texts) or status_text(archive, result), is_finished


@contextmanager
def _screen(is_redrawn: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a text below the previous one, or redraws it in place."""
    if not is_redrawn:
        yield print_text
        return
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        yield lambda text: live.update(Text(printable_lines(text.split("\n"))), refresh=True)


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
        lines.append(f"workers  {listed(workers, LISTED)} (pairs in the last 10 minutes)")
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
