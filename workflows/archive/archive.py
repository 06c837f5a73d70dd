"""An archive that this process works on: its folder, its ledger, and the threads that wait for the disk."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from rscc.files import parsed_json
from rscc.sequences import batches
from workflows.archive.marked import found_in, marked, refuse_loss
from workflows.errors import ReportsDamaged
from workflows.files import write_together
from workflows.layers.layers import write_layers
from workflows.layers.stac import stac_item
from workflows.progress import Progress
from workflows.report.qgis import qgis_style
from workflows.report.reading import report_content
from workflows.store.folder import ITEM, REPORT, STYLE, ArchiveFolder
from workflows.store.ledger import Ledger

if TYPE_CHECKING:
    from pathlib import Path

    from workflows.engines.tasks import PairResult
    from workflows.pairs.rows import PairRow
    from workflows.store.ledger_rows import Found, LedgerRow, Planned

# Threads: the disk takes what several wait for in one go, and on a network every look takes its time.
THREADS = 16
# The name of a report that cannot be read, once its pair is to be done anew.
DAMAGED = "changes.damaged.geojson"
# Reports that one thread looks for each time.
_LOOKED_FOR = 1000
# The end of a report, and how much is read to find it.
_END, _TAIL = re.compile(rb"\]\s*\}\s*\Z"), 64


@dataclass(frozen=True)
class Archive:
    """An archive whose lock this process holds.

    Attributes:
        folder: where everything lies.
        ledger: what became of every pair.
        pool: threads for what waits for the disk; the ledger is not for them.
    """

    folder: ArchiveFolder
    ledger: Ledger
    pool: ThreadPoolExecutor

    @classmethod
    @contextmanager
    def open(cls, folder: ArchiveFolder) -> Iterator[Archive]:
        """Make the archive unless it is there, lock it for this block, and tidy up after a killed run.

        Raises:
            NotAnArchive, OutputFolderMissing, OutputNotWritable: the folder cannot be used.
            ArchiveBusy: another process works on it.
            LedgerForeign, LedgerUnusable: the ledger is damaged, or the system refused it.
        """
        folder.create()
        with folder.locked():
            try:
                folder.recover()
                with Ledger.open(folder.path) as ledger, ThreadPoolExecutor(THREADS) as pool:
                    yield cls(folder, ledger, pool)
            finally:
                folder.tidy()

    def install(self, row: LedgerRow, result: PairResult, *, overwrite: bool = True) -> Found | None:
        """Give the report of a pair its name in the archive; several threads may do so at once.

        Returns what is in the report of before, where that has marks of people and is not to be overwritten:
        it stays.

        Raises:
            OutputNotWritable: the system refused.
        """
        if not overwrite and (found := marked(self.folder.pair_folder(row.pair) / REPORT)) is not None:
            return found
        item = _item(row, json.loads(result.report))
        self.folder.install(
            row.pair, {REPORT: result.report, STYLE: qgis_style().encode(), ITEM: item.encode()}
        )
        return None

    def marked(self, pairs: Iterable[str], *, edited: bool = True) -> dict[str, Found]:
        """Return which of the pairs have reports that people marked, or ``edited``, and what is in these."""

        def look(pairs: Sequence[str]) -> list[tuple[str, Found]]:
            reports = ((pair, self.folder.pair_folder(pair) / REPORT) for pair in pairs)
            looked_at = ((pair, marked(report, edited=edited)) for pair, report in reports)
            return [(pair, found) for pair, found in looked_at if found is not None]

        return dict(chain.from_iterable(self.pool.map(look, batches(pairs, _LOOKED_FOR))))

    def plan(
        self, keyed: Iterable[tuple[PairRow, str | None]], *, retry_failed: bool, overwrite: bool
    ) -> Planned:
        """Bring the ledger in line with a table of pairs and their keys, and take up what has no report.

        Pairs with marks of people stay done as they are, unless it is to ``overwrite`` them.
        """
        keep: Callable[[list[str]], Mapping[str, Found]] = (lambda pairs: {}) if overwrite else self.marked
        planned = self.ledger.plan(keyed, retry_failed=retry_failed, keep=keep)
        removed = self.take_up_missing(overwrite=overwrite)
        return replace(
            planned, done=planned.done - removed, pending=planned.pending + removed, removed=removed
        )

    def drop_parts(self, pair: str) -> None:
        """Forget the parts of a pair, and remove their tiles."""
        # In this order: parts that are done have their tiles.
        self.ledger.split(pair, [])
        self.folder.drop_tile_cache(pair)

    def take_up(self, pairs: Iterable[str]) -> None:
        """Let pairs that are done be done anew."""
        for pair in pairs:
            self.ledger.start(pair, attempt=1)
            self.ledger.give_back(pair)

    def take_up_missing(self, *, overwrite: bool = False) -> int:
        """Take up what is done and has no report, as somebody removed it or cut it off; return how many.

        One that is cut off and has marks of people is left, unless it is to ``overwrite`` them.
        """

        def lacking(pairs: Sequence[str]) -> list[str]:
            return [pair for pair in pairs if not _is_whole(f"{self.folder.pairs}/{pair}/{REPORT}")]

        query = "SELECT pair FROM pairs WHERE state = 'done' ORDER BY number"
        done = (pair for (pair,) in self.ledger.select(query, kinds=(str,)))
        parts = self.pool.map(lacking, batches(done, _LOOKED_FOR))
        missing = [pair for part in parts for pair in part]
        if not overwrite:
            said = self.marked(missing, edited=False)
            missing = [pair for pair in missing if pair not in said]
        self.take_up(missing)
        return len(missing)

    def _edited(self, since: int) -> tuple[int, set[str]]:
        """Return when the newest report was written, by a run or by somebody, and which somebody edited.

        Args:
            since: in ns since 1970, as the answer; what was edited before this is left out.
        """

        def look(ended: Sequence[tuple[str, float | None]]) -> tuple[int, list[str]]:
            times = [(pair, _written(f"{self.folder.pairs}/{pair}/{REPORT}"), end) for pair, end in ended]
            edited = [pair for pair, written, end in times if written > max(since, (end or 0.0) * 1e9)]
            return max(written for _, written, _ in times), edited

        query = "SELECT pair, finished FROM pairs WHERE state = 'done'"
        ended = self.ledger.select(query, kinds=(str, (float, int, type(None))))
        parts = list(self.pool.map(look, batches(ended, _LOOKED_FOR)))
        return max((newest for newest, _ in parts), default=0), {pair for _, part in parts for pair in part}

    def _count(self, row: LedgerRow) -> None:
        folder = self.folder.pair_folder(row.pair)
        try:
            report = report_content(folder / REPORT)
            found = found_in([feature["properties"] for feature in report["features"]])
            item = _item(row, report)
        except Exception:  # who reads it for the layers says what is wrong
            return
        # The report has areas rounded.
        if (
            found.changes != row.changes
            or abs(found.area_m2 - (row.area_m2 or 0.0)) > 0.1 + 0.01 * found.changes
        ):
            write_together({folder / ITEM: [item]})
            self.ledger.recount(row.pair, found)

    def write_layers(
        self, progress: Progress | None, *, overwrite: bool = False, recount: bool = False
    ) -> None:
        """Write what describes the whole archive, and remove what is not needed any more.

        What somebody took out of reports or drew into them since the layers were written is counted anew;
        with ``recount`` since the pairs were done, whatever was counted before.

        Raises:
            ReportsDamaged: reports cannot be read; their pairs are to be done anew, and nothing is written.
                What was there lies beside it as :data:`DAMAGED`, behind a number where that is taken.
            OutputExists: some of these have marks of people, and it is not for ``overwrite``.
            OutputNotWritable: the system refused.
        """
        newest, edited = self._edited(0 if recount else _written(self.folder.catalog))
        for row in [row for row in self.ledger.rows("done") if row.pair in edited] if edited else ():
            self._count(row)
        try:
            write_layers(self.folder, self.ledger.rows, progress, edited=newest)
        except ReportsDamaged as damaged:
            if not overwrite:
                said = self.marked(damaged.pairs, edited=False)
                reports = [self.folder.pair_folder(pair) / REPORT for pair in said]
                remedy = "mend it, or keep a copy and add --overwrite"
                refuse_loss(reports, f"it is damaged, rscc review REPORT says where: {remedy}")
            self.take_up(damaged.pairs)
            for pair in damaged.pairs:
                folder = self.folder.pair_folder(pair)
                # It may hold what somebody drew or wrote.
                aside = (folder / (DAMAGED if n == 1 else f"{n}.{DAMAGED}") for n in count(1))
                with suppress(OSError):
                    (folder / REPORT).replace(next(path for path in aside if not path.exists()))
            raise
        # No pair is left that could resume with its finished tiles; the table may have lost some that had.
        shutil.rmtree(self.folder.work / "tiles", ignore_errors=True)


def _item(row: LedgerRow, report: Mapping[str, Any]) -> str:
    return f"{json.dumps(stac_item(row, report), ensure_ascii=False, indent=1)}\n"


def _is_whole(path: str) -> bool:
    """Return whether a report has its end, also if a GIS wrote it anew; much shorter to read than all."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            if _END.search(file.read()):
                return True
            # Programs that put members in the order of their names end it otherwise.
            file.seek(0)
            return "features" in parsed_json(file.read())
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return False
    except OSError:
        # It is there, and whoever reads it says what is wrong.
        return True


def _written(path: str | Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        # Whoever reads it says what is wrong.
        return 0
