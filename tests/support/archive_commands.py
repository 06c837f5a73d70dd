"""The command ``rscc`` with the model of :mod:`archive_fakes`, in processes that a test may kill.

They are forked from a server that has imported what they need, so that each starts in some milliseconds.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

DEADLINE = 300.0
_LOADED = [
    "archive_fakes",
    "distributed",
    "workflows.archive.run",
    "workflows.engines.local",
    "workflows.scene.parts",
]


def rscc(arguments: list[str], log: Path) -> None:
    """Run the command with its streams going to ``log``."""
    _redirect(log)
    # A command of its own: its workers come from a server of its own, not from the one that it comes from.
    importlib.reload(forkserver)
    from archive_fakes import fake_card, load_fake

    from workflows.cli.app import main

    main(arguments, captioner_factory=load_fake, card_factory=fake_card)


def dask_scheduler(port: int, log: Path) -> None:
    """Be the scheduler of a Dask cluster on this machine."""
    from distributed import Scheduler

    _redirect(log)

    async def serve() -> None:
        async with Scheduler(host="127.0.0.1", port=port, dashboard=False) as scheduler:
            await scheduler.finished()

    asyncio.run(serve())


def dask_worker(address: str, folder: Path, log: Path) -> None:
    """Be a worker of one thread; ends with its scheduler."""
    from distributed import Worker

    _redirect(log)

    async def work() -> None:
        async with Worker(address, nthreads=1, local_directory=str(folder), dashboard=False) as worker:
            await worker.finished()

    asyncio.run(work())


def _redirect(log: Path) -> None:
    """Let this process, with a group of its own, print to ``log``."""
    # An engine in the process of the tests may have begun the server, which then takes no Ctrl-C.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # As a shell gives each command: all that it starts can be found and ended.
    os.setpgrp()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


class Commands:
    """Starts functions of this module in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_LOADED)
        self._started: list[BaseProcess] = []
        self.log = folder / "log.txt"

    def start(self, function: Callable[..., None], *arguments: object) -> BaseProcess:
        process = self._context.Process(target=function, args=arguments)
        process.start()
        self._started.append(process)
        return process

    def begin(self, *arguments: object) -> BaseProcess:
        """Start the command."""
        self.log.write_text("")
        return self.start(rscc, [str(argument) for argument in arguments], self.log)

    def run(self, *arguments: object) -> int:
        """Run the command to its end and return its exit code; a signal has a negative one."""
        process = self.begin(*arguments)
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


def kill(process: BaseProcess) -> None:
    """Kill a process alone and wait for its end."""
    process.kill()
    process.join(DEADLINE)


def workers_of(process: BaseProcess) -> list[int]:
    """The process ids of the local workers of a command."""
    servers = [pid for pid in _children(process.pid) if b"forkserver" in _command_line(pid)]
    return [worker for server in servers for worker in _children(server)]


def _children(pid: int | None) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
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


def wait_until(true: Callable[[], object], what: str) -> None:
    """Return once ``true`` says so; fail where it did not within the deadline."""
    deadline = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.002)


def kill_pid(pid: int) -> None:
    """Kill a process, unless it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
