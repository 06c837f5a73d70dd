"""Output of the commands while they run and at their end, for a person or for a program."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import typer

from workflows.printable import printable, printable_json, printable_lines
from workflows.progress import Progress

PAUSE = 0.2
"""Shortest time in seconds between two progress events of a stage, except its first and last."""


def print_event(event: str, **members: Any) -> None:
    """Print one event on stderr."""
    typer.echo(printable_json({"event": event, **members}), err=True)


def progress_events() -> Progress:
    """Return a function of (stage, done, total) that prints an event if there is something new."""
    printed: dict[str, tuple[int, int, float]] = {}

    def update(stage: str, done: int, total: int) -> None:
        before, now = printed.get(stage), time.monotonic()
        if before is not None:
            is_early = now - before[2] < PAUSE and done != total
            if is_early or before[:2] == (done, total):
                return
        printed[stage] = (done, total, now)
        print_event("progress", stage=stage, done=done, total=total)

    return update


ProgressForm = StrEnum("ProgressForm", ["auto", "json"])


@dataclass(frozen=True)
class Terminal:
    """The options ``--progress``, ``--quiet`` and ``--json`` of a command.

    Attributes:
        events: print one line of JSON per event on stderr, instead of texts.
        quiet: no progress, notices and result as text.
        as_json: print the result as JSON on stdout.
    """

    events: bool = False
    quiet: bool = False
    as_json: bool = False

    @contextmanager
    def progress(self) -> Iterator[Progress | None]:
        """Yield a function of (stage, done, total) that shows progress on stderr; None if it is not shown."""
        if self.quiet or not (self.events or sys.stderr.isatty()):
            yield None
            return
        if self.events:
            yield progress_events()
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            tasks = {}

            def update(stage: str, done: int, total: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bar.add_task(stage, total=total)
                bar.update(tasks[stage], completed=done)

            yield update

    def result(self, text: str, facts: dict[str, Any]) -> None:
        """Print the result: ``text`` on stdout, or on stderr if ``facts`` go to stdout as JSON.

        An empty ``text`` is not printed.
        """
        if self.events:
            print_event("done", **facts)
        if text and not self.quiet and not (self.as_json and self.events):  # events are alone on stderr
            print_text(text, err=self.as_json)
        if self.as_json:
            print_json(facts)

    def notice(self, text: str, *, err: bool = True) -> None:
        """Print a message during the run unless quiet; ``err``: on stderr, where events always go."""
        if self.quiet:
            return
        if self.events:
            print_event("notice", message=text)
        else:
            print_text(text, err=err)

    def warn(self, *warnings: str) -> None:
        """Print each warning as one line on stderr."""
        for warning in warnings:
            if self.events:
                print_event("warning", message=warning)
            else:
                typer.echo(f"rscc: warning: {printable(warning)}", err=True)


def print_text(text: str, *, err: bool = False) -> None:
    """Print lines of text; control characters in them are escaped."""
    typer.echo(printable_lines(text.split("\n")), err=err)


def print_json(value: Any) -> None:
    """Print plain values as one line of JSON on stdout."""
    typer.echo(printable_json(value))


def area_text(area: float) -> str:
    """Return an area in square metres with its unit, and in hectares."""
    return f"{area:,.0f} m2 ({area / 10_000:,.2f} ha)"
