"""Ctrl-C ends a command with one line and exit code 130, whatever it is doing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
MESSAGE = "rscc: interrupted"


@contextmanager
def tidy_interrupts() -> Iterator[None]:
    """Within this block, end the process at once when Ctrl-C comes during an import; else interrupt as usual.

    Half an import cannot be undone, and compiled modules turn the interrupt into an error of theirs or end
    the process by a signal. Nothing of a run is on disk yet then. A handler that somebody else set is left
    alone: so is a process that was told to ignore Ctrl-C, as a shell tells its background jobs.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        try:
            signal.signal(signal.SIGINT, _interrupted)
        except ValueError:  # not the main thread, which alone gets signals
            ours = False
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupted(number: int, frame: FrameType | None) -> None:
    if _importing(frame):
        # A progress bar that is being drawn has hidden the cursor.
        shown = "\r\x1b[?25h" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{shown}{MESSAGE}\n")
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
