"""The engine: pairs go to Dask workers of this machine or of a cluster, and their reports come back.

Retries, dead workers and memory limits are Dask's: a task of a dead worker goes to another one, and comes
back as crashed when it has ended more than ``allowed-failures`` of them. A cluster that somebody else started
needs the same version of rscc on its scheduler and its workers.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Self

from distributed import Client, Future, KilledWorker, SpecCluster
from distributed.system import MEMORY_LIMIT

import rscc
from workflows.archive.workers.jobs import Job, ModelKeeper, do, other_version
from workflows.archive.workers.local import local_cluster
from workflows.archive.workers.tasks import (
    ModelSource,
    Outcome,
    Task,
    TaskFailed,
    Unable,
    error_line,
    local_devices,
)
from workflows.bounded import within
from workflows.errors import SchedulerLost, VersionsDiffer, WorkersUnable
from workflows.progress import threads_each

# Tasks sent to a cluster at least, so that one that grows with its work begins to.
LEAST = 32
# Seconds: for a scheduler to answer; without any answer until it counts as lost; between two questions for
# the size of the cluster; until a warning that there are no workers; for the end.
ANSWER, SILENCE, CAPACITY_AGE, NOBODY, GOODBYE = 20.0, 120.0, 5.0, 60.0, 5.0
# Seconds without workers on this machine until they count as unable to start: a busy one takes a minute.
RESTART = 240.0
# Pairs in a row that end their workers before any worker has answered: the pairs are not to blame.
SILENT_CRASHES = 3
LEAST_MEMORY = 4 * 2**30
"""Bytes that a worker of this machine may take at least."""

_log = logging.getLogger(__name__)


class Engine:
    """Workers that do tasks; used in a ``with`` block by one thread.

    Every task that was submitted comes back exactly once: from :meth:`wait` or from :meth:`withdraw`.

    Args:
        source: the model; its ``load`` must be importable on the workers.
        workers: worker processes on this machine; None takes one per GPU, else one per core.
        scheduler: address of a running cluster, such as ``tcp://HOST:8786``; None uses this machine.
        retries: attempts after the first that a pair gets if it fails; on this machine also if its worker
            dies, which a cluster counts by its own setting ``allowed-failures``.
        memory: bytes that a worker of this machine may take where that is more than its share.
    """

    def __init__(
        self,
        source: ModelSource,
        *,
        workers: int | None = None,
        scheduler: str | None = None,
        retries: int = 1,
        memory: int = 0,
    ) -> None:
        self.name = "local" if scheduler is None else "dask"
        self._scheduler, self._retries, self._memory = scheduler, retries, memory
        devices = () if scheduler else tuple(local_devices(source.device, workers))
        self._count = len(devices)
        self._job = Job(source, rscc.__version__, devices)
        self._keeper = ModelKeeper(self._job)
        self._run = f"rscc-{secrets.token_hex(4)}"
        self._number = 0
        self._tasks: dict[Any, tuple[Task, Future]] = {}
        self._answers: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self._capacity, self._asked, self._answered = 0, float("-inf"), time.monotonic()
        self._nobody_since: float | None = None
        # Tasks of a cluster whose workers died, and whether one of them is now tried again with no other.
        self._suspects: list[Task] = []
        self._is_alone = False
        # -1 once a worker has answered.
        self._silent_crashes = 0
        self._stack = ExitStack()
        self._client: Client | None = None

    def wanted(self) -> int:
        """Return how many tasks may be outstanding now.

        On this machine one per worker: a second one would be blamed, too, when its worker dies. On a cluster
        two per thread, and more while it is small, as it may grow with its work.
        """
        if self._count:
            return self._count
        self._count_threads()
        return max(LEAST, 2 * self._capacity)

    def submit(self, task: Task) -> None:
        """Send a task; returns at once."""
        self._number += 1
        self._is_alone = False
        # Keys with one beginning make one group, which the scheduler hands out as workers become free.
        key = (self._run, self._number)
        future = self._open.submit(do, task, self._job, key=key, pure=False, retries=self._retries)
        self._tasks[future.key] = (task, future)
        self._open.loop.add_callback(self._fetch, future)

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that came, as soon as there is one; none after ``timeout`` seconds.

        Raises:
            WorkersUnable: the workers cannot start, or cannot load the model, or have another version.
            SchedulerLost: the scheduler cannot be reached any more.
        """
        deadline = time.monotonic() + timeout
        outcomes: list[Outcome] = []
        while not outcomes:
            if self._suspects and not self._tasks:
                self.submit(self._suspects.pop(0))
                self._is_alone = True
            left = deadline - time.monotonic()
            with suppress(Empty):
                outcomes += self._take(*self._answers.get(timeout=min(max(left, 0.001), 1.0)))
                while True:
                    outcomes += self._take(*self._answers.get_nowait())
            if not outcomes:
                self._watch()
                if left <= 0:
                    break
        return outcomes

    def withdraw(self) -> list[str]:
        """Cancel the tasks that no worker has started; return the ids of their pairs."""
        suspects, self._suspects = [task.pair for task in self._suspects], []
        if not self._tasks:
            return suspects
        try:
            processing = self._open.sync(
                self._open.scheduler.processing, workers=None, callback_timeout=ANSWER
            )
        except (TimeoutError, OSError) as error:
            raise self._lost() from error
        at_work = {str(key) for keys in processing.values() for key in keys}
        waiting = {
            key: entry
            for key, entry in self._tasks.items()
            if str(key) not in at_work and entry[1].status == "pending"
        }
        for key in waiting:
            del self._tasks[key]
        self._open.cancel([future for _, future in waiting.values()])
        return [*suspects, *(task.pair for task, _ in waiting.values())]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(quiet_dask())
            place: str | SpecCluster | None = self._scheduler
            if place is None:
                place = stack.enter_context(self._cluster())
            self._client = client = stack.enter_context(client_of(place))
            try:
                within(SILENCE, lambda: _register(client, self._keeper))
            except TimeoutError as error:
                raise self._lost() from error
            self._answered = time.monotonic()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Free the workers; outstanding tasks are lost."""
        self._tasks.clear()
        if self._client is not None and self._client.status == "running" and not self._count:
            # A cluster outlives the run: workers that come later have nothing to do with it.
            unregister = self._client.scheduler.unregister_worker_plugin
            with suppress(OSError, asyncio.TimeoutError):
                self._client.sync(unregister, name=self._keeper.name, callback_timeout=GOODBYE)
        self._stack.close()
        self._client = None

    def _cluster(self) -> Any:
        memory = max(LEAST_MEMORY, MEMORY_LIMIT // self._count, self._memory)
        threads, module = threads_each(self._count), self._job.source.module
        return local_cluster(self._count, threads, memory, allowed_failures=self._retries, preload=module)

    @property
    def _open(self) -> Client:
        assert self._client is not None, "the engine is used in a with block"
        return self._client

    async def _fetch(self, future: Future) -> None:
        """Wait in the client's event loop for the result of a task, and put it where ``wait`` listens."""
        try:
            answer = await self._open.gather(future, asynchronous=True)
        except (Exception, asyncio.CancelledError) as error:
            answer = error
        self._answers.put((future.key, answer))

    def _take(self, key: Any, answer: Any) -> list[Outcome]:
        entry = self._tasks.pop(key, None)
        if entry is None:  # taken back
            return []
        task, future = entry
        future.release()
        if isinstance(answer, TaskFailed):
            (answer,) = answer.args
        if isinstance(answer, Outcome):
            self._silent_crashes = -1
            return [answer]
        if isinstance(answer, Unable):
            unable = WorkersUnable(answer.line)
            unable.exit_code = answer.exit_code
            raise unable
        # Nobody else cancels tasks, and their own errors come as outcomes: the scheduler is gone, which the
        # client may not have noticed yet.
        if isinstance(answer, asyncio.CancelledError | CancelledError | OSError):
            raise self._lost()
        if isinstance(answer, KilledWorker):
            return self._crashed(task, answer)
        if _lacks_code(answer):
            text = f"the cluster cannot read our tasks ({error_line(answer)})"
            raise VersionsDiffer(other_version(text, rscc.__version__))
        return [Outcome(task.pair, "failed", error=type(answer).__name__, line=error_line(answer))]

    def _crashed(self, task: Task, error: KilledWorker) -> list[Outcome]:
        """Return the outcome of a task whose workers died; on a cluster once it has been tried alone.

        Dask blames every task on a worker that dies, not only the one that runs.
        """
        if self._silent_crashes >= 0:
            self._silent_crashes += 1
        if self._silent_crashes >= SILENT_CRASHES:
            raise self._unable()
        line = (
            "the worker processes of this pair died one after another, as when memory runs out; "
            "set --memory, or use fewer workers"
        )
        if not (self._count or self._is_alone):
            self._suspects.append(task)
            return []
        worker = f"{self.name}-{error.last_worker.name}"
        return [Outcome(task.pair, "crashed", error="WorkerDied", line=line, worker=worker)]

    def _lost(self) -> SchedulerLost:
        return SchedulerLost(
            f"{self._scheduler or 'this machine'}: the scheduler went away; start it and run the same "
            "command again: finished pairs are kept"
        )

    def _unable(self) -> WorkersUnable:
        return WorkersUnable(
            f"{self._scheduler or 'this machine'}: worker processes die before they finish any pair; perhaps "
            "the model does not fit into their memory (fewer workers have more each)"
        )

    def _count_threads(self) -> None:
        """Ask now and then how many threads the cluster has; raises SchedulerLost where none answers."""
        if time.monotonic() - self._asked <= CAPACITY_AGE:
            return
        self._asked = time.monotonic()
        with suppress(OSError, asyncio.TimeoutError):
            identity = self._open.scheduler.identity
            answer = self._open.sync(identity, n_workers=0, callback_timeout=ANSWER)
            self._capacity, self._answered = int(answer["total_threads"]), time.monotonic()
        if time.monotonic() - self._answered > SILENCE:
            raise self._lost()

    def _watch(self) -> None:
        """Check that the scheduler answers and that there are workers, or may come; raises as ``wait``."""
        if self._open.status != "running":
            raise self._lost()
        self._count_threads()
        if not self._tasks or self._capacity:
            self._nobody_since = None
        elif self._nobody_since is None:
            self._nobody_since = time.monotonic()
        elif time.monotonic() - self._nobody_since > (RESTART if self._count else NOBODY):
            if self._silent_crashes > 0 or self._count:
                raise self._unable()
            _log.warning(
                "%s: the scheduler has no workers; waiting for one. Those without rscc %s do not stay",
                self._scheduler,
                rscc.__version__,
            )
            self._nobody_since = float("inf")


