"""What a machine can do at most: products of matrices, copies in memory, reading a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

SIDE, SIDE_OF_A_GPU = 2048, 8192
COPIED = 512 * 2**20
CHUNK = 8 * 2**20
REPEATS = 5
SLOW = 2.0
"""Seconds of one product from which the processor has no instructions for its type."""


def fastest(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the seconds of the fastest of some calls after one that warms up; a GPU is waited for."""

    def seconds() -> float:
        begin = time.perf_counter()
        work()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    seconds()
    return min(seconds() for _ in range(repeats))


def product_peaks(side: int = SIDE, device: str = "cpu") -> dict[str, float | None]:
    """Return the operations a second of products of square matrices, by type; None where torch has none here.

    A multiplication and an addition are two operations. A type that the processor has no instructions for is
    measured by small matrices.
    """

    def rate(kind: torch.dtype, product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> float:
        found = 0.0
        for length in (side // 8, side):
            first, second = (torch.randint(-128, 128, (length, length)).to(device, kind) for _ in range(2))
            found = 2 * length**3 / fastest(lambda a=first, b=second: product(a, b))
            if 2 * side**3 / found > SLOW:
                break
        return found

    peaks: dict[str, float | None] = {
        name: rate(kind, torch.matmul) for name, kind in (("bf16", torch.bfloat16), ("fp32", torch.float32))
    }
    try:
        peaks["int8"] = rate(torch.int8, torch._int_mm)
    except (AttributeError, NotImplementedError, RuntimeError):
        peaks["int8"] = None
    return peaks


def memory_bandwidth(size: int = COPIED, device: str = "cpu") -> float:
    """Return the bytes a second that a copy of ``size`` bytes reads and writes, counted as in STREAM."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / fastest(lambda: target.copy_(source))


def reading_rates(path: Path) -> tuple[float, float]:
    """Return the bytes a second at which a file is read first, and once more.

    Before the first time the system is asked to forget the file (POSIX_FADV_DONTNEED), which it need not do,
    and a disk of a virtual machine may have caches of its own: where both are alike, it was not cold.
    """
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    first, second = (_reading_rate(path) for _ in range(2))
    return first, second


def _reading_rate(path: Path) -> float:
    buffer, begin = bytearray(CHUNK), time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return path.stat().st_size / (time.perf_counter() - begin)
