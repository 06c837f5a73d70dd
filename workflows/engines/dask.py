"""Workers of a Dask cluster that somebody else started.

Dask gives a task of a lost worker to another one by itself; a task that takes several worker processes down
comes back as crashed. The scheduler and all workers need the same version of rscc as this process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from distributed import Client, Future, KilledWorker, Worker, WorkerPlugin, get_worker

import rscc
from workflows.engines.tasks import ModelSource, Outcome, Task, Unable, device_lost, error_line, run_task
from workflows.errors import SchedulerLost, VersionsDiffer, WorkersUnable

# Outstanding at least, so that a cluster that grows with its work begins to.
LEAST = 32
# Seconds: that a scheduler has to answer; between questions how large the cluster is; for its first worker to
# come before a question that only workers can answer; until it is said that none has come; to say goodbye.
ANSWER, CAPACITY_AGE, WORKERS, NOBODY, GOODBYE = 20.0, 5.0, 60.0, 60.0, 5.0
# Pairs in a row that take their workers down before any worker has said a word: it is not the pairs.
SILENT_CRASHES = 5
GPU = "GPU"
SILENT = logging.CRITICAL + 1

_log = logging.getLogger(__name__)


class DaskEngine:
    """The engine of a Dask cluster; see :class:`workflows.engines.engine.Engine`.

    Args:
        source: the model; its ``load`` must be importable on the workers.
        scheduler: its address, such as ``tcp://HOST:8786``.
        gpu_workers: give tasks only to workers that were started with ``--resources GPU=1``, one at a time.
    """

    name = "dask"

    def __init__(self, source: ModelSource, scheduler: str, *, gpu_workers: bool = False) -> None:
        self._job = Job(source, rscc.__version__)
        self._keeper = ModelKeeper(self._job)
        self._scheduler = scheduler
        self._resources = {GPU: 1} if gpu_workers else None
        self._run = f"rscc-{secrets.token_hex(4)}"
        self._number = 0
        self._tasks: dict[str, tuple[Task, Future]] = {}
        self._answers: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._capacity, self._asked = 0, float("-inf")
        self._nobody_since: float | None = None
        self._nobody_said = False
        # -1 once a worker has answered.
        self._silent_crashes = 0
        self._stack = ExitStack()
        self._client: Client | None = None

    def wanted(self) -> int:
        """Two for each thread of the cluster; more while it is small, as it may grow with its work."""
        self._count_threads()
        return max(LEAST, 2 * self._capacity)

    def submit(self, task: Task) -> None:
        """Send a task to the scheduler."""
        self._number += 1
        # All keys have one beginning, by which the scheduler hands them out as workers become free.
        future = self._led.submit(
            do, task, self._job, key=(self._run, self._number), pure=False, resources=self._resources
        )
        self._tasks[future.key] = (task, future)
        self._led.loop.add_callback(self._fetch, future)

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that came; see :meth:`workflows.engines.engine.Engine.wait`."""
        deadline = time.monotonic() + timeout
        outcomes: list[Outcome] = []
        while not outcomes:
            left = deadline - time.monotonic()
            with suppress(Empty):
                outcomes += self._heard(*self._answers.get(timeout=min(max(left, 0.001), 1.0)))
                while True:
                    outcomes += self._heard(*self._answers.get_nowait())
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

    def __enter__(self) -> DaskEngine:
        with ExitStack() as stack:
            stack.enter_context(quiet_dask())
            self._client = stack.enter_context(client_of(self._scheduler))
            _register(self._client, self._keeper)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # The cluster stays as it is, whether or not its workers are abandoned.
        self._tasks.clear()
        if self._client is not None and self._client.status == "running":
            # Workers that come later have nothing to do with this run.
            unregister = self._client.scheduler.unregister_worker_plugin
            with suppress(OSError):
                self._client.sync(unregister, name=self._keeper.name, callback_timeout=GOODBYE)
        self._stack.close()
        self._client = None

    @property
    def _led(self) -> Client:
        assert self._client is not None, "the engine is used in a with block"
        return self._client

    async def _fetch(self, future: Future) -> None:
        """Wait in the client's event loop for what a task gives, and put it where ``wait`` listens."""
        try:
            answer = await self._led.gather(future, asynchronous=True)
        except (Exception, asyncio.CancelledError) as error:
            answer = error
        self._answers.put((future.key, answer))

    def _heard(self, key: str, answer: Any) -> list[Outcome]:
        entry = self._tasks.pop(key, None)
        if entry is None:  # taken back
            return []
        task, future = entry
        future.release()
        if isinstance(answer, Outcome):
            self._silent_crashes = -1
            return [answer]
        if isinstance(answer, Unable):
            raise answer.error
        # Dask's own is no child of asyncio's. Nobody else takes tasks back: the scheduler is gone, which the
        # client may not have noticed yet.
        if isinstance(answer, asyncio.CancelledError | CancelledError):
            raise self._lost()
        if isinstance(answer, KilledWorker):
            return [self._crashed(task, answer)]
        if _lacks_code(answer):
            raise other_version(f"the cluster cannot read our tasks ({error_line(answer)})", rscc.__version__)
        return [Outcome(task, "failed", error=type(answer).__name__, line=error_line(answer))]

    def _crashed(self, task: Task, error: KilledWorker) -> Outcome:
        """Return what became of a task whose workers ended.

        Raises:
            WorkersUnable: no worker has answered yet, however many pairs were tried.
        """
        if self._silent_crashes >= 0:
            self._silent_crashes += 1
        if self._silent_crashes >= SILENT_CRASHES:
            raise self._unable()
        line = (
            "the Dask worker processes that did this pair ended one after another; see their logs. "
            "When memory ran out, set --memory or have fewer workers on a machine"
        )
        worker = f"dask-{error.last_worker.name}"
        return Outcome(task, "crashed", error="WorkerDied", line=line, worker=worker)

    def _lost(self) -> SchedulerLost:
        return SchedulerLost(
            f"{self._scheduler}: the scheduler went away; start it and run the same command again: "
            "what was finished is kept"
        )

    def _unable(self) -> WorkersUnable:
        return WorkersUnable(
            f"{self._scheduler}: worker processes end before they finish anything, whatever "
            "the pair; see their logs. Perhaps the model does not fit into their memory"
        )

    def _count_threads(self) -> None:
        """Ask now and then how many threads the cluster has that may take our tasks."""
        if time.monotonic() - self._asked > CAPACITY_AGE:
            self._asked = time.monotonic()
            # A scheduler that does not answer is the business of wait.
            with suppress(OSError, asyncio.TimeoutError):
                if self._resources is None:
                    self._capacity = int(self._led.scheduler_info(n_workers=0)["total_threads"])
                else:
                    workers = self._led.scheduler_info(n_workers=-1)["workers"].values()
                    self._capacity = sum(one["nthreads"] for one in workers if one["resources"].get(GPU))

    def _watch(self) -> None:
        """Raise if the scheduler is gone; tell a person who waits for workers that there are none.

        Raises:
            SchedulerLost: the scheduler is gone.
            WorkersUnable: no worker has answered, tasks took theirs down, and none came back.
        """
        if self._led.status != "running":
            raise self._lost()
        self._count_threads()
        if not self._tasks or self._capacity:
            self._nobody_since, self._nobody_said = None, False
        elif self._nobody_since is None:
            self._nobody_since = time.monotonic()
        elif time.monotonic() - self._nobody_since > NOBODY:
            if self._silent_crashes > 0:
                raise self._unable()
            if self._nobody_said:
                return
            self._nobody_said = True
            _log.warning(
                "%s: the scheduler has no workers%s; waiting for one. Those without rscc %s do not stay",
                self._scheduler,
                f" with the resource {GPU}" if self._resources else "",
                rscc.__version__,
            )


