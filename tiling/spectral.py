"""The bands of both scenes that indices are made of, in the values of the files, on the grid of a pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from tiling.bands import COLORS, band_names, sensor_keys, short_name, telling_names
from tiling.blocks import BlockCache
from tiling.grid import Window
from tiling.layer import Layer, LayerReader
from tiling.pair import ScenePair
from tiling.sampling import sample_cells
from tiling.scene import SceneInfo

SPECTRAL = ("blue", "green", "red", "nir", "swir16", "swir22")
"""Parts of the spectrum, by the common names of STAC."""
Parts = Mapping[str, np.ndarray]
"""Values of one date by part of the spectrum."""
# Warped blocks that each date keeps besides those of the pair.
_KEPT_BYTES = 8 * 2**20

_WORDS = {
    "nir08": "nir",
    "near infrared": "nir",
    "swir1": "swir16",
    "swir2": "swir22",
    "swir": "swir16",
    "shortwave infrared 1": "swir16",
    "shortwave infrared 2": "swir22",
}
_VISIBLE = {"b2": "blue", "b3": "green", "b4": "red"}
_SENTINEL = {**_VISIBLE, "b8a": "nir", "b8": "nir", "b11": "swir16", "b12": "swir22"}
_LANDSAT_8 = {**_VISIBLE, "b5": "nir", "b6": "swir16", "b7": "swir22"}
_LANDSAT_4 = {"b1": "blue", "b2": "green", "b3": "red", "b4": "nir", "b5": "swir16", "b7": "swir22"}


def spectral_bands(info: SceneInfo) -> dict[str, int]:
    """Return the numbers, from 1, of the bands whose names say which part of the spectrum they show.

    Names are common names of STAC, plain words, or bands of Sentinel-2 (known by B8, B8A, B11 or B12) or
    Landsat (``SR_B5``; of 4 to 7 where there is a band 7 and no 6). What could be either's is left out.
    """
    names = [name.casefold() for name in band_names(info)]
    table = _WORDS | {name: name for name in SPECTRAL} | _sensor(names)
    numbers: dict[str, int] = {}
    # Of two bands for one part the later entry of the table counts: B8 has finer pixels than B8A.
    for key, part in table.items():
        places = [
            n for n, name in enumerate(names, 1) if key in (re.sub(r"[\s_-]+", " ", name), short_name(name))
        ]
        if len(places) == 1:
            numbers[part] = places[0]
    return numbers


def _sensor(names: list[str]) -> dict[str, str]:
    """Return what the bands of the sensor that the names tell show; of two that may be, what both show."""
    bands = {short_name(name) for name in names}
    visible = sensor_keys(names, bands)
    if visible == ("b3", "b2", "b1"):
        return _LANDSAT_4
    if any(name.startswith("sr_b") for name in names):
        return _LANDSAT_8
    if bands & {"b8a", "b12"} or (bands & {"b8", "b11"} and "b10" not in bands):
        return _SENTINEL
    return _VISIBLE if visible else {}


class SpectralPair:
    """Reads the bands of both dates that show the same parts of the spectrum, in the thread that opened it.

    Attributes:
        numbers: of the bands of each date, from 1, by part of the spectrum; the same parts in both.
    """

    def __init__(self, pair: ScenePair, stack: ExitStack) -> None:
        self._pair = pair
        self.numbers = _numbers(pair)
        self._readers: list[LayerReader] = []
        for layer, numbers in zip(pair.layers, self.numbers, strict=True):
            bands = tuple(numbers.values())
            if bands:
                own = Layer.of(layer.info, bands, pair.grid, layer.shift)
                self._readers.append(LayerReader(replace(own, blocks=BlockCache(_KEPT_BYTES)), stack))

    @classmethod
    @contextmanager
    def open(cls, pair: ScenePair) -> Iterator[SpectralPair]:
        """Open the bands of a pair.

        Without names that tell them, red, green and blue are the bands that the pair shows as such.

        Raises:
            TilingError: a file can no longer be read.
        """
        with ExitStack() as stack:
            yield cls(pair, stack)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the spectrum that both dates show."""
        return tuple(self.numbers[0])

    def read(self, window: Window) -> tuple[Parts, Parts, np.ndarray]:
        """Return both dates, (h, w) float32 by part, and where both are valid, of a window within the grid.

        Values are the quantities of the files: value * scale + offset.

        Raises:
            SceneDamaged: pixels of a file cannot be decoded.
        """
        before, after, valid = self._stacks(window)
        return self._by_part(before), self._by_part(after), valid

    def sample(self) -> tuple[Parts, Parts]:
        """Return both dates, (n,) by part, as means of cells from all over the grid; n may be 0."""
        before, after = sample_cells(self._stacks, self._pair.grid.width, self._pair.grid.height)
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
