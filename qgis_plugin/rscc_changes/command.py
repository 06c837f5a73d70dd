"""Find and run the command ``rscc``; nothing here needs QGIS.

The plugin runs the installation of its user in a clean environment: the folders that QGIS names for its own
Python, GDAL and PROJ would mislead another installation of these.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

_FOREIGN = ("PYTHON", "PROJ_", "GDAL_")
# Usual folders of conda and its kin in a home; conda lists others there.
_CONDA = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda", "opt/miniconda3")
_TOOLS = (".local/share/pipx/venvs", ".local/pipx/venvs", "pipx/venvs", ".local/share/uv/tools")
# Seconds between checks for cancelling, after each signal to stop, and from the last line to the end.
_LOOK, _GRACE, _ENDING = 0.2, 10.0, 60.0
_MOST_OUTPUT = 1_000_000

MISSING = (
    "The command rscc was not found: not on PATH, nor among the environments of pipx, uv and conda.\n"
    "Install it from a copy of its repository, in its own environment. In a terminal, in that folder:\n"
    "    pipx install .\n"
    "If it is installed elsewhere, name the command, or the folder of its environment, in\n"
    "Settings > Options > Processing > Providers > rscc.\n"
    "This plugin installs nothing."
)


class CommandMissing(Exception):
    """There is no command ``rscc``; the message says what to do."""


class RunFailed(Exception):
    """The command ended with an error, which is the message."""


class Cancelled(Exception):
    """The user stopped the command."""


@dataclass
class Result:
    """The exit code of a run, the members of its event ``done``, its output, its error."""

    code: int
    facts: dict
    output: str
    error: str


def find_command(setting="", environment=None, home=None, windows=None):
    """Return the path of the command.

    Args:
        setting: the command, or the folder of its environment, as the user named it; empty: search it.

    Raises:
        CommandMissing: it was not found; the message says what to do.
    """
    environment = os.environ if environment is None else environment
    home = Path.home() if home is None else Path(home)
    windows = os.name == "nt" if windows is None else windows
    name, scripts = ("rscc.exe", "Scripts") if windows else ("rscc", "bin")
    if setting.strip():
        named = Path(os.path.expanduser(setting.strip()))
        for path in (named, named / name, named / scripts / name):
            if _is_executable(path):
                return str(path)
        raise CommandMissing(
            f"The setting of the plugin names {named}, and there is no command rscc.\n{MISSING}"
        )
    folders = [*environment.get("PATH", "").split(";" if windows else ":")]
    folders += [environment.get(key, "") for key in ("PIPX_BIN_DIR", "UV_TOOL_BIN_DIR")]
    environments = [home / tool / "rscc" for tool in _TOOLS] + _conda_environments(environment, home)
    for folder in (*map(Path, folders), home / ".local/bin", *(each / scripts for each in environments)):
        # Relative folders depend on the current one, which may hold anything.
        if folder.is_absolute() and _is_executable(folder / name):
            return str(folder / name)
    raise CommandMissing(MISSING)


def _conda_environments(environment, home):
    found = [Path(environment.get("CONDA_PREFIX", ""))]
    try:
        listed = (home / ".conda/environments.txt").read_text(encoding="utf-8").splitlines()
        found += [Path(line.strip()) for line in listed]
    except (OSError, UnicodeDecodeError):
        pass
    for base in (home / name for name in _CONDA):
        found.append(base)
        try:
            found += sorted((base / "envs").iterdir())
        except OSError:
            continue
    return found


def _is_executable(path):
    return path.is_file() and os.access(path, os.X_OK)


def clean_environment():
    """Return the variables for the command: those of this process without the ones meant for QGIS."""
    own = {key: value for key, value in os.environ.items() if not key.upper().startswith(_FOREIGN)}
    # Events are UTF-8 on every system.
    return {**own, "PYTHONUTF8": "1"}


def read_event(line):
    """Return the event in a line of stderr, a dictionary; None for any other line."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def plain(text):
    """Return a text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text)).strip()


class Gauge:
    """Percent of a whole run from the progress of its stages; it never decreases.

    ``stages`` are pairs of a stage and the percent at which it ends, in order.
    """

    def __init__(self, stages):
        self._spans, low = {}, 0
        for stage, high in stages:
            self._spans[stage] = (low, high)
            low = high
        self.percent = 0.0

    def update(self, event):
        """Take an event ``progress`` and return the percent; an invalid event changes nothing."""
        stage, done, total = (event.get(name) for name in ("stage", "done", "total"))
        numbers = all(type(number) in (int, float) for number in (done, total))
        if isinstance(stage, str) and stage in self._spans and numbers and 0 <= done <= total and total > 0:
            low, high = self._spans[stage]
            self.percent = max(self.percent, low + (high - low) * done / total)
        return self.percent


def run(command, arguments, *, on_event, on_line, cancelled, accepted=(0,)):
    """Run the command to its end.

    Args:
        on_event: called with each event but ``done`` and ``error``.
        on_line: called with each line of stderr that is no event.
        cancelled: called repeatedly; true stops the command.
        accepted: exit codes that are no failure.

    Raises:
        CommandMissing: it cannot be started.
        RunFailed: it ended with another exit code.
        Cancelled: it was stopped.
    """
    process = _start(command, arguments)
    lines, printed = queue.Queue(), []
    readers = [
        threading.Thread(target=_read, args=(process.stderr, lines.put), daemon=True),
        threading.Thread(target=_read, args=(process.stdout, printed.append), daemon=True),
    ]
    for reader in readers:
        reader.start()
    facts, error, last = {}, "", ""
    try:
        for line in _lines(readers[0], lines, cancelled):
            event = read_event(line)
            if event is None:
                last = plain(line) or last
                on_line(plain(line))
            elif event["event"] == "done":
                facts = event
            elif event["event"] == "error":
                error = plain(event.get("message", ""))
            else:
                on_event(event)
        process.wait(_ENDING)
    except BaseException:
        _stop(process)
        raise
    readers[1].join(_GRACE)
    error = error or last or f"rscc ended with exit code {process.returncode}"
    if process.returncode not in accepted:
        raise RunFailed(error)
    return Result(process.returncode, facts, "".join(printed)[:_MOST_OUTPUT], error)


def _start(command, arguments):
    flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW if os.name == "nt" else 0
    try:
        return subprocess.Popen(
            [str(command), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            creationflags=flags,
        )
    except OSError as error:
        raise CommandMissing(f"{command} cannot be started ({error.strerror}).\n{MISSING}") from error


def _lines(reader, lines, cancelled):
    """Yield lines until their reader has ended; raise Cancelled where the user stops the run."""
    while reader.is_alive() or not lines.empty():
        if cancelled():
            raise Cancelled
        try:
            yield lines.get(timeout=_LOOK)
        except queue.Empty:
            continue


def _read(stream, take):
    with stream:
        for line in stream:
            take(line.decode("utf-8", "replace"))


def _stop(process):
    """End a process: by two signals to stop, then by force; nothing is left running."""
    interrupt = signal.CTRL_BREAK_EVENT if sys.platform == "win32" else signal.SIGINT
    # rscc batch finishes the running pairs after the first signal, and abandons them after the second.
    for _ in range(2):
        process.send_signal(interrupt)  # does nothing after the end
        try:
            process.wait(_GRACE)
            return
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.wait()
