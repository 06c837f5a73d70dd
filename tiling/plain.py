"""The one place that says what may be opened: plain files. A pipe would be waited for without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def plain_only(name: str, flags: int) -> int:
    """Open a plain file; the argument ``opener`` of :func:`open`.

    Raises:
        OSError: as :func:`open`, and where it is a pipe, a socket or a device.
    """
    # Without waiting for somebody to write: what it is can only be asked safely once it is open.
    number = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(number).st_mode
    # Of a folder Python itself says so.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, not a file", name)
    return number


def is_odd(path: str | Path) -> bool:
    """Return whether a path leads to a pipe, a socket or a device; for what others open.

    What is not there, or cannot be looked at, is not odd: opening it says what is wrong.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
