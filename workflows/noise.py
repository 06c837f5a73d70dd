"""What libraries print past us, in the processes that are ours: no line of it steers a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from workflows.texts import shown

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))


@contextmanager
def plain_messages() -> Iterator[None]:
    """Within this block, a message of a library is one line, in which nothing steers the terminal.

    GDAL's messages may quote a file. What of it is no text rasterio cannot hand to its log, and Python then
    prints the error and a traceback, though the run is well: both are dropped. What fails is raised.
    """
    printer, unraisable_hook, hook = logging.lastResort, sys.unraisablehook, sys.excepthook
    formatter = None if printer is None else printer.formatter

    def drop(unraisable: UnraisableHookArgs) -> None:
        from_log = str(unraisable.object).startswith(("rasterio._env.", "rasterio._err."))
        if not (from_log and isinstance(unraisable.exc_value, UnicodeDecodeError)):
            unraisable_hook(unraisable)

    def drop_first(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # Compiled code prints it without the place where it was raised; whatever else comes here has one.
        if not (kind is UnicodeDecodeError and trace is None):
            hook(kind, error, trace)

    sys.unraisablehook, sys.excepthook = drop, drop_first
    if printer is not None:
        printer.setFormatter(_OneLine())
    try:
        yield
    finally:
        sys.unraisablehook, sys.excepthook = unraisable_hook, hook
        if printer is not None:
            printer.setFormatter(formatter)
