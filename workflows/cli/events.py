"""What a command tells the program that runs it, with ``--progress json``: a line of JSON for each event."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import typer

from workflows.progress import Progress
from workflows.texts import shown_json

# Seconds between two lines of one stage, but for its first and its last.
PAUSE = 0.2


def tell_event(event: str, **members: Any) -> None:
    """Print one event on stderr."""
    typer.echo(shown_json({"event": event, **members}), err=True)


def progress_events(clock: Callable[[], float] = time.monotonic) -> Progress:
    """Return what takes (stage, done, total) and prints an event where there is something new to tell."""
    told: dict[str, tuple[int, int, float]] = {}

    def update(stage: str, done: int, total: int) -> None:
        before, now = told.get(stage), clock()
        if before is not None:
            soon = now - before[2] < PAUSE and done != total
            if soon or before[:2] == (done, total):
                return
        told[stage] = (done, total, now)
        tell_event("progress", stage=stage, done=done, total=total)

    return update
