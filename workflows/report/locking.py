"""Lock a report while it is read, changed and replaced."""

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from rscc.files import has_no_locks
from workflows.errors import OutputNotWritable, ReportBusy

# Seconds to wait for the lock, and between two tries: a hundred who wait must not take the processors from
# the one who has it.
_PATIENCE, _PAUSE, _LONGEST_PAUSE = 600.0, 0.01, 1.0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a report; all who change reports in place take it.

    The report is its own lock file, so nothing is left beside it. On Windows, where an open file cannot be
    replaced, the lock is a file beside it, which is removed afterwards.

    Raises:
        OutputNotWritable: the file is missing, or the system cannot lock it.
    """
    if sys.platform == "win32":
        with _locked_beside(path):
            yield
        return
    end, pause = time.monotonic() + _PATIENCE, _PAUSE
    try:
        while (file := _lock(path)) is None:
            if time.monotonic() > end:
                raise ReportBusy(f"{path}: other programs keep changing it; try again later")
            time.sleep(random.uniform(0.5, 1.0) * pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)
    except OSError as error:
        remedy = "; its file system has no locks: edit a copy on a local disk" if has_no_locks(error) else ""
        raise OutputNotWritable(f"{path}: cannot be locked ({error.strerror}){remedy}") from error
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def _locked_beside(path: Path) -> Iterator[None]:
    try:
        with FileLock(path.with_name(f".{path.name}.lock"), timeout=_PATIENCE):
            yield
    except Timeout as error:
        raise ReportBusy(f"{path}: other programs keep changing it; try again later") from error
    except OSError as error:
        raise OutputNotWritable(f"{path}: cannot be locked ({error.strerror})") from error


def _lock(path: Path) -> int | None:
    """Return the descriptor of a file that is locked with it; None while somebody else has the lock."""
    import fcntl

    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had the lock may have replaced the file.
        if os.path.samestat(os.fstat(file), os.stat(path)):
            return file
    except BlockingIOError:
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None
