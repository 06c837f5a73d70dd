"""Ctrl-C ends a command with one line and exit code 130 at any time."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
MESSAGE = "rscc: interrupted"


@contextmanager
def end_cleanly_on_interrupt() -> Iterator[None]:
    """Within this block, Ctrl-C during an import ends the process at once; else it raises KeyboardInterrupt.

    A half-finished import cannot be undone, and compiled modules turn the interrupt into other errors or die
    of the signal. No run has files on disk at that time. A handler set by another program stays, so a process
    that ignores Ctrl-C, such as a background job of a shell, still does.
    """
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        try:
            signal.signal(signal.SIGINT, _handle)
        except ValueError:  # only the main thread receives signals
            is_default = False
    try:
        yield
    finally:
        if is_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _handle(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        # Show the cursor again, which a progress bar hides.
        restored = "\r\x1b[?25h" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{restored}{MESSAGE}\n")
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
