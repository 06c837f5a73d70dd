"""Open regular files only: a pipe would block for ever."""

import errno
import os
import stat
from pathlib import Path


def open_regular(name: str, flags: int) -> int:
    """Open a regular file; the argument ``opener`` of :func:`open`.

    Raises:
        OSError: as :func:`open`, and for a pipe, a socket or a device.
    """
    # Non-blocking: the type can be checked without a race only once it is open.
    number = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(number).st_mode
    # Python itself refuses folders.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, not a file", name)
    return number


def is_special_file(path: str | Path) -> bool:
    """Return whether a path leads to a pipe, a socket or a device, for files that libraries open.

    False for a missing or inaccessible path: opening it gives the error.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
