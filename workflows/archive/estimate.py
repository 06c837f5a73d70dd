"""Estimate a run over an archive: pairs, bytes, hours and disk space; nothing is written."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rscc.errors import RsccError
from rscc.model_card import ModelCard
from rscc.sequences import evenly
from tiling import TilingError, locate
from workflows.archive.archive import Archive, ArchiveOptions
from workflows.archive.claim import Claim
from workflows.archive.folder import ArchiveFolder
from workflows.archive.index import FAILED, Index, PairState
from workflows.archive.plan import Planned, keyed_rows, settings_key
from workflows.archive.reasons import Reason, failure_reasons
from workflows.archive.state import THREADS, State, load_state
from workflows.archive.workers.tasks import error_line
from workflows.errors import WorkflowError
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.progress import Progress, report_progress
from workflows.scene.inspect.inspect import measured_speed
from workflows.scene.opening import open_pair, planned_tiles

if TYPE_CHECKING:
    from rscc.captioner import Captioner

# Pairs whose headers are read at most, and finished pairs whose times and sizes are.
LOOKED_AT = 200
# Finished pairs from which on the archive's own speed and sizes are used.
ENOUGH = 20
# Bytes on disk of a pair with a few changes, and of its part of the layers.
PAIR_BYTES, LAYER_BYTES = 28_000, 6_000


@dataclass(frozen=True)
class Estimate:
    """The work that is left.

    Attributes:
        planned: pairs by state; ``pending`` are to be done.
        input_bytes: size of their scenes that are files on this machine.
        remote: number of their scenes on servers, of unknown size; ``missing``: that do not exist.
        looked_at: pairs whose headers were read, from which the rest is estimated.
        reasons: why some of these would be refused.
        tiles: of all pairs to be done.
        worker_seconds: that one worker takes; None where no speed is known.
        speed: its source: ``archive`` the finished pairs, ``measured`` a tile on this machine.
        disk_bytes: that reports and layers will take; ``free_bytes`` are free on that disk.
    """

    planned: Planned
    input_bytes: int
    remote: int
    missing: int
    looked_at: int
    reasons: tuple[Reason, ...]
    tiles: int
    worker_seconds: float | None
    speed: str | None
    workers: int
    disk_bytes: int
    free_bytes: int

    @property
    def seconds(self) -> float | None:
        """The time with all workers; None where no speed is known."""
        return None if self.worker_seconds is None else round(self.worker_seconds / self.workers, 1)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "seconds": self.seconds}


def estimate_archive(
    rows: Sequence[PairRow],
    folder: str | Path,
    card: ModelCard,
    scene: SceneOptions,
    options: ArchiveOptions,
    *,
    workers: int,
    threads: int = 1,
    load: Callable[[], Captioner] | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """Estimate what ``run_archive`` would do with the same arguments.

    Args:
        rows, folder, card, scene, options: as there.
        workers: that the time is for; ``threads`` are the cores of each.
        load: returns the model, to measure its speed here; None, as for workers elsewhere, gives no time.
        progress: called with the stages ``scenes`` and ``headers``.

    Raises:
        FolderOccupied: other files are in the folder.
    """
    archive, scene, shard = ArchiveFolder(folder), scene.for_others(), options.shard
    archive.check()
    with ThreadPoolExecutor(THREADS) as pool:
        is_new = not archive.mark.exists()
        state = State(archive, Index("")) if is_new else load_state(archive, archive.archive_id(), pool)
        # Planned in memory: nothing is written.
        rehearsal = Archive(archive, Claim(archive, archive.work), state, pool, options)
        keyed = keyed_rows(rows, state.index, settings_key(scene, card), shard, progress=progress)
        planned = rehearsal.plan(keyed)
        pending = list(state.index.rows("pending", shard=shard))
        done = evenly(list(state.index.rows("done")), LOOKED_AT) if planned.done >= ENOUGH else []
        state.index.close()
    by_id = {row.pair: row for row in rows}
    sample = evenly(pending, LOOKED_AT)
    tiles, refused = _look(sample, by_id, card, scene, progress)
    share = len(pending) / max(len(sample), 1)
    all_tiles = round(sum(tiles) * share)
    finished_tiles = sum(row.tiles or 0 for row in done)
    second = sum(row.seconds or 0.0 for row in done) / finished_tiles if finished_tiles else None
    speed = None if second is None else "archive"
    if second is None and load is not None and tiles:
        readable = (by_id[row.pair] for row in sample if row.pair not in {one.pair for one in refused})
        second = _measured(next(readable), card, scene, threads, load)
        speed = None if second is None else "measured"
    size, remote, missing = _input([by_id[row.pair] for row in pending])
    return Estimate(
        planned=planned,
        input_bytes=size,
        remote=remote,
        missing=missing,
        looked_at=len(sample),
        reasons=tuple(failure_reasons(refused)),
        tiles=all_tiles,
        worker_seconds=None if second is None else round(second * all_tiles, 1),
        speed=speed,
        workers=workers,
        disk_bytes=round(len(tiles) * share * (_pair_bytes(archive, done) + LAYER_BYTES)),
        free_bytes=_free_bytes(archive.path),
    )


def _look(
    sample: Sequence[PairState],
    pairs: dict[str, PairRow],
    card: ModelCard,
    scene: SceneOptions,
    progress: Progress | None,
) -> tuple[list[int], list[PairState]]:
    """Return the numbers of tiles of the pairs, from their headers, and the pairs that would be refused."""
    tiles, refused = [], []
    for number, row in enumerate(sample, start=1):
        pair = pairs[row.pair]
        try:
            tiles.append(len(planned_tiles(pair.before, pair.after, card, scene)[1]))
        except (TilingError, WorkflowError) as error:
            name, line = type(error).__name__, error_line(error)
            refused.append(row._replace(state=FAILED, kind="refused", error=name, line=line))
        report_progress(progress, "headers", number, len(sample))
    return tiles, refused


def _measured(
    row: PairRow, card: ModelCard, scene: SceneOptions, threads: int, load: Callable[[], Captioner]
) -> float | None:
    """Return the seconds of a worker per tile, on a tile of a pair; None where the model cannot run here."""

    def load_with_threads() -> Captioner:
        captioner = load()
        import torch

        torch.set_num_threads(threads)
        return captioner

    try:
        with open_pair(row.before, row.after, card, scene) as opened:
            return measured_speed(opened, load_with_threads, time.perf_counter()).tile
    except (RsccError, TilingError, WorkflowError):
        return None


def _input(pairs: Sequence[PairRow]) -> tuple[int, int, int]:
    """Return the bytes of scenes on this machine, and the numbers of remote and of missing scenes."""
    size, remote, missing = 0, 0, 0
    for scene in {scene for row in pairs for scene in (row.before, row.after)}:
        try:
            local = locate(scene).local
            remote += local is None
            size += 0 if local is None else os.stat(local).st_size
        except (TilingError, OSError):
            missing += 1
    return size, remote, missing


def _pair_bytes(archive: ArchiveFolder, done: Sequence[PairState]) -> float:
    """Return the bytes of a pair on the disk: the mean of finished pairs, else a usual value."""
    sizes = []
    for row in done:
        try:
            files = [file.stat() for file in archive.pair_folder(row.pair).iterdir()]
        except OSError:
            continue
        # Blocks of 512 bytes, where the system counts them, and one of 4 KiB for the folder.
        sizes.append(4096 + sum(512 * getattr(file, "st_blocks", file.st_size // 512 + 8) for file in files))
    return sum(sizes) / len(sizes) if sizes else PAIR_BYTES


def _free_bytes(path: Path) -> int:
    """Return the free bytes on the disk of a folder, which need not exist."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free
