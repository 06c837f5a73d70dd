"""The command ``rscc`` with a fake model, and Dask clusters, in processes that a test may kill."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask
from distributed import LocalCluster

DEADLINE = 300.0
_LOADED = [
    "archive_fakes",
    "distributed",
    "geopandas",
    "workflows.archive.run",
    "workflows.cli.commands",
    "workflows.archive.workers.engine",
    "workflows.report.formats.geopackage",
    "workflows.scene.parts",
]
# Not the one that engines in the process of the tests have.
_SERVER = forkserver.ForkServer()
_SERVER.set_forkserver_preload(_LOADED)


def rscc(arguments: list[str], log: Path, split_above: int) -> None:
    """Run the command with its streams going to ``log``."""
    _redirect(log)
    # A command of its own: its workers come from a server of its own, not from the one that it comes from.
    importlib.reload(forkserver)
    if arguments[0] == "batch" and "--scheduler" not in arguments:
        _fork_server()
    from archive_fakes import fake_card, load_fake

    from workflows.archive import dispatch
    from workflows.archive.workers import engine
    from workflows.cli.app import main

    # A scheduler of this machine answers soon or never.
    engine.ANSWER = 15.0
    dispatch.SPLIT_ABOVE = split_above
    main(arguments, captioner_factory=load_fake, card_factory=fake_card)


def _fork_server() -> None:
    """Make the server that workers come from a copy of this process: it has loaded all modules."""

    def copy(path: str, arguments: list[str], passed: list[int]) -> int:
        if pid := os.fork():
            return pid
        try:
            # Above all its own end of the pipe that tells of the end of the command.
            for number in {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, *passed}:
                with suppress(OSError):
                    os.close(number)
            forkserver.main(*passed, [])
        finally:
            os._exit(1)

    resource_tracker.ensure_running()
    with patch.object(forkserver.util, "spawnv_passfds", copy), _no_interrupts():
        forkserver.ensure_running()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Start processes that never get Ctrl-C, as the engine does."""
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def dask_scheduler(port: int, log: Path) -> None:
    """Be the scheduler of a Dask cluster on this machine."""
    import dask
    from distributed import Scheduler

    _redirect(log)
    dask.config.set({"distributed.scheduler.allowed-failures": 1})

    async def serve() -> None:
        async with Scheduler(host="127.0.0.1", port=port, dashboard=False) as scheduler:
            await scheduler.finished()

    asyncio.run(serve())


def dask_worker(address: str, folder: Path, log: Path, options: dict[str, Any]) -> None:
    """Be a worker, of one thread unless the options say otherwise; ends with its scheduler."""
    from distributed import Worker

    _redirect(log)
    given = {"nthreads": 1, "memory_limit": 0, "local_directory": str(folder), **options}

    async def work() -> None:
        async with Worker(address, dashboard=False, **given) as worker:
            await worker.finished()

    asyncio.run(work())


def miss_scheduler(address: str) -> None:
    """End with 0 if an engine says that no scheduler answers at an address.

    What listens there may keep the threads of a client for ever, and with them locks of Dask.
    """
    from workflows.archive.workers import engine
    from workflows.archive.workers.tasks import ModelSource
    from workflows.errors import SchedulerLost

    engine.ANSWER = engine.SILENCE = 0.5
    try:
        engine.Engine(ModelSource("any", "cpu"), scheduler=address).__enter__()
    except SchedulerLost as error:
        os._exit(0 if address in str(error) else 2)
    os._exit(1)


def _redirect(out: Path, err: Path | None = None) -> None:
    """Let this process, with a group of its own, print to files; to one without ``err``."""
    # As a shell gives each command: all that it starts can be found and ended.
    os.setpgrp()
    for stream, log in ((1, out), (2, err or out)):
        with log.open("ab") as file:
            os.dup2(file.fileno(), stream)