def _register(client: Client, keeper: ModelKeeper) -> None:
    """Let the workers keep the model, those that are there and those that come."""
    try:
        client.register_plugin(keeper)
    except OSError:
        # A worker that just went away; the scheduler has the plugin for the others.
        return
    except Exception as error:
        if _lacks_code(error):
            raise other_version(f"a worker cannot load our code ({error})", rscc.__version__) from error
        raise


def _lacks_code(error: BaseException) -> bool:
    """Return whether a task could not be read where it went: rscc is missing there, or is another one."""
    if isinstance(error, ImportError | AttributeError):
        return True
    # From a worker that could not send the error itself, and from the scheduler.
    if any(words in str(error) for words in ("ModuleNotFoundError", "deserialization of the task graph")):
        return True
    return error.__cause__ is not None and _lacks_code(error.__cause__)


@contextmanager
def client_of(address: str) -> Iterator[Client]:
    """Connect to the scheduler at an address.

    Raises:
        SchedulerLost: none answers there.
    """
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
def quiet_dask() -> Iterator[None]:
    """Keep what Dask logs about workers off the terminal: what matters of it is said in other words."""
    loggers = [
        logging.getLogger(name)
        for name in [*logging.root.manager.loggerDict, "asyncio", "tornado.application"]
        if name.partition(".")[0] in ("distributed", "asyncio", "tornado")
    ]
    # Those of Dask have handlers of their own, the others take what is there.
    targets = {handler for logger in loggers for handler in logger.handlers} | set(loggers[-2:])
    levels = {target: target.level for target in targets}
    try:
        for target in targets:
            target.setLevel(SILENT)
        yield
    finally:
        for target, level in levels.items():
            target.setLevel(level)


@dataclass(frozen=True)
class Job:
    """What goes to a worker beside its task: the model, and our version of rscc."""

    source: ModelSource
    version: str


class ModelKeeper(WorkerPlugin):
    """Lets a worker keep the one model that its first task loads for as long as the run lasts.

    It loads none itself: a process that the model takes down must end in a task, or the scheduler would start
    it again and again without anybody being told.
    """

    def __init__(self, job: Job) -> None:
        self.name = f"rscc-{secrets.token_hex(4)}"
        self._job = job

    def teardown(self, worker: Worker) -> None:
        """Let go of the model: a cluster may outlive the run."""
        self._job.source.forget()


def do(task: Task, job: Job) -> Outcome | Unable:
    """Do a task in a thread of a worker."""
    worker = get_worker()
    if rscc.__version__ != job.version:
        return Unable(other_version(f"worker {worker.name} has rscc {rscc.__version__}", job.version))
    try:
        captioner = job.source.captioner()
    except Exception as error:
        return Unable.of(error)
    outcome = run_task(task, captioner, f"dask-{worker.name}")
    if device_lost(outcome):
        # Its nanny starts a new process, and Dask gives the task to another worker.
        os._exit(1)
    return outcome


def other_version(what: str, ours: str) -> VersionsDiffer:
    """Return the error that says ``what`` there is where version ``ours`` should be."""
    return VersionsDiffer(f"{what}, this process has {ours}; install the same on scheduler and workers")
