"""What a process does with memory that it no longer needs."""

from __future__ import annotations

import ctypes
import os

# Of glibc's malloc.h, and the largest value that its mallopt takes.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX, _MOST = -1, -3, -8, 2**31 - 1


def keep_freed_memory() -> bool:
    """Keep freed memory for the next tensor; return nothing to the system while the process runs.

    By default glibc returns every large block, and the system clears its pages when the next layer asks for
    them again. What that costs is measured in ``docs/performance.md``.

    Returns:
        Whether that was done: it is not where ``MALLOC_`` variables or ``GLIBC_TUNABLES`` are set, for then
        the user has decided, nor without glibc's malloc.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # One arena for all threads: further ones return what is freed in them, whatever is asked of them.
    options = ((_TRIM_THRESHOLD, _MOST), (_MMAP_THRESHOLD, _MOST), (_ARENA_MAX, 1))
    return all([set_option(name, value) for name, value in options])
