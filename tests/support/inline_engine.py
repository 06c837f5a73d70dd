"""An engine without processes: tasks are done where they are waited for, or answered as a test likes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

from fakes import BrightnessCaptioner

from workflows.engines.tasks import Outcome, Task, run_task


class InlineEngine:
    """Does one of at most ``wanted`` tasks for every call of :meth:`wait`.

    ``answer`` is called first with each task; what it returns is the outcome, unless it is None. ``tasks``
    has them in the order they were done, ``together`` how many others waited then.
    """

    name = "inline"

    def __init__(
        self,
        wanted: int = 4,
        answer: Callable[[Task], Outcome | None] = lambda task: None,
        shared: bool = True,
    ) -> None:
        self._wanted, self._answer, self._shared = wanted, answer, shared
        self._captioner = BrightnessCaptioner()
        self.queue: deque[Task] = deque()
        self.tasks: list[Task] = []
        self.together: list[int] = []
        self.abandoned: bool | None = None

    @property
    def begun(self) -> list[str]:
        return [task.id for task in self.tasks]

    def wanted(self) -> int:
        return self._wanted

    def submit(self, task: Task) -> None:
        assert len(self.queue) < self._wanted
        assert task.id not in self.begun, "ids are unique"
        self.queue.append(task)

    def wait(self, timeout: float) -> list[Outcome]:
        if not self.queue:
            return []
        task = self.queue.popleft()
        self.tasks.append(task)
        self.together.append(len(self.queue))
        answered = self._answer(task)
        return [run_task(task, self._captioner, "inline") if answered is None else answered]

    def withdraw(self) -> list[Task]:
        tasks = list(self.queue)
        self.queue.clear()
        return tasks

    def shared_folder(self, path: Path) -> bool:
        assert path.is_dir()
        return self._shared

    def __enter__(self) -> InlineEngine:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.abandoned = error is not None
