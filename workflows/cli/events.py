"""Events on stderr for the program that runs a command with ``--progress json``: one line of JSON each."""

import time
from collections.abc import Callable
from typing import Any

import typer

from workflows.printable import printable_json
from workflows.progress import Progress

PAUSE = 0.2
"""Shortest time in seconds between two progress events of a stage, except its first and last."""


def print_event(event: str, **members: Any) -> None:
    """Print one event on stderr."""
    typer.echo(printable_json({"event": event, **members}), err=True)


def progress_events(clock: Callable[[], float] = time.monotonic) -> Progress:
    """Return a function of (stage, done, total) that prints an event if there is something new."""
    printed: dict[str, tuple[int, int, float]] = {}

    def update(stage: str, done: int, total: int) -> None:
        before, now = printed.get(stage), clock()
        if before is not None:
            is_early = now - before[2] < PAUSE and done != total
            if is_early or before[:2] == (done, total):
                return
        printed[stage] = (done, total, now)
        print_event("progress", stage=stage, done=done, total=total)

    return update
