"""Threads that run batches through the model at the same time, while the main thread writes the maps."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from tiling.prefetch import map_ahead
from workflows.progress import threads_each

T = TypeVar("T")
R = TypeVar("R")

ON_CPU = 2
"""Batches at a time on a CPU, each with its share of the cores.

Cores that work on one batch wait for each other after every layer, and for whatever else runs on one of them.
"""


def streams_of(device: str, tiles: int, localiser: str) -> int:
    """Return how many batches go through a model at the same time, where ``tiles`` tiles may do so.

    That is one on a GPU, and for a model that localises by anything but a change head: clustering and
    segmenters are not made for several threads. It is 0 for a single tile: then memory is short.
    """
    if tiles == 1:
        return 0
    return ON_CPU if device == "cpu" and localiser == "change_head" else 1


@contextmanager
def side_by_side(call: Callable[[T], R], batches: Iterable[T], streams: int) -> Iterator[Iterator[R]]:
    """Yield the results of ``call`` for the batches, in order, computed by as many threads as streams.

    Each lets torch compute with its share of the cores, and a core has no more than one of them. One batch
    more waits, so that no core has to, for the model or to be taken. With 0 streams the calling thread calls
    for one batch after the other. Torch is not loaded for this: a model may compute without it.
    """
    if not streams:
        yield map(call, batches)
        return
    with _CORES.shared() as cores:
        threads = min(streams, cores)
        pool = ThreadPoolExecutor(
            threads,
            thread_name_prefix="model",
            initializer=_set_threads,
            initargs=(-(-cores // threads),),
        )
        try:
            yield map_ahead(pool, call, batches, streams + 1)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _set_threads(number: int) -> None:
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(number)


class _Cores:
    """The number of threads of torch, restored when the last run that shares them ends."""

    def __init__(self) -> None:
        self._lock, self._runs, self._cores = threading.Lock(), 0, 1

    @contextmanager
    def shared(self) -> Iterator[int]:
        """Yield the number of threads to a run that shares them; the last of overlapping runs restores it."""
        with self._lock:
            if not self._runs:
                torch = sys.modules.get("torch")
                self._cores = torch.get_num_threads() if torch else threads_each(1)
            self._runs += 1
        try:
            yield self._cores
        finally:
            with self._lock:
                self._runs -= 1
                if not self._runs:
                    # New threads start with the number that was set last.
                    _set_threads(self._cores)


_CORES = _Cores()
