"""Read the tiles of a pair ahead in threads, in order."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from tiling.grid import Tile, TileGrid
from tiling.pair import ScenePair


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

    tiles = [grid[index] for index in (range(len(grid)) if numbers is None else numbers)]
    # The current tile and those after it.
    with closing(pair.read_ahead([tile.window for tile in tiles], ahead + 1)) as dates:
        for tile, read in zip(tiles, dates, strict=True):
            yield PairTile(*read, tile)
