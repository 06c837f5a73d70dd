"""With what worker processes are started on a machine: cores, GPUs, threads, and no part in Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

from workflows.progress import cores

# One of them is there where a GPU can be had; asking torch takes over a second.
_GPU_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/nvhost-gpu", "/dev/nvgpu")


def visible_gpus() -> int:
    """Return how many GPUs torch can compute on here."""
    if sys.platform == "linux" and not any(os.path.exists(name) for name in _GPU_FILES):
        return 0
    import torch

    return torch.cuda.device_count()


def local_devices(device: str, workers: int | None) -> list[str]:
    """Return where each worker computes.

    Args:
        device: with ``auto`` or ``cuda`` the visible GPUs take turns; all others are taken as they are.
        workers: how many; None takes one for each GPU, or else one for each core.
    """
    gpus = visible_gpus() if device in ("auto", "cuda") else 0
    if gpus:
        return [f"cuda:{number % gpus}" for number in range(workers or gpus)]
    return [device] * (workers or cores())


def threads_each(workers: int) -> int:
    """Return with how many threads each worker computes: the cores shared out, or what the user wants."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else max(1, cores() // workers)


@contextmanager
def environment(threads: int) -> Iterator[None]:
    """Set for new processes what the libraries read when they are loaded; what the user has set stays."""
    wanted = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextmanager
def no_interrupts() -> Iterator[None]:
    """Start processes that get no Ctrl-C before they can say that they want none; here it comes later."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # It would unblock the signal where it starts with the first process.
    resource_tracker.ensure_running()
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)
