"""The pairs of an archive through an engine: what goes out, what comes back, what failed for good.

Only this process writes. A pair is done when its folder has its name.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from dataclasses import replace
from typing import TYPE_CHECKING

from workflows.archive.archive import Archive
from workflows.archive.index import PENDING, PairState
from workflows.archive.status import RunProgress
from workflows.archive.workers.tasks import SPLIT_ABOVE, Outcome, Task
from workflows.errors import ScenesUnreachable
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.printable import counted
from workflows.progress import Progress, report_progress

if TYPE_CHECKING:
    from workflows.archive.workers.engine import Engine

# Seconds to wait for a result before the run looks whether to stop.
PATIENCE = 0.5
# Seconds after which the index is written while a run works: a killed run leaves less to read again.
SAVED_EVERY = 120.0
GIVE_UP_AFTER = 25
"""So many pairs in a row whose scenes cannot be read end the run."""
# Errors that may be the fault of the storage, not of the pair.
UNREACHABLE = frozenset({"SceneUnreachable", "SceneNotFound", "SceneUnreadable", "OSError", "TimeoutError"})


class Dispatch:
    """One run over the pending pairs of an archive.

    Args:
        archive: planned already.
        rows: the table: addresses with secrets are in it alone.
        scene: how every pair is read; dates come from the rows.
        progress: called with the stage ``pairs``.
        notice: called with lines for a person.

    Attributes:
        kept: pairs whose reports people have marked since the run began, and which therefore stay.
    """

    def __init__(
        self,
        archive: Archive,
        rows: Iterable[PairRow],
        engine: Engine,
        scene: SceneOptions,
        progress: Progress | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._archive, self._engine = archive, engine
        self._rows = {row.pair: row for row in rows}
        self._scene, self._progress, self._notice = scene, progress, notice
        counts = archive.index.counts(archive.options.shard)
        self._ended, self._total = counts.done + counts.failed, counts.total
        self._pending = deque(archive.index.names(PENDING, archive.options.shard))
        self._outstanding: dict[str, float] = {}
        self._unreached: list[Outcome] = []
        self._live = RunProgress(archive.claim, archive.options.shard)
        self._saved = time.monotonic()
        self._stopped = False
        self.kept: list[str] = []

    def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Work until no pair is pending, or until ``stopping`` returns True and the running pairs are done.

        Raises:
            ScenesUnreachable: the scenes of many pairs in a row cannot be read; the pairs stay pending.
            OutputNotWritable, SchedulerLost: the run ends early; finished pairs are kept.
        """
        self._report()
        while True:
            if stopping() and not self._stopped:
                self._stop()
            self._submit()
            if not self._outstanding:
                break
            self._take(self._engine.wait(PATIENCE))
            self._report()
            if time.monotonic() - self._saved > SAVED_EVERY:
                self._archive.save()
                self._saved = time.monotonic()
        self._fail_unreached()
        self._report()

    def _report(self) -> None:
        report_progress(self._progress, "pairs", self._ended, self._total)
        self._live.write(self._outstanding, force=not self._outstanding)

    def _stop(self) -> None:
        """Start no more pairs, and take back those that no worker has started."""
        self._stopped = True
        self._pending.clear()
        for pair in self._engine.withdraw():
            del self._outstanding[pair]
        if self._notice is not None:
            count = counted(len(self._outstanding), "running pair")
            self._notice(f"Ctrl-C: finishing {count}; Ctrl-C again abandons them. The same command resumes")

    def _submit(self) -> None:
        wanted = self._engine.wanted()
        while self._pending and len(self._outstanding) < wanted:
            pair = self._pending.popleft()
            row = self._rows[pair]
            own = {name: getattr(row, name) for name in ("date_before", "date_after", "changes")}
            options = replace(self._scene, **own)
            self._outstanding[pair] = time.time()
            maps = self._archive.folder.maps(pair).absolute()
            self._engine.submit(
                Task(pair, row.before, row.after, options, maps, SPLIT_ABOVE, self._archive.options.keep_maps)
            )

    def _take(self, outcomes: list[Outcome]) -> None:
        """Install the reports that came, several at once, and record failures."""
        known = [outcome for outcome in outcomes if self._outstanding.pop(outcome.pair, None) is not None]
        rows = {outcome.pair: self._row(outcome.pair) for outcome in known}
        installs = {
            outcome.pair: self._archive.pool.submit(self._archive.install, rows[outcome.pair], outcome.report)
            for outcome in known
            if outcome.report is not None
        }
        for outcome in known:
            if outcome.error in UNREACHABLE:
                self._unreached.append(outcome)
                if len(self._unreached) >= GIVE_UP_AFTER:
                    raise ScenesUnreachable(
                        f"the scenes of {GIVE_UP_AFTER} pairs in a row cannot be read, the last error: "
                        f"{outcome.line}; check the storage and run the same command again"
                    )
                continue
            self._fail_unreached()
            if outcome.report is None:
                self._fail(outcome)
        # Reports that were written are recorded before the error of another one ends the run.
        wait(installs.values())
        for outcome in known:
            install = installs.get(outcome.pair)
            if install is None or install.exception() is not None:
                continue
            if (installed := install.result()) is None:
                self._archive.keep(outcome.pair)
                self.kept.append(outcome.pair)
            else:
                self._archive.done(rows[outcome.pair], outcome, *installed)
            self._end(outcome)
        for install in installs.values():
            install.result()

    def _row(self, pair: str) -> PairState:
        row = self._archive.index.one(pair)
        assert row is not None, f"{pair} is not in the index"
        return row

    def _fail(self, outcome: Outcome) -> None:
        if not self._archive.fail(self._row(outcome.pair), outcome):
            self.kept.append(outcome.pair)
        self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        self._archive.claim.drop_maps(outcome.pair)
        self._live.ended(outcome.pair, outcome.worker)
        self._ended += 1

    def _fail_unreached(self) -> None:
        """Record pairs as failed whose scenes alone could not be read: the storage is there."""
        unreached, self._unreached = self._unreached, []
        for outcome in unreached:
            self._fail(outcome)
