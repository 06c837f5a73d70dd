"""Escapes control characters of foreign texts: they must not steer a terminal or forge a line."""

import json
import logging
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any


def printable(text: str | Path) -> str:
    """Return a text with control and invisible characters escaped."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def printable_lines(lines: Iterable[str]) -> str:
    """Return lines as one text; none of them can break into two."""
    return "\n".join(map(printable, lines))


def printable_json(value: Any) -> str:
    """Return JSON on one line, in letters of every script, with control characters escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pair``, ``2,000 pairs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def printable_library_output() -> Iterator[None]:
    """Within this block, print a library's log message as one line with control characters escaped.

    GDAL's messages may quote a file. If the quote is not UTF-8, rasterio fails to log it, and Python prints
    that error with a traceback although the run is fine. Both are dropped; real failures are raised.
    """
    handler, unraisable_hook, hook = logging.lastResort, sys.unraisablehook, sys.excepthook
    formatter = None if handler is None else handler.formatter

    def drop_from_log(unraisable: Any) -> None:
        from_log = str(unraisable.object).startswith(("rasterio._env.", "rasterio._err."))
        if not (from_log and isinstance(unraisable.exc_value, UnicodeDecodeError)):
            unraisable_hook(unraisable)

    def drop_untraced(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # Only compiled code reports an error without its traceback here.
        if not (kind is UnicodeDecodeError and trace is None):
            hook(kind, error, trace)

    # Set before threads start: a filter that one thread sets for a block ends for all when the block ends.
    warnings.filterwarnings("ignore", message="Dataset has no geotransform")
    sys.unraisablehook, sys.excepthook = drop_from_log, drop_untraced
    if handler is not None:
        handler.setFormatter(_OneLine())
    try:
        yield
    finally:
        sys.unraisablehook, sys.excepthook = unraisable_hook, hook
        if handler is not None:
            handler.setFormatter(formatter)
