"""The maps of pairs of a series: every scene with those near it in time. Only here the network runs.

All pairs lie on the pixels of the first scene. Finished maps are kept in the folder of the series, named by
the scenes; they are made again when they are lost. Each scene goes through the trunk once, see
:mod:`rscc.trunk_memory`.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from affine import Affine

import rscc
from rscc.files import atomic_write, parsed_json, read_file
from tiling import Frame, Lattice, NoOverlap, NothingValid, TilingError, Window
from workflows.archive.folder import writing
from workflows.errors import MapsUnusable
from workflows.monitor.events import Pair, Series
from workflows.monitor.stack.archived import adopted_maps, is_left_out
from workflows.options import SceneOptions
from workflows.progress import Progress, report_progress
from workflows.scene.map_description import ABOUT, read_about
from workflows.scene.maps import ChangeMaps, read_maps
from workflows.scene.network.detect import fill_maps
from workflows.scene.opening import OpenPair, open_pair
from workflows.scenes import read_header

if TYPE_CHECKING:
    from rscc.captioner import Captioner

REACH = 4
"""Each scene is compared with as many scenes before and after it: two witnesses on each side of a step are
left where one date of the others is veiled."""
READ_PX = 2**20
"""Pixels of a place up to which it is read at once, not by windows."""
_WINDOWS, _PAIRS = 32, 128
"""Windows that are kept in memory, and pairs whose files stay open."""
_INDEX = "pairs.json"
"""Index of the finished pairs, so that they need not be opened to be known."""


@dataclass(frozen=True)
class _Kept:
    """Maps of a pair on disk.

    Attributes:
        origin: column and row of their grid on the endless lattice of pixels.
        ground: what they cover of the lattice.
        bands: for each band of the probability whether it is not 0 everywhere.
    """

    folder: Path
    origin: tuple[int, int]
    ground: Window
    bands: tuple[bool, ...]

    @classmethod
    def of(cls, maps: ChangeMaps) -> _Kept:
        lone = [any(row.lone[kind] for row in maps.rows.values()) for kind in range(maps.kinds)]
        origin = maps.frame.grid.anchor
        return cls(maps.folder, origin, maps.area.shifted(*origin), (True, *lone))

    def as_list(self) -> list[Any]:
        return [list(self.origin), list(astuple(self.ground)), list(self.bands)]

    @classmethod
    def read(cls, folder: Path, stored: Sequence[Any]) -> _Kept:
        (col, row), ground, bands = stored
        return cls(folder, (int(col), int(row)), Window(*map(int, ground)), tuple(map(bool, bands)))


class PairMaps:
    """The maps of the pairs of a series, read by windows of one grid that covers the whole place.

    Memory and open files do not grow with the number of scenes.

    Args:
        names: of all pairs near in time, in order.

    Attributes:
        frame: the grid, and all of it.
        about: what the maps of one pair say about the model and the settings.
        kinds: how many bands the probability has besides change.
    """

    def __init__(
        self,
        kept: dict[Pair, _Kept],
        maker: PairMaker,
        names: Mapping[Pair, str],
    ) -> None:
        self.maker, self.names, self._kept, self.count = maker, names, kept, len(maker.series.scenes)
        self._open: OrderedDict[Pair, ChangeMaps] = OrderedDict()
        grounds = [one.ground for one in kept.values()]
        left, top = min(one.col_off for one in grounds), min(one.row_off for one in grounds)
        width = max(one.col_end for one in grounds) - left
        height = max(one.row_end for one in grounds) - top
        first = next(iter(kept))
        self._crs: Any = None
        maps, (col, row) = self._opened(first), kept[first].origin
        self._crs = maps.frame.grid.crs
        grid, self.about, self.kinds = maps.frame.grid, dict(maps.about), maps.kinds
        shift = Affine.translation(left - col, top - row)
        grid = replace(grid, transform=grid.transform * shift, width=width, height=height, anchor=(left, top))
        self.frame = Frame(grid, Window(0, 0, width, height))
        self._read = lru_cache(_WINDOWS)(self._read_window)

    def __contains__(self, pair: Pair) -> bool:
        return pair in self._kept

    def has_values(self, pair: Pair, band: int) -> bool:
        """Return whether a band of the probability of a pair is not 0 everywhere."""
        return pair in self._kept and self._kept[pair].bands[band]

    def probability(self, pair: Pair, window: Window, band: int = 0) -> np.ndarray | None:
        """Return a band of the probability of a pair, (h, w) float32, NaN where it shows nothing.

        None where it shows nothing in the whole window.
        """
        kept = self._kept.get(pair)
        if kept is None:
            return None
        placed = window.shifted(*self.frame.grid.anchor)
        if not kept.bands[band] and placed.intersection(kept.ground) == placed:
            return np.broadcast_to(np.float32(0), (window.height, window.width))
        return self._read(pair, window, band)

    def _read_window(self, pair: Pair, window: Window, band: int) -> np.ndarray | None:
        maps, asked = self._opened(pair), self._in(pair, window)
        inside = asked.intersection(maps.area)
        if not inside:
            return None
        found = maps.pixels(inside, band)
        if inside == asked:
            return found
        values = np.full((window.height, window.width), math.nan, np.float32)
        values[inside.slices(asked)] = found
        return values

    def answers(self, pair: Pair, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the evidence of a pair at some pixels, (answers, rows, columns); NaN where there is none."""
        maps, moved = self._opened(pair), self._in(pair, Window(0, 0, 0, 0))
        area, rows, columns = maps.area, rows + moved.row_off, columns + moved.col_off
        down = (rows >= area.row_off) & (rows < area.row_end)
        across = (columns >= area.col_off) & (columns < area.col_end)
        values = np.full((len(self.about["answers"]), len(rows), len(columns)), math.nan, np.float32)
        if down.any() and across.any():
            rows, columns = rows[down], columns[across]
            window = Window(int(columns[0]), int(rows[0]), int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1)
            found = maps.answers(window)
            row = np.searchsorted(found.rows, rows, side="right") - 1
            column = np.searchsorted(found.columns, columns, side="right") - 1
            values[np.ix_(np.arange(len(values)), down, across)] = found.values[:, row][:, :, column]
        return values

    def _in(self, pair: Pair, window: Window) -> Window:
        """Return a window of the place in the grid of a pair."""
        (left, top), (col, row) = self.frame.grid.anchor, self._kept[pair].origin
        return window.shifted(left - col, top - row)

    def _opened(self, pair: Pair) -> ChangeMaps:
        maps = self._open.pop(pair, None)
        if maps is None:
            try:
                maps = self._read_again(self._kept[pair].folder)
            except (MapsUnusable, TilingError, KeyError, TypeError, ValueError, OverflowError):
                maps = self.maker.maps(pair)
                assert maps is not None, "the ground of the pair was found before"
        self._open[pair] = maps
        if len(self._open) > _PAIRS:
            self._open.popitem(last=False)[1].close()
        return maps

    def _read_again(self, folder: Path) -> ChangeMaps:
        """Open finished maps; their rasters were checked when they were made, and open when they are read."""
        if self._crs is None:
            return read_maps(folder)
        about, rows = read_about(folder)
        return ChangeMaps(folder, about, self._crs, rows)

    def close(self) -> None:
        """Close all files."""
        for maps in self._open.values():
            maps.close()
        self._open.clear()


