"""Any bands of both dates of a pair in the values of their files, on the working grid."""

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np

from tiling.bands import number_of
from tiling.grid import Window
from tiling.gridded import GriddedReader, GriddedScene
from tiling.pair import ScenePair


class BandValues:
    """Reads bands of a pair where the pair reads its three: on the same grid, with the same shift.

    Args:
        bands: their numbers or names, the same for both scenes.

    Raises:
        BandNotFound: a scene has no such band.
    """

    def __init__(self, pair: ScenePair, bands: Sequence[str]) -> None:
        self._layers = []
        for layer in pair.layers:
            numbers = tuple(number_of(layer.info, band) for band in bands)
            self._layers.append(GriddedScene.of(layer.info, numbers, layer.grid, layer.shift))

    def read(self, window: Window) -> np.ndarray:
        """Return both dates, (2, bands, h, w) float32, of a window; 0 outside and without data."""
        grid = self._layers[0].grid
        inside = window.intersection(Window(0, 0, grid.width, grid.height))
        rows, columns = inside.slices(window)
        dates = []
        # Opened for each window: the thread that reads may end at any time.
        with ExitStack() as stack:
            for layer in self._layers:
                values, valid = GriddedReader(layer, stack).read(inside)
                date = np.zeros((len(values), window.height, window.width), np.float32)
                date[:, rows, columns] = np.where(valid, values, 0)
                dates.append(date)
        return np.stack(dates)
