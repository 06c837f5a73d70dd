"""Settings of the memory allocator."""

from __future__ import annotations

import ctypes
import os

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
