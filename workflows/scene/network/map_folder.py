"""The folder of maps while it is written: created or resumed, locked, filled row by row, removed.

Only a folder with our mark, ``maps.json``, is written to or removed, and of it only files with our names.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
from affine import Affine
from filelock import FileLock, Timeout

from rscc.files import DRAFTS, atomic_write, clear_dead, has_no_locks
from tiling import Band, Frame, TilingError, Window, is_special_file
from tiling.grid import Axis
from tiling.map_raster import RasterWriter, compress_raster, create_raster, open_raster
from workflows.errors import MapsBusy, MapsUnusable
from workflows.files import make_folder
from workflows.scene.map_description import ABOUT, FORMAT, Row, read_about
from workflows.scene.maps import EVIDENCE, LONE, PROBABILITY, ChangeMaps, area_transform
from workflows.scene.visibility.layer import VISIBILITY

_RUN_LOCK, _ROWS_LOCK, _PATIENCE = ".run.lock", ".rows.lock", 60
_SURVEY_LOCK, _SURVEY_SECONDS = ".survey.lock", 24 * 3600
# What a killed run may leave: drafts of ours, and the overviews that GDAL makes for one.
_DRAFTS = tuple(f".{name}{end}" for name in (PROBABILITY, EVIDENCE, VISIBILITY) for end in ("", ".ovr.tmp"))
_OURS = (PROBABILITY, EVIDENCE, VISIBILITY, ABOUT, *_DRAFTS, _ROWS_LOCK, _RUN_LOCK, _SURVEY_LOCK)


@contextmanager
def new_maps(
    folder: Path,
    about: Mapping[str, Any],
    crs: Any,
    answers: Sequence[str],
    *,
    shared: bool = False,
    replace_others: bool = False,
) -> Iterator[ChangeMaps]:
    """Yield the maps in a folder, new ones or those of a killed run with the same identity.

    Args:
        folder: created if it is not there; otherwise it must be empty or hold maps.
        about: plain values: ``identity`` (a hash of everything that the maps depend on), ``grid``,
            ``position``, ``position_edges``, ``rules`` and further information.
        answers: names of the bands of the evidence; none without fact heads.
        shared: several processes fill the folder, each its own rows; otherwise it is locked.
        replace_others: remove maps of another identity instead of refusing them.

    Raises:
        MapsBusy: another run has locked the folder.
        MapsUnusable: it holds other files or other maps, or the system refuses.
    """
    with ExitStack() as stack:
        try:
            make_folder(folder)
            _check_free(folder)
            if not shared:
                stack.enter_context(_locked(folder / _RUN_LOCK, timeout=0))
            with _locked(folder / _ROWS_LOCK, timeout=_PATIENCE):
                if replace_others and identity_in(folder) not in (None, about["identity"]):
                    (folder / ABOUT).unlink()
                maps = _resumed(folder, about, crs) or _created(folder, about, crs, answers)
        except Timeout:
            raise MapsBusy(
                f"{folder}: another run writes maps there; wait for it, or give another folder"
            ) from None
        except OSError as error:
            raise _unusable(folder, error) from error
        stack.callback(maps.close)
        yield maps


@contextmanager
def _locked(path: Path, timeout: float) -> Iterator[None]:
    """Hold a lock file; on a file system without locks, hold none.

    Raises:
        Timeout: another process holds it for longer.
        OSError: the file cannot be written.
    """
    lock = FileLock(path, timeout=timeout)
    try:
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        if isinstance(error, Timeout) or not has_no_locks(error):
            raise
    try:
        yield
    finally:
        lock.release()


@contextmanager
def surveying(folder: Path) -> Iterator[None]:
    """Hold the right to write what is seen of both dates, which processes that share a folder need once.

    Raises:
        MapsBusy: another process has held it for a day.
    """
    try:
        with _locked(folder / _SURVEY_LOCK, timeout=_SURVEY_SECONDS):
            yield
    except Timeout:
        raise MapsBusy(f"{folder}: another run writes maps there; give another folder") from None


@contextmanager
def writing_row(maps: ChangeMaps, start: int, stop: int, counts: Mapping[str, int]) -> Iterator[RowWriter]:
    """Yield what writes the rows from ``start`` to ``stop``; they are finished when the block succeeds."""
    with ExitStack() as stack:
        writer = RowWriter(maps, stack)
        yield writer
        stack.close()
        row = Row(
            start,
            stop,
            writer.positions,
            dict(counts),
            tuple(writer.lone),
            writer.has_nodata,
            tuple(writer.checksums),
        )
    maps.close()  # an open raster may have cached what was written over
    try:
        with _locked(maps.folder / _ROWS_LOCK, timeout=_PATIENCE):
            _, maps.rows = read_about(maps.folder)
            maps.rows[start] = row
            _write_about(maps)
    except Timeout:
        raise MapsBusy(f"{maps.folder}: another run that writes these maps hangs; end it") from None


class RowWriter:
    """Writes the maps of one row of tiles."""

    def __init__(self, maps: ChangeMaps, stack: ExitStack) -> None:
        self._maps, self._stack = maps, stack
        self._probability = self._opened(PROBABILITY)
        self.lone = [False] * maps.kinds
        self.has_nodata = False
        self.positions = (0, 0)
        self.checksums = [0] * (1 + maps.kinds + maps.has_evidence)

    def write(self, band: Band, number: int = 0) -> Band:
        """Write the next pixels of the change probability, or of one of :data:`LONE`; return them."""
        values = band.probability
        if not band.is_complete:
            self.has_nodata = True
            values = np.where(band.valid, values, np.float32(math.nan))
        if number:
            self.lone[number - 1] = True
        self.checksums[number] = zlib.crc32(np.ascontiguousarray(values).data, self.checksums[number])
        row = band.row_off - self._maps.area.row_off
        self._probability.write(values[None], row, [number + 1])
        return band

    def write_answers(self, first: int, values: np.ndarray) -> None:
        """Write rows of the evidence, (answers, rows, width) float32, from the row ``first`` on."""
        self.checksums[-1] = zlib.crc32(np.ascontiguousarray(values).data)
        self.positions = (first, first + values.shape[1])
        self._opened(EVIDENCE).write(values, first, range(1, len(values) + 1))

    def _opened(self, name: str) -> RasterWriter:
        raster = RasterWriter(self._maps.folder / name)
        self._stack.callback(raster.close)
        return raster


def compress_maps(maps: ChangeMaps) -> None:
    """Make complete rasters small and quick to draw: Cloud Optimized GeoTIFFs with overviews."""
    maps.close()
    for name in _rasters_of(maps):
        with open_raster(maps.folder / name) as file:
            is_compressed = file.compression is not None
        if not is_compressed:
            compress_raster(maps.folder / name)


def remove_maps(folder: Path) -> None:
    """Remove the maps in a folder with our mark, and the folder if nothing else is in it."""
    if identity_in(folder) is None:
        return
    clear_dead(folder)
    for name in _OURS:
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()


def identity_in(folder: Path) -> str | None:
    """Return the identity of the maps in a folder; None without maps of ours."""
    try:
        about, _ = read_about(folder)
    except MapsUnusable:
        return None
    return str(about.get("identity"))


def grid_of(frame: Frame, area: Window) -> dict[str, Any]:
    """Return where maps lie, as ``maps.json`` has it under ``grid``."""
    grid = frame.grid
    return {
        "width": grid.width,
        "height": grid.height,
        "gsd": grid.gsd,
        "transform": list(grid.transform[:6]),
        "anchor": list(grid.anchor),
        "area": list(astuple(area)),
        "focus": list(astuple(frame.focus)),
        "site": list(astuple(frame.site or frame.focus)),
    }


def position_edges(axis: Axis, side: int) -> list[int]:
    """Return the edges of the positions along an axis: those of each tile within its core."""
    edges = [axis.edges[0]]
    for start, low, high in zip(axis.starts, axis.edges, axis.edges[1:], strict=False):
        if high > low:
            edges += [*range(start + side * ((low - start) // side + 1), high, side), high]
    return edges


def _resumed(folder: Path, about: Mapping[str, Any], crs: Any) -> ChangeMaps | None:
    """Return the maps of a run with the same identity; None where there are none or they are damaged."""
    if not (folder / ABOUT).exists():
        return None
    there, rows = read_about(folder)
    if there.get("identity") != about["identity"]:
        raise MapsUnusable(f"{folder}: it holds the maps of another run; give another folder, or remove it")
    try:
        # The batch size of the first run stays: it decides the last bits.
        maps = ChangeMaps(folder, there, crs, rows)
        for name in _rasters_of(maps):
            open_raster(folder / name).close()
    except (TilingError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return maps


def _created(folder: Path, about: Mapping[str, Any], crs: Any, answers: Sequence[str]) -> ChangeMaps:
    maps = ChangeMaps(folder, {"format": FORMAT, **about, "answers": list(answers)}, crs)
    _write_about(maps)  # first: from now on the folder has our mark
    (folder / VISIBILITY).unlink(missing_ok=True)
    grid = maps.frame.grid
    software = f"rscc {about['versions']['rscc']}"
    create_raster(
        folder / PROBABILITY,
        crs=crs,
        transform=area_transform(grid, maps.area),
        width=maps.area.width,
        height=maps.area.height,
        names=("change", *LONE[: maps.kinds]),
        software=software,
    )
    if answers:
        # Exact but for the outermost tiles, which are off by less than a position, if half the overlap is a
        # whole number of positions, as it is by default.
        col, row = (
            float(np.median(edges - maps.position * np.arange(len(edges))))
            for edges in (maps.columns, maps.rows_of_positions)
        )
        create_raster(
            folder / EVIDENCE,
            crs=crs,
            transform=grid.transform * Affine.translation(col, row) * Affine.scale(maps.position),
            width=len(maps.columns) - 1,
            height=len(maps.rows_of_positions) - 1,
            names=answers,
            software=software,
        )
    return maps


def _rasters_of(maps: ChangeMaps) -> list[str]:
    return [PROBABILITY, EVIDENCE] if maps.has_evidence else [PROBABILITY]


def _write_about(maps: ChangeMaps) -> None:
    rows = [asdict(row) for _, row in sorted(maps.rows.items())]
    text = json.dumps({**maps.about, "rows": rows})
    try:
        with atomic_write(maps.folder / ABOUT) as (draft,):  # the lock of the rows is held
            draft.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise _unusable(maps.folder, error) from error


def _check_free(folder: Path) -> None:
    if any(not _is_ours(path) for path in folder.iterdir()) or (
        not (folder / ABOUT).exists() and (folder / PROBABILITY).exists()
    ):
        raise MapsUnusable(f"{folder}: it holds other files; give a new folder for the maps")


def _is_ours(path: Path) -> bool:
    """Return whether a file may be one of ours: what a link leads to is not, and a pipe would block."""
    if path.is_symlink() or is_special_file(path):
        return False
    return path.name in _OURS or path.name.startswith(DRAFTS)


def _unusable(folder: Path, error: OSError) -> MapsUnusable:
    return MapsUnusable(f"{folder}: maps cannot be written there ({error.strerror or error}); give another")
