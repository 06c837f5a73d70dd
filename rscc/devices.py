"""Devices, the number formats that they compute fast, and the memory allocator.

A run on finished maps sets the allocator but needs no torch: only the functions that use it import it.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from rscc.errors import DeviceUnavailable

if TYPE_CHECKING:
    import torch


def pick_device(name: str, *, hold: bool = True) -> torch.device:
    """Return a device of this machine by name.

    Args:
        name: ``auto`` (a GPU when there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        hold: test a CUDA GPU by allocating on it, which keeps some of its memory until the process ends;
            otherwise only check that it exists.

    Raises:
        DeviceUnavailable: this machine has no such device.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if hold or device.type != "cuda":
            torch.zeros(1, device=device).item()
        elif (device.index or 0) >= torch.cuda.device_count():
            raise RuntimeError("no such GPU")
    except (RuntimeError, AssertionError, ImportError) as error:
        raise DeviceUnavailable(f"device {name!r} is not available here; use cpu, or auto") from error
    return device


def fast_bf16(device: torch.device) -> bool:
    """Return whether the hardware computes bfloat16 faster than float32.

    With AVX-512 instructions for it, AMD processors are faster and Intel processors without AMX are slower
    (docs/results.md).
    """
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    gains = not str(capabilities.get("cpu_name", "")).startswith("Intel")
    return bool(capabilities.get("amx_bf16") or (capabilities.get("avx512_bf16") and gains))


def fast_int8(device: torch.device) -> bool:
    """Return whether the processor has instructions for sums of products of 8-bit integers (VNNI, AMX).

    Without them such sums overflow, or are not faster than floats.
    """
    import torch

    if device.type != "cpu" or "onednn" not in torch.backends.quantized.supported_engines:
        return False
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in ("avx512_vnni", "avx_vnni", "amx_int8"))


# From glibc's malloc.h, and the largest value that mallopt accepts.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX, _MOST = -1, -3, -8, 2**31 - 1


def keep_freed_memory() -> bool:
    """Keep freed memory for the next tensor instead of returning it to the system.

    By default glibc returns every large block, and the system clears its pages for the next allocation; the
    cost is measured in ``docs/results.md``.

    Returns:
        Whether it was set: not if the user has set ``MALLOC_`` variables or ``GLIBC_TUNABLES``, nor without
        glibc's malloc.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # One arena for all threads: further arenas ignore these settings.
    options = ((_TRIM_THRESHOLD, _MOST), (_MMAP_THRESHOLD, _MOST), (_ARENA_MAX, 1))
    return all([set_option(name, value) for name, value in options])
