"""What a run over an archive would do and take: counts, bytes, hours and disk; nothing is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rscc.sequences import evenly
from tiling import TilingError, locate
from workflows.archive.archive import THREADS, Archive
from workflows.archive.plan import ArchiveOptions, archive_of, with_keys
from workflows.engines.tasks import error_line
from workflows.errors import WorkflowError
from workflows.inspection.cost import CORE_SECONDS
from workflows.progress import Progress, tell
from workflows.scene.parts import planned_tiles
from workflows.store.failures import Reason, grouped
from workflows.store.folder import ArchiveFolder
from workflows.store.ledger import Ledger
from workflows.store.ledger_rows import LedgerRow, Planned

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard
    from workflows.options import SceneOptions
    from workflows.pairs.rows import PairRow

# Pairs whose headers are looked at, and those that are done whose times and sizes are, where there are more.
LOOKED_AT = 200
# Pairs that must be done before the archive's own speed and sizes are believed.
ENOUGH = 20
# Bytes that a pair with a few changes takes on a disk with blocks of 4 KiB, and its part of the layers.
PAIR_BYTES, LAYER_BYTES = 28_000, 6_000


@dataclass(frozen=True)
class Estimate:
    """What there is to do.

    Attributes:
        planned: how many pairs are in which state; ``pending`` are to be done.
        input_bytes: size of the scenes of these that are files on this machine.
        remote: how many of their scenes are on servers, of unknown size; ``missing``: are not there.
        looked_at: pairs to be done whose headers were read, to know of all.
        reasons: why pairs of those looked at would be refused, with how many there are of each.
        tiles: of all pairs to be done, as those looked at tell.
        worker_seconds: that they take one worker; None where no speed is known.
        change_seconds: that each change found takes besides, for its words; None where ``worker_seconds`` has
            them, or where no speed is known.
        speed: what both are from: ``archive`` the pairs that are done, ``stated`` of a shipped model.
        workers: how many the time is for.
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
    change_seconds: float | None
    speed: str | None
    workers: int
    disk_bytes: int
    free_bytes: int

    @property
    def seconds(self) -> float | None:
        """The time until all workers are through, of what ``worker_seconds`` is; None where that is."""
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
    progress: Progress | None = None,
) -> Estimate:
    """Say what ``run_archive`` would do with the same arguments, and what that takes.

    Args:
        rows, folder, card, scene, options: as there.
        workers: that the time is for; ``threads`` are the cores of each, where the speed is a stated one.
        progress: told of the stages ``scenes`` and ``headers``.

    Raises:
        NotAnArchive: something else is in the folder.
        LedgerForeign, LedgerUnusable: its ledger cannot be read.
    """
    archive, scene = archive_of(folder, options.shard), scene.for_others()
    with Ledger.rehearsal(archive.path) as ledger, ThreadPoolExecutor(THREADS) as pool:
        keyed = with_keys(rows, ledger, scene, card, options, progress=progress)
        rehearsed = Archive(archive, ledger, pool)
        planned = rehearsed.plan(keyed, retry_failed=options.retry_failed, overwrite=options.overwrite)
        pending = list(ledger.rows("pending"))
        done = evenly(list(ledger.rows("done")), LOOKED_AT) if planned.done >= ENOUGH else []
    by_id = {row.pair: row for row in rows}
    sample = evenly(pending, LOOKED_AT)
    tiles, refused = _look(sample, by_id, card, scene, progress)
    share = len(pending) / max(len(sample), 1)
    all_tiles = round(sum(tiles) * share)
    second, change, speed = _speed(done, card, threads)
    size, remote, missing = _input([by_id[row.pair] for row in pending])
    return Estimate(
        planned=planned,
        input_bytes=size,
        remote=remote,
        missing=missing,
        looked_at=len(sample),
        reasons=tuple(grouped(refused)),
        tiles=all_tiles,
        worker_seconds=None if second is None else round(second * all_tiles, 1),
        change_seconds=None if change is None else round(change, 3),
        speed=speed,
        workers=workers,
        disk_bytes=round(len(tiles) * share * (_pair_bytes(archive, done) + LAYER_BYTES)),
        free_bytes=_free_bytes(archive.path),
    )


def _look(
    sample: Sequence[LedgerRow],
    pairs: dict[str, PairRow],
    card: ModelCard,
    scene: SceneOptions,
    progress: Progress | None,
) -> tuple[list[int], list[LedgerRow]]:
    """Return how many tiles the pairs have, by their headers, and those that would be refused."""
    tiles, refused = [], []
    for number, row in enumerate(sample, start=1):
        pair = pairs[row.pair]
        try:
            tiles.append(len(planned_tiles(pair.before, pair.after, card, scene)))
        except (TilingError, WorkflowError) as error:
            name, line = type(error).__name__, error_line(error)
            refused.append(replace(row, state="failed", kind="refused", error=name, line=line))
        tell(progress, "headers", number, len(sample))
    return tiles, refused


def _speed(
    done: Sequence[LedgerRow], card: ModelCard, threads: int
) -> tuple[float | None, float | None, str | None]:
    """Return the seconds of a worker for a tile and, besides, for a change, and what they are from."""
    tiles = sum(row.tiles or 0 for row in done)
    if tiles:
        return sum(row.seconds or 0.0 for row in done) / tiles, None, "archive"
    if card.name in CORE_SECONDS:
        tile, change = CORE_SECONDS[card.name]
        return tile / threads, change / threads, "stated"
    return None, None, None


def _input(pairs: Sequence[PairRow]) -> tuple[int, int, int]:
    """Return the bytes of the scenes that are files here, and how many are on servers and are missing."""
    size, remote, missing = 0, 0, 0
    for scene in {scene for row in pairs for scene in (row.before, row.after)}:
        try:
            local = locate(scene).local
            remote += local is None
            size += 0 if local is None else os.stat(local).st_size
        except (TilingError, OSError):
            missing += 1
    return size, remote, missing


def _pair_bytes(archive: ArchiveFolder, done: Sequence[LedgerRow]) -> float:
    """Return what a pair takes on the disk: the mean of those that are there, else of what is usual."""
    sizes = []
    for row in done:
        try:
            files = [file.stat() for file in archive.pair_folder(row.pair).iterdir()]
        except OSError:
            continue
        # Blocks of 512 bytes, where the system tells; and one of 4 KiB for the folder.
        sizes.append(4096 + sum(512 * getattr(file, "st_blocks", file.st_size // 512 + 8) for file in files))
    return sum(sizes) / len(sizes) if sizes else PAIR_BYTES


def _free_bytes(path: Path) -> int:
    """Return what is free on the disk that a folder is on, or will be."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free
