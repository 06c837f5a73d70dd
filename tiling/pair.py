"""Two scenes on one pixel grid, read window by window."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np

from tiling.bands import Numbers, Wanted, choose_bands
from tiling.errors import NothingValid
from tiling.frame import Bounds, Grid, plan_grid
from tiling.grid import TileGrid, Window, lattice
from tiling.layer import Layer, LayerReader, is_mask
from tiling.normalization import Normalization
from tiling.radiometry import Scale, Stretch
from tiling.registration import Registration, measure
from tiling.scene import SceneInfo, describe, safe_environment

# The stretch is fitted on small windows spread over the scene. With fewer valid pixels than this in them the
# scene is searched through for more.
ENOUGH = 4096
SEARCH = 512


class ScenePair:
    """Two dates of one place on the working grid; see :func:`tiling.frame.plan_grid` for the grid.

    Open it with :meth:`open` in a ``with`` block. Every thread that reads gets its own file handles.

    Attributes:
        before, after: what the headers say.
        grid: the working grid: all the ground that both scenes show.
        focus: the pixels of it that were asked for.
        stretch: how pixels become 8 bits.
        bands: the three bands taken of each scene.
        registration: how far the scene after lies off the scene before.
        normalization: how the light of the scene after was changed, None where it was not.
        notes: what makes the pair doubtful though it can be read; one line each.
    """

    def __init__(self, before: Layer, after: Layer, grid: Grid) -> None:
        self.before, self.after, self.grid = before.info, after.info, grid
        self.bands: tuple[Numbers, Numbers] = (before.bands, after.bands)
        self._layers = (before, after)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._handles: list[tuple[threading.Thread, ExitStack]] = []
        self._closed = False
        self.stretch = Stretch("none")
        self.focus = Window(0, 0, grid.width, grid.height)
        self.registration = Registration()
        self.normalization: Normalization | None = None
        self.notes: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        before: str | Path,
        after: str | Path,
        *,
        bands: Wanted | None = None,
        gsd: float | None = None,
        bounds: Bounds | None = None,
        scale: Scale | None = None,
        normalize: bool = False,
        align: bool = False,
    ) -> ScenePair:
        """Open two rasters as a pair.

        Args:
            before: the earlier scene; its grid is the working grid.
            after: the later scene.
            bands: the red, green and blue band, by number or name; default: see
                :func:`tiling.bands.choose_bands`.
            gsd: metres per pixel to work at; default: those of the scene before.
            bounds: west, south, east, north in degrees: what ``focus`` shall hold; default: everything.
            scale: pixel values that become black and white, or "reflectance"; default: see
                :mod:`tiling.radiometry`.
            normalize: bring the light of the scene after to that of the scene before.
            align: displace the scene after by the shift that was measured between the two.

        The stretch, the shift and the light are always measured on all of the common ground, so that a box
        has the same pixels as the whole.

        Raises:
            TilingError: a scene cannot be read, or the two cannot be compared; the message says why.
        """
        infos = describe(before), describe(after)
        chosen = [choose_bands(info, bands).numbers for info in infos]
        grid = plan_grid(*infos, gsd, bounds)
        first, second = (
            Layer.of(info, own, grid, _alpha_masks(info, own))
            for info, own in zip(infos, chosen, strict=True)
        )
        pair = cls(first, second, grid)
        try:
            sample = pair._sample()
            pair.stretch = Stretch.fit(*sample, scale=scale)
            pair.registration = measure(pair._read_raw, grid.width, grid.height, grid.gsd)
            if normalize:
                pair.normalization = Normalization.fit(*pair.stretch.apply(*sample))
        except BaseException:
            pair.close()
            raise
        return pair

    def read(self, window: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both dates (3, h, w) uint8 and validity (h, w) bool of a window of the working grid.

        A pixel without data on either date, or outside the grid, is not valid and 0 on both dates.

        Raises:
            SceneDamaged: pixels of a file cannot be decoded.
        """
        inside = window.intersection(Window(0, 0, self.grid.width, self.grid.height))
        dates = np.zeros((2, 3, window.height, window.width), np.uint8)
        valid = np.zeros((window.height, window.width), bool)
        if inside:
            rows, cols = inside.slices(window)
            before, after, seen = self._read_raw(inside)
            for date, values, table in zip(
                dates, (before, after), (self.stretch.before, self.stretch.after), strict=True
            ):
                pixels = values if table is None else table.apply(values)
                date[:, rows, cols] = np.where(seen, pixels, 0)
            valid[rows, cols] = seen
        return dates[0], dates[1], valid

    def close(self) -> None:
        """Close all files; no thread may be reading."""
        with self._lock:
            self._closed = True
            handles, self._handles = self._handles, []
        for _, stack in handles:
            stack.close()

    def release_ended_threads(self) -> None:
        """Close the files of threads that have ended."""
        with self._lock:
            ended = [entry for entry in self._handles if not entry[0].is_alive()]
            self._handles = [entry for entry in self._handles if entry[0].is_alive()]
        for _, stack in ended:
            stack.close()

    @property
    def layers(self) -> tuple[Layer, Layer]:
        """How each scene comes onto the grid."""
        return self._layers

    @property
    def open_handles(self) -> int:
        """The number of threads that hold files open."""
        return len(self._handles)

    def __enter__(self) -> ScenePair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_raw(self, window: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both dates in the types of their files and where both are valid."""
        with safe_environment():
            (before, seen), (after, also) = (reader.read(window) for reader in self._readers())
        return before, after, seen & also

    def _readers(self) -> tuple[LayerReader, LayerReader]:
        if self._closed:
            raise ValueError("the pair is closed")
        readers: tuple[LayerReader, LayerReader] | None = getattr(self._local, "readers", None)
        if readers is None:
            with ExitStack() as stack:
                readers = (self._layers[0].open(stack), self._layers[1].open(stack))
                with self._lock:
                    self._handles.append((threading.current_thread(), stack.pop_all()))
            self._local.readers = readers
        return readers

    def _sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Return pixels (3, n) of both dates, from where both are valid."""
        found = _Sample()
        for window in lattice(self.grid.width, self.grid.height):
            found.add(*self._read_raw(window))
            if found.count and found.is_uint8:
                break  # there is nothing to fit; it is enough to know that something is valid
        if found.count < (1 if found.is_uint8 else ENOUGH):
            for tile in TileGrid(self.grid.width, self.grid.height, SEARCH, 0):
                found.add(*self._read_raw(tile.core))
                if found.count >= ENOUGH:
                    break
        if found.count == 0:
            raise NothingValid(self._empty_scene())
        return found.pixels()

    def _empty_scene(self) -> str:
        """Say which date has no data on the common ground, or that each has where the other has none."""
        has_data = [False, False]
        for tile in TileGrid(self.grid.width, self.grid.height, SEARCH, 0):
            with safe_environment():
                for number, reader in enumerate(self._readers()):
                    has_data[number] |= bool(reader.read(tile.core)[1].any())
        remedy = "give a scene with data there, or correct its nodata value with gdal_edit -a_nodata"
        for has, info in zip(has_data, (self.before, self.after), strict=True):
            if not has:
                return f"{info.path}: all its pixels on the common ground are nodata; {remedy}"
        return f"{self.before.path} and {self.after.path}: no pixel has data on both dates; {remedy}"


class _Sample:
    """Collects pixels that are valid on both dates."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])

    def add(self, before: np.ndarray, after: np.ndarray, valid: np.ndarray) -> None:
        self.count += int(valid.sum())
        for parts, values in zip(self._parts, (before, after), strict=True):
            parts.append(values[:, valid])

    @property
    def is_uint8(self) -> bool:
        """Whether both dates are."""
        return all(parts[0].dtype == np.uint8 for parts in self._parts)

    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        before, after = (np.concatenate(parts, axis=1) for parts in self._parts)
        return before, after


def _alpha_masks(info: SceneInfo, bands: Numbers) -> bool:
    """Tell whether an alpha band is a mask: not if it is a picture, or was chosen to be looked at."""
    if info.masked_by != "alpha":
        return False
    number = info.colors.index("alpha") + 1
    return number not in bands and is_mask(info, number)
