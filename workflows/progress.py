"""Progress of long jobs, the device and cores they use, and durations in words."""

import os
from collections.abc import Callable

Progress = Callable[[str, int, int], None]


def report_progress(progress: Progress | None, stage: str, done: int, total: int) -> None:
    """Call ``progress`` unless it is None."""
    if progress is not None:
        progress(stage, done, total)


def device_of(captioner: object) -> str:
    """Return the device of a captioner; ``cpu`` if it names none."""
    return str(getattr(captioner, "device", "cpu"))


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_each(workers: int) -> int:
    """Return the threads that each worker computes with: OMP_NUM_THREADS, or an equal share of the cores."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else max(1, cores() // workers)


def duration(seconds: float) -> str:
    """Return a time in words, in its two largest units: ``40 s``, ``12 min 5 s``, ``3 h 20 min``."""
    seconds = round(seconds)
    for size, unit, smaller, low in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {low}" if rest else "")
    return f"{seconds} s"
