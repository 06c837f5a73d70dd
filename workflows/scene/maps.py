"""What the network found in a pair of scenes, as a folder of maps: all that the later stages need.

    probability.tif   change probability of each pixel, 0..1, NaN without data (0 in whole tiles of a
                      canvas without); with fact heads also bands for
                      a new road and for a clearing, 0 where no tile has one
    evidence.tif      logits of the fact heads, of the road head and of familiar ground, and measures of the
                      ground after, a band for each, at each position (16 or 32 pixels a side with the shipped
                      models), from the tile whose core it lies in; NaN where the network was not asked
    visibility.tif    what hides the ground on each date, see :mod:`workflows.scene.visibility.layer`
    maps.json         grid, model, settings, and the finished rows

A row of tiles is finished when its line is in ``maps.json``, which is written last. So a run that was killed
goes on with the next row, and several processes may fill rows of one folder.
"""

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from affine import Affine

from tiling import Band, Frame, Grid, TilingError, Window
from tiling.map_raster import open_raster, read_raster
from workflows.errors import MapsUnusable
from workflows.scene.map_description import FAMILIARITY, Row, check_described, no_maps, read_about, rules_of
from workflows.scene.pixels import PositionAnswers
from workflows.scene.visibility.layer import VISIBILITY, Visibility

PROBABILITY, EVIDENCE = "probability.tif", "evidence.tif"
LONE = ("new road", "clearing")
"""Bands of the probability after the first, in the order of :data:`rscc.facts.lone_changes.KINDS`."""
# Pixels read at once.
_READ_PX = 2**22
# Values of evidence that are kept from the last read.
_STRIP_VALUES = 2**21


