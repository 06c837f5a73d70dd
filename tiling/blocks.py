"""Warped blocks, computed once for all threads, the latest of them kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future

import numpy as np

Block = tuple[np.ndarray, np.ndarray]


class BlockCache:
    """Keeps the blocks that were used last; a block that a thread computes others wait for.

    Args:
        most: bytes that all kept blocks together may take.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._blocks: OrderedDict[Hashable, Future[Block]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}

    def get(self, key: Hashable, compute: Callable[[], Block]) -> Block:
        """Return the block of ``key``, which ``compute`` makes if it is not there; errors are not kept."""
        with self._lock:
            block = self._blocks.get(key)
            mine = block is None
            if block is None:
                block = self._blocks[key] = Future()
            self._blocks.move_to_end(key)
        if mine:
            try:
                value = compute()
            except BaseException as error:
                with self._lock:
                    del self._blocks[key]
                block.set_exception(error)
            else:
                self._keep(key, sum(part.nbytes for part in value))
                block.set_result(value)
        return block.result()

    def _keep(self, key: Hashable, size: int) -> None:
        """Count a block that was made, and let the oldest go that are too many; never one in the making."""
        with self._lock:
            self._sizes[key] = size
            total = sum(self._sizes.values())
            for old in [cached for cached in self._blocks if cached in self._sizes]:
                if total <= self._most:
                    break
                total -= self._sizes.pop(old)
                del self._blocks[old]
