"""Workers on this machine: one process for each, with a model of its own, so that a crash takes one pair.

They are no forks of the process that leads them: neither torch at work with its threads nor CUDA survives
that. On Linux they are forked from a server that has loaded the modules and computes nothing: that takes its
time once, and its memory is shared. Elsewhere each is spawned.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from workflows.engines.limits import Limits
from workflows.engines.processes import environment, local_devices, no_interrupts, threads_each
from workflows.engines.tasks import ModelSource, Outcome, Task, Unable, device_lost, run_task
from workflows.errors import WorkersUnable
from workflows.noise import plain_messages
from workflows.progress import device_of

# How often in a row a worker may end without a word before it is ready: memory may be free the next time.
STARTS = 3
# Seconds that idle workers get to end by themselves.
GOODBYE = 5.0
# What a worker says when its model is loaded.
READY = "ready"

_log = logging.getLogger(__name__)


@dataclass
class _Worker:
    """One process; ``task`` is what it does now."""

    place: _Place
    process: BaseProcess
    channel: Connection
    lifeline: Connection
    ready: bool = False
    task: Task | None = None


@dataclass(eq=False)
class _Place:
    """Where one worker at a time runs; ``lost`` counts the starts in a row that came to nothing."""

    name: str
    device: str
    worked: bool = False
    lost: int = 0
    worker: _Worker | None = field(default=None, repr=False)


class LocalEngine:
    """The engine of one machine; see :class:`workflows.engines.engine.Engine`.

    Workers start when there is something for them to do, and again when one has died in a task.

    Args:
        source: the model.
        workers: how many processes; None, and where they compute: see :func:`local_devices`.
        limits: what a worker may take for a pair; None: all that its user may.
    """

    name = "local"

    def __init__(self, source: ModelSource, workers: int | None, limits: Limits | None = None) -> None:
        devices = local_devices(source.device, workers)
        self._source = source
        self._places = [_Place(f"local-{number}", device) for number, device in enumerate(devices, start=1)]
        self._threads = threads_each(len(devices))
        self._limits = limits and replace(limits, workers=len(devices))
        self._queue: deque[Task] = deque()

    def wanted(self) -> int:
        """Two for each worker, so that the next task is at hand when one ends."""
        return 2 * len(self._places)

    def submit(self, task: Task) -> None:
        """Take a task; it begins when a worker is free."""
        self._queue.append(task)
        self._hand_out()

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that came; see :meth:`workflows.engines.engine.Engine.wait`."""
        deadline = time.monotonic() + timeout
        while True:
            outcomes = self._listen(max(0.0, deadline - time.monotonic()))
            self._hand_out()
            if outcomes or time.monotonic() >= deadline:
                return outcomes

    def withdraw(self) -> list[Task]:
        """Take back the tasks that no worker has begun."""
        tasks = list(self._queue)
        self._queue.clear()
        return tasks

    def shared_folder(self, path: Path) -> bool:
        """All workers are on this machine."""
        return True

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        abandon = error is not None
        self._queue.clear()
        workers = self._workers()
        deadline = time.monotonic() + (0 if abandon else GOODBYE)
        for worker in workers:
            if worker.task is None and worker.ready and not abandon:
                with suppress(OSError):
                    worker.channel.send(None)
            else:
                worker.process.kill()
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
            self._bury(worker)

    def _workers(self) -> list[_Worker]:
        return [place.worker for place in self._places if place.worker is not None]

    def _hand_out(self) -> None:
        """Give queued tasks to free workers, and start workers for those that are left."""
        for worker in self._workers():
            if self._queue and worker.ready and worker.task is None and worker.process.exitcode is None:
                # A worker that has just died took nothing: its end is seen by the next wait.
                with suppress(OSError):
                    worker.channel.send(self._queue[0])
                    worker.task = self._queue.popleft()
        starting = sum(not worker.ready for worker in self._workers())
        for place in self._places:
            if place.worker is None and starting < len(self._queue):
                self._start(place)
                starting += 1

    def _listen(self, timeout: float) -> list[Outcome]:
        """Take what workers say, and see who died."""
        workers = {
            end: worker for worker in self._workers() for end in (worker.channel, worker.process.sentinel)
        }
        if not workers:
            time.sleep(timeout if not self._queue else 0)
            return []
        outcomes = []
        heard = connection.wait(list(workers), timeout)
        for worker in {id(workers[end]): workers[end] for end in heard}.values():  # type: ignore[index]
            try:
                said = worker.channel.recv()
            except (EOFError, OSError):
                outcomes += self._died(worker)
                continue
            if isinstance(said, Outcome):
                worker.task = None
                outcomes.append(said)
                if device_lost(said):
                    worker.process.kill()
                    self._bury(worker)
            elif said == READY:
                worker.ready, worker.place.worked, worker.place.lost = True, True, 0
            elif isinstance(said, Unable):
                place = worker.place
                self._bury(worker)
                self._lost_start(place, said.error, final=not place.worked)
        return outcomes

    def _died(self, worker: _Worker) -> list[Outcome]:
        worker.process.join()
        why = _ending(worker.process.exitcode)
        place, task, ready = worker.place, worker.task, worker.ready
        self._bury(worker)
        if task is not None:
            return [Outcome(task, "crashed", error="WorkerDied", line=why, worker=place.name)]
        if not ready:
            error = WorkersUnable(f"worker {place.name} cannot load the model: {why}")
            self._lost_start(place, error, final=False)
        return []

    def _lost_start(self, place: _Place, error: BaseException, final: bool) -> None:
        """Go on without a place that cannot get a worker any more; where none ever worked at all, raise."""
        place.lost += 1
        if place.lost < STARTS and not final:
            return
        # A model that was loaded at another place is sound.
        if final or not any(one.worked for one in self._places) or len(self._places) == 1:
            raise error
        self._places.remove(place)
        _log.warning(
            "worker %s cannot start again (%s); going on with %d", place.name, error, len(self._places)
        )

    def _start(self, place: _Place) -> None:
        context = _context(self._source.module)
        channel, far_channel = context.Pipe()
        far_lifeline, lifeline = context.Pipe(duplex=False)
        source = replace(self._source, device=place.device)
        given = source, far_channel, far_lifeline, place.name, self._threads, self._limits
        try:
            with environment(self._threads), no_interrupts():
                process: BaseProcess = context.Process(
                    target=work, args=(*given, dict(os.environ)), name=place.name, daemon=True
                )
                process.start()
        except (EOFError, OSError) as error:
            channel.close()
            lifeline.close()
            # A server that the system lets fork no more ends without a word.
            why = getattr(error, "strerror", None) or "the system lets no more begin"
            raise WorkersUnable(f"no worker process can be started ({why}); try fewer") from error
        finally:
            far_channel.close()
            far_lifeline.close()
        place.worker = _Worker(place, process, channel, lifeline)

    def _bury(self, worker: _Worker) -> None:
        """Let go of a worker whose process has ended, or is about to."""
        worker.process.join()
        worker.process.close()
        worker.channel.close()
        worker.lifeline.close()
        worker.place.worker = None


