"""Tiles of a pair, read ahead by threads, given out in order."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tiling.ahead import in_order
from tiling.grid import Tile, TileGrid
from tiling.pair import ScenePair

THREADS = 2


@dataclass(frozen=True)
class PairTile:
    """One tile of both dates.

    Attributes:
        before, after: (3, h, w) uint8; 0 where not valid.
        valid: (h, w) bool.
        tile: where it lies.
    """

    before: np.ndarray
    after: np.ndarray
    valid: np.ndarray
    tile: Tile


def read_tiles(
    pair: ScenePair, grid: TileGrid, *, ahead: int = 8, first: int = 0, end: int | None = None
) -> Iterator[PairTile]:
    """Yield the tiles of ``grid`` in row-major order while threads read up to ``ahead`` tiles in advance.

    ``first`` is the index of the tile to begin at, ``end`` that of the first one that is not read any more.

    Closing the iterator early stops the threads and closes their files. Errors of reading are raised at the
    tile they belong to.
    """

    def read(tile: Tile) -> PairTile:
        return PairTile(*pair.read(tile.window), tile)

    tiles = (grid[index] for index in range(len(grid))[first:end])
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read-tiles")
    try:
        yield from in_order(pool, read, tiles, ahead + 1)  # the one that is given out and those after it
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        pair.release_ended_threads()
