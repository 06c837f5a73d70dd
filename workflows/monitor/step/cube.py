"""The scenes of a series on one grid: three bands of every date, with equal brightness, window by window.

Each date is matched to the median of all by a gain and offset per band, fitted on ground that did not change,
see :mod:`tiling.normalization`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from tiling import GriddedScene, SceneInfo, Window, choose_bands, lattice, plan_frame
from tiling.bands import COLORS, telling_names
from tiling.block_cache import BlockCache
from tiling.gridded import GriddedReader
from tiling.normalization import Normalization
from tiling.radiometry import PERCENTILES, Scale, Stretch, Table
from tiling.spectral import SPECTRAL, spectral_bands
from tiling.working_grid import Grid
from workflows.monitor.events import Series
from workflows.monitor.options import MonitorOptions

# Values of a sample, over all dates and bands: bounds memory; the whole of 512 px a side in 24 dates.
SAMPLE_VALUES = 20_000_000
SAMPLE_SIDE = 128
# Pixels to which a line is fitted.
FITTED = 8192
# Cache of warped blocks of all dates together.
CACHE_BYTES = 256 * 2**20
# Scenes within this factor of the coarsest may be the grid.
SAME_GSD = 1.01
# Metres per pixel to which finer scenes are averaged: filters and coefficients are for 20 to 40 m.
FINEST = 10.0
# Grey values of the 2nd and 98th percentile of pixels that are not of 8 bits; the rest is headroom for clouds
# and bright roofs.
DARK, BRIGHT = 20.0, 180.0


class SeriesCube:
    """Reads all dates of a window.

    Attributes:
        infos: headers, in order of date.
        grid: the grid of the coarsest scenes, of these the one with most ground.
        sample: values (dates, 3, h, w) and validity (dates, h, w) of windows from all over the grid.
        median: (3, n) median of the dates of the sample.
        parts: parts of the spectrum that all scenes have by the names of their bands, see
            :mod:`tiling.spectral`.
        true_colors: whether the three bands of all scenes are red, green and blue.
    """

    def __init__(self, series: Series, options: MonitorOptions, stack: ExitStack) -> None:
        self.infos = [scene.info for scene in series.scenes]
        self.grid = _grid(self.infos)
        numbers = [choose_bands(info, options.bands).numbers for info in self.infos]
        cache = CACHE_BYTES // len(self.infos)
        self._readers = []
        for info, bands in zip(self.infos, numbers, strict=True):
            layer = replace(GriddedScene.of(info, bands, self.grid), blocks=BlockCache(cache))
            self._readers.append(GriddedReader(layer, stack))
        named = [spectral_bands(info) for info in self.infos]
        self.parts = tuple(part for part in SPECTRAL if all(part in bands for bands in named))
        self.true_colors = all(
            _shows_colors(info, bands) for info, bands in zip(self.infos, numbers, strict=True)
        )
        most = max(1, int((SAMPLE_VALUES / (3 * len(self.infos))) ** 0.5) // SAMPLE_SIDE)
        windows = list(lattice(self.grid.width, self.grid.height, most, SAMPLE_SIDE))
        raw = [[reader.read(window) for window in windows] for reader in self._readers]
        self._tables = _tables(self.infos, numbers, raw, options.scale)
        grey = [self._grey(list(dates)) for dates in zip(*raw, strict=True)]
        del raw
        self._gain, self._offset = match_dates(
            np.concatenate([values.reshape(*values.shape[:2], -1) for values, _ in grey], axis=2),
            np.concatenate([valid.reshape(len(valid), -1) for _, valid in grey], axis=1),
        )
        self.sample = [(self._matched(values), valid) for values, valid in grey]
        medians = [np.median(values, axis=0).reshape(3, -1) for values, _ in self.sample]
        self.median = np.concatenate(medians, axis=1)

    @classmethod
    @contextmanager
    def open(cls, series: Series, options: MonitorOptions) -> Iterator[SeriesCube]:
        """Open all scenes; in one thread."""
        with ExitStack() as stack:
            yield cls(series, options, stack)

    def read(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Return grey values (dates, 3, h, w) float32, matched, and validity (dates, h, w)."""
        values, valid = self._grey([reader.read(window) for reader in self._readers])
        return self._matched(values), valid

    def dates_with_ground(self) -> list[bool]:
        """Return which dates show any ground in the sample."""
        return [any(valid[date].any() for _, valid in self.sample) for date in range(len(self.infos))]

    def spectral_means(self, rows: np.ndarray, cols: np.ndarray, dates: np.ndarray) -> dict[str, np.ndarray]:
        """Return the mean of each of :attr:`parts` over pixels, (n,) for n dates, in units of the files."""
        top, left = int(rows.min()), int(cols.min())
        window = Window(left, top, int(cols.max()) - left + 1, int(rows.max()) - top + 1)
        means = []
        for date in dates:
            info, bands = self.infos[date], spectral_bands(self.infos[date])
            chosen = tuple(bands[part] for part in self.parts)
            with ExitStack() as stack:
                reader = GriddedReader(GriddedScene.of(info, chosen, self.grid), stack)
                values, valid = reader.read(window)
            pixels = values[:, rows - top, cols - left][:, valid[rows - top, cols - left]].astype(np.float64)
            scale, offset = (
                np.array([each[band - 1] for band in chosen]) for each in (info.scales, info.offsets)
            )
            mean = pixels.mean(axis=1) if pixels.shape[1] else np.full(len(chosen), np.nan)
            means.append(mean * scale + offset)
        return dict(zip(self.parts, np.array(means).T, strict=True))

    def _grey(self, dates: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        values = [
            pixels if table is None else table.grey(pixels)
            for (pixels, _), table in zip(dates, self._tables, strict=True)
        ]
        # Black in all bands is fill, or too dark to show a change.
        seen = [valid & pixels.any(axis=0) for pixels, valid in dates]
        return np.stack(values).astype(np.float32), np.stack(seen)

    def _matched(self, values: np.ndarray) -> np.ndarray:
        values *= self._gain[..., None, None]
        values += self._offset[..., None, None]
        return values


def match_dates(values: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return gain and offset (dates, 3), by which grey values of each date have the common brightness.

    They are fitted to the median of all dates, twice: the first median holds the haze of all dates.

    Args:
        values: (dates, 3, n) grey values in 0..255.
        valid: (dates, n).
    """
    dates, bands, count = values.shape
    chosen = np.random.default_rng(0).permutation(count)[:FITTED]
    values, valid = values[..., chosen], valid[:, chosen]
    gain, offset = np.ones((dates, bands), np.float32), np.zeros((dates, bands), np.float32)
    for _ in range(2):
        matched = values * gain[..., None] + offset[..., None]
        common = np.ma.median(np.ma.masked_array(matched, ~np.repeat(valid[:, None], bands, 1)), axis=0)
        for date in range(dates):
            line = Normalization.fit(common.data[:, valid[date]], values[date][:, valid[date]])
            if line is not None:
                gain[date], offset[date] = line.gain, line.offset
    return gain, offset


def _shows_colors(info: SceneInfo, numbers: tuple[int, int, int]) -> bool:
    if not telling_names(info):
        return len(set(numbers)) == 3
    named = spectral_bands(info)
    return numbers == tuple(named.get(color) for color in COLORS)


def _grid(infos: Sequence[SceneInfo]) -> Grid:
    coarsest = max(info.gsd for info in infos)
    widest = max(
        (info for info in infos if info.gsd * SAME_GSD >= coarsest),
        key=lambda info: info.width * info.height * info.gsd**2,
    )
    return plan_frame(widest, widest, gsd=max(FINEST, widest.gsd)).grid


def _tables(
    infos: Sequence[SceneInfo],
    numbers: Sequence[tuple[int, int, int]],
    raw: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]],
    scale: Scale | None,
) -> list[Table | None]:
    """Return how the pixels of each date become grey; None for 8 bits. Dates of one type share a table."""
    if scale == "reflectance":
        stretches = [
            Stretch.reflectance((info, info), (n, n)) for info, n in zip(infos, numbers, strict=True)
        ]
        return [stretch.before for stretch in stretches]
    if scale is not None:
        low, high = scale
        return [Stretch.given(low, high).before] * len(infos)
    pixels: dict[str, list[np.ndarray]] = {}
    for info, windows in zip(infos, raw, strict=True):
        pixels.setdefault(info.dtype, []).extend(values[:, valid] for values, valid in windows)
    tables: dict[str, Table | None] = {}
    for dtype, parts in pixels.items():
        sample = np.concatenate(parts, axis=1).astype(np.float64)
        if dtype == "uint8" or not sample.shape[1]:
            tables[dtype] = None
            continue
        low, high = np.percentile(sample, PERCENTILES, axis=1)
        # One stretch for all bands keeps the colours, which tell kinds.
        ends = (float(low.min()),) * 3, (float(high.max()),) * 3
        tables[dtype] = Table(*ends, (DARK,) * 3, (BRIGHT,) * 3)
    return [tables[info.dtype] for info in infos]
