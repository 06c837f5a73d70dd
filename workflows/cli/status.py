"""The command ``rscc status``; registered in the cli."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workflows.cli.options import Debug
from workflows.cli.terminal import area_words, say
from workflows.progress import duration
from workflows.texts import counted, shown_json, shown_lines

if TYPE_CHECKING:
    from workflows.archive.status import Status
    from workflows.store.failures import Reason

# Shards that are told of by name where there are many.
SHARDS_SHOWN = 12


def status(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="Folder that rscc batch writes.")],
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again and again, until everything is done or Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="Seconds between two looks with --watch.")
    ] = 2.0,
    failed: Annotated[bool, typer.Option("--failed", help="Say why pairs failed, grouped.")] = False,
    warnings: Annotated[
        bool, typer.Option("--warnings", help="Say what pairs that are done warn of, grouped.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write a page of the archive: its pairs on a map, sums, times, failures."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing page.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print it as JSON, with --watch a line each.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Say how far the archive is that rscc batch works on, worked on, or was killed over.

    Nothing in it is written, and a run is not held up: ask from any terminal, also for the shards of an
    archive.
    """
    from workflows.archive.status import archive_status, failure_reasons, warning_reasons

    if html is not None:
        _write_page(archive, html, overwrite, watch)

    def look() -> tuple[dict[str, Any], str, bool]:
        result = archive_status(archive)
        plain = {"archive": str(archive), **as_dict(result)}
        texts = []
        if failed:
            reasons = failure_reasons(archive)
            plain["reasons"] = [asdict(reason) for reason in reasons]
            texts.append(reasons_text(reasons) or "no pair failed")
        if warnings:
            warned = warning_reasons(archive)
            plain["warnings"] = [asdict(reason) for reason in warned]
            texts.append(reasons_text(warned) or "no pair that is done warns of anything")
        text = "\n".join(texts) or as_text(archive, result)
        if html is not None:
            plain["html"] = str(html)
            text = f"{text}\n{shown_lines([f'page     {html}'])}"
        return plain, text, result.counts.left == 0 and not result.at_work and not result.shards_missing

    with _screen(redrawn=watch and not as_json and sys.stdout.isatty()) as show:
        while True:
            plain, text, is_over = look()
            show(shown_json(plain) if as_json else text)
            if not watch or is_over:
                break
            time.sleep(every)


def _write_page(archive: Path, page: Path, overwrite: bool, watch: bool) -> None:
    from workflows.archive.overview import archive_overview
    from workflows.errors import OptionInvalid
    from workflows.page.archive import write_archive_page
    from workflows.page.template import check_page_name

    if watch:
        raise OptionInvalid("--html: a page is of one moment; leave --watch out")
    check_page_name(page, overwrite)
    write_archive_page(archive_overview(archive, page), page, overwrite)


def as_dict(result: Status) -> dict[str, Any]:
    """Return a status as plain values; shards by name."""
    plain = asdict(result)
    plain["counts"] |= {"left": result.counts.left, "total": result.counts.total}
    plain["shards"] = {name: as_dict(shard) for name, shard in result.shards}
    return plain


def as_text(archive: Path, result: Status) -> str:
    """Say in a few lines how far an archive is."""
    counts = result.counts
    ended = counts.done + counts.failed
    share = f" ({100 * ended / counts.total:.1f} %)" if counts.total else ""
    if result.shards_missing:
        share = " so far"  # how many there are is not known
    states = [
        (counts.done, "done"),
        (counts.failed, "failed"),
        (counts.running, "running" if result.at_work else "interrupted"),
        (counts.pending, "to do"),
        (counts.dropped, "no longer in the table"),
    ]
    lines = [
        f"archive  {archive}",
        f"pairs    {ended:,} of {counts.total:,} finished{share}: "
        + ", ".join(f"{count:,} {state}" for count, state in states if count or state == "done"),
        f"changes  {result.changes:,}, {area_words(result.area_m2)}",
        *(f"speed    {speed}" for speed in _speed(result)),
        f"run      {_run(result)}",
    ]
    if result.at_work and result.running:
        lines.append(f"at work  {', '.join(_running(result))}")
    if result.workers:
        busiest = ", ".join(f"{worker.name} {worker.pairs:,}" for worker in result.workers[:SHARDS_SHOWN])
        more = len(result.workers) - SHARDS_SHOWN
        lines.append(
            f"workers  {busiest}{f' and {more} more' if more > 0 else ''} (pairs in the last 10 minutes)"
        )
    lines += _shards(result)
    if counts.failed:
        lines.append(f"reasons  rscc status {archive} --failed")
    if result.warned:
        lines.append(f"warnings {counted(result.warned, 'pair')} (rscc status {archive} --warnings)")
    return shown_lines(lines)


