"""An engine without processes, and what the tests of all engines do with one."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from captioners import BrightnessCaptioner
from report_checks import without_times
from scene_pairs import make_pair

from workflows import SceneOptions
from workflows.archive.workers.engine import Engine
from workflows.archive.workers.tasks import Outcome, Task, run_task

LONG = 300.0


def make_tasks(folder: Path, names: tuple[str, ...]) -> list[Task]:
    """Tasks of small pairs; the words of :mod:`archive_fakes` in a name say what the pair does."""
    made = []
    for number, name in enumerate(names):
        pair = make_pair(
            folder,
            [(20, 20, 20, 30, 200 + number % 50)],
            size=(70, 90),
            names=(f"{name}_{number}.tif", f"after_{number}.tif"),
        )
        scenes = (str(pair.before), str(pair.after))
        made.append(Task(f"{name}-{number}", *scenes, SceneOptions()))
    return made


def drive(engine: Engine, tasks: list[Task], seconds: float = LONG) -> dict[str, Outcome]:
    """Submit what the engine wants, until all outcomes are there; by pair."""
    left, deadline, outstanding = list(tasks), time.monotonic() + seconds, 0
    outcomes: dict[str, Outcome] = {}
    while left or outstanding:
        while left and outstanding < engine.wanted():
            engine.submit(left.pop(0))
            outstanding += 1
        for outcome in engine.wait(5):
            outstanding -= 1
            assert outcome.pair not in outcomes
            outcomes[outcome.pair] = outcome
        assert time.monotonic() < deadline, "not done in time"
    return outcomes


def lasting(content: bytes) -> dict:
    """A report but for times."""
    report = json.loads(content)
    return {**report, "rscc": without_times(report["rscc"])}


class InlineEngine:
    """Does one of at most ``wanted`` tasks for every call of :meth:`wait`.

    ``answer`` is called first with each task; what it returns is the outcome, unless it is None. ``tasks``
    has them in the order they were done, ``abandoned`` says how the run ended.
    """

    name = "inline"

    def __init__(self, wanted: int = 4, answer: Callable[[Task], Outcome | None] = lambda task: None) -> None:
        self._wanted, self._answer = wanted, answer
        self._captioner = BrightnessCaptioner()
        self.queue: deque[Task] = deque()
        self.tasks: list[Task] = []
        self.abandoned: bool | None = None

    def wanted(self) -> int:
        return self._wanted

    def submit(self, task: Task) -> None:
        assert len(self.queue) < self._wanted
        self.queue.append(task)

    def wait(self, timeout: float) -> list[Outcome]:
        if not self.queue:
            return []
        task = self.queue.popleft()
        self.tasks.append(task)
        answered = self._answer(task)
        return [run_task(task, self._captioner, "inline") if answered is None else answered]

    def withdraw(self) -> list[str]:
        pairs = [task.pair for task in self.queue]
        self.queue.clear()
        return pairs

    def __enter__(self) -> InlineEngine:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.abandoned = error is not None
