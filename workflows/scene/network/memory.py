"""How many tiles go through the model at once: planned to keep a cap, halved when memory runs out.

The constants were measured, see ``docs/results.md``. What a run holds does not depend on the height of
the scene; it depends on the width only by the rows of one tile that are being blended.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rscc.model_folder import ModelCard
from tiling import TileGrid
from workflows.errors import MemoryExhausted, MemoryTooSmall
from workflows.scene.network.threads import streams_of
from workflows.scenes import CACHE_BYTES

MIB = 2**20
MB = 10**6
"""Bytes of the MB of ``--memory``."""
LOADED = 520 * MIB
"""Bytes of a process with the libraries and the default model."""
MODEL_BYTES = 400
"""Bytes per pixel of the crops in the model, on the CPU."""
MODEL_LEAST = 50 * MIB
TILE_BYTES = 7
"""Bytes per pixel of a tile that was read in advance: two dates in three bands, and the valid pixels."""
BAND_BYTES = 12
"""Bytes per pixel of the rows that are being blended."""
MARGIN = 96 * MIB
"""Warped blocks of both dates, the changes, and what the allocators keep."""
AHEAD = 8
"""Tiles read in advance."""
ON_CPU, ON_GPU = 16, 64
"""Default number of crops in a batch."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class MemoryPlan:
    """How large the batches of a run may grow.

    Attributes:
        limit: bytes that the process may hold; None without a cap.
        batch_size: crops that the model gets at once, and as many pixels of tiles.
        expected: bytes that the process is expected to hold at most.
    """

    limit: int | None
    batch_size: int
    expected: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the run record, without the estimate, which differs from run to run."""
        return {"limit": self.limit, "batch_size": self.batch_size}


def plan(
    limit: int | None, grid: TileGrid, card: ModelCard, *, batch_size: int | None, on_cpu: bool = True
) -> MemoryPlan:
    """Choose the largest batch, up to ``batch_size`` crops at once, that keeps a cap.

    Args:
        limit: bytes that the process may hold; None sets no cap.
        batch_size: most crops at once; None takes what suits the device.
        on_cpu: whether the model computes in the same memory.

    Raises:
        MemoryTooSmall: even one tile at a time needs more; the message says how much.
    """
    size = batch_size or (ON_CPU if on_cpu else ON_GPU)
    base = max(resident_bytes(), LOADED) + MARGIN + CACHE_BYTES + BAND_BYTES * grid.area.width * grid.tile
    while True:
        tiles = tiles_at_once(size, grid, card)
        held = AHEAD + (streams_of("cpu" if on_cpu else "cuda", tiles, card.localiser) + 1) * tiles
        expected = base + TILE_BYTES * held * grid.tile**2
        if on_cpu:
            expected += max(MODEL_LEAST, MODEL_BYTES * max(size * card.tile_size**2, tiles * grid.tile**2))
        if limit is None or expected <= limit:
            return MemoryPlan(limit, size, expected)
        if size == 1:
            raise MemoryTooSmall(
                f"memory is {limit / MB:.0f} MB; {card.name} on a scene of {grid.width} x {grid.height} "
                f"pixels needs at least {-(-expected // MB)} MB; give as much, or cut the scene with --bbox"
            )
        size //= 2


def tiles_at_once(batch_size: int, grid: TileGrid, card: ModelCard) -> int:
    """Return how many tiles of a grid have the pixels of so many crops; one at least."""
    return max(1, batch_size // weight_of(grid, card))


def weight_of(grid: TileGrid, card: ModelCard) -> int:
    """Return how many crops have the pixels of a tile."""
    return -(-(grid.tile**2) // card.tile_size**2)


def resident_bytes() -> int:
    """Return the bytes of memory that this process holds now; 0 if the system does not provide it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Batches:
    """Passes items to the model, at most ``size`` at once; halves the size for good when memory runs out.

    Several threads may do so beside each other, until memory runs out: from then on one does at a time.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked = size
        self._room, self._inside, self._alone = threading.Condition(), 0, False

    def run(
        self, items: Sequence[T], call: Callable[[Sequence[T]], R], weight: int = 1
    ) -> Iterator[tuple[Sequence[T], R]]:
        """Yield parts of ``items`` in order, each with the result of ``call``; an item is ``weight`` crops.

        Raises:
            MemoryExhausted: there is not enough memory for a single item.
        """
        done = 0
        while done < len(items):
            part = items[done : done + max(1, self.size // weight)]
            try:
                with self._entered() as alone:
                    result = call(part)
            except Exception as error:
                if not _is_out_of_memory(error):
                    raise
                reason = str(error)
            else:
                yield part, result
                done += len(part)
                continue
            # Outside of the handler: in it the error still references what filled the memory.
            if len(part) == 1 and alone:
                raise MemoryExhausted(
                    "the model ran out of memory with one tile at a time; close other programs, or take "
                    f"another --device ({' '.join(reason.split())[:120]})"
                )
            with self._room:
                self._alone = True
                if len(part) > 1:
                    self.size = min(self.size, len(part) * weight // 2)
            import torch

            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    @contextmanager
    def _entered(self) -> Iterator[bool]:
        """Wait until the model may be called; yield whether no other thread calls it meanwhile."""
        with self._room:
            self._room.wait_for(lambda: not (self._alone and self._inside))
            self._inside, alone = self._inside + 1, self._alone
        try:
            yield alone
        finally:
            with self._room:
                self._inside -= 1
                self._room.notify()

    @property
    def warnings(self) -> list[str]:
        """One line if memory ran out."""
        if self.size == self.asked:
            return []
        return [
            f"memory ran out with {self.asked} tiles at once; went on with {self.size}: next time give "
            f"--batch-size {self.size}"
        ]


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means that memory ran out; on the CPU torch raises a plain RuntimeError."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text)
