"""Limits on memory and time for what comes from a stranger or cannot be interrupted."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

MOST_BYTES = 4 * 2**30
"""Memory that may be taken beyond what the process has."""
# The limit belongs to the process: one thread reads at a time.
_READING = threading.RLock()


@contextmanager
def bounded_memory(most: int = MOST_BYTES) -> Iterator[None]:
    """Raise MemoryError in this block where it takes more than ``most`` bytes, instead of all there are.

    Columns of Parquet and pages of SQLite can be thousands of times larger than in their file. It works on
    Linux; elsewhere only the limits of the formats hold.
    """
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    with _READING:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = taken + most
        if soft == resource.RLIM_INFINITY or limit < soft:
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what ``work`` returns; after the time its thread is left to itself.

    Raises:
        TimeoutError: it takes longer than ``seconds``.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(seconds)
