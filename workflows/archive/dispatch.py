"""The pairs of an archive through an engine: what goes out, what comes back, what is tried again.

Only this process writes. A pair is done when its folder has its name; the ledger learns of it after that, so
that a kill between the two repeats this pair and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from workflows.engines.tasks import Kind, Outcome, Task
from workflows.errors import ScenesUnreachable
from workflows.options import SceneOptions
from workflows.progress import Progress, tell
from workflows.texts import counted

if TYPE_CHECKING:
    from workflows.archive.archive import Archive
    from workflows.archive.plan import ArchiveOptions
    from workflows.engines.engine import Engine
    from workflows.pairs.rows import PairRow
    from workflows.store.ledger_rows import Found, LedgerRow

# Seconds that the engine may wait for a result before it is asked whether to stop.
PATIENCE = 0.5
# Pairs fetched from the ledger at once.
FETCHED = 256
# What is said where scenes cannot be had, which may be the fault of the storage and not of the pair.
UNREACHABLE = frozenset({"SceneUnreachable", "SceneNotFound", "SceneUnreadable", "OSError", "TimeoutError"})


@dataclass
class _Active:
    """A pair that is being worked on."""

    row: LedgerRow
    attempt: int
    seconds: float = 0.0
    waiting: set[str] = field(default_factory=set)
    parts: list[tuple[int, int]] = field(default_factory=list)


class Dispatch:
    """One run over what is pending in the ledger of an archive.

    Args:
        archive: planned already.
        rows: of the table: the ledger has no addresses that hold secrets.
        engine: does the tasks.
        scene: how every pair is worked through; dates are those of the rows.
        options: how failures are met, and what is cut.
        progress: told of the stage ``pairs``.
        notice: called with lines for a person.

    Attributes:
        kept: pairs whose reports people have marked since the run began; they have these still.
    """

    def __init__(
        self,
        archive: Archive,
        rows: Iterable[PairRow],
        engine: Engine,
        scene: SceneOptions,
        options: ArchiveOptions,
        progress: Progress | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._archive, self._ledger, self._engine = archive, archive.ledger, engine
        self._pairs = {row.pair: row for row in rows}
        self._scene, self._options = scene, options
        self._progress, self._notice = progress, notice
        counts = self._ledger.counts()
        self._done, self._total = counts.done + counts.failed, counts.total
        # None until a pair is to be split: there must be a worker to be asked.
        self._shared: bool | None = None
        self._fetched: deque[LedgerRow] = deque()
        self._tasks: deque[Task] = deque()
        self._active: dict[str, _Active] = {}
        self._outstanding: dict[str, Task] = {}
        # Pairs that crash a worker have their last attempt with no other beside them.
        self._alone: dict[str, LedgerRow] = {}
        self._unreached: dict[str, Outcome] = {}
        # What came in and has not its name in the archive yet.
        self._ready: list[tuple[_Active, Outcome]] = []
        self._stopped = False
        self.kept: list[str] = []

    def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Work until nothing is pending, or until ``stopping`` is true and what runs is finished.

        Raises:
            ScenesUnreachable: the scenes of many pairs in a row cannot be had; they stay pending.
            OutputNotWritable, LedgerUnusable, SchedulerLost: the run ends early; nothing is lost.
        """
        tell(self._progress, "pairs", self._done, self._total)
        while True:
            if stopping() and not self._stopped:
                self._stop()
            if not self._submit() and not self._outstanding:
                break
            for outcome in self._engine.wait(PATIENCE):
                self._take(outcome)
                tell(self._progress, "pairs", self._done, self._total)
            self._install()
        for active, outcome in self._given_up():
            self._fail(active, outcome)
        # After a stop: what was taken back, and pairs of which some parts are missing.
        for pair in self._active:
            self._ledger.give_back(pair)

    def _stop(self) -> None:
        """Begin nothing any more, and take back what no worker has begun; it stays to be done."""
        self._stopped = True
        self._tasks.clear()
        for task in self._engine.withdraw():
            self._outstanding.pop(task.id, None)
        if self._notice is not None:
            count = len({task.pair for task in self._outstanding.values()})
            self._notice(
                f"Ctrl-C: {counted(count, 'running pair')} will be finished; Ctrl-C again "
                "abandons them. The same command goes on from there"
            )

    def _submit(self) -> bool:
        """Hand out as much as the engine wants; return whether there is more to hand out."""
        most = self._engine.wanted()
        while len(self._outstanding) < most:
            task = self._next()
            if task is None:
                return False
            self._outstanding[task.id] = task
            self._engine.submit(task)
        return not self._stopped

    def _next(self) -> Task | None:
        if self._stopped:
            return None
        if self._tasks:
            return self._tasks.popleft()
        if not self._fetched:
            rows = self._ledger.next(FETCHED + len(self._alone))
            self._fetched.extend(row for row in rows if row.pair not in self._alone)
        if self._fetched:
            return self._begin(self._fetched.popleft())
        if self._alone and not self._outstanding:
            return self._begin(self._alone.pop(next(iter(self._alone))))
        return None

    def _begin(self, row: LedgerRow) -> Task:
        active = self._active[row.pair] = _Active(row, row.attempts + 1)
        self._ledger.start(row.pair, active.attempt)
        return self._task(active, "pair")

    def _task(
        self, active: _Active, kind: Kind, rows: tuple[int, int] | None = None, number: int = 0
    ) -> Task:
        row = self._pairs[active.row.pair]
        task = Task(
            id=f"{row.pair}/{active.attempt}/{kind}/{number}",
            pair=row.pair,
            kind=kind,
            attempt=active.attempt,
            before=row.before,
            after=row.after,
            options=replace(
                self._scene,
                date_before=row.date_before,
                date_after=row.date_after,
                tile_cache=None if kind == "pair" else self._archive.folder.tile_cache(row.pair).absolute(),
            ),
            rows=rows,
            split_above=self._options.split_above if kind == "pair" and self._shared is not False else None,
        )
        active.waiting.add(task.id)
        return task

    def _take(self, outcome: Outcome) -> None:
        task = self._outstanding.pop(outcome.task.id, None)
        if task is not None and outcome.error not in UNREACHABLE:
            for given_up, failed in self._given_up():
                self._fail(given_up, failed)
        active = self._active.get(outcome.task.pair)
        # A part of a pair that failed meanwhile, or a second answer of a worker that was taken for lost.
        if task is None or active is None or task.id not in active.waiting:
            return
        active.waiting.discard(task.id)
        active.seconds += outcome.seconds
        if outcome.state == "split":
            self._split(active, outcome)
        elif outcome.state == "done" and task.kind == "part":
            self._part_done(active, task)
        elif outcome.state == "done":
            self._ready.append((active, outcome))
        else:
            self._failed(active, outcome)

    def _split(self, active: _Active, outcome: Outcome) -> None:
        assert outcome.rows is not None
        if self._shared is None:
            self._shared = self._engine.shared_folder(self._archive.folder.make_tile_cache(active.row.pair))
        if not self._shared:
            self._tasks.append(self._task(active, "pair", number=1))
            return
        active.parts = list(outcome.rows)
        self._ledger.split(active.row.pair, active.parts)
        finished = {part.number for part in self._ledger.parts(active.row.pair) if part.done}
        for number, rows in enumerate(active.parts):
            if number not in finished:
                self._tasks.append(self._task(active, "part", rows, number))
        if not active.waiting:
            self._tasks.append(self._task(active, "finish"))

    def _part_done(self, active: _Active, task: Task) -> None:
        assert task.rows is not None
        self._ledger.part_done(task.pair, active.parts.index(task.rows))
        if not active.waiting:
            self._tasks.append(self._task(active, "finish"))

    def _install(self) -> None:
        """Give the reports that came their names; several at once, as most of it is waiting for the disk."""
        ready, self._ready = self._ready, []
        written = [
            self._archive.pool.submit(
                self._archive.install, active.row, outcome.result, overwrite=self._options.overwrite
            )
            for active, outcome in ready
            if outcome.result is not None
        ]
        for (active, outcome), one in zip(ready, written, strict=True):
            if (found := one.result()) is None:
                self._finish(active, outcome)
            else:
                self._keep(active, outcome, found)
            tell(self._progress, "pairs", self._done, self._total)

    def _finish(self, active: _Active, outcome: Outcome) -> None:
        pair, result = active.row.pair, outcome.result
        assert result is not None
        self._ledger.done(
            pair,
            worker=outcome.worker,
            seconds=active.seconds,
            changes=result.changes,
            area_m2=result.area_m2,
            tiles=result.tiles,
            warnings=result.warnings,
        )
        if active.parts:
            self._archive.drop_parts(pair)
        self._ended(pair)

    def _keep(self, active: _Active, outcome: Outcome, found: Found) -> None:
        """Leave the report of before, which people have marked since the run began."""
        pair = active.row.pair
        self._archive.drop_parts(pair)
        self._ledger.kept(pair, outcome.worker, active.seconds, found)
        self._forget(active)
        self.kept.append(pair)
        self._ended(pair)

    def _failed(self, active: _Active, outcome: Outcome) -> None:
        """Try the pair again, or count it as failed; not yet, where it may be the storage's fault."""
        pair = active.row.pair
        left = self._options.retries + 1 - active.attempt
        if outcome.state != "refused" and left > 0:
            self._retry(active, outcome)
            if outcome.state == "crashed" and left == 1:
                self._alone[pair] = replace(active.row, attempts=active.attempt)
        elif outcome.error in UNREACHABLE and self._options.give_up_after:
            self._unreached[pair] = outcome
        else:
            self._fail(active, outcome)
        if outcome.error in UNREACHABLE:
            self._check_reach(outcome)

    def _check_reach(self, outcome: Outcome) -> None:
        if not 0 < self._options.give_up_after <= len(self._unreached):
            return
        for active, failed in self._given_up():
            self._retry(active, failed)
        raise ScenesUnreachable(
            f"the scenes of {self._options.give_up_after} pairs in a row cannot be had, the last said: "
            f"{outcome.line}; see to the storage and run the same command again, or give --give-up-after 0 "
            "if they are really missing"
        )

    def _given_up(self) -> Iterator[tuple[_Active, Outcome]]:
        """Yield what is neither failed nor pending yet, and take it off the list."""
        held, self._unreached = self._unreached, {}
        for pair, outcome in held.items():
            yield self._active[pair], outcome

    def _retry(self, active: _Active, outcome: Outcome) -> None:
        self._ledger.again(active.row.pair, **_reason(active, outcome))
        self._forget(active)

    def _fail(self, active: _Active, outcome: Outcome) -> None:
        pair = active.row.pair
        if not self._options.overwrite and (marks := self._archive.marked([pair])):
            self._keep(active, outcome, marks[pair])
            return
        self._archive.drop_parts(pair)
        # A report of other settings or scenes must not be taken for this pair's.
        self._archive.folder.remove(pair)
        self._ledger.failed(pair, **_reason(active, outcome))
        self._forget(active)
        self._ended(pair)

    def _forget(self, active: _Active) -> None:
        """Leave out what is still to be handed out of a pair; what is out already is not waited for."""
        self._active.pop(active.row.pair, None)
        self._tasks = deque(task for task in self._tasks if task.pair != active.row.pair)

    def _ended(self, pair: str) -> None:
        self._active.pop(pair, None)
        self._done += 1


def _reason(active: _Active, outcome: Outcome) -> dict[str, Any]:
    """Return what the ledger is told of an attempt that came to nothing."""
    return {
        "worker": outcome.worker,
        "seconds": active.seconds,
        "kind": outcome.state,
        "error": outcome.error or "",
        "line": outcome.line or "",
    }
