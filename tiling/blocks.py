"""Warped blocks, computed once for all threads, the latest of them kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class BlockCache(Generic[T]):
    """Keeps the ``most`` blocks that were used last; a block that a thread computes others wait for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._blocks: OrderedDict[Hashable, Future[T]] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the block of ``key``, which ``compute`` makes if it is not there; errors are not kept."""
        with self._lock:
            block = self._blocks.get(key)
            mine = block is None
            if block is None:
                block = self._blocks[key] = Future()
            self._blocks.move_to_end(key)
            while len(self._blocks) > self._most:
                self._blocks.popitem(last=False)
        if mine:
            try:
                block.set_result(compute())
            except BaseException as error:
                with self._lock:
                    if self._blocks.get(key) is block:
                        del self._blocks[key]
                block.set_exception(error)
        return block.result()

    def __len__(self) -> int:
        return len(self._blocks)
