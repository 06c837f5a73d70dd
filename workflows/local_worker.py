"""The worker process of the local engine: one model, tasks in over a pipe, outcomes out over it.

It ends with the process that started it, however that one ends and whatever it is doing itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from workflows.tasks import ModelSource, Unable, run_task


@dataclass(frozen=True)
class Ready:
    """The model is loaded."""


def work(source: ModelSource, channel: Connection, lifeline: Connection, name: str, threads: int) -> None:
    """Load the model and do what comes over ``channel`` until it is None.

    Args:
        source: the model.
        channel: gives tasks; takes one ``Ready`` or ``Unable``, then an outcome for each task.
        lifeline: closed at its other end when the process that reads the outcomes is gone.
        name: of this worker, for the outcomes.
        threads: that the model computes with.
    """
    _leave_interrupts_alone()
    _end_with(lifeline)
    # What a library prints is no output of the command.
    os.dup2(2, 1)
    try:
        captioner = source.captioner()
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(threads)
    except Exception as error:
        channel.send(Unable.of(error))
        return
    # A broken pipe: nobody is left to work for.
    with suppress(EOFError, OSError):
        channel.send(Ready())
        while (task := channel.recv()) is not None:
            channel.send(run_task(task, captioner, name))


def _leave_interrupts_alone() -> None:
    """Ctrl-C goes to the whole foreground group of a terminal; the coordinator alone acts upon it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with(lifeline: Connection) -> None:
    """End this process as soon as the other end of ``lifeline`` is closed, in the middle of a computation."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
    if sys.platform != "win32":
        import fcntl

        # Compiled code may keep Python from running that thread; the system's signal ends the process then.
        with suppress(OSError, AttributeError):
            fcntl.fcntl(lifeline.fileno(), fcntl.F_SETOWN, os.getpid())
            flags = fcntl.fcntl(lifeline.fileno(), fcntl.F_GETFL)
            fcntl.fcntl(lifeline.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
