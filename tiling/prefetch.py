"""Map a function over items in threads, a few items ahead of the consumer, in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_ahead(
    executor: ThreadPoolExecutor, call: Callable[[T], R], items: Iterable[T], most: int
) -> Iterator[R]:
    """Map like the executor, but at most ``most`` items ahead, so that a consumer may stop early.

    The consumer's thread iterates over the items.
    """
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(executor.submit(call, item))
        if len(waiting) >= most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
