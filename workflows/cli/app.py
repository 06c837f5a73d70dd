"""The start of the ``rscc`` command: runs what was asked for and turns errors into exit codes."""

from __future__ import annotations

import atexit
import gc
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from workflows.cli.interrupts import INTERRUPTED, MESSAGE, tidy_interrupts
from workflows.noise import plain_messages
from workflows.texts import shown

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.model_folder import ModelCard


@dataclass
class State:
    """What travels beside the options.

    Attributes:
        captioner_factory: gives the captioner for (model, device); None takes the shipped way.
        card_factory: gives the card of a model, without its weights; None takes the shipped way.
        debug: print a traceback with an error.
        events: print errors as events, see :mod:`workflows.cli.events`.
    """

    captioner_factory: Callable[[str, str], Captioner] | None = None
    card_factory: Callable[[str], ModelCard] | None = None
    debug: bool = False
    events: bool = False

    @property
    def load_captioner(self) -> Callable[[str, str], Captioner]:
        """The way to come by a captioner; it may travel to other processes."""
        from rscc.captioner import load_captioner

        return self.captioner_factory or load_captioner

    @property
    def load_card(self) -> Callable[[str], ModelCard]:
        """The way to come by a card."""
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

    Args:
        arguments: words after the program name; None takes them from the process.
        captioner_factory, card_factory: see :class:`State`.
    """
    state = State(captioner_factory, card_factory)
    # At its end Python looks through all objects for rings that nobody refers to: half a second after torch.
    atexit.register(gc.freeze)
    try:
        with tidy_interrupts(), plain_messages():
            # Inside, so that Ctrl-C is tidy even before the command is known.
            # Not standalone: a wrong command line is an error like others, one line.
            code = _command()(args=arguments, prog_name="rscc", obj=state, standalone_mode=False)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        sys.exit(_explain(error, state))
    if code == INTERRUPTED:  # typer's form of the same
        _say_error(MESSAGE, code, state)
    sys.exit(code or 0)


@cache
def _command() -> Any:
    """Return the command; the app itself would put a hook of its own in the place of ours."""
    from typer.main import get_command

    from workflows.cli.commands import app

    return get_command(app)


def _explain(error: Exception, state: State) -> int:
    """Print an error as one line on stderr and return the exit code it stands for."""
    if state.debug:
        for line in "".join(traceback.format_exception(error)).splitlines():
            print(shown(line), file=sys.stderr)
    # Of a wrong command line, typer's own words.
    message = shown(" ".join(getattr(error, "format_message", error.__str__)().split()))
    if (context := getattr(error, "ctx", None)) is not None and message:
        message = f"{message.rstrip('.')}; see {context.command_path} --help"
    # Errors raised on purpose carry an exit code; asking for it spares importing the packages they come from.
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        if message:  # none: the help was shown, for want of arguments
            _say_error(f"rscc: error: {message}", code, state)
        return code
    hint = "" if state.debug else "; run again with --debug for the traceback"
    _say_error(f"rscc: unexpected {type(error).__name__}: {message}{hint}", 1, state)
    return 1


def _say_error(line: str, code: int, state: State) -> None:
    if not state.events:
        print(line, file=sys.stderr)
        return
    from workflows.cli.events import tell_event

    tell_event("error", message=line.removeprefix("rscc: ").removeprefix("error: "), exit_code=code)


if __name__ == "__main__":
    main()
