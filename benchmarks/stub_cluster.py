"""A Dask cluster on one machine for workers that only wait: a real scheduler and hundreds of real workers.

The scheduler is a process of its own. The workers are `distributed.Worker` objects without a nanny, each with
one thread, many of them in one process, which stands for one machine of a cluster: when it is killed, all its
workers are gone at once, and another process brings as many back.

    python benchmarks/stub_cluster.py scheduler ADDRESS_FILE
    python benchmarks/stub_cluster.py machine ADDRESS WORKERS [SETUP]

``SETUP`` is ``module:function``, called in the process of a machine before its workers start.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

LOCAL = ".".join(("127", "0", "0", "1"))
# Hundreds of workers in one process would spend its time looking at themselves.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.scheduler.work-stealing": True,
    "distributed.scheduler.dashboard.status.task-stream-length": 0,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.tick.interval": "5s",
    "distributed.admin.tick.limit": "60s",
}
READY_SECONDS = 120.0


@dataclass(frozen=True)
class Use:
    """What a process has taken so far: seconds of a core, and the most bytes of memory it held."""

    cpu: float
    peak: int


def use_of(pid: int) -> Use:
    """Return what a running process has taken; nothing of its children."""
    times = psutil.Process(pid).cpu_times()
    peak = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            peak = int(line.split()[1]) * 1024
    return Use(times.user + times.system, peak)


class StubCluster:
    """A scheduler and machines full of workers, as processes; a context manager that ends all of them.

    Args:
        folder: takes logs and the scheduler's address.
        workers: in all.
        machines: processes that the workers are spread over.
        setup: ``module:function`` that each machine calls first, None for nothing.
        environment: variables that every process gets beside ours.
    """

    def __init__(
        self,
        folder: Path,
        *,
        workers: int,
        machines: int,
        setup: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.workers, self.machines, self.setup = workers, machines, setup
        self._folder = folder
        here = Path(__file__).resolve().parent
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(here.parent), str(here))),
            "OMP_NUM_THREADS": "1",
            **(environment or {}),
        }
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._machines: list[tuple[subprocess.Popen[bytes], int]] = []
        self._started = 0
        self.address = ""

    def __enter__(self) -> StubCluster:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            file = self._folder / "scheduler.address"
            file.unlink(missing_ok=True)
            self._scheduler = self._process("scheduler", str(file))
            self.address = _wait_for(file, self._scheduler)
            share, rest = divmod(self.workers, self.machines)
            for number in range(self.machines):
                self.add_machine(share + (number < rest))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_machine(self, workers: int) -> None:
        """Start a process with as many workers."""
        words = ["machine", self.address, str(workers), *([self.setup] if self.setup else [])]
        self._machines.append((self._process(*words), workers))

    def replace_machine(self, chance: random.Random) -> int:
        """Kill one machine (SIGKILL) and start another of its size; return how many workers were lost."""
        process, workers = self._machines.pop(chance.randrange(len(self._machines)))
        _end(process)
        self.add_machine(workers)
        return workers

    def revive(self) -> int:
        """Start a machine for each that has died; return how many workers were lost with them."""
        dead = [machine for machine in self._machines if machine[0].poll() is not None]
        for machine in dead:
            self._machines.remove(machine)
            self.add_machine(machine[1])
        return sum(workers for _, workers in dead)

    def wait_until_there(self) -> None:
        """Return when every worker has come to the scheduler.

        Raises:
            TimeoutError: they did not within two minutes.
        """
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(self.workers, timeout=READY_SECONDS)

    @property
    def scheduler_pid(self) -> int:
        """The process of the scheduler."""
        assert self._scheduler is not None
        return self._scheduler.pid

    @property
    def machine_pids(self) -> list[int]:
        """The processes of the machines that are there now."""
        return [process.pid for process, _ in self._machines]

    def close(self) -> None:
        """End every process."""
        for process, _ in self._machines:
            _end(process)
        self._machines.clear()
        if self._scheduler is not None:
            _end(self._scheduler)

    def _process(self, *words: str) -> subprocess.Popen[bytes]:
        self._started += 1
        log = self._folder / f"{words[0]}-{self._started}.log"
        with log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, __file__, *words], stdout=output, stderr=output, env=self.environment
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _wait_for(file: Path, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + READY_SECONDS
    while not file.exists():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{file}: the scheduler did not start; see its log beside this file")
        time.sleep(0.02)
    return file.read_text()


async def run_scheduler(address_file: Path) -> None:
    """Serve until killed; the address is in the file once the scheduler takes workers."""
    from distributed import Scheduler

    async with Scheduler(host=LOCAL, port=0, dashboard=False) as scheduler:
        temporary = address_file.with_suffix(".tmp")
        temporary.write_text(scheduler.address)
        temporary.replace(address_file)
        await scheduler.finished()


async def run_machine(address: str, workers: int) -> None:
    """Serve with ``workers`` workers until the scheduler is gone."""
    from distributed import Worker

    here = [
        Worker(
            address, nthreads=1, host=LOCAL, dashboard=False, memory_limit=0, name=f"{os.getpid()}-{number}"
        )
        for number in range(workers)
    ]
    await asyncio.gather(*here)
    await asyncio.gather(*(worker.finished() for worker in here))


def main(arguments: Sequence[str]) -> Any:
    """Be a scheduler or a machine."""
    import dask

    dask.config.set(QUIET)
    if arguments[0] == "scheduler":
        return asyncio.run(run_scheduler(Path(arguments[1])))
    if len(arguments) > 3:
        module, function = arguments[3].split(":")
        getattr(importlib.import_module(module), function)()
    return asyncio.run(run_machine(arguments[1], int(arguments[2])))


if __name__ == "__main__":
    main(sys.argv[1:])
