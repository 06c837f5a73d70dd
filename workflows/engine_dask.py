"""Workers of a Dask cluster: one of this process's own on this machine, or one that is there already.

Dask gives a task of a lost worker to another one by itself; a task that takes several worker processes down
comes back as crashed. The scheduler and all workers need the same version of rscc as this process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster, Worker, WorkerPlugin, get_worker

import rscc
from workflows.errors import SchedulerLost, VersionsDiffer, WorkersUnable
from workflows.processes import local_devices, no_interrupts, threads_each
from workflows.tasks import ModelSource, Outcome, Task, Unable, device_lost, error_line, run_task

# Outstanding at least, so that a cluster that grows with its work begins to.
LEAST = 32
# Seconds: between questions how large the cluster is; for the scheduler to answer at all; for its workers to
# come before a question that only they can answer; until it is said that none has come.
CAPACITY_AGE, ANSWER, WORKERS, NOBODY = 5.0, 20.0, 60.0, 60.0
# Pairs in a row that take their workers down before any worker has said a word: it is not the pairs.
SILENT_CRASHES = 5
GPU = "GPU"
SILENT = logging.CRITICAL + 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Job:
    """What goes to a worker beside its task: the model, on which devices in turns, and our version."""

    source: ModelSource
    devices: tuple[str, ...] | None
    version: str

    def on_worker(self, name: object) -> ModelSource:
        """Return the model on the device of a worker; the workers of our own cluster have numbers."""
        if self.devices is None or not isinstance(name, int):
            return self.source
        return self.source.on(self.devices[name % len(self.devices)])


class _Preload(WorkerPlugin):
    """Loads the model as soon as a worker is there, once; a failure is told by its first task."""

    def __init__(self, job: _Job) -> None:
        self.name = f"rscc-{secrets.token_hex(4)}"
        self._job = job

    def setup(self, worker: Worker) -> None:
        def load() -> None:
            with suppress(Exception):
                self._job.on_worker(worker.name).captioner()

        # Not in the event loop: a worker that does not answer for long is taken for lost.
        threading.Thread(target=load, name="rscc-model", daemon=True).start()


def _do(task: Task, job: _Job) -> Outcome | Unable:
    """Do a task in a thread of a worker."""
    worker = get_worker()
    if rscc.__version__ != job.version:
        return Unable(_other_version(f"worker {worker.name} has rscc {rscc.__version__}", job.version))
    try:
        captioner = job.on_worker(worker.name).captioner()
    except Exception as error:
        return Unable.of(error)
    outcome = run_task(task, captioner, f"dask-{worker.name}")
    if device_lost(outcome):
        # Its nanny starts a new process, and Dask gives the task to another worker.
        os._exit(1)
    return outcome


class DaskEngine:
    """The engine of a Dask cluster; see :class:`workflows.engine.Engine`.

    Args:
        source: the model; its ``load`` must be importable on the workers.
        workers: processes of a cluster of our own, without ``scheduler``; None takes one for each GPU, or
            else one for each core.
        scheduler: address of a scheduler that is there already, such as ``tcp://10.0.0.1:8786``.
        gpu_workers: give tasks only to workers that were started with ``--resources GPU=1``, one at a time.
    """

    name = "dask"

    def __init__(
        self,
        source: ModelSource,
        workers: int | None = None,
        scheduler: str | None = None,
        *,
        gpu_workers: bool = False,
    ) -> None:
        self._devices = None if scheduler else tuple(local_devices(source.device, workers))
        self._job = _Job(source, self._devices, rscc.__version__)
        self._scheduler = scheduler
        self._resources = {GPU: 1} if gpu_workers else None
        self._run = f"rscc-{secrets.token_hex(4)}"
        self._number = 0
        self._tasks: dict[str, tuple[Task, Future]] = {}
        self._said: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._capacity, self._asked = 0, float("-inf")
        self._nobody_since: float | None = None
        # -1 once a worker has answered.
        self._silent_crashes = 0
        self._stack = ExitStack()
        self._client: Client | None = None
        self._cluster: LocalCluster | None = None

    def wanted(self) -> int:
        """Two for each thread of the cluster; more while it is small, as it may grow with its work."""
        if self._devices is not None:
            return 2 * len(self._devices)
        if time.monotonic() - self._asked > CAPACITY_AGE:
            self._asked = time.monotonic()
            # A scheduler that does not answer is the business of wait.
            with suppress(OSError, asyncio.TimeoutError):
                self._capacity = int(self._led.scheduler_info(n_workers=0)["total_threads"])
        return max(LEAST, 2 * self._capacity)

    def submit(self, task: Task) -> None:
        """Send a task to the scheduler."""
        self._number += 1
        # All keys have one beginning, by which the scheduler hands them out as workers become free.
        future = self._led.submit(
            _do, task, self._job, key=(self._run, self._number), pure=False, resources=self._resources
        )
        self._tasks[future.key] = (task, future)
        self._led.loop.add_callback(self._fetch, future)

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that came; see :meth:`workflows.engine.Engine.wait`."""
        deadline = time.monotonic() + timeout
        outcomes: list[Outcome] = []
        while not outcomes:
            left = deadline - time.monotonic()
            with suppress(Empty):
                outcomes += self._heard(*self._said.get(timeout=min(max(left, 0.001), 1.0)))
                while True:
                    outcomes += self._heard(*self._said.get_nowait())
            if not outcomes:
                self._watch()
                if left <= 0:
                    break
        return outcomes

    def withdraw(self) -> list[Task]:
        """Take back the tasks that no worker has begun."""
        if not self._tasks:
            return []
        at_work = {str(key) for keys in self._led.processing().values() for key in keys}
        waiting = {
            key: entry
            for key, entry in self._tasks.items()
            if str(key) not in at_work and entry[1].status == "pending"
        }
        for key in waiting:
            del self._tasks[key]
        self._led.cancel([future for _, future in waiting.values()])
        return [task for task, _ in waiting.values()]

    def shared_folder(self, path: Path) -> bool:
        """Ask the workers that are there, or the first one that comes, for a file in the folder."""
        if self._cluster is not None:
            return True
        probe = path / f".{self._run}"
        try:
            self._led.wait_for_workers(1, timeout=WORKERS)
            probe.touch()
            seen = self._led.run(os.path.exists, str(probe.resolve()))
            return bool(seen) and all(seen.values())
        except (TimeoutError, OSError):
            return False
        finally:
            probe.unlink(missing_ok=True)

    def close(self, abandon: bool) -> None:
        """Leave the cluster, and end it if it is our own."""
        self._tasks.clear()
        if self._cluster is not None and abandon:
            _kill(self._cluster)
        self._stack.close()
        self._client = self._cluster = None

    def __enter__(self) -> DaskEngine:
        with ExitStack() as stack:
            stack.enter_context(_quiet())
            address: Any = self._scheduler
            if self._devices is not None:
                self._cluster = stack.enter_context(_own_cluster(len(self._devices), self._resources))
                address = self._cluster
            self._client = stack.enter_context(_client(address))
            self._client.register_plugin(_Preload(self._job))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(abandon=error is not None)

    @property
    def _led(self) -> Client:
        assert self._client is not None, "the engine is used in a with block"
        return self._client

    async def _fetch(self, future: Future) -> None:
        """Wait in the client's event loop for what a task gives, and put it where ``wait`` listens."""
        try:
            said = await self._led.gather(future, asynchronous=True)
        except (Exception, asyncio.CancelledError) as error:
            said = error
        self._said.put((future.key, said))

    def _heard(self, key: str, said: Any) -> list[Outcome]:
        entry = self._tasks.pop(key, None)
        if entry is None:  # taken back
            return []
        task, future = entry
        future.release()
        if isinstance(said, Outcome):
            self._silent_crashes = -1
            return [said]
        if isinstance(said, Unable):
            raise said.error
        if isinstance(said, asyncio.CancelledError):
            self._watch()
        if isinstance(said, KilledWorker):
            return [self._crashed(task, said)]
        if _lacks_code(said):
            raise _other_version(f"the cluster cannot read our tasks ({error_line(said)})", rscc.__version__)
        return [Outcome(task, "failed", error=type(said).__name__, line=error_line(said))]

    def _crashed(self, task: Task, error: KilledWorker) -> Outcome:
        """Return what became of a task whose workers ended.

        Raises:
            WorkersUnable: no worker has answered yet, however many pairs were tried.
        """
        if self._silent_crashes >= 0:
            self._silent_crashes += 1
        if self._silent_crashes >= SILENT_CRASHES:
            raise WorkersUnable(
                f"{self._scheduler or 'dask'}: worker processes end before they finish anything, whatever the "
                "pair; see their logs. Perhaps the model does not fit into their memory"
            )
        line = (
            "the Dask worker processes that did this pair ended one after another; see their logs. "
            "When memory ran out, set --memory or have fewer workers on a machine"
        )
        worker = f"dask-{error.last_worker.name}"
        return Outcome(task, "crashed", error="WorkerDied", line=line, worker=worker)

    def _watch(self) -> None:
        """Raise if the scheduler is gone; tell a person who waits for workers that there are none."""
        if self._led.status != "running":
            raise SchedulerLost(
                f"{self._scheduler or 'dask'}: the scheduler went away; start it and run the same command "
                "again: what was finished is kept"
            )
        if not self._tasks or self._capacity:
            self._nobody_since = None
        elif self._nobody_since is None:
            self._nobody_since = time.monotonic()
        elif time.monotonic() - self._nobody_since > NOBODY:
            self._nobody_since = float("inf")
            _log.warning("%s: the scheduler has no workers; waiting for the first one", self._scheduler)


