"""Two scenes on one pixel grid, read window by window."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from tiling.bands import BandRequest, choose_bands
from tiling.errors import NothingValid
from tiling.frame import Bounds, Frame, plan_frame
from tiling.grid import Window
from tiling.layer import Layer, LayerReader
from tiling.normalization import Normalization
from tiling.radiometry import PERCENTILES, Scale, Stretch, Table, fill_values
from tiling.registration import NOTICEABLE, Registration, measure
from tiling.sampling import everywhere, only_values, sample_cells, sample_pixels
from tiling.scene import SceneInfo, describe

# A shift this near to whole pixels is corrected by whole pixels: nothing is interpolated then.
WHOLE_PX = 0.2
# More of the sample than this at the ends of a scale that was asked for is worth a warning.
CLIPPED = 0.2

Role = Literal["before", "after"]
# How many times as bright as the other a date is that can hardly be in its unit; real ones were 2.5 times.
OTHER_UNIT = 4
# The scale and offset of a band of which a file says nothing.
_UNSTATED = (1.0, 0.0)


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
        layers: how each scene comes onto the grid.
        frame: the scene whose place on the map the grid keeps when the other is moved, "before" or "after".
        normalization: how the light of the scene after was changed, None where it was not.
        notes: what makes the pair doubtful though it can be read; one line each.
    """

    def __init__(self, before: Layer, after: Layer, planned: Frame, frame: Role) -> None:
        self.before, self.after, self.grid = before.info, after.info, planned.grid
        self.bands = (before.bands, after.bands)
        self.layers = (before, after)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._handles: dict[threading.Thread, ExitStack] = {}
        self._closed = False
        self.stretch = Stretch("none")
        self._tables: tuple[Table | None, Table | None] = (None, None)
        self.focus, self.frame = planned.focus, frame
        self.registration = Registration()
        self.normalization: Normalization | None = None
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
    ) -> ScenePair:
        """Open two rasters as a pair.

        Args:
            before: the earlier scene, by name or as it was described; its grid is the working grid.
            after: the later scene.
            bands: the red, green and blue band, by number or name; default: see
                :func:`tiling.bands.choose_bands`.
            gsd: metres per pixel to work at, above 0; default: those of the scene before.
            bounds: west, south, east, north in degrees: what ``focus`` shall hold; default: everything.
            scale: pixel values that become black and white, the lower first, or "reflectance"; default: see
                :mod:`tiling.radiometry`.
            normalize: bring the light of the scene after to that of the scene before.
            align: displace one scene by the shift that was measured between the two.
            frame: the scene that stays: a place on the grid lies where this one shows it.

        The stretch, the shift and the light are always measured on all of the common ground, so that a box
        has the same pixels as the whole.

        Raises:
            TilingError: a scene cannot be read, or the two cannot be compared; the message says why.
        """
        infos = [s if isinstance(s, SceneInfo) else describe(s) for s in (before, after)]
        choices = [choose_bands(info, bands) for info in infos]
        planned = plan_frame(infos[0], infos[1], gsd=gsd, bounds=bounds)
        first, second = (
            Layer.of(info, choice.numbers, planned.grid) for info, choice in zip(infos, choices, strict=True)
        )
        pair = cls(first, second, planned, frame)
        pair.notes = tuple(choice.warning for choice in choices if choice.warning is not None)
        pair._note_unused_masks()
        try:
            pair._fit_stretch(scale)
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

        Raises:
            SceneDamaged: pixels of a file cannot be decoded.
        """
        inside = window.intersection(Window(0, 0, self.grid.width, self.grid.height))
        dates = np.zeros((2, 3, window.height, window.width), np.uint8)
        valid = np.zeros((window.height, window.width), bool)
        if inside:
            rows, cols = inside.slices(window)
            before, after, seen = self._read_raw(inside)
            for date, values, table in zip(dates, (before, after), self._tables, strict=True):
                pixels = values if table is None else table.apply(values)
                date[:, rows, cols] = pixels if seen.all() else np.where(seen, pixels, 0)
            valid[rows, cols] = seen
        return dates[0], dates[1], valid

    def close(self) -> None:
        """Close all files; no thread may be reading."""
        self._closed = True
        self._close_files()

    def release_ended_threads(self) -> None:
        """Close the files of threads that have ended."""
        self._close_files(ended_only=True)

    def _close_files(self, *, ended_only: bool = False) -> None:
        with self._lock:
            threads = [thread for thread in self._handles if not (ended_only and thread.is_alive())]
            stacks = [self._handles.pop(thread) for thread in threads]
        for stack in stacks:
            stack.close()

    def __enter__(self) -> ScenePair:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_raw(self, window: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both dates in the types of their files and where both are valid."""
        (before, seen_before), (after, seen_after) = (reader.read(window) for reader in self._readers())
        return before, after, seen_before & seen_after

    def _readers(self) -> tuple[LayerReader, LayerReader]:
        if self._closed:
            raise ValueError("the pair is closed")
        readers: tuple[LayerReader, LayerReader] | None = getattr(self._local, "readers", None)
        if readers is None:
            with ExitStack() as stack:
                readers = (LayerReader(self.layers[0], stack), LayerReader(self.layers[1], stack))
                with self._lock:
                    self._handles[threading.current_thread()] = stack.pop_all()
            self._local.readers = readers
        return readers

    def _note_unused_masks(self) -> None:
        """Say when a mask was laid beside a scene and hides nothing of it."""
        for info in (self.before, self.after):
            if info.unused_mask is not None:
                self._note(
                    f"{info.path}: {info.unused_mask} beside it masks nothing, since it does not say of what "
                    "bands it is the mask; write it with gdal_translate -mo INTERNAL_MASK_FLAGS_1=2, and _2, "
                    "_3 and so on for the other bands"
                )

    def _fit_stretch(self, scale: Scale | None) -> None:
        size = (self.grid.width, self.grid.height)
        types = {name for info in (self.before, self.after) for name in info.dtypes}
        fitted = scale is not None or types != {"uint8"}
        sample = sample_pixels(self._read_raw, *size, for_stretch=fitted)
        if sample is None:
            raise NothingValid(self._empty_scene())
        if any((pixels == pixels.flat[0]).all() for pixels in sample):
            self._note_flat()
        if scale is None:
            self._note_scales()
            ground = self._without_fill(*sample)
            self._note_units(*ground)
            self.stretch = Stretch.fit(*ground)
        elif scale == "reflectance":
            self.stretch = Stretch.reflectance((self.before, self.after), self.bands)
        else:
            self.stretch = Stretch.given(*scale)
        self._tables = (self.stretch.before, self.stretch.after)
        if scale is not None:
            for info, table, pixels in zip((self.before, self.after), self._tables, sample, strict=True):
                self._note_clipped(info, table, pixels)

    def _note_flat(self) -> None:
        """Say when a date shows nothing: no change is found there, whatever happened."""
        values = only_values(self._read_raw, self.grid.width, self.grid.height)
        for info, value in zip((self.before, self.after), values, strict=True):
            if value is not None:
                self._note(
                    f"{info.path}: all its pixels on the common ground are {value:g}, so nothing can be seen "
                    "there; if the scene should not be empty, get it anew"
                )

    def _without_fill(self, *dates: np.ndarray) -> list[np.ndarray]:
        """Leave out of the samples (3, n) what seems to be undeclared nodata, and say so."""
        ground = np.ones(dates[0].shape[1], bool)
        for info, pixels in zip((self.before, self.after), dates, strict=True):
            for value, share in fill_values(pixels).items():
                ground &= ~(pixels == value).all(axis=0)
                self._note(
                    f"{info.path}: about {share:.0%} of its pixels are {value:g} in all bands; if that is "
                    f"nodata, declare it with gdal_edit.py -a_nodata {value:.17g}: now it is taken for ground"
                )
        return [pixels[:, ground] for pixels in dates] if ground.any() else list(dates)

    def _note_scales(self) -> None:
        """Say when equal values mean different things on both dates, by what both files state."""
        stated = [
            [(info.scales[number - 1], info.offsets[number - 1]) for number in layer.bands]
            for info, layer in zip((self.before, self.after), self.layers, strict=True)
        ]
        if stated[0] != stated[1] and _UNSTATED not in (*stated[0], *stated[1]):
            self._note(
                f"{self.after.path}: it states another scale or offset of its values than "
                f"{self.before.path}, and both are shown as they are; --scale reflectance takes that"
            )

    def _note_units(self, before: np.ndarray, after: np.ndarray) -> None:
        """Say when pixels of one type can hardly be in one unit; those of two types are stretched apart."""
        first, second = (float(np.percentile(date, PERCENTILES[1])) for date in (before, after))
        if before.dtype == after.dtype and 0 < OTHER_UNIT * min(first, second) < max(first, second):
            self._note(
                f"{self.after.path}: its bright pixels are about {second:,.6g}, those of {self.before.path} "
                f"about {first:,.6g}; if these are two units, bring both to one"
            )

    def _note_clipped(self, info: SceneInfo, table: Table | None, pixels: np.ndarray) -> None:
        assert table is not None, "a scale gives each date one"
        shown = table.apply(pixels[:, None])
        clipped = max(float((shown == end).mean()) for end in (0, 255))
        if clipped > CLIPPED:
            self._note(
                f"{info.path}: {clipped:.0%} of its pixels are wholly black or white on this scale; "
                "say another --scale, or none"
            )

    def _register(self, align: bool) -> None:
        """Measure the shift; move a scene when that makes it smaller and is wanted."""
        measured = self.registration = self._measured()
        size = measured.pixels
        if size is not None and size > NOTICEABLE and align:
            self.registration = self._aligned(measured)
        self._note_shift(align)

    def _aligned(self, measured: Registration) -> Registration:
        """Move a scene, measure again and mend what is left; undo it if that is not much less."""
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

    def _note_shift(self, align: bool) -> None:
        remaining = self.registration.remaining
        if remaining is None:
            if align:
                self._note(
                    f"{self.after.path}: how far it lies off {self.before.path} cannot be told (they show "
                    "too little alike); it was left in its place"
                )
        elif remaining > NOTICEABLE:
            remedy = "it could not be corrected" if align else "--align may correct that"
            self._note(
                f"{self.after.path}: it lies {remaining:.1f} pixels ({remaining * self.grid.gsd:.2g} m) off "
                f"{self.before.path}; {remedy}"
            )

    def _normalize(self) -> None:
        cells = sample_cells(self._read_raw, self.grid.width, self.grid.height)
        shown = [
            values if table is None else table.grey(values)
            for values, table in zip(cells, self._tables, strict=True)
        ]
        self.normalization = Normalization.fit(*shown)
        if self.normalization is None:
            self._note(
                f"{self.after.path}: its light cannot be brought to that of {self.before.path} (their pixels "
                "do not go together); it was left as it is"
            )
        elif self.normalization.applied:
            self._tables = (self._tables[0], self.normalization.table(self._tables[1]))

    def _measured(self) -> Registration:
        return measure(self._read_raw, self.grid.width, self.grid.height, self.grid.gsd)

    def _displace(self, shift: tuple[float, float]) -> None:
        """Move the scene after, or the one before the other way; no other thread may be reading."""
        self._close_files()
        self._local = threading.local()
        first, second = self.layers
        if self.frame == "before":
            self.layers = (first, second.displaced(shift))
        else:
            self.layers = (first.displaced((-shift[0], -shift[1])), second)

    def _note(self, text: str) -> None:
        self.notes = (*self.notes, text)

    def _empty_scene(self) -> str:
        """Say which date has no data on the common ground, or that each has where the other has none."""
        has_data = [False, False]
        for window in everywhere(self.grid.width, self.grid.height):
            for number, reader in enumerate(self._readers()):
                has_data[number] |= bool(reader.read(window)[1].any())
        remedy = "give a scene with data there, or correct its mask or (gdal_edit.py -a_nodata) nodata value"
        for has, info in zip(has_data, (self.before, self.after), strict=True):
            if not has:
                return f"{info.path}: all its pixels on the common ground are nodata; {remedy}"
        return f"{self.before.path} and {self.after.path}: no pixel has data on both dates; {remedy}"


def _whole(shift: float) -> float:
    """Return whole pixels where the shift is nearly that."""
    nearest = float(round(shift))
    return nearest if abs(shift - nearest) <= WHOLE_PX else float(shift)
