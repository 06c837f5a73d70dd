"""What a worker process may take of the machine for one pair: a decoder's fault ends that pair, not the run.

These are limits of the system against memory bombs and endless loops, no sandbox: a worker may still read and
write what its user may.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflows.options import SceneOptions

# Not on every system.
try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

LEAST_MEMORY = 4 * 2**30


@dataclass(frozen=True)
class Limits:
    """Limits of a worker process; what the system does not know is not limited.

    Attributes:
        memory: bytes of data that a pair may take beside the model; None: the worker's share of the
            machine's memory, at least 4 GiB or what the options of the pair allow.
        cpu_seconds: of all threads together, for one task.
        file_bytes: of one file that is written, such as finished tiles.
        workers: how many share the machine.
    """

    memory: int | None = None
    cpu_seconds: int = 12 * 3600
    file_bytes: int = 2**36
    workers: int = 1

    def begin(self) -> int:
        """Set what holds for the whole process; return the bytes of data that it holds without a task."""
        if resource is not None:
            _lower(resource.RLIMIT_CORE, 0)
            _lower(resource.RLIMIT_FSIZE, self.file_bytes)
        return _data_bytes()

    def renew(self, held: int, options: SceneOptions, *, on_cpu: bool) -> None:
        """Set what holds for one more task in a process that held ``held`` bytes of data without one.

        Only data is counted: of the address space, drivers of GPUs and memory allocators reserve much more
        than they use. What a driver maps is data too, so that memory is limited on CPUs alone.
        """
        if resource is None:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + self.cpu_seconds)
        if on_cpu and held:
            _lower(resource.RLIMIT_DATA, held + self._room(options))

    def _room(self, options: SceneOptions) -> int:
        if self.memory is not None:
            return self.memory
        try:
            whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (ValueError, OSError):
            whole = 0
        return max(LEAST_MEMORY, whole // self.workers, options.memory or 0)


def _lower(limit: int, value: int) -> None:
    """Set the soft limit to ``value``, or to the hard one where that is lower."""
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(limit, (value, hard))


def _data_bytes() -> int:
    """Return the bytes of data of this process, in memory or not; 0 where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData:"))
    except (OSError, ValueError, StopIteration):
        return 0