def _other_version(found: str, ours: str) -> VersionsDiffer:
    return VersionsDiffer(f"{found}, this process has {ours}; install the same on scheduler and workers")


def _lacks_code(error: BaseException) -> bool:
    """Tell whether a task could not be read where it went: rscc is missing there, or is another one."""
    if isinstance(error, ImportError | AttributeError):
        return True
    if isinstance(error, RuntimeError) and "deserializ" in str(error).lower():
        return True
    return error.__cause__ is not None and _lacks_code(error.__cause__)


@contextmanager
def _client(address: Any) -> Iterator[Client]:
    try:
        client = Client(address, timeout=ANSWER, set_as_default=False)
    except (TimeoutError, OSError, ValueError) as error:
        raise SchedulerLost(
            f"{address}: no Dask scheduler answers; start one, and give its address as tcp://HOST:PORT"
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=ANSWER)


@contextmanager
def _own_cluster(workers: int, resources: dict[str, int] | None) -> Iterator[LocalCluster]:
    """Start worker processes of one thread each, that nobody else can reach and that get no Ctrl-C."""
    threads = str(threads_each(workers))
    settings = {
        # Once more on another worker; the coordinator has retries of its own.
        "distributed.scheduler.allowed-failures": 1,
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": threads,
        "distributed.nanny.pre-spawn-environ.MKL_NUM_THREADS": threads,
        "distributed.nanny.pre-spawn-environ.OPENBLAS_NUM_THREADS": threads,
        "distributed.nanny.pre-spawn-environ.OMP_WAIT_POLICY": "PASSIVE",
    }
    environment = dict(os.environ)
    with dask.config.set(settings):
        try:
            with no_interrupts(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Creating scratch directories is taking")
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address=None,
                    silence_logs=SILENT,
                    resources=resources,
                )
        except (TimeoutError, OSError, RuntimeError) as error:
            raise WorkersUnable(f"no Dask cluster can be started here: {error_line(error)}") from error
        try:
            yield cluster
        finally:
            cluster.close(timeout=ANSWER)
            # Dask leaves in this process what it sets for its workers.
            os.environ.clear()
            os.environ.update(environment)


def _kill(cluster: LocalCluster) -> None:
    """End the worker processes whatever they do: they are asked nothing, and none is started again."""

    async def kill() -> None:
        await asyncio.gather(*(nanny.close(timeout=0.1) for nanny in cluster.workers.values()))

    with suppress(Exception):
        cluster.sync(kill)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Dask logs about workers off the terminal: what matters of it is said in other words."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    handlers = {handler for name in names for handler in logging.getLogger(name).handlers}
    levels = {handler: handler.level for handler in handlers}
    try:
        for handler in handlers:
            handler.setLevel(SILENT)
        yield
    finally:
        for handler, level in levels.items():
            handler.setLevel(level)
