"""Work that threads do a few items ahead of who takes the results, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_order(
    executor: ThreadPoolExecutor, call: Callable[[T], R], items: Iterable[T], most: int
) -> Iterator[R]:
    """Map like the executor does, but only ``most`` items ahead: who gives up has not asked for them all.

    The items themselves are made by the thread that takes the results.
    """
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(executor.submit(call, item))
        if len(waiting) >= most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
