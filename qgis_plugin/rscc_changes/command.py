"""Finding and running the command ``rscc``; nothing here needs QGIS.

The plugin runs what its user has installed, in an environment of its own: what QGIS tells its own Python,
GDAL and PROJ (folders of modules, grids and drivers) is not told to another installation of these.
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
# Folders of conda and its kin in a home; others are in the list that conda keeps there.
_CONDA = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda", "opt/miniconda3")
# Seconds between looks for a wish to stop, after each sign to stop, and from the last line to the end.
_LOOK, _GRACE, _ENDING = 0.2, 10.0, 60.0
# Letters that are kept of what a run prints.
_MOST_OUTPUT = 1_000_000

MISSING = (
    "The command rscc was not found: not on PATH, nor among the environments of pipx, uv and conda.\n"
    "Install it from a copy of its repository, in an environment of its own. In a terminal, in that folder:\n"
    "    pipx install .\n"
    "If it is installed elsewhere, name the command, or the folder of its environment, in\n"
    "Settings > Options > Processing > Providers > rscc.\n"
    "This plugin installs nothing."
)


class CommandMissing(Exception):
    """There is no command ``rscc``; the message says what to do."""


class RunFailed(Exception):
    """The command ended with an error, which is the message."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Cancelled(Exception):
    """The command was stopped because its user wished so."""


@dataclass
class Result:
    """What a run came to: its exit code, the members of its event ``done``, what it printed, its error."""

    code: int
    facts: dict
    output: str
    error: str


def find_command(setting="", environment=None, home=None, windows=None):
    """Return the path of the command.

    Args:
        setting: the command, or the folder of its environment, as the user named it; empty: look for it.
        environment: the variables of the process.
        home: the user's folder.
        windows: whether this is Windows.

    Raises:
        CommandMissing: it is in none of the places; the message says what to do.
    """
    environment = os.environ if environment is None else environment
    home = Path.home() if home is None else Path(home)
    windows = os.name == "nt" if windows is None else windows
    name, scripts = ("rscc.exe", "Scripts") if windows else ("rscc", "bin")
    if setting.strip():
        named = Path(os.path.expanduser(setting.strip()))
        for path in (named, named / name, named / scripts / name):
            if _runs(path):
                return str(path)
        raise CommandMissing(
            f"The setting of the plugin names {named}, and there is no command rscc.\n{MISSING}"
        )
    # Never the current folder, whatever is in PATH.
    folders = [Path(part) for part in environment.get("PATH", "").split(";" if windows else ":") if part]
    places = [folder for folder in folders if folder.is_absolute()]
    places += [Path(environment[key]) for key in ("PIPX_BIN_DIR", "UV_TOOL_BIN_DIR") if environment.get(key)]
    places.append(home / ".local/bin")
    tools = (".local/share/pipx/venvs", ".local/pipx/venvs", "pipx/venvs", ".local/share/uv/tools")
    environments = [home / tool / "rscc" for tool in tools]
    environments += _conda_environments(environment, home)
    for folder in (*places, *(each / scripts for each in environments)):
        if _runs(folder / name):
            return str(folder / name)
    raise CommandMissing(MISSING)


def _conda_environments(environment, home):
    found = [Path(environment["CONDA_PREFIX"])] if environment.get("CONDA_PREFIX") else []
    try:
        listed = (home / ".conda/environments.txt").read_text(encoding="utf-8").splitlines()
        found += [Path(line.strip()) for line in listed if line.strip()]
    except (OSError, UnicodeDecodeError):
        pass
    for base in (home / name for name in _CONDA):
        found.append(base)
        try:
            found += sorted((base / "envs").iterdir())
        except OSError:
            continue
    return found


def _runs(path):
    return path.is_file() and os.access(path, os.X_OK)


def clean_environment(environment=None):
    """Return the variables for the command: those of this process without what is meant for QGIS."""
    environment = os.environ if environment is None else environment
    kept = {key: value for key, value in environment.items() if not key.upper().startswith(_FOREIGN)}
    # Its events are UTF-8 on every system.
    return {**kept, "PYTHONUTF8": "1"}


def read_event(line):
    """Return the event that a line of stderr tells, a dictionary; None for any other line."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def plain(text):
    """Return a text on one line, without characters that steer what shows it."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text)).strip()


class Gauge:
    """Percent of a whole run from the progress of its stages; it never goes back.

    ``stages`` are the stages and the percent at which each ends, in their order.
    """

    def __init__(self, stages):
        self._spans, low = {}, 0
        for stage, high in stages:
            self._spans[stage] = (low, high)
            low = high
        self.percent = 0.0

    def tell(self, event):
        """Take an event ``progress`` and return the percent; of what makes no sense nothing changes."""
        stage, done, total = (event.get(name) for name in ("stage", "done", "total"))
        numbers = all(type(number) in (int, float) for number in (done, total))
        if isinstance(stage, str) and stage in self._spans and numbers and 0 <= done <= total and total > 0:
            low, high = self._spans[stage]
            self.percent = max(self.percent, low + (high - low) * done / total)
        return self.percent


def run(command, arguments, *, on_event, on_line, cancelled, accepted=(0,)):
    """Run the command to its end.

    Args:
        command: its path.
        arguments: its words.
        on_event: called with each event but ``done`` and ``error``.
        on_line: called with each line of stderr that is none.
        cancelled: asked again and again whether to stop.
        accepted: exit codes that are no failure.

    Raises:
        CommandMissing: it cannot be started.
        RunFailed: it ended with another exit code.
        Cancelled: it was stopped.
    """
    flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW if os.name == "nt" else 0
    try:
        process = subprocess.Popen(
            [str(command), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            creationflags=flags,
        )
    except OSError as error:
        raise CommandMissing(f"{command} cannot be started ({error.strerror}).\n{MISSING}") from error
    lines, printed = queue.Queue(), []
    readers = [
        threading.Thread(target=_read, args=(process.stderr, lines.put), daemon=True),
        threading.Thread(target=_read, args=(process.stdout, printed.append), daemon=True),
    ]
    for reader in readers:
        reader.start()
    facts, error, last = {}, "", ""
    try:
        while readers[0].is_alive() or not lines.empty():
            if cancelled():
                raise Cancelled
            try:
                line = lines.get(timeout=_LOOK)
            except queue.Empty:
                continue
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
        raise RunFailed(error, process.returncode)
    return Result(process.returncode, facts, "".join(printed)[:_MOST_OUTPUT], error)


def _read(stream, take):
    with stream:
        for line in stream:
            take(line.decode("utf-8", "replace"))


def _stop(process):
    """End a process: by a sign to stop, by another, at last by force; nothing is left running."""
    interrupt = signal.CTRL_BREAK_EVENT if sys.platform == "win32" else signal.SIGINT
    # rscc batch finishes the running pairs after the first sign, and gives them up after the second.
    for _ in range(2):
        process.send_signal(interrupt)  # does nothing where it has ended
        try:
            process.wait(_GRACE)
            return
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.wait()
