"""What goes to the workers of a Dask cluster, and what they do there."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

from distributed import Worker, WorkerPlugin, get_worker

import rscc
from workflows.errors import VersionsDiffer
from workflows.tasks import ModelSource, Outcome, Task, Unable, device_lost, run_task


@dataclass(frozen=True)
class Job:
    """What goes to a worker beside its task: the model, on which devices in turns, and our version."""

    source: ModelSource
    devices: tuple[str, ...] | None
    version: str

    def on_worker(self, name: object) -> ModelSource:
        """Return the model on the device of a worker; the workers of our own cluster have numbers."""
        if self.devices is None or not isinstance(name, int):
            return self.source
        return self.source.on(self.devices[name % len(self.devices)])


class ModelKeeper(WorkerPlugin):
    """Lets a worker keep the one model that its first task loads for as long as the run lasts.

    It loads none itself: a process that the model takes down must end in a task, or the scheduler would start
    it again and again without anybody being told.
    """

    def __init__(self, job: Job) -> None:
        self.name = f"rscc-{secrets.token_hex(4)}"
        self._job = job

    def setup(self, worker: Worker) -> None:
        """Take what a library prints in a process of the command off the command's output."""
        if self._job.devices is not None:
            os.dup2(2, 1)

    def teardown(self, worker: Worker) -> None:
        """Let go of the model: a cluster may outlive the run."""
        self._job.on_worker(worker.name).forget()


def do(task: Task, job: Job) -> Outcome | Unable:
    """Do a task in a thread of a worker."""
    worker = get_worker()
    if rscc.__version__ != job.version:
        return Unable(other_version(f"worker {worker.name} has rscc {rscc.__version__}", job.version))
    try:
        captioner = job.on_worker(worker.name).captioner()
    except Exception as error:
        return Unable.of(error)
    outcome = run_task(task, captioner, f"dask-{worker.name}")
    if device_lost(outcome):
        # Its nanny starts a new process, and Dask gives the task to another worker.
        os._exit(1)
    return outcome


def other_version(found: str, ours: str) -> VersionsDiffer:
    """Return the error that says what was ``found`` where version ``ours`` should be."""
    return VersionsDiffer(f"{found}, this process has {ours}; install the same on scheduler and workers")