def pair_maps(
    series: Series, options: SceneOptions, captioner: Captioner, progress: Progress | None = None
) -> PairMaps | None:
    """Return the maps of all pairs of a series whose scenes are near in time; None where no two overlap.

    Of known pairs none is opened. Progress is reported as the stage ``pairs``.

    Raises:
        TilingError, TooCoarse: a scene cannot be read, or the model is not meant for it.
        MapsBusy, MapsUnusable: another run uses the folder, or the system refuses.
    """
    from rscc.trunk_memory import remembering

    names = {pair: series.pair_name(pair) for pair in near_pairs(len(series.scenes))}
    maker = PairMaker(series, options, captioner)
    folder = maker.folder
    known = _read_index(folder)
    with ExitStack() as stack:
        if captioner.card.localiser == "change_head":
            with writing(series.folder):
                stack.enter_context(remembering(captioner, series.folder / "features"))
        found: dict[str, _Kept | None] = {}
        for number, (pair, name) in enumerate(names.items(), start=1):
            if name in known and (known[name] is None or (folder / name / ABOUT).is_file()):
                found[name] = known[name]
            elif is_left_out(series, pair) or (maps := maker.maps(pair)) is None:
                found[name] = None
            else:
                found[name] = _Kept.of(maps)
                maps.close()
            report_progress(progress, "pairs", number, len(names))
    if found != known:
        _write_index(folder, found)
    kept = {pair: one for pair, name in names.items() if (one := found[name]) is not None}
    return PairMaps(kept, maker, names) if kept else None