def _context(module: str) -> ForkServerContext | SpawnContext:
    """Return how worker processes are started, see above; ``module`` is where their model comes from."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, module])
    return context


def _ending(exitcode: int | None) -> str:
    """Say how a process ended."""
    if exitcode is None or exitcode >= 0:
        return f"the worker process ended with exit code {exitcode}"
    name = f"signal {-exitcode}"
    with suppress(ValueError):
        name = signal.Signals(-exitcode).name
    if name == "SIGKILL":
        return (
            "the worker process was killed (SIGKILL), as the system does when memory runs out; "
            "set --memory, or run less at a time"
        )
    if name == "SIGXCPU":
        return (
            "the worker process computed longer on it than is allowed (SIGXCPU), as in an endless loop; "
            "--no-isolate lifts the limit"
        )
    return f"the worker process crashed ({name})"


def work(
    source: ModelSource,
    channel: Connection,
    lifeline: Connection,
    name: str,
    threads: int,
    limits: Limits | None,
    variables: Mapping[str, str],
) -> None:
    """Load the model and do what comes over ``channel`` until it is None.

    Args:
        source: the model.
        channel: gives tasks; takes one :data:`READY` or ``Unable``, then an outcome for each task.
        lifeline: closed at its other end when the process that reads the outcomes is gone.
        name: of this worker, for the outcomes.
        threads: that the model computes with.
        limits: what may be taken for each task; None: all that the user may take.
        variables: of the environment; those of a server that forks workers are of when it began.
    """
    _leave_interrupts_alone()
    os.environ.clear()
    os.environ.update(variables)
    _end_with(lifeline)
    # What a library prints is no output of the command.
    os.dup2(2, 1)
    with plain_messages():
        _serve(source, channel, name, threads, limits)


def _serve(source: ModelSource, channel: Connection, name: str, threads: int, limits: Limits | None) -> None:
    try:
        captioner = source.captioner()
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(threads)
    except Exception as error:
        channel.send(Unable.of(error))
        return
    # A broken pipe: nobody is left to work for.
    with suppress(EOFError, OSError):
        channel.send(READY)
        held = limits.begin() if limits is not None else 0
        while (task := channel.recv()) is not None:
            if limits is not None:
                limits.renew(held, task.options, on_cpu=device_of(captioner) == "cpu")
            channel.send(run_task(task, captioner, name))


def _leave_interrupts_alone() -> None:
    """Ctrl-C goes to the whole foreground group of a terminal; the coordinator alone acts upon it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with(lifeline: Connection) -> None:
    """End this process as soon as the other end of ``lifeline`` is closed, in the middle of a computation."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
    if sys.platform != "win32":
        import fcntl

        # Compiled code may keep Python from running that thread; the system's signal ends the process then.
        with suppress(OSError, AttributeError):
            fcntl.fcntl(lifeline.fileno(), fcntl.F_SETOWN, os.getpid())
            flags = fcntl.fcntl(lifeline.fileno(), fcntl.F_GETFL)
            fcntl.fcntl(lifeline.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
