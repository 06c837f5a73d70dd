"""How a long job is cut into batches, and how it tells how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Progress = Callable[[str, int, int], None]
T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of ``size``; the last may be shorter, none is empty."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def tell(progress: Progress | None, stage: str, done: int, total: int) -> None:
    """Call ``progress`` where there is one."""
    if progress is not None:
        progress(stage, done, total)