def _read_index(folder: Path) -> dict[str, _Kept | None]:
    """Return what is known of finished pairs by their names, None for those without common ground."""
    try:
        stored = parsed_json(read_file(folder / _INDEX))
        return {name: None if one is None else _Kept.read(folder / name, one) for name, one in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write_index(folder: Path, found: Mapping[str, _Kept | None]) -> None:
    stored = {name: None if one is None else one.as_list() for name, one in found.items()}
    with writing(folder):
        folder.mkdir(exist_ok=True)
        with atomic_write(folder / _INDEX) as (draft,):
            draft.write_text(json.dumps(stored) + "\n", encoding="utf-8")


def near_pairs(count: int, reach: int = REACH) -> Iterator[Pair]:
    """Yield the pairs of scenes, by their numbers, that are at most ``reach`` apart."""
    for second in range(count):
        yield from ((first, second) for first in range(max(0, second - reach), second))


class PairMaker:
    """Makes the maps of the pairs of a series.

    Attributes:
        folder: for maps of this model, these settings and these pixels of the ground.
    """

    def __init__(self, series: Series, options: SceneOptions, captioner: Captioner) -> None:
        self.series, self._options, self._captioner = series, options, captioner
        card, first = captioner.card, series.scenes[0].info
        self._lattice = Lattice(read_header(first, options))
        lattice = [str(first.crs), list(first.transform[:6]), first.gsd]
        model = [card.name, card.version, card.weights_sha256, card.facts_sha256]
        content = [rscc.__version__, model, options.written("settings"), lattice]
        digest = hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()
        self.folder = series.folder / f"pairs-{digest[:16]}"

    def maps(self, pair: Pair) -> ChangeMaps | None:
        """Return the maps of a pair, by the network unless they are there; None where it shows no ground."""
        place = self.folder / self.series.pair_name(pair)
        try:
            maps = read_maps(place)
            if maps.is_complete:
                return maps
            maps.close()
        except (MapsUnusable, TilingError):
            shutil.rmtree(place, ignore_errors=True)  # a folder of ours, named by the scenes
        adopted = adopted_maps(self.series, pair, place, self._options, self._captioner)
        if adopted is not None:
            return adopted
        try:
            with self.opened(pair) as scenes:
                # Two dates cannot tell a new white roof from a cloud. The dates around them can, and do.
                fill_maps(scenes, self._captioner, place, replace_others=True, veils=False)
        except (NoOverlap, NothingValid):
            return None
        return read_maps(place)

    def opened(self, pair: Pair) -> AbstractContextManager[OpenPair]:
        """Open two scenes of the series on the pixels of its first one."""
        first, second = (read_header(self.series.scenes[one].info, self._options) for one in pair)
        return open_pair(first, second, self._captioner.card, self._options, self._lattice)
