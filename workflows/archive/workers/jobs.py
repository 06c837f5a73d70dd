"""The side of the workers: what a Dask task runs in a worker process."""

import faulthandler
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial

from distributed import Worker, WorkerPlugin, get_worker, worker_client

import rscc
from workflows.archive.workers.tasks import (
    ModelSource,
    Outcome,
    Rows,
    Task,
    TaskFailed,
    Unable,
    error_line,
    run_part,
    run_task,
)
from workflows.printable import printable_library_output

SECONDS = 24 * 3600
"""Seconds by the clock that a worker of this machine may take for one pair."""
_ENDS: list[float] = []


@dataclass(frozen=True)
class Job:
    """What goes to a worker beside its task.

    Attributes:
        version: of rscc in the process that leads the run.
        devices: of the workers of this machine, by their names from 1; empty on a cluster.
    """

    source: ModelSource
    version: str
    devices: tuple[str, ...] = ()

    def source_on(self, worker: Worker) -> ModelSource:
        """Return the model for the device of a worker."""
        if not self.devices:
            return self.source
        return replace(self.source, device=self.devices[int(worker.name) - 1])


class ModelKeeper(WorkerPlugin):
    """Frees the model of a worker at the end of the run.

    It does not load it: a process that dies of its model must die in a task, or the scheduler would start it
    again and again and no one would know.
    """

    def __init__(self, job: Job) -> None:
        self.name = f"rscc-{secrets.token_hex(4)}"
        # With the job, a worker that lacks our code fails here and not at its first task.
        self._job, self._stack = job, ExitStack()

    def setup(self, worker: Worker) -> None:
        """Keep what libraries print out of the output of the command."""
        if self._job.devices:
            os.dup2(2, 1)
            self._stack.enter_context(printable_library_output())

    def teardown(self, worker: Worker) -> None:
        """Free the model: a cluster may outlive the run."""
        ModelSource.forget()


def do(task: Task, job: Job) -> Outcome | Unable:
    """Do a task in a thread of a worker."""
    worker = get_worker()
    if rscc.__version__ != job.version:
        return Unable(other_version(f"worker {worker.name} has rscc {rscc.__version__}", job.version), 2)
    try:
        captioner = job.source_on(worker).captioner()
    except Exception as error:
        return Unable(error_line(error), getattr(error, "exit_code", 1))
    name = f"{'local' if job.devices else 'dask'}-{worker.name}"
    with _limited() if job.devices else nullcontext():
        outcome = run_task(task, captioner, name, partial(in_parts, job=job))
    if outcome.error == "AcceleratorError":
        # A lost GPU: this process can compute no more. Its nanny starts another one.
        os._exit(1)
    if outcome.state == "failed":
        raise TaskFailed(outcome)
    return outcome


def in_parts(task: Task, rows: tuple[Rows, ...], job: Job) -> bool:
    """Have workers write the maps of a large pair; False where one does not see their folder."""
    with worker_client() as client:
        parts = client.map(do_part, rows, task=task, job=job, pure=False, retries=1)
        return all(client.gather(parts))


def do_part(rows: Rows, task: Task, job: Job) -> bool:
    """Write a part of the maps of a large pair in a thread of a worker."""
    return run_part(task, job.source_on(get_worker()).captioner(), rows)


def other_version(what: str, ours: str) -> str:
    """Return the message that says ``what`` there is where version ``ours`` should be."""
    return f"{what}, this process has {ours}; install the same on scheduler and workers"


@contextmanager
def _limited() -> Iterator[None]:
    """End this process if it takes for ever for one pair; Dask then tries the pair in another one."""
    end = time.monotonic() + SECONDS
    _ENDS.append(end)
    _watch()
    try:
        yield
    finally:
        _ENDS.remove(end)
        _watch()


def _watch() -> None:
    """End this process at the first of the ends, also while a library holds Python's lock."""
    faulthandler.cancel_dump_traceback_later()
    if _ENDS:
        left = max(0.001, min(_ENDS) - time.monotonic())
        faulthandler.dump_traceback_later(left, exit=True, file=_nowhere())


@cache
def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)