@contextmanager
def client_of(place: str | SpecCluster) -> Iterator[Client]:
    """Connect to a cluster, or to the scheduler at an address.

    Raises:
        SchedulerLost: no scheduler answers there.
    """
    try:
        # Its own timeout does not hold where something else than a scheduler listens.
        client = within(SILENCE, lambda: Client(place, timeout=ANSWER, set_as_default=False))
    except Exception as error:  # of many classes, by what listens there
        raise SchedulerLost(
            f"{place}: no Dask scheduler answers; start one, and give its address as tcp://HOST:PORT"
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=ANSWER)


@contextmanager
def quiet_dask() -> Iterator[None]:
    """Keep Dask's log of workers off the terminal; what matters of it is an error of ours."""
    loggers = [
        logging.getLogger(name)
        for name in [*logging.root.manager.loggerDict, "asyncio", "tornado.application"]
        if name.partition(".")[0] in ("distributed", "asyncio", "tornado")
    ]
    # Those of Dask have handlers of their own, the others use their parent's. The root's handlers are ours.
    own = {handler for logger in loggers for handler in logger.handlers} - set(logging.root.handlers)
    targets = own | set(loggers[-2:])
    levels = {target: target.level for target in targets}
    try:
        for target in targets:
            target.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for target, level in levels.items():
            target.setLevel(level)


def _register(client: Client, keeper: ModelKeeper) -> None:
    try:
        client.register_plugin(keeper)
    except OSError:
        # A worker that just went away; the scheduler has the plugin for the others.
        return
    except Exception as error:
        if _lacks_code(error):
            text = other_version(f"a worker cannot load our code ({error})", rscc.__version__)
            raise VersionsDiffer(text) from error
        raise


def _lacks_code(error: BaseException) -> bool:
    """Return whether a task could not be read where it went: rscc is missing or differs there."""
    if isinstance(error, ImportError | AttributeError):
        return True
    # From a worker that could not send the error itself, and from the scheduler.
    if any(words in str(error) for words in ("ModuleNotFoundError", "deserialization of the task graph")):
        return True
    return error.__cause__ is not None and _lacks_code(error.__cause__)
