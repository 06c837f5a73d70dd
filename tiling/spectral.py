"""Read other bands of both scenes than those that are shown, on the grid of a pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from tiling.band_names import COLORS, SPECTRAL, spectral_bands, telling_names
from tiling.bands import number_of
from tiling.block_cache import BlockCache
from tiling.grid import Window
from tiling.gridded import GriddedReader, GriddedScene
from tiling.pair import ScenePair
from tiling.sampling import sample_cells, within

Parts = Mapping[str, np.ndarray]
"""Values of one date by part of the spectrum."""
# Cache of warped blocks of each date, besides that of the pair.
_KEPT_BYTES = 8 * 2**20


class SpectralPair:
    """Reads the parts of the spectrum that both dates have, in the thread that opened it.

    Attributes:
        numbers: band numbers of each date, from 1, by part of the spectrum; the same parts in both.
    """

    def __init__(self, pair: ScenePair, stack: ExitStack) -> None:
        self._pair = pair
        self.numbers = _numbers(pair)
        self._readers: list[GriddedReader] = []
        for layer, numbers in zip(pair.layers, self.numbers, strict=True):
            bands = tuple(numbers.values())
            if bands:
                own = GriddedScene.of(layer.info, bands, pair.grid, layer.shift)
                self._readers.append(GriddedReader(replace(own, blocks=BlockCache(_KEPT_BYTES)), stack))

    @classmethod
    @contextmanager
    def open(cls, pair: ScenePair) -> Iterator[SpectralPair]:
        """Open the bands of a pair; without telling names red, green and blue are those of the pair."""
        with ExitStack() as stack:
            yield cls(pair, stack)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the spectrum that both dates have."""
        return tuple(self.numbers[0])

    def read(self, window: Window) -> tuple[Parts, Parts, np.ndarray]:
        """Return both dates, (h, w) float32 by part, and validity (h, w) of a window inside the grid.

        Values are scaled: value * scale + offset.
        """
        before, after, valid = self._stacks(window)
        return self._by_part(before), self._by_part(after), valid

    def sample(self) -> tuple[Parts, Parts]:
        """Return both dates, (n,) by part, as means over cells from all over the grid; n may be 0."""
        site = self._pair.site
        before, after = sample_cells(within(self._stacks, site), site.width, site.height)
        return self._by_part(before), self._by_part(after)

    def _by_part(self, date: np.ndarray) -> Parts:
        return dict(zip(self.parts, date, strict=True))

    def _stacks(self, window: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dates, valid = [], np.ones((window.height, window.width), bool)
        for reader in self._readers:
            values, seen = reader.read(window)
            info, bands = reader.layer.info, reader.layer.bands
            scale, offset = (
                np.array([each[band - 1] for band in bands], np.float32)[:, None, None]
                for each in (info.scales, info.offsets)
            )
            dates.append(values.astype(np.float32) * scale + offset)
            valid &= seen
        if any(self._pair.fill):
            valid &= self._pair.seen(window).all(axis=0)
        return dates[0], dates[1], valid


def _numbers(pair: ScenePair) -> tuple[dict[str, int], dict[str, int]]:
    infos = pair.before, pair.after
    before, after = (
        dict(zip(COLORS, shown, strict=True))
        if not telling_names(info) and len(set(shown)) == 3
        else spectral_bands(info)
        for info, shown in zip(infos, pair.bands, strict=True)
    )
    parts = [part for part in SPECTRAL if part in before and part in after]
    return {part: before[part] for part in parts}, {part: after[part] for part in parts}


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