class Commands:
    """Starts functions of this module in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._started: list[BaseProcess] = []
        self.log = folder / "log.txt"

    def start(self, function: Callable[..., None], *arguments: object) -> BaseProcess:
        process = self._context.Process(target=function, args=arguments)
        with patch.object(forkserver, "connect_to_new_process", _SERVER.connect_to_new_process):
            process.start()
        self._started.append(process)
        return process

    def begin(self, *arguments: object, split_above: int = 1024) -> BaseProcess:
        """Start the command."""
        self.log.write_text("")
        return self.start(rscc, [str(argument) for argument in arguments], self.log, split_above)

    def run(self, *arguments: object) -> int:
        """Run the command to its end and return its exit code; a signal has a negative one."""
        return self.ended(self.begin(*arguments))

    def ended(self, process: BaseProcess) -> int:
        """Wait for the end of a command and return its exit code."""
        process.join(DEADLINE)
        assert process.exitcode is not None, f"not done after {DEADLINE} s: {self.said()}"
        return process.exitcode

    def said(self) -> str:
        """What the last command printed, on both streams."""
        return self.log.read_text()

    def end(self) -> None:
        """Kill what is left."""
        for process in self._started:
            kill(process)


@contextmanager
def commands(folder: Path) -> Iterator[Commands]:
    """Commands that are gone at the end."""
    started = Commands(folder)
    try:
        yield started
    finally:
        started.end()


def free_port() -> int:
    """A free port that no outgoing connection is given, as those from 32768 on are.

    Such a connection could take it before a scheduler does, or even be answered by itself.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


class QuickCluster:
    """A Dask scheduler and some workers without nannies, all processes of their own that start at once."""

    def __init__(self, shell: Commands, folder: Path, workers: int = 0) -> None:
        self._port = free_port()
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._shell, self._folder, self._log = shell, folder, folder / "cluster.txt"
        self._count = workers
        self.start()

    def start(self) -> None:
        """Start all of it, also after it was killed."""
        self._scheduler = self._shell.start(dask_scheduler, self._port, self._log)
        self._workers = [self.worker() for _ in range(self._count)]

    def worker(self, **options: object) -> BaseProcess:
        """Start one more worker; the options are those of Dask's class."""
        return self._shell.start(dask_worker, self.address, self._folder, self._log, options)

    def kill_scheduler(self) -> None:
        """Kill the scheduler; the workers that were started with it end, too."""
        for process in (self._scheduler, *self._workers):
            kill(process)


def kill(process: BaseProcess) -> None:
    """Kill a process alone and wait for its end."""
    process.kill()
    process.join(DEADLINE)


@contextmanager
def forked_cluster(workers: int, **settings: object) -> Iterator[LocalCluster]:
    """A Dask cluster of this process whose workers come back when they died.

    They start as copies of a process that has loaded what they need.
    """
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.comm.timeouts.connect": "10s",
    } | settings
    settings["distributed.worker.multiprocessing-method"] = "forkserver"
    forkserver.set_forkserver_preload(["distributed", "archive_fakes", "workflows.scene.run"])
    resource_tracker.ensure_running()
    # Python 3.11 looks for these modules where its environment says, and not on the path of this process.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(OURS)), _no_interrupts():
        forkserver.ensure_running()
    given = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    with dask.config.set(settings), LocalCluster(n_workers=workers, **given) as cluster:
        yield cluster


def workers_of(process: BaseProcess) -> list[int]:
    """The process ids of the local workers of a command."""
    servers = [pid for pid in _children(process.pid) if b"forkserver" in _command_line(pid)]
    return [worker for server in servers for worker in _children(server)]


def _children(pid: int | None) -> list[int]:
    # Each thread has its own.
    with suppress(OSError):
        listed = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(child) for path in listed for child in path.read_text().split()]
    return []


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(true: Callable[[], object], what: str = "what is to be") -> None:
    """Return once ``true`` says so; fail where it did not within the deadline."""
    deadline = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.002)


REPOSITORY = Path(__file__).resolve().parents[2]
OURS = (str(REPOSITORY), str(REPOSITORY / "tests" / "support"))
