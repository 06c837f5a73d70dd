"""Read the tiles of a pair ahead in threads, in order."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tiling.grid import Tile, TileGrid
from tiling.pair import ScenePair
from tiling.prefetch import map_ahead

THREADS = 2


@dataclass(frozen=True)
class PairTile:
    """One tile of both dates.

    Attributes:
        before, after: (3, h, w) uint8; 0 where not valid.
        valid: (h, w) bool.
        tile: its position in the grid.
    """

    before: np.ndarray
    after: np.ndarray
    valid: np.ndarray
    tile: Tile


def read_tiles(
    pair: ScenePair, grid: TileGrid, *, ahead: int = 8, numbers: Iterable[int] | None = None
) -> Iterator[PairTile]:
    """Yield the tiles of ``grid`` in row-major order while threads read up to ``ahead`` tiles in advance.

    ``numbers`` are the indices of the tiles to read; None reads all. Closing the iterator early stops the
    threads and closes their files. Errors are raised at their tile.
    """

    def read(tile: Tile) -> PairTile:
        return PairTile(*pair.read(tile.window), tile)

    tiles = (grid[index] for index in (range(len(grid)) if numbers is None else numbers))
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read-tiles")
    try:
        yield from map_ahead(pool, read, tiles, ahead + 1)  # the current one and those after it
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        pair.release_ended_threads()
