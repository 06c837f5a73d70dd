"""A Dask cluster as others run one: a scheduler and workers in processes of their own, to be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = (str(REPOSITORY), str(REPOSITORY / "tests" / "support"))
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
}


class Cluster:
    """A context manager; ``folder`` takes the scheduler's address file and the logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen] = []

    def scheduler(self, paths: Sequence[str] = OURS) -> str:
        """Start the scheduler and return its address; ``paths`` are where it finds modules."""
        self._start(
            ["scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(self.file)], paths
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                return json.loads(self.file.read_text())["address"]
            except (OSError, ValueError, KeyError):
                assert time.monotonic() < deadline, self.logs()
                time.sleep(0.05)

    def worker(self, *options: str, threads: int = 1, paths: Sequence[str] = OURS) -> subprocess.Popen:
        """Start a worker with its nanny; returns the nanny's process."""
        given = ["--scheduler-file", str(self.file), "--nthreads", str(threads), "--memory-limit", "0"]
        given += ["--local-directory", str(self.folder)]
        return self._start(["worker", *given, *options], paths)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def _start(self, words: Sequence[str], paths: Sequence[str]) -> subprocess.Popen:
        log = self.folder / f"{len(self.processes)}-{words[0]}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--no-dashboard"],
                cwd=self.folder,
                env={**os.environ, **_SETTINGS, "PYTHONPATH": os.pathsep.join(paths)},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            kill_tree(process.pid)
            process.wait(timeout=120)


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it started and that is still there."""
    try:
        one = psutil.Process(pid)
        return [one, *one.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_tree(pid: int) -> None:
    """End a process and all that it started, by SIGKILL."""
    for one in family(pid):
        with suppress(psutil.NoSuchProcess):
            one.kill()
