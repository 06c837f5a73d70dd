"""Two scenes on one pixel grid, read window by window."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from tiling import preconditions
from tiling.bands import BandRequest, choose_bands, unnamed_band
from tiling.block_cache import Block
from tiling.data_blocks import common_data
from tiling.errors import NothingValid
from tiling.fill import Fill, Lattice, without_fill
from tiling.grid import Window, around
from tiling.gridded import GriddedReader, GriddedScene
from tiling.normalization import Normalization
from tiling.preconditions import Precondition
from tiling.prefetch import map_ahead
from tiling.radiometry import Scale, Stretch, Table
from tiling.registration import NOTICEABLE, Registration, measure
from tiling.sampling import data_site, everywhere, sample_cells, sample_pixels, within
from tiling.scene import SceneInfo, describe
from tiling.working_grid import Bounds, Frame, plan_frame

# A shift this near to whole pixels is corrected by whole pixels, without interpolation.
WHOLE_PX = 0.2
# Pixels by which a scene is moved at most: two steps of an eighth of the largest window.
MOVED = 64

Role = Literal["before", "after"]


class ScenePair:
    """Two dates of one place on the working grid; see :func:`tiling.working_grid.plan_grid` for the grid.

    Open it with :meth:`open` in a ``with`` block. Every thread that reads gets its own file handles.

    Attributes:
        focus: the requested pixels of it.
        data_near: windows outside of which a date has no data, by the headers of the files, also where
            ``align`` moves a scene.
        site: the pixels around all ground with data on both dates, by samples of the pixels.
        stretch: how pixels become 8 bits.
        registration: the shift of the scene after against the scene before.
        layers: both scenes as they are read onto the grid.
        frame: the scene that keeps its place when the other is moved, "before" or "after".
        fill: what counts as nodata of each date, though it is not declared.
        normalization: how the brightness of the scene after was matched, or None.
        preconditions: what was checked before anything is said of the pair.
        notes: warnings about the pair; one line each.
    """

    def __init__(self, before: GriddedScene, after: GriddedScene, planned: Frame, frame: Role) -> None:
        self.before, self.after, self.grid = before.info, after.info, planned.grid
        self.bands = (before.bands, after.bands)
        self.layers = (before, after)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._files = ExitStack()
        self._closed = False
        self.stretch = Stretch("none")
        self._tables: tuple[Table | None, Table | None] = (None, None)
        self.focus, self.frame = planned.focus, frame
        self.site = Window(0, 0, planned.grid.width, planned.grid.height)
        self.data_near: tuple[Window, ...] = (self.site,)
        self.registration = Registration()
        self.normalization: Normalization | None = None
        self.fill: tuple[tuple[Fill, ...], tuple[Fill, ...]] = (), ()
        self.preconditions: tuple[Precondition, ...] = ()
        self.notes: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        before: str | Path | SceneInfo,
        after: str | Path | SceneInfo,
        *,
        bands: BandRequest | None = None,
        gsd: float | None = None,
        bounds: Bounds | None = None,
        scale: Scale | None = None,
        normalize: bool = False,
        align: bool = False,
        frame: Role = "before",
        lattice: Lattice | None = None,
    ) -> ScenePair:
        """Open two rasters as a pair.

        Stretch, shift and brightness are measured on all of the common ground, so a box has the same pixels
        as the whole.

        Args:
            before: the earlier scene, by name or described; its grid is the working grid.
            after: the later scene.
            bands: the red, green and blue band, by number or name; default: see
                :func:`tiling.bands.choose_bands`.
            gsd: metres per pixel to work at, above 0; default: those of the scene before.
            bounds: west, south, east, north in degrees of ``focus``; default: everything.
            align: move one scene by the measured shift.
            frame: the scene that is not moved.
            lattice: of a series of pairs; their shift is only measured to align them, and scenes of 8 bits
                are not checked for units and contrast. Default: that of the scene before.

        Raises:
            TilingError: a scene cannot be read, or the two cannot be compared.
        """
        infos = [s if isinstance(s, SceneInfo) else describe(s) for s in (before, after)]
        choices = [choose_bands(info, bands) for info in infos]
        series = lattice or Lattice(infos[0])
        planned = plan_frame(infos[0], infos[1], gsd=gsd, bounds=bounds, lattice=series.info)
        first, second = (
            GriddedScene.of(info, choice.numbers, planned.grid)
            for info, choice in zip(infos, choices, strict=True)
        )
        pair = cls(first, second, planned, frame)
        pair._note(*(choice.warning for choice in choices), *preconditions.unused_masks(infos))
        pair._note(*(unnamed_band(each.info, "alpha") for each in (first, second) if each.alpha_is_picture))
        try:
            pair._require(preconditions.pixel_size(infos), preconditions.overlap(infos, planned.grid))
            pair._find_fill(series)
            pair._find_site()
            pair._fit_stretch(scale, is_series=lattice is not None)
            if align or lattice is None:
                pair._register(align)
            if normalize:
                pair._normalize()
        except BaseException:
            pair.close()
            raise
        return pair

    def read(self, window: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both dates (3, h, w) uint8 and validity (h, w) bool of a window of the working grid.

        A pixel without data on either date, or outside the grid, is not valid and 0 on both dates.
        """
        return _of_both(self._read_shown(0, window), self._read_shown(1, window))

    def read_ahead(
        self, windows: Sequence[Window], most: int
    ) -> Generator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield :meth:`read` of each window; a thread for each date reads up to ``most`` windows ahead.

        GDAL keeps decoded blocks for each open file: two threads on one date would decode many of them twice.
        Closing the iterator early stops the threads and closes their files.
        """
        assert not self._closed, "the pair is closed"
        with ExitStack() as stack:
            dates = []
            for date, layer in enumerate(self.layers):
                reader = GriddedReader(layer, stack)  # not in the thread, which would load PROJ's database
                pool = ThreadPoolExecutor(1, thread_name_prefix="read-date")
                stack.callback(pool.shutdown, wait=True, cancel_futures=True)
                dates.append(map_ahead(pool, partial(self._read_shown, date, reader=reader), windows, most))
            yield from map(_of_both, *dates)

    def seen(self, window: Window) -> np.ndarray:
        """Return where each date has data, (2, h, w) bool, in a window inside the grid; fill is none."""
        return np.stack([self._read_date(date, window)[1] for date in (0, 1)])

    def close(self) -> None:
        """Close all files; no thread may be reading."""
        self._closed = True
        self._files.close()

    def __enter__(self) -> ScenePair:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_raw(self, window: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both dates in the types of their files and where both are valid."""
        (before, seen_before), (after, seen_after) = (self._read_date(date, window) for date in (0, 1))
        return before, after, seen_before & seen_after

    def _read_shown(self, date: int, window: Window, reader: GriddedReader | None = None) -> Block:
        """Return a date (3, h, w) uint8, and where it has data, in a window that may leave the grid."""
        inside = window.intersection(Window(0, 0, self.grid.width, self.grid.height))
        if inside != window:
            pixels = np.zeros((3, window.height, window.width), np.uint8)
            seen = np.zeros(pixels.shape[1:], bool)
            if inside:
                rows, cols = inside.slices(window)
                pixels[:, rows, cols], seen[rows, cols] = self._read_shown(date, inside, reader)
            return pixels, seen
        values, seen = self._read_date(date, window, reader)
        table = self._tables[date]
        return values if table is None else table.apply(values), seen

    def _read_date(self, date: int, window: Window, reader: GriddedReader | None = None) -> Block:
        """Return the pixels of a date, and where it has data, by default with the reader of this thread."""
        reader, fill = reader or self._reader(date), self.fill[date]
        if not fill:
            return reader.read(window)
        whole = Window(0, 0, self.grid.width, self.grid.height)
        return without_fill(reader.read, fill, window, whole, self.layers[date].shift)

    def _reader(self, date: int) -> GriddedReader:
        """Return what reads a date in this thread, which opens no file of the other date."""
        assert not self._closed, "the pair is closed"
        readers: dict[int, GriddedReader] = self._local.__dict__.setdefault("readers", {})
        if date not in readers:
            with ExitStack() as stack:
                readers[date] = GriddedReader(self.layers[date], stack)
                with self._lock:
                    self._files.push(stack.pop_all())
        return readers[date]

    def _note(self, *notes: str | None) -> None:
        # A scene that is given twice has each of its notes once.
        self.notes = tuple(dict.fromkeys((*self.notes, *(note for note in notes if note is not None))))

    def _require(self, *checked: Precondition) -> None:
        self.preconditions = (*self.preconditions, *checked)
        self._note(*(warning for precondition in checked for warning in precondition.warnings))

    def _find_site(self) -> None:
        data = common_data((self.before, self.after), self.grid)
        self.data_near = tuple(window.expanded(MOVED) for window in data)
        self.site, share = data_site(self._read_raw, self.grid.width, self.grid.height, around(data))
        if share:
            self._require(preconditions.valid_ground((self.before, self.after), share))

    def _find_fill(self, lattice: Lattice) -> None:
        before, after = (lattice.fill_of(self._reader(date)) for date in (0, 1))
        self.fill = before, after
        self._note(*preconditions.filled((self.before, self.after), self.fill))

    def _fit_stretch(self, scale: Scale | None, *, is_series: bool) -> None:
        infos, read = (self.before, self.after), within(self._read_raw, self.site)
        size = self.site.width, self.site.height
        types = {name for info in infos for name in info.dtypes}
        fitted = scale is not None or types != {"uint8"}
        sample = sample_pixels(read, *size, for_stretch=fitted)
        if sample is None:
            raise NothingValid(self._empty_scene())
        if is_series and not fitted:
            return
        ground: Sequence[np.ndarray] = sample
        if scale is None:
            notes, ground = preconditions.undeclared_nodata(infos, sample)
            self._note(*notes)
            self._require(preconditions.units(infos, self.bands, ground))
            self.stretch = Stretch.fit(*ground)
        elif scale == "reflectance":
            self.stretch = Stretch.reflectance(infos, self.bands)
        else:
            self.stretch = Stretch.given(*scale)
        self._tables = (self.stretch.before, self.stretch.after)
        levels = preconditions.grey_levels(infos, ground, fitted=fitted)
        contrast = preconditions.contrast(infos, ground, self.stretch)
        # A few grey levels have little contrast, which need not be said again.
        self._require(levels, replace(contrast, warnings=()) if levels.warnings else contrast)
        if scale is not None:
            for info, table, pixels in zip(infos, self._tables, sample, strict=True):
                assert table is not None, "a scale gives each date a table"
                self._note(*preconditions.clipped(info, table, pixels))

    def _register(self, align: bool) -> None:
        """Measure the shift; with ``align`` move a scene if that makes it smaller."""
        measured = self.registration = self._measured()
        if align and measured.pixels is not None and measured.pixels > NOTICEABLE:
            self.registration = self._aligned(measured)
        infos, remaining = (self.before, self.after), self.registration.remaining
        self._note(preconditions.shift(infos, remaining, NOTICEABLE, self.grid.gsd, align))

    def _aligned(self, measured: Registration) -> Registration:
        """Move a scene, measure again and correct the rest; undo it unless the shift is halved."""
        best, aim, shift = measured, np.zeros(2), (0.0, 0.0)
        moved = "after" if self.frame == "before" else "before"
        offset = np.array([measured.cols, measured.rows], np.float64)
        for _ in range(2):
            aim -= offset
            shift = _whole(aim[0]), _whole(aim[1])
            self._displace(shift)
            second = self._measured()
            if second.cols is None or second.rows is None or best.remaining is None:
                break
            offset = np.array([second.cols, second.rows])
            if np.hypot(*offset) > best.remaining / 2:
                break
            best = replace(measured, applied=shift, left=(second.cols, second.rows), moved=moved)
            if np.hypot(*offset) <= NOTICEABLE / 2:
                break
        if shift != (best.applied or (0.0, 0.0)):
            self._displace(best.applied or (0.0, 0.0))
        return best

    def _measured(self) -> Registration:
        read = within(self._read_raw, self.site)
        return measure(read, self.site.width, self.site.height, self.grid.gsd)

    def _displace(self, shift: tuple[float, float]) -> None:
        """Move the scene after, or the one before the other way; no other thread may be reading."""
        self._files.close()
        self._local = threading.local()
        first, second = self.layers
        if self.frame == "before":
            self.layers = (first, second.displaced(shift))
        else:
            self.layers = (first.displaced((-shift[0], -shift[1])), second)

    def _normalize(self) -> None:
        cells = sample_cells(within(self._read_raw, self.site), self.site.width, self.site.height)
        shown = [
            values if table is None else table.grey(values)
            for values, table in zip(cells, self._tables, strict=True)
        ]
        self.normalization = Normalization.fit(*shown)
        if self.normalization is None:
            self._note(
                f"{self.after.path}: its brightness cannot be matched to {self.before.path} (their pixels do "
                "not correlate); it was left unchanged"
            )
        elif self.normalization.applied:
            self._tables = (self._tables[0], self.normalization.table(self._tables[1]))

    def _empty_scene(self) -> str:
        """Return the message that a date has no data on the common ground, or not where the other has."""
        has_data = [False, False]
        for window in everywhere(self.grid.width, self.grid.height):
            for date in (0, 1):
                has_data[date] |= bool(self._read_date(date, window)[1].any())
        remedy = "give a scene with data there, or correct its mask or nodata value (gdal_edit.py -a_nodata)"
        for has, info in zip(has_data, (self.before, self.after), strict=True):
            if not has:
                return f"{info.path}: all its pixels on the common ground are nodata; {remedy}"
        return f"{self.before.path} and {self.after.path}: no pixel has data on both dates; {remedy}"


def _of_both(before: Block, after: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both dates, 0 where one has no data, and where both have."""
    valid = before[1] & after[1]
    first, second = (
        pixels if valid.all() else np.where(valid, pixels, np.uint8(0)) for pixels in (before[0], after[0])
    )
    return first, second, valid


def _whole(shift: float) -> float:
    """Return whole pixels if the shift is nearly that."""
    nearest = float(round(shift))
    return nearest if abs(shift - nearest) <= WHOLE_PX else float(shift)
