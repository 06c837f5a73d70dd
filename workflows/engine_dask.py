"""Workers of a Dask cluster: one of this process's own on this machine, or one that is there already.

Dask gives a task of a lost worker to another one by itself; a task that takes several worker processes down
comes back as crashed. The scheduler and all workers need the same version of rscc as this process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from distributed import Client, Future, KilledWorker, LocalCluster

import rscc
from workflows.dask_clusters import client_of, kill_workers, own_cluster, quiet_dask
from workflows.dask_worker import Job, ModelKeeper, do, other_version
from workflows.errors import SchedulerLost, WorkersUnable
from workflows.processes import local_devices
from workflows.tasks import ModelSource, Outcome, Task, Unable, error_line

# Outstanding at least, so that a cluster that grows with its work begins to.
LEAST = 32
# Seconds: between questions how large the cluster is; for its first worker to come before a question that
# only workers can answer; until it is said that none has come; until those of our own are given up; to say
# goodbye.
CAPACITY_AGE, WORKERS, NOBODY, NOBODY_BACK, GOODBYE = 5.0, 60.0, 60.0, 300.0, 5.0
# Pairs in a row that take their workers down before any worker has said a word: it is not the pairs.
SILENT_CRASHES = 5
GPU = "GPU"

_log = logging.getLogger(__name__)


class DaskEngine:
    """The engine of a Dask cluster; see :class:`workflows.engine.Engine`.

    Args:
        source: the model; its ``load`` must be importable on the workers.
        workers: processes of a cluster of our own, without ``scheduler``; None takes one for each GPU, or
            else one for each core.
        scheduler: address of a scheduler that is there already, such as ``tcp://HOST:8786``.
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
        self._job = Job(source, self._devices, rscc.__version__)
        self._keeper = ModelKeeper(self._job)
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
            do, task, self._job, key=(self._run, self._number), pure=False, resources=self._resources
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
            kill_workers(self._cluster)
        if self._cluster is None and self._client is not None and self._client.status == "running":
            # Workers that come later have nothing to do with this run.
            unregister = self._client.scheduler.unregister_worker_plugin
            with suppress(OSError):
                self._client.sync(unregister, name=self._keeper.name, callback_timeout=GOODBYE)
        self._stack.close()
        self._client = self._cluster = None

    def __enter__(self) -> DaskEngine:
        with ExitStack() as stack:
            stack.enter_context(quiet_dask())
            address: Any = self._scheduler
            if self._devices is not None:
                self._cluster = stack.enter_context(own_cluster(len(self._devices), self._resources))
                address = self._cluster
            self._client = stack.enter_context(client_of(address))
            _register(self._client, self._keeper)
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
        # Dask's own is no child of asyncio's. Nobody else takes tasks back: the scheduler is gone, which the
        # client may not have noticed yet.
        if isinstance(said, asyncio.CancelledError | CancelledError):
            raise self._lost()
        if isinstance(said, KilledWorker):
            return [self._crashed(task, said)]
        if _lacks_code(said):
            raise other_version(f"the cluster cannot read our tasks ({error_line(said)})", rscc.__version__)
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
                f"{self._scheduler or 'dask'}: worker processes end before they finish anything, whatever "
                "the pair; see their logs. Perhaps the model does not fit into their memory"
            )
        line = (
            "the Dask worker processes that did this pair ended one after another; see their logs. "
            "When memory ran out, set --memory or have fewer workers on a machine"
        )
        worker = f"dask-{error.last_worker.name}"
        return Outcome(task, "crashed", error="WorkerDied", line=line, worker=worker)

    def _lost(self) -> SchedulerLost:
        return SchedulerLost(
            f"{self._scheduler or 'dask'}: the scheduler went away; start it and run the same command again: "
            "what was finished is kept"
        )

    def _watch(self) -> None:
        """Raise if the scheduler is gone; tell a person who waits for workers that there are none.

        Workers of our own that do not come back end the run.
        """
        if self._led.status != "running":
            raise self._lost()
        own = self._cluster
        if not self._tasks or (self._capacity if own is None else own.scheduler.workers):
            self._nobody_since = None
        elif self._nobody_since is None:
            self._nobody_since = time.monotonic()
        elif time.monotonic() - self._nobody_since > (NOBODY if own is None else NOBODY_BACK):
            self._nobody_since = float("inf")
            if own is not None:
                raise WorkersUnable(
                    "dask: the worker processes of this machine ended and did not come back; run the same "
                    "command again: what was finished is kept"
                )
            _log.warning(
                "%s: the scheduler has no workers; waiting for one. Those without rscc %s do not stay",
                self._scheduler,
                rscc.__version__,
            )


def _register(client: Client, keeper: ModelKeeper) -> None:
    """Let the workers keep the model, those that are there and those that come.

    Raises:
        VersionsDiffer: a worker has no rscc.
    """
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
    """Tell whether a task could not be read where it went: rscc is missing there, or is another one."""
    if isinstance(error, ImportError | AttributeError):
        return True
    # From a worker that could not send the error itself, and from the scheduler.
    if any(words in str(error) for words in ("ModuleNotFoundError", "deserialization of the task graph")):
        return True
    return error.__cause__ is not None and _lacks_code(error.__cause__)
