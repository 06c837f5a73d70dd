"""What a run may hold in memory: a plan and batches that shrink when memory runs out after all.

The figures were measured, see ``docs/performance.md``. What a run holds does not depend on the height of the
scene; on its width only by the rows of one tile that are being put together.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import rasterio

from rscc.model_folder import ModelCard
from tiling import TileGrid
from workflows.errors import MemoryExhausted, MemoryTooSmall
from workflows.scene.streams import streams_of

MIB = 2**20
# What --memory calls MB.
MB = 10**6
# Bytes of a process with the libraries and the default model in it, where it cannot be asked yet.
LOADED = 520 * MIB
# Bytes per pixel that a shipped model needs on the CPU while it works on a crop, on a tile that it only
# searches, and what it needs at least.
MODEL_BYTES = 400
SEARCH_BYTES = 300
MODEL_LEAST = 50 * MIB
# Bytes per pixel of a tile that waits: two dates in three bands, and which pixels are valid.
TILE_BYTES = 7
# Bytes per pixel of the rows being put together: sums, and what is finished of them at a time.
BAND_BYTES = 12
# Warped blocks of both dates, the changes themselves, and what the allocators keep.
MARGIN = 96 * MIB
CACHES = (96 * MIB, 64 * MIB, 32 * MIB)
AHEAD = 8
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class MemoryPlan:
    """How large the parts of a run may grow.

    Attributes:
        limit: bytes that the run may hold; None without a cap.
        batch_size: crops that the model gets at once, and as many pixels of tiles.
        ahead: tiles read in advance.
        gdal_cache: bytes of GDAL's block cache.
        expected: bytes that the whole process is expected to hold at most.
    """

    limit: int | None
    batch_size: int
    ahead: int
    gdal_cache: int
    expected: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, without what differs a little from run to run."""
        return {name: value for name, value in asdict(self).items() if name != "expected"}


def plan(
    limit: int | None,
    grid: TileGrid,
    card: ModelCard,
    *,
    batch_size: int = 16,
    held: int | None = None,
    on_cpu: bool = True,
) -> MemoryPlan:
    """Choose the largest parts, up to ``batch_size`` crops at once, with which a run keeps a cap.

    Args:
        limit: bytes that the process may hold; None sets no cap.
        batch_size: most crops at once.
        held: bytes that the process holds with the model loaded; None takes what it holds now, or what it
            holds with the default model if that is more.
        on_cpu: whether the model computes in the same memory.

    Raises:
        MemoryTooSmall: even one tile at a time needs more; the message says how much.
    """
    base = max(resident_bytes(), LOADED) if held is None else held
    base += MARGIN + BAND_BYTES * grid.area.width * grid.tile
    # A smaller cache costs little, a batch of a few tiles hardly more: give up in this order.
    sizes = [batch_size >> halvings for halvings in range(batch_size.bit_length())]
    tried = [(size, AHEAD, cache) for size in sizes for cache in CACHES]
    tried.append((1, 1, CACHES[-1]))
    for size, ahead, cache in tried:
        tiles = tiles_at_once(size, grid, card)
        streams = streams_of("cpu" if on_cpu else "cuda", tiles, card.localiser)
        held_tiles = ahead + (streams + 1) * (tiles // max(1, streams))
        expected = base + cache + TILE_BYTES * held_tiles * grid.tile**2
        if on_cpu:
            crops = MODEL_BYTES * size * card.tile_size**2
            expected += max(MODEL_LEAST, crops, SEARCH_BYTES * tiles * grid.tile**2)
        if limit is None or expected <= limit:
            return MemoryPlan(limit, size, ahead, cache, expected)
    assert limit is not None
    raise MemoryTooSmall(
        f"memory is {limit / MB:.0f} MB; {card.name} on a scene of {grid.width} x {grid.height} pixels "
        f"needs at least {-(-expected // MB)} MB; give as much, or cut the scene with --bbox"
    )


def tiles_at_once(batch_size: int, grid: TileGrid, card: ModelCard) -> int:
    """Return how many tiles of a grid have the pixels of so many crops; one at least."""
    return max(1, batch_size // weight_of(grid, card))


def weight_of(grid: TileGrid, card: ModelCard) -> int:
    """Return as how many crops of the model a tile of a grid counts."""
    return -(-(grid.tile**2) // card.tile_size**2)


def resident_bytes() -> int:
    """Return the bytes of memory that this process holds now; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def bounded_cache(size: int = CACHES[0]) -> Iterator[None]:
    """Let GDAL keep at most ``size`` bytes of decoded pixels; left alone it takes 5 percent of all memory.

    GDAL has one such cache for all threads; what was set before is set again afterwards.
    """
    with rasterio.Env(GDAL_CACHEMAX=size):
        yield


def alike(items: Iterable[T], kind: Callable[[T], object]) -> list[list[T]]:
    """Return items of one ``kind`` together: only what is of one size is given to a model at once."""
    kinds: dict[object, list[T]] = {}
    for item in items:
        kinds.setdefault(kind(item), []).append(item)
    return list(kinds.values())


class Batches:
    """Gives items to the model at most ``size`` at once; halves that for good when memory runs out.

    Several threads may do so beside each other, until memory runs out: from then on one does at a time.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked = size
        self._room, self._inside, self._alone = threading.Condition(), 0, False

    def run(
        self, items: Sequence[T], call: Callable[[Sequence[T]], R], weight: int = 1
    ) -> Iterator[tuple[Sequence[T], R]]:
        """Yield parts of ``items`` in order, with what ``call`` made of each; an item is ``weight`` crops.

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
            # Here, not in the handler: there the error still holds on to what filled the memory.
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
        """Wait until the model may be called; give whether no other thread calls it meanwhile."""
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
    """Return whether torch or the system had no more memory; torch raises a plain RuntimeError on the CPU."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text)