class ChangeMaps:
    """The maps of one pair.

    Attributes:
        about: the content of ``maps.json`` but its rows.
        frame: the working grid, and the pixels that were asked for.
        area: the pixels that the maps cover.
        position: pixels a side of a position of the evidence.
        columns, rows_of_positions: edges of the positions in pixels. Where the cores of two tiles meet,
            positions may be cut, so they are not all of one size.
        rules: how its logits become facts on a map; None where the model has no fact heads.
        rows: the finished rows by their first row of pixels.
        resumed_tiles: how many tiles an earlier run of the same command had finished.
    """

    def __init__(
        self, folder: Path, about: Mapping[str, Any], crs: Any, rows: Mapping[int, Row] | None = None
    ) -> None:
        grid = about["grid"]
        width, height, gsd = int(grid["width"]), int(grid["height"]), float(grid["gsd"])
        transform, (column, row) = Affine(*map(float, grid["transform"])), map(int, grid["anchor"])
        self.folder, self.about = folder, about
        self.frame = Frame(
            Grid(crs, transform, width, height, gsd, (column, row)),
            Window(*map(int, grid["focus"])),
            Window(*map(int, grid["site"])),
        )
        self.area = Window(*map(int, grid["area"]))
        self.position = int(about["position"])
        self.columns, self.rows_of_positions = (
            np.array(about["position_edges"][name], dtype=np.int64) for name in ("columns", "rows")
        )
        self.rules = rules_of(about["rules"])
        self.rows = dict(rows or {})
        self.resumed_tiles = 0
        whole = Window(0, 0, width, height)
        if not (
            all(
                window and window.intersection(whole) == window
                for window in (self.area, self.frame.focus, self.frame.site)
            )
            and transform.b == transform.d == 0
            and transform.a > 0 > transform.e
            and 1e-6 < gsd < 1e6
            and self.position > 0
            and _spans(self.columns, self.area.col_off, self.area.col_end)
            and _spans(self.rows_of_positions, self.area.row_off, self.area.row_end)
            and all(map(self._can_be, self.rows.values()))
        ):
            raise ValueError("the grid cannot be")
        self._stack = ExitStack()
        self._last_strip = 0, np.zeros((0, 0, 0), np.float32)

    @property
    def has_evidence(self) -> bool:
        """Whether there is a raster of evidence."""
        return bool(self.about["answers"])

    @property
    def has_familiarity(self) -> bool:
        """Whether the model measured how like its training data the ground is."""
        return bool(self.about["answers"][-1:] == [FAMILIARITY])

    @property
    def kinds(self) -> int:
        """How many bands the probability has besides change; none where a detector was named to find it."""
        return 0 if self.rules is None or self.about["model"].get("detector") else len(LONE)

    def _can_be(self, row: Row) -> bool:
        lone, checksums = self.kinds, 1 + self.kinds + self.has_evidence
        return (
            self.area.row_off <= row.start < row.stop <= self.area.row_end
            and len(row.lone) == lone
            and len(row.checksums) == checksums
        )

    @property
    def is_complete(self) -> bool:
        """Whether all rows are finished."""
        return sum(row.stop - row.start for row in self.rows.values()) == self.area.height

    def counts(self) -> Counter[str]:
        """Return the counts of all finished rows together."""
        counts: Counter[str] = Counter()
        for row in self.rows.values():
            counts.update(row.counts)
        return counts

    # Reading -----------------------------------------------------------------------------------------------

    def bands(self, band: int = 0) -> Iterator[Band]:
        """Yield the change probability, or with ``band`` one of :data:`LONE`, from top to bottom.

        Raises:
            MapsUnusable: the maps are damaged or not complete.
        """
        row = self.area.row_off
        while row < self.area.row_end:
            if row not in self.rows:
                raise MapsUnusable(f"{self.folder}: the maps are not complete; caption the scenes again")
            yield from self.row_bands(self.rows[row], band)
            row = self.rows[row].stop

    def row_bands(self, row: Row, band: int = 0) -> Iterator[Band]:
        """Yield one finished row; see :meth:`bands`."""
        area = self.area
        if band and not row.lone[band - 1]:
            zeros = np.broadcast_to(np.float32(0), (row.stop - row.start, area.width))
            yield Band(row.start, zeros, np.broadcast_to(True, zeros.shape), area.col_off)
            return
        step, checksum = max(1, _READ_PX // area.width), 0
        for start in range(row.start, row.stop, step):
            height = min(step, row.stop - start)
            window = Window(0, start - area.row_off, area.width, height)
            (values,) = read_raster(self._probability, window, [band + 1])
            checksum = zlib.crc32(values.data, checksum)
            valid = np.broadcast_to(True, values.shape)
            least, most = values.min(), values.max()
            if math.isnan(least):  # NaN has no data
                valid = ~np.isnan(values)
                values[~valid] = 0
                least, most = values.min(), values.max()
            if least < 0 or most > 1:
                raise self._damaged()
            yield Band(start, values, valid, area.col_off)
        if checksum != row.checksums[band]:
            raise self._damaged()

    def answers(self, window: Window) -> PositionAnswers:
        """Return the evidence at the positions that touch a window of pixels inside the area."""
        columns = _touched(self.columns, window.col_off, window.col_end)
        rows = _touched(self.rows_of_positions, window.row_off, window.row_end)
        first, values = self._strip(rows[0], rows[-1])
        inside = values[:, rows[0] - first : rows[-1] - first, columns[0] : columns[-1]]
        return PositionAnswers(inside, self.rows_of_positions[rows], self.columns[columns], self.position)

    def familiarity(self, window: Window) -> np.ndarray:
        """Return the logits of familiar ground, (h, w), at the positions that touch a window inside the area.

        NaN where the network was not asked.
        """
        columns = _touched(self.columns, window.col_off, window.col_end)
        rows = _touched(self.rows_of_positions, window.row_off, window.row_end)
        place = Window(columns[0], rows[0], columns[-1] - columns[0], rows[-1] - rows[0])
        (logits,) = read_raster(self._evidence, place, [self._evidence.count])
        return logits

    def _strip(self, start: int, stop: int) -> tuple[int, np.ndarray]:
        """Return rows of positions with those asked for, and the first: changes lie close together."""
        first, values = self._last_strip
        if not first <= start <= stop <= first + values.shape[1]:
            width, count = len(self.columns) - 1, self._evidence.count
            height = max(stop - start, _STRIP_VALUES // (width * count))
            first = max(0, start - height // 4)
            last = min(len(self.rows_of_positions) - 1, max(stop, first + height))
            place = Window(0, first, width, last - first)
            self._last_strip = first, read_raster(self._evidence, place, range(1, count + 1))
        return self._last_strip

    def pixels(self, window: Window, band: int = 0) -> np.ndarray:
        """Return a band of the probability in a window of the area, (h, w) float32, NaN without data."""
        place = window.shifted(-self.area.col_off, -self.area.row_off)
        (values,) = read_raster(self._probability, place, [band + 1])
        return values

    def nodata(self, window: Window) -> np.ndarray:
        """Return the pixels (h, w) bool of a window of the area that have no data."""
        if not any(row.has_nodata for row in self.rows.values()):
            return np.zeros((window.height, window.width), bool)
        missing: np.ndarray = np.isnan(self.pixels(window))
        return missing

    @cached_property
    def seen(self) -> Visibility:
        """What can be seen of both dates."""
        seen = Visibility(self.folder / VISIBILITY, self.frame.grid.anchor, self.area)
        self._stack.callback(seen.close)
        return seen

    @cached_property
    def _probability(self) -> Any:
        return self._opened(PROBABILITY)

    @cached_property
    def _evidence(self) -> Any:
        return self._opened(EVIDENCE)

    def _opened(self, name: str) -> Any:
        file = open_raster(self.folder / name)
        self._stack.callback(file.close)
        return file

    def _damaged(self) -> MapsUnusable:
        return MapsUnusable(f"{self.folder}: the maps are damaged; remove them and caption the scenes again")

    def open(self) -> None:
        """Open the probability now: opening changes the filters of warnings, which belong to all threads."""
        _ = self._probability

    def close(self) -> None:
        """Close the rasters; they open again when they are read."""
        self._stack.close()
        self._last_strip = 0, np.zeros((0, 0, 0), np.float32)
        for name in ("_probability", "_evidence", "seen"):
            self.__dict__.pop(name, None)

    def is_finished(self, start: int) -> bool:
        """Return whether the row that begins at a row of pixels is finished and undamaged."""
        row = self.rows.get(start)
        if row is None:
            return False
        try:
            for band in range(1 + self.kinds):
                for _ in self.row_bands(row, band):
                    pass
            if self.has_evidence:
                first, stop = row.positions
                place = Window(0, first, len(self.columns) - 1, stop - first)
                values = read_raster(self._evidence, place, range(1, self._evidence.count + 1))
                return zlib.crc32(values.data) == row.checksums[-1]
        except (MapsUnusable, TilingError, IndexError, ValueError):
            return False
        return True


def read_maps(folder: Path) -> ChangeMaps:
    """Open maps that were kept; they may come from anybody.

    Raises:
        MapsUnusable: the folder holds no maps, or they are damaged.
    """
    about, rows = read_about(folder)
    with open_raster(folder / PROBABILITY) as file:
        try:
            check_described(about)
            maps = ChangeMaps(folder, about, file.crs, rows)
            placed = area_transform(maps.frame.grid, maps.area)
            off = np.abs(np.subtract(placed[:6], file.transform[:6])).max()
            if (file.width, file.height) != (maps.area.width, maps.area.height) or off > 1e-3 * placed.a:
                raise ValueError("the raster does not fit")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise no_maps(folder) from error
    if maps.has_evidence:
        with open_raster(folder / EVIDENCE) as file:
            size = file.count, file.height, file.width
        if size != (len(about["answers"]), len(maps.rows_of_positions) - 1, len(maps.columns) - 1):
            raise no_maps(folder)
    return maps


def _touched(edges: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return the indices of the edges of the positions that touch the pixels from low to high."""
    first = int(np.searchsorted(edges, low, side="right")) - 1
    last = int(np.searchsorted(edges, high, side="left"))
    return np.arange(max(0, first), min(last, len(edges) - 1) + 1)


def _spans(edges: np.ndarray, low: int, high: int) -> bool:
    """Return whether edges ascend from low to high."""
    return len(edges) > 1 and edges[0] == low and edges[-1] == high and bool((np.diff(edges) > 0).all())


def area_transform(grid: Grid, area: Window) -> Affine:
    """Return the transform of the rasters: column and row of the area to the map."""
    return grid.transform * Affine.translation(area.col_off, area.row_off)
