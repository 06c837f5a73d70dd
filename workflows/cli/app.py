"""Entry point of the ``rscc`` command: runs it and turns errors and Ctrl-C into exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from workflows.printable import printable, printable_library_output
from workflows.proj_data import ignore_unusable_proj_data

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.model_folder import ModelCard

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
_INTERRUPTED_TEXT = "rscc: interrupted"
# Names that a user typed and no system can use, also as a folder of a file that is looked for.
_UNUSABLE = {errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EIO, errno.ESTALE}
# Functions of Python's threading module that may wait for long.
_WAITS = {"wait", "join", "_wait_for_tstate_lock", "_shutdown"}
# How libraries say that the system gives no more memory.
_NO_MEMORY = re.compile(
    r"failed to map segment|(cannot|can't) allocate memory|can't start new thread|unable to allocate",
    re.IGNORECASE,
)


@dataclass
class State:
    """Context object of the command.

    Attributes:
        captioner_factory: returns the captioner for (model, device); None: loads it.
        card_factory: returns the card of a model, without its weights; None: loads it.
        debug: print a traceback with an error.
        events: print errors as events, see :mod:`workflows.cli.terminal`.
    """

    captioner_factory: Callable[[str, str], Captioner] | None = None
    card_factory: Callable[[str], ModelCard] | None = None
    debug: bool = False
    events: bool = False
    started: float = field(default_factory=time.perf_counter)

    @property
    def load_captioner(self) -> Callable[[str, str], Captioner]:
        """The captioner of (model, device); can be sent to other processes."""
        if self.captioner_factory is not None:
            return self.captioner_factory
        from rscc.captioner import Captioner

        return Captioner.load

    @property
    def load_card(self) -> Callable[[str], ModelCard]:
        """The card of a model."""
        from rscc.model_folder import load_card

        return self.card_factory or load_card


def main(
    arguments: Sequence[str] | None = None,
    *,
    captioner_factory: Callable[[str, str], Captioner] | None = None,
    card_factory: Callable[[str], ModelCard] | None = None,
) -> None:
    """Run the command and exit.

    Exit codes: 0 done; 1 the run failed; 2 an input or option is wrong; 3 some pairs of an archive failed;
    130 interrupted.
    """
    ignore_unusable_proj_data()
    state = State(captioner_factory, card_factory)
    # Skip Python's search for reference cycles at exit, which takes half a second after torch was loaded.
    atexit.register(gc.freeze)
    try:
        with end_cleanly_on_interrupt(), printable_library_output():
            # Loaded in here, so that Ctrl-C during its imports ends cleanly too.
            # Not standalone: a wrong command line is printed like other errors.
            code = _command()(args=arguments, prog_name="rscc", obj=state, standalone_mode=False)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        sys.exit(_print_exception(error, state))
    if code == INTERRUPTED:  # typer returns it where it caught the interrupt itself
        _print_error(_INTERRUPTED_TEXT, code, state)
    sys.exit(code or 0)


@cache
def _command() -> Any:
    """Return the command; calling the app itself would replace ``sys.excepthook``."""
    from typer.main import get_command

    from workflows.cli.commands import app

    return get_command(app)


def _print_exception(error: Exception, state: State) -> int:
    """Print an error as one line on stderr and return its exit code."""
    if state.debug:
        for line in "".join(traceback.format_exception(error)).splitlines():
            print(printable(line), file=sys.stderr)
    # A wrong command line has its message in format_message.
    message = printable(" ".join(getattr(error, "format_message", error.__str__)().split()))
    if (context := getattr(error, "ctx", None)) is not None and message:
        message = f"{message.rstrip('.')}; see {context.command_path} --help"
    # Known by the attribute, so that no package has to be imported for its errors.
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        if message:  # empty when the help was printed for lack of arguments
            _print_error(f"rscc: error: {message}", code, state)
        return code
    if isinstance(error, MemoryError) or _NO_MEMORY.search(message):
        remedy = "give the process more (ulimit -v, limits of the container or job), or set --memory"
        _print_error(f"rscc: error: memory ran out ({message}); {remedy}", 1, state)
        return 1
    if isinstance(error, OSError) and error.filename is not None and error.errno in _UNUSABLE:
        name = printable(os.fsdecode(error.filename))
        _print_error(f"rscc: error: {name}: cannot be opened ({error.strerror}); give another path", 2, state)
        return 2
    hint = "" if state.debug else "; run again with --debug for the traceback"
    _print_error(f"rscc: unexpected {type(error).__name__}: {message}{hint}", 1, state)
    return 1


def _print_error(line: str, code: int, state: State) -> None:
    if not state.events:
        print(line, file=sys.stderr)
        return
    from workflows.cli.terminal import print_event

    print_event("error", message=line.removeprefix("rscc: ").removeprefix("error: "), exit_code=code)


@contextmanager
def end_cleanly_on_interrupt() -> Iterator[None]:
    """Within this block, Ctrl-C during an import ends the process at once; else it raises KeyboardInterrupt.

    A half-finished import cannot be undone, and compiled modules turn the interrupt into other errors or die
    of the signal. No run has files on disk at that time. While Python takes or releases a lock, the error is
    raised a moment later. A handler set by another program stays, so a process that ignores Ctrl-C, such as a
    background job of a shell, still does.
    """
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        try:
            signal.signal(signal.SIGINT, _handle)
        except ValueError:  # only the main thread receives signals
            is_default = False
    try:
        yield
    finally:
        if is_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _handle(number: int, frame: FrameType | None) -> None:
    if _is_locking(frame) and hasattr(signal, "setitimer"):
        # A lock that is taken but not yet noted would stay locked, and the threads that need it would hang.
        signal.signal(signal.SIGALRM, _handle)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return
    if _is_importing(frame):
        # Show the cursor again, which a progress bar hides.
        restored = "\r\x1b[?25h" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{restored}{_INTERRUPTED_TEXT}\n")
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    raise KeyboardInterrupt


def _is_locking(frame: FrameType | None) -> bool:
    """Return whether a lock of Python is being taken or released; waiting for one may be interrupted."""
    while frame is not None and frame.f_code.co_filename != threading.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name not in _WAITS


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    main()
