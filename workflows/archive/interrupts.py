"""Ctrl-C in an archive's run: the first lets running pairs end, the second interrupts."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def patient_interrupts() -> Iterator[Callable[[], bool]]:
    """Within this block, let the first Ctrl-C only be known; the next one interrupts as usual.

    Yields what tells whether Ctrl-C came. Where it is ignored, and in a thread, which gets no signals,
    nothing changes.
    """
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.signal(signal.SIGINT, earlier)

    earlier = signal.getsignal(signal.SIGINT)
    try:
        if callable(earlier):
            signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread, which alone gets signals
        earlier = None
    try:
        yield lambda: came
    finally:
        if callable(earlier):
            signal.signal(signal.SIGINT, earlier)