def reasons_text(reasons: Sequence[Reason]) -> str:
    """Say why pairs failed, or what they warn of: a line for each reason, below it the first such pairs."""
    lines = []
    for reason in reasons:
        more = reason.count - len(reason.pairs)
        error = f" [{reason.error}]" if reason.error else ""
        lines.append(f"{counted(reason.count, 'pair'):>10}  {reason.kind}: {reason.line}{error}")
        lines.append(f"{'':>10}  {', '.join(reason.pairs)}{f' and {more:,} more' if more else ''}")
    return shown_lines(lines)


def _speed(result: Status) -> Iterator[str]:
    """Yield how fast it goes or went; nothing where no pair was done and none is left."""
    if result.per_hour is None:
        if result.counts.left:
            yield "not known before the first pair is finished"
        return
    text = f"{result.per_hour:,.0f} pairs an hour over {duration(result.worked)}"
    if result.per_hour_now is not None:
        text += f", {result.per_hour_now:,.0f} in the last 10 minutes of work"
    if result.counts.left and result.seconds_left is not None:
        text += f"; about {duration(result.seconds_left)} left"
    yield text


def _run(result: Status) -> str:
    if result.at_work:
        places = ", ".join(f"{each.host} (process {each.pid})" for each in result.coordinators[:3])
        more = result.at_work - len(result.coordinators[:3])
        others = f" and {more} more" if places and more else ""
        return f"at work on {places}{others}" if places else "at work, looking at the scenes"
    if result.counts.left:
        return "nobody works on it now; the same rscc batch command goes on from here"
    if result.shards_missing:
        return "nobody works on it now; rscc batch goes on with the shards that have not begun"
    return "finished"


def _running(result: Status) -> Iterator[str]:
    for pair in result.running:
        attempt = f", attempt {pair.attempt}" if pair.attempt > 1 else ""
        yield f"{pair.pair} ({duration(max(0.0, time.time() - pair.since))}{attempt})"
    if result.counts.running > len(result.running):
        yield f"and {result.counts.running - len(result.running):,} more"


def _shards(result: Status) -> Iterator[str]:
    # Those that are not through come first: there something is to be done.
    ranked = sorted(result.shards, key=lambda shard: shard[1].counts.left == 0)
    for name, shard in ranked[:SHARDS_SHOWN]:
        ended = shard.counts.total - shard.counts.left
        state = "at work" if shard.at_work else "stopped" if shard.counts.left else "finished"
        yield f"shard    {name}: {ended:,} of {shard.counts.total:,} finished, {state}"
    if len(ranked) > SHARDS_SHOWN:
        yield f"shards   {len(ranked) - SHARDS_SHOWN:,} more"
    if result.shards_missing:
        names = ", ".join(result.shards_missing[:SHARDS_SHOWN])
        yield f"shards   not begun: {names}{' ...' if len(result.shards_missing) > SHARDS_SHOWN else ''}"


@contextmanager
def _screen(redrawn: bool) -> Iterator[Callable[[str], None]]:
    """Yield what shows a text: below the last one, or in its place."""
    if not redrawn:
        yield say
        return
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        yield lambda text: live.update(Text(shown_lines(text.split("\n"))), refresh=True)
