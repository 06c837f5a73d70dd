"""The lock of an archive, and whether a run holds it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from tiling import is_odd

LOCK = "archive.lock"


def is_at_work(lock: Path) -> bool:
    """Return whether a process holds the lock of an archive."""
    if sys.platform == "win32":
        from filelock import FileLock, Timeout

        try:
            with FileLock(lock, timeout=0):
                return False
        except (Timeout, OSError):
            return lock.exists()
    import fcntl

    if is_odd(lock):
        return False
    try:
        # For reading: an archive that may not be written can be asked about, too.
        file = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Shared: two who ask do not take each other for a run.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK)
    finally:
        os.close(file)
    return False
