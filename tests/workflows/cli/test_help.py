"""What the command says of itself: an example in every help, completion by the shell, colours or none."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
import typer
from command_here import run_here

from workflows.cli.app import State
from workflows.cli.commands import EXAMPLES, app

COMMANDS = typer.main.get_command(app).commands
NAMES = {function: name for name, function in zip(COMMANDS, EXAMPLES, strict=True)}


@pytest.mark.parametrize("function", EXAMPLES, ids=NAMES.get)
def test_every_help_ends_with_an_example_that_the_command_takes(function, capsys):
    name, example = NAMES[function], EXAMPLES[function]
    code, out, err = run_here(capsys, name, "--help")
    assert (code, err) == (0, "")
    assert " ".join(out.split()).endswith(f"Example: {example}")
    program, called, *words = shlex.split(example)
    assert (program, called) == ("rscc", name)
    # Parsed and not run: an unknown option or a missing argument is an error here.
    COMMANDS[name].make_context(name, words, obj=State())


def test_every_command_has_one():
    assert [function.__name__.replace("_", "-") for function in EXAMPLES] == list(COMMANDS)


def completed(shell: str, typed: str) -> dict[str, str]:
    """Return the environment in which a shell asks what a word that was begun may become."""
    word = str(len(typed.split(" ")) - 1)
    return {
        "bash": {"COMP_WORDS": typed, "COMP_CWORD": word},
        "zsh": {"_TYPER_COMPLETE_ARGS": typed},
        "fish": {"_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell] | {"_RSCC_COMPLETE": f"complete_{shell}"}


@pytest.fixture
def complete(monkeypatch, capsys):
    """Ask as a shell does; returns the lines of the answer."""

    def ask(shell: str, typed: str) -> list[str]:
        for name, value in completed(shell, typed).items():
            monkeypatch.setenv(name, value)
        code, out, err = run_here(capsys)
        assert (code, err) == (0, "")
        return out.splitlines()

    return ask


def test_a_shell_completes_commands_and_options(complete):
    assert complete("bash", "rscc cap") == ["caption"]
    assert set(complete("bash", "rscc ")) == set(COMMANDS)
    assert complete("bash", "rscc caption --fr") == ["--frame"]
    assert complete("bash", "rscc caption --frame ") == ["before", "after"]
    assert [line.split("\t")[0] for line in complete("fish", "rscc cap")] == ["caption"]
    (line,) = complete("zsh", "rscc cap")
    assert '"caption":' in line and '"inspect":' not in line


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_every_command_are_completed(complete, name):
    offered = {option for one in COMMANDS[name].params for option in one.opts if option.startswith("--")}
    assert set(complete("bash", f"rscc {name} --")) >= offered


@pytest.mark.parametrize(
    ("shell", "words"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete")]
)
def test_there_is_a_script_for_each_shell(shell, words, child_environment):
    """In a process of its own: which options there are is known when the command is built."""
    done = subprocess.run(
        [sys.executable, "-m", "rscc", "--show-completion", shell],
        env={**child_environment, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert words in done.stdout and f"_RSCC_COMPLETE=complete_{shell}" in done.stdout


def test_completion_loads_nothing_heavy(run_python):
    loaded = run_python(
        "import contextlib, io, json, os, sys\n"
        f"os.environ.update({completed('bash', 'rscc caption --fr')!r})\n"
        "from workflows.cli.app import main\n"
        "out = io.StringIO()\n"
        "with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):\n"
        "    main([])\n"
        "print(json.dumps([out.getvalue(), sorted({name.split('.')[0] for name in sys.modules})]))\n"
    )
    said, modules = loaded
    assert said.split() == ["--frame"]
    assert {"torch", "numpy", "rasterio", "geopandas", "shapely", "tiling"}.isdisjoint(modules)


COLOUR = re.compile(r"\x1b\[(?:[\d;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")
TALKATIVE = (
    "import time\n"
    "from workflows.cli.app import main\n"
    "from workflows.cli.options import ProgressForm\n"
    "from workflows.cli.terminal import shown_progress\n"
    "with shown_progress(ProgressForm.auto) as update:\n"
    "    update('tiles', 1, 2)\n"
    "    time.sleep(0.3)\n"
    "main(['--help'])\n"
)


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_leaves_colours_out_of_help_and_progress(child_environment, variables, coloured):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    kept = {
        name: value for name, value in child_environment.items() if name not in ("NO_COLOR", "FORCE_COLOR")
    }
    words = [sys.executable, "-c", TALKATIVE]
    environment = {**kept, "TERM": "xterm-256color", **variables}
    with subprocess.Popen(words, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65_536):
                said += part
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    text = said.decode()
    assert process.returncode == 0 and "tiles" in text and "Find what changed" in text
    assert bool(COLOUR.search(text)) == coloured
