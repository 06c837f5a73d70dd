"""A cache of warped blocks that computes each block once for all threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future

import numpy as np

Block = tuple[np.ndarray, np.ndarray]


class BlockCache:
    """Keeps the blocks used last, up to ``most`` bytes; other threads wait for a block that one computes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._blocks: OrderedDict[Hashable, Future[Block]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}

    def get(self, key: Hashable, compute: Callable[[], Block]) -> Block:
        """Return the block of ``key``, computed if it is not cached; errors are not cached."""
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
        """Count a finished block, and drop the oldest finished ones beyond the limit."""
        with self._lock:
            self._sizes[key] = size
            total = sum(self._sizes.values())
            for old in [cached for cached in self._blocks if cached in self._sizes]:
                if total <= self._most:
                    break
                total -= self._sizes.pop(old)
                del self._blocks[old]
