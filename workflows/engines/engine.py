"""Who does the tasks of an archive: the one interface of the engines, and what they share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Self

from workflows.engines.tasks import Outcome, Task


class Engine(Protocol):
    """Worker processes that do tasks; used in a ``with`` block by one thread.

    Every task that was submitted comes back exactly once: as an outcome of :meth:`wait` or from
    :meth:`withdraw`. An interrupt (KeyboardInterrupt) within a call may lose an outcome; a coordinator that
    wants to finish what runs takes Ctrl-C by a handler of its own that sets a flag.

    Attributes:
        name: for the run record: ``local`` or ``dask``.
    """

    name: str

    def wanted(self) -> int:
        """Return how many tasks may be outstanding now, those that run included."""

    def submit(self, task: Task) -> None:
        """Take a task; returns at once."""

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that came, as soon as there is one; none after ``timeout`` seconds.

        Raises:
            WorkersUnable: the workers cannot start, and nothing of their own says why.
            SchedulerLost: the scheduler of the workers cannot be reached any more.
            RsccError: the model cannot be loaded; said as the model says it.
        """

    def withdraw(self) -> list[Task]:
        """Take back the tasks that no worker has begun; for an end in which the running ones are finished."""

    def shared_folder(self, path: Path) -> bool:
        """Return whether all workers see the folder ``path``, which exists, under its name."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """End the workers, after an error at once; what is still outstanding is lost in either case."""
